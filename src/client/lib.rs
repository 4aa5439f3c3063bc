// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Owned, safe handles for `fid_*` objects of any provider, called through their own tables, as an application calls
//! them.
//!
//! Used by layered providers, hooks, tests and the programs of src/tools.
//! Handles are `Arc`s. Dropping the last reference closes the object; `close` does the same and returns the result. An
//! object keeps alive what it was opened on, what it is bound to and the memory that it was given, until it is closed.
//! A slot that is NULL or beyond the size of its table is `Error::NOSYS`.
//!
//! Trusted with: calling foreign functions as their manual pages require. Promises that only the caller can give are
//! made at [`Domain::open`] (threads), [`Span::new`] and [`Context::new`] (memory of an operation).
//!
//! Unlike the inline functions, it relies on the size in each table, because safe code depends on it.

mod atomic;
mod av;
mod cm;
mod cntr;
mod cq;
mod credits;
mod domain;
mod entry;
mod ep;
mod eq;
mod fabric;
mod handle;
mod info;
pub mod layer;
pub mod library;
mod memory;
mod mr;
mod msg;
pub mod owner;
pub mod plugin;
mod rma;
#[cfg(test)]
pub mod tests;
pub mod wrap;

use core::ffi::{CStr, c_char, c_int};
use core::time::Duration;

use abi::*;
use base::{Error, Result};

pub use atomic::{AtomicMessage, Operand};
pub use av::{Av, AvAttr};
pub use cm::PassiveEp;
pub use cntr::{Cntr, CntrAttr};
pub use cq::{Completion, Cq, CqAttr, CqError, Done};
pub use credits::{Credits, PeerCredits};
pub use domain::Domain;
pub use entry::with_entry;
pub use ep::{Ep, OptValue};
pub use eq::{Eq, EqAttr, EqError, Event};
pub use fabric::Fabric;
pub use handle::{AnyHandle, Handle, Object};
pub use info::{Info, InfoList, getinfo};
pub use memory::{Buffer, Context, Memory, Span};
pub use mr::Mr;
pub use msg::Message;
pub use rma::RmaMessage;

/// Result of a call that returns 0 on success.
fn status(code: c_int) -> Result {
    match code {
        0 => Ok(()),
        code => Err(Error::new(code.saturating_abs())),
    }
}

/// Result of such a call that returns an `ssize_t`.
fn posted(code: ssize_t) -> Result {
    count(code).map(drop)
}

/// Result of a call that returns a number on success.
fn count(code: ssize_t) -> Result<usize> {
    usize::try_from(code).map_err(|_| Error::new(c_int::try_from(-code).unwrap_or(FI_EOTHER)))
}

/// Converts a time limit to milliseconds; `None` is -1.
fn timeout(limit: Option<Duration>) -> c_int {
    match limit {
        Some(limit) => c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX),
        None => -1,
    }
}

/// Returns a copy of a C string.
///
/// # Safety
/// `text` is NULL or a string that does not change during the call.
pub unsafe fn string(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: promised by the caller.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

/// Whether the provider has its own text for this number. Numbers of fi_errno(3) have a standard text.
fn is_own_errno(prov_errno: c_int) -> bool {
    prov_errno.unsigned_abs() > FI_ERRNO_MAX as u32
}

/// Maximum length of error data.
const ERR_DATA: usize = 512;
