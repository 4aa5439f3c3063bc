// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What a layered provider has under way on the objects of another one, which it calls by `ffi::client`: operations
//! with the memory that they use, until their completions are traded for it. fi_msg(3), fi_rma(3), fi_mr(3).
//!
//! `Registrar` registers memory the way the provider below demands. A `Slot` of a `Pool` is memory of ours for one
//! message, a `Block` is for many that come in, `Lent` is memory of the application; a `Loan` is what one operation has
//! of these. `Operations` keeps loans.
//!
//! Trusted with: handing the application's memory down. The promise that it stays valid comes with the `IoVec` that a
//! `Lent` owns; an operation below keeps it until its completion was read or its endpoint is closed. What is under way
//! when `Operations` goes away is never freed.

// Each layered provider takes its part.
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

use crate::abi::{FI_WAIT_FD, FI_WAIT_POLLFD, fi_wait_obj};
use crate::base::Result;

pub use block::Block;
pub use lent::Lent;
pub use loan::Loan;
pub use operations::{Closed, Failed, Operations, close};
pub use pool::{Pool, Slot};
pub use registrar::Registrar;

/// Opens an object whose wait object is its descriptors, each by what it is, if the provider has that; else one that
/// stands for all. Sets of descriptors of which one is in the other have a limit: epoll_ctl(2) gives `EINVAL`.
pub fn with_descriptors<T>(open: impl Fn(fi_wait_obj) -> Result<T>) -> Result<T> {
    open(FI_WAIT_POLLFD).or_else(|_| open(FI_WAIT_FD))
}
