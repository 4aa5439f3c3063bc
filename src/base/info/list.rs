// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Lists of C entries: fi_dupinfo and fi_freeinfo of fi_getinfo(3), and the `nic` of fi_nic(3) that only its maker can
//! copy or close. Trusted with what C hands back.

use core::ffi::c_void;
use core::ptr::null_mut;

use super::read::grown;
use super::{Hints, Info, Layout};
use crate::abi;
use crate::base::Result;
use crate::sys::heap;

/// fi_freeinfo: every entry of the list and every piece of each. Null is fine.
///
/// # Safety
/// fi_getinfo(3): the list came from this library in the newest layout, pieces that were replaced came from the C
/// library's heap, and nothing uses it any more.
pub unsafe fn release(mut list: *mut abi::fi_info) {
    while !list.is_null() {
        // SAFETY: the caller hands over whole entries of the newest layout; each piece is null or from the heap, and
        // attributes are read before they are freed.
        unsafe {
            let info = *list;
            close_nic(info.nic);
            heap::release(info.src_addr);
            heap::release(info.dest_addr);
            heap::release(info.tx_attr);
            heap::release(info.rx_attr);
            if let Some(attr) = info.ep_attr.as_ref() {
                release_key(attr.auth_key, attr.auth_key_size);
            }
            heap::release(info.ep_attr);
            if let Some(attr) = info.domain_attr.as_ref() {
                release_key(attr.auth_key, attr.auth_key_size);
                heap::release(attr.name);
            }
            heap::release(info.domain_attr);
            if let Some(attr) = info.fabric_attr.as_ref() {
                heap::release(attr.name);
                heap::release(attr.prov_name);
            }
            heap::release(info.fabric_attr);
            heap::release(list);
            list = info.next;
        }
    }
}

/// A key, with nothing left of it.
///
/// # Safety
/// As [`heap::release`].
unsafe fn release_key(key: *mut u8, size: usize) {
    // FI_AV_AUTH_KEY is no size.
    let size = if size == abi::FI_AV_AUTH_KEY { 0 } else { size };
    // SAFETY: passed on from the caller.
    unsafe { heap::release_wiped(key, size) }
}

/// fi_dupinfo: a copy of one entry written with headers of `layout`; null makes an empty one with all its parts
/// (fi_allocinfo). Parts that are null stay null, what the caller's headers do not have is zero.
///
/// # Safety
/// `source` is null or as [`Hints::read`] wants it, with a `nic` that is null or a NIC object.
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
            // SAFETY: just made, and nobody else has seen it.
            unsafe { (*copy).nic = nic };
            Ok(copy)
        }
        Err(error) => {
            // SAFETY: the copy made above, which nothing else knows.
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
                // SAFETY: just made, and nobody else has seen it.
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

/// # Safety
/// `nic` is null or an open NIC object.
unsafe fn duplicate_nic(nic: *mut abi::fid_nic) -> Result<*mut abi::fid_nic> {
    // SAFETY: the caller promises an object whose tables its maker filled.
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
        error => Err(crate::base::Error::new(-error)),
    }
}

/// # Safety
/// `nic` is null or an open NIC object that nothing uses any more.
unsafe fn close_nic(nic: *mut abi::fid_nic) {
    // SAFETY: the caller promises an object whose tables its maker filled.
    let ops = unsafe { nic.as_ref().and_then(|nic| nic.fid.ops.as_ref()) };
    if let Some(close) = ops.and_then(|ops| ops.close) {
        // SAFETY: its own close, called once. A NIC that cannot be closed is its maker's leak: freeing goes on.
        unsafe { close(nic.cast()) };
    }
}
