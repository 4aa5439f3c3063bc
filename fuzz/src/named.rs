// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The named functions that layered providers call: fi_fabric(3), fi_freeinfo of fi_getinfo(3). The library's own have
//! symbol versions, which programs cannot have.

use core::ffi::{c_int, c_void};

use crate::abi::{fi_fabric_attr, fi_info, fid_fabric};
use crate::base::Error;
use crate::base::info::{FabricAttr, release};
use crate::ffi::ops::status;
use crate::ffi::user::store;
use crate::registry;

/// # Safety
/// fi_fabric(3): `attr` is null or valid with terminated strings, `fabric` is null or writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn fi_fabric(
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

/// # Safety
/// fi_getinfo(3): `info` is null or a list that has no other user.
#[unsafe(no_mangle)]
unsafe extern "C" fn fi_freeinfo(info: *mut fi_info) {
    // SAFETY: passed on from the caller.
    unsafe { release(info) }
}
