// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_fabric`, `fi_fabric2`: fi_fabric(3). The old version of the first is in `compat`.

use core::ffi::{c_int, c_void};

use abi::{fi_fabric_attr, fi_info, fid_fabric};
use base::info::{FabricAttr, Info, Layout};
use base::{Error, Result};
use client::wrap::Fabric;
use object::ops::status;
use object::user::store;

/// # Safety
/// fi_fabric(3): `attr` is null or valid with terminated strings, `fabric` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_fabric(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: passed on from the caller.
    let attr = unsafe { FabricAttr::read(attr) };
    // SAFETY: passed on from the caller.
    unsafe { open(attr.ok_or(Error::INVAL), None, fabric, 0, context) }
}
symver!(fi_fabric @@ "FABRIC_1.1");

/// # Safety
/// fi_fabric(3): `info` is null or from fi_allocinfo, fi_dupinfo or fi_getinfo, `fabric` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_fabric2(
    info: *mut fi_info,
    fabric: *mut *mut fid_fabric,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: passed on from the caller, whose structs have at least this layout, because this function is newer.
    let attr = unsafe { Info::read(info, Layout::FABRIC_1_8) }.map(|info| info.fabric);
    // SAFETY: passed on from the caller.
    unsafe { open(attr, None, fabric, flags, context) }
}
symver!(fi_fabric2 @@ "FABRIC_1.8");

/// Opens a fabric for the API that `attr` names, or for `api_version` if the caller's headers lack that member.
///
/// # Safety
/// `fabric` is null or writable.
pub(super) unsafe fn open(
    attr: Result<FabricAttr>,
    api_version: Option<u32>,
    fabric: *mut *mut fid_fabric,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    let open = || {
        let attr = attr?;
        let api_version = api_version.unwrap_or(attr.api_version);
        let (fabric, provider) = registry::open_fabric(&attr, api_version, flags, context)?;
        // SAFETY: opened just now.
        let fabric = unsafe { Fabric::new(fabric) }?;
        Ok(registry::put_around(fabric, provider).raw())
    };
    // SAFETY: passed on from the caller.
    status(unsafe { store(fabric, open) })
}
