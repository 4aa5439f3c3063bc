// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The functions that layered providers call: fi_fabric(3), fi_getinfo(3). The exported ones are in the shared library,
//! which is not part of this program.

use core::ffi::{c_int, c_void};

use abi::{fi_fabric_attr, fid_fabric};
use base::Error;
use base::info::FabricAttr;
use client::library::Library;
use object::ops::status;
use object::user::store;

/// Makes layered providers open the providers below with `registry`.
pub fn install() {
    // SAFETY: `fabric` does what fi_fabric(3) says, and nothing here returns lists.
    unsafe {
        Library {
            fabric: open_fabric,
            ..Library::NONE
        }
        .install()
    }
}

/// # Safety
/// fi_fabric(3): `attr` is null or valid with terminated strings, `fabric` is null or writable.
unsafe extern "C" fn open_fabric(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: passed on from the caller.
        let attr = unsafe { FabricAttr::read(attr) }.ok_or(Error::INVAL)?;
        registry::open_fabric(&attr, attr.api_version, 0, context).map(|(fabric, _)| fabric)
    };
    // SAFETY: passed on from the caller.
    status(unsafe { store(fabric, open) })
}
