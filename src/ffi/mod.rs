// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The C object model: what C holds as `struct fid_*`, and the ops tables made from Rust traits.
//!
//! Trusted with: reading the arguments of C calls as the man pages describe them, and the handles that C holds.

pub mod live;
pub mod object;
pub mod ops;
pub mod peer;
pub mod user;

pub use object::{Kind, Other, WaitHandle};
