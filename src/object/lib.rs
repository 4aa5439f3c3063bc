// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The C object model: objects that C holds as `struct fid_*`, and ops tables generated from Rust traits.
//!
//! Trusted with: reading the arguments of C calls as the man pages describe them, and the handles that C holds.

pub mod addr;
pub mod card;
pub mod foreign;
pub mod handle;
pub mod live;
pub mod nic;
pub mod ops;
pub mod peer;
mod retired;
pub mod slots;
pub mod user;

pub use addr::{AddrForm, linked};
pub use handle::{Kind, Other, WaitHandle};
