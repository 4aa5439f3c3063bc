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

pub use block::Block;
pub use lent::Lent;
pub use loan::Loan;
pub use operations::{Closed, Failed, Operations, close};
pub use pool::{Pool, Slot};
pub use registrar::Registrar;
