// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The library's `ffi::client`, compiled into the program: it calls the function tables of objects of any
//! libfabric.so.1.

#[path = "../../ffi/client/mod.rs"]
pub mod client;
#[path = "../../ffi/linked.rs"]
pub mod named;
#[path = "../../ffi/slots/mod.rs"]
pub mod slots;

use crate::base::Error;
use crate::calls::failure::Failure;

/// Reports that an object could not be closed when its last handle was dropped.
fn unclosed(what: &str, error: Error) {
    let failure = Failure::of(format!("closing {what}"), error);
    eprintln!("[error] {failure}");
}
