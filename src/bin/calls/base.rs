// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The parts of the library's `base` that `ffi::client` needs, compiled into the program.

// Only the library uses all of its numbers and conversions.
#[allow(dead_code)]
#[path = "../../base/error.rs"]
mod error;

pub use error::{Error, Result};
