// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_fabric` of the headers 1.0 to 1.4: fi_fabric(3).

use core::ffi::{c_int, c_void};

use super::super::fabric::open;
use abi::{fi_fabric_attr, fid_fabric};
use base::Error;
use base::info::FabricAttr;

/// The old headers had padding in the place of `api_version`, so it is not read, and the API is 1.0.
///
/// # Safety
/// fi_fabric(3): `attr` is null or valid with terminated strings, `fabric` is null or writable.
unsafe extern "C" fn fabric_1_0(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: passed on from the caller; the struct has the same size as today's.
    let attr = unsafe { FabricAttr::read(attr) };
    // SAFETY: passed on from the caller.
    unsafe { open(attr.ok_or(Error::INVAL), Some(API_1_0), fabric, 0, context) }
}
symver!(fabric_1_0 as fi_fabric @ "FABRIC_1.0");

const API_1_0: u32 = 1 << 16;
