// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Lists of C entries: fi_dupinfo of fi_getinfo(3), and the `nic` of fi_nic(3), which only its provider can copy.
//! Trusted with the structs that C passes back.

use core::ffi::c_void;
use core::ptr::null_mut;

use super::read::grown;
use super::release::{close_nic, release};
use super::{Hints, Info, Layout};
use crate::Result;

/// fi_dupinfo: copies one entry that was written with headers of `layout`. For null it makes an empty entry with all
/// its parts (fi_allocinfo). Parts that are null stay null; members that the caller's headers lack become zero.
///
/// # Safety
/// `source` is null or as [`Hints::read`] requires, with a `nic` that is null or a NIC object.
pub unsafe fn duplicate(source: *const abi::fi_info, layout: Layout) -> Result<*mut abi::fi_info> {
    if source.is_null() {
        return Info::default().write();
    }
    // SAFETY: passed on from the caller.
    let (hints, raw) = unsafe { (Hints::read(source, layout)?, grown(source, layout.info)) };
    let nic = raw.map_or(null_mut(), |raw| raw.nic);
    // SAFETY: passed on from the caller.
    let nic = unsafe { duplicate_nic(nic)? };
    match hints.write() {
        Ok(copy) => {
            // SAFETY: allocated just now, and not shared yet.
            unsafe { (*copy).nic = nic };
            Ok(copy)
        }
        Err(error) => {
            // SAFETY: the copy made above, to which no other pointer exists.
            unsafe { close_nic(nic) };
            Err(error)
        }
    }
}

/// Writes `entries` as one C list; null if there are none.
pub fn write_all(entries: &[Info]) -> Result<*mut abi::fi_info> {
    let mut list = null_mut();
    for entry in entries.iter().rev() {
        match entry.write() {
            Ok(first) => {
                // SAFETY: allocated just now, and not shared yet.
                unsafe { (*first).next = list };
                list = first;
            }
            Err(error) => {
                // SAFETY: made by this loop.
                unsafe { release(list) };
                return Err(error);
            }
        }
    }
    Ok(list)
}

/// Returns a copy of a NIC object, made by its provider; null for null, and for an object that cannot be copied.
///
/// # Safety
/// `nic` is null or an open NIC object.
pub unsafe fn duplicate_nic(nic: *mut abi::fid_nic) -> Result<*mut abi::fid_nic> {
    // SAFETY: the caller promises an object whose tables its provider filled.
    let control = unsafe { nic.as_ref().and_then(|nic| nic.fid.ops.as_ref()) };
    let Some(control) = control.and_then(|ops| ops.control) else {
        return Ok(null_mut());
    };
    let mut copy: *mut abi::fid_nic = null_mut();
    // SAFETY: fi_nic(3), fi_control(3): FI_DUP takes the address of the pointer that receives the copy.
    let status = unsafe {
        let out = (&raw mut copy).cast::<c_void>();
        control(nic.cast(), abi::FI_DUP.cast_signed(), out)
    };
    match status {
        0 => Ok(copy),
        error => Err(crate::Error::new(-error)),
    }
}
