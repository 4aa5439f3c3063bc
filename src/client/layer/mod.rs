// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations of a layered provider on objects of another one, which it calls by `client`, together with the
//! memory that they use until their completions are traded for it. fi_msg(3), fi_rma(3), fi_mr(3).
//!
//! `Registrar` registers memory as the provider below requires. A `Slot` of a `Pool` is memory of this library for one
//! message, a `Block` for many incoming messages, `Lent` is memory of the application; a `Loan` is the part of these
//! that one operation uses. `Operations` holds the loans.
//!
//! Trusted with: passing the application's memory to the provider below. The promise that it stays valid belongs to the
//! `IoVec` that a `Lent` owns; an operation below keeps it until its completion was read or its endpoint is closed. The
//! memory of operations in flight when `Operations` is dropped is never freed.

// Each layered provider needs only a part.
#![allow(dead_code, unused_imports)]

mod block;
mod contexts;
mod lent;
mod loan;
mod operations;
mod pool;
mod regions;
mod registrar;
#[cfg(test)]
mod tests;

use abi::{FI_WAIT_FD, FI_WAIT_POLLFD, fi_wait_obj};
use base::Result;

pub use block::Block;
pub use lent::{Exposed, KnownRegion, Lent};
pub use loan::Loan;
pub use operations::{AtomicCall, Begun, Call, Closed, Failed, Operations, close};
pub use pool::{Pool, Slot};
pub use registrar::Registrar;

/// Opens an object with all its descriptors as wait object, if the provider supports that, otherwise with one that
/// represents all. Nested epoll sets have a depth limit: epoll_ctl(2) returns `EINVAL`.
pub fn with_descriptors<T>(open: impl Fn(fi_wait_obj) -> Result<T>) -> Result<T> {
    open(FI_WAIT_POLLFD).or_else(|_| open(FI_WAIT_FD))
}
