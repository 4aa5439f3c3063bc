// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One file per ops table: the trait behind it, the C functions generated from the trait, and the table.
//!
//! Only this module reads C arguments and converts results to C return values.

pub mod atomic;
pub mod av;
pub mod av_set;
pub mod cm;
pub mod cntr;
pub mod collective;
mod context;
pub mod cq;
pub mod credits;
pub mod domain;
pub mod ep;
pub mod eq;
pub mod fabric;
pub mod fid;
mod message;
pub mod missing;
pub mod mr;
pub mod msg;
pub mod options;
pub mod poll;
pub mod profile;
pub mod rma;
pub mod scalable;
pub mod tagged;
#[cfg(test)]
mod tests;
pub mod transfer;
pub mod work;
pub mod wr;

use core::ffi::c_int;

use base::{Error, Result};

/// Converts a result to a C return value: the value, or the negative error number.
#[inline]
pub fn answer<R: FromCode + TryFrom<usize>>(result: Result<usize>) -> R {
    match result {
        Ok(value) => R::try_from(value).unwrap_or_else(|_| R::from_code(c_int::MAX)),
        Err(error) => R::from_code(error.negative()),
    }
}

/// Like `answer`, for calls whose success is 0.
#[inline]
pub fn status<R: FromCode>(result: Result) -> R {
    R::from_code(match result {
        Ok(()) => 0,
        Err(error) => error.negative(),
    })
}

/// The integer types that C calls return.
pub trait FromCode {
    fn from_code(code: c_int) -> Self;
}

impl FromCode for c_int {
    #[inline]
    fn from_code(code: c_int) -> c_int {
        code
    }
}

impl FromCode for isize {
    #[inline]
    fn from_code(code: c_int) -> isize {
        code as isize
    }
}

/// Returns the object of a handle, or `INVAL` if the handle is NULL.
#[inline]
fn object<T>(object: Option<&T>) -> Result<&T> {
    object.ok_or(Error::INVAL)
}
