// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What `ffi::client` needs of the library's `base`, compiled into the program.

// Its numbers and conversions are for the library.
#[allow(dead_code)]
#[path = "../../base/error.rs"]
mod error;

pub use error::{Error, Result};
