// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Owned, safe handles on anybody's `fid_*`, called through the tables that they carry, as an application calls them.
//!
//! For layered providers, for tests, and for the programs of src/bin, which compile this module in
//! (src/bin/calls/ffi.rs). Handles are `Arc`s. Dropping the last one closes the object; `close` does it and says how it
//! went. An object keeps alive what it was opened on, what it is bound to and what memory it was given, and gives that
//! up when it is closed. A slot that is NULL or beyond the size of its table is `Error::NOSYS`.
//!
//! Trusted with: calling foreign functions as their manual pages ask. The promises that only the caller can give are made
//! where these are made: [`Domain::open`] (threads), [`Span::new`] and [`Context::new`] (memory of an operation).
//!
//! It believes the size that a table states, unlike the inline functions, because safe code stands on it.

// Each user takes its part.
#![allow(dead_code, unused_imports)]

mod atomic;
mod av;
mod cm;
mod cntr;
mod cq;
mod domain;
mod ep;
mod eq;
mod fabric;
mod handle;
mod info;
mod memory;
mod mr;
mod msg;
mod rma;
#[cfg(test)]
pub mod tests;

use core::ffi::{CStr, c_char, c_int};
use core::time::Duration;

use crate::abi::*;
use crate::base::{Error, Result};

pub use atomic::{AtomicMessage, Operand};
pub use av::{Av, AvAttr};
pub use cm::PassiveEp;
pub use cntr::{Cntr, CntrAttr};
pub use cq::{Completion, Cq, CqAttr, CqError, Done};
pub use domain::Domain;
pub use ep::{Ep, OptValue};
pub use eq::{Eq, EqAttr, EqError, Event};
pub use fabric::Fabric;
pub use handle::{AnyHandle, Handle, Object};
pub use info::{Info, InfoList, getinfo};
pub use memory::{Buffer, Context, Memory, Span};
pub use mr::Mr;
pub use msg::Message;
pub use rma::RmaMessage;

/// What a call answers that returns 0 on success.
fn status(code: c_int) -> Result {
    match code {
        0 => Ok(()),
        code => Err(Error::new(code.saturating_abs())),
    }
}

/// The same for a call that returns an `ssize_t`.
fn posted(code: ssize_t) -> Result {
    count(code).map(drop)
}

/// What a call answers that returns a number on success.
fn count(code: ssize_t) -> Result<usize> {
    usize::try_from(code).map_err(|_| Error::new(c_int::try_from(-code).unwrap_or(FI_EOTHER)))
}

/// A time limit in milliseconds; none is -1.
fn timeout(limit: Option<Duration>) -> c_int {
    match limit {
        Some(limit) => c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX),
        None => -1,
    }
}

/// A copy of a C string.
///
/// # Safety
/// `text` is NULL or a string that nobody changes during the call.
pub unsafe fn string(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: promised by the caller.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

/// Has the provider words of its own for this number? Those of fi_errno(3) have theirs.
fn is_own_errno(prov_errno: c_int) -> bool {
    prov_errno.unsigned_abs() > FI_ERRNO_MAX as u32
}

/// The longest detail of an error that is kept.
const ERR_DATA: usize = 512;
