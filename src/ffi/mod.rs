// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The C object model: objects that C holds as `struct fid_*`, ops tables generated from Rust traits, and calls into
//! the tables of other libraries' objects.
//!
//! Trusted with: reading the arguments of C calls as the man pages describe them, and the handles that C holds.

pub mod addr;
pub mod client;
mod entry;
mod foreign;
pub mod layer;
pub mod live;
mod named;
mod nic;
pub mod object;
pub mod ops;
pub mod peer;
pub mod plugin;
pub mod slots;
pub mod user;
pub mod wrap;

use crate::base::Error;
use crate::base::log::{CORE, Subsys, log_warn};

pub use addr::AddrForm;
pub use entry::with_entry;
pub use object::{Kind, Other, WaitHandle};

/// Logs that an object of another library could not be closed when its last handle was dropped.
#[cold]
fn unclosed(what: &str, error: Error) {
    log_warn!(
        &CORE,
        Subsys::Core,
        "a {what} could not be closed: {error:?}"
    );
}
