// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Frees C entries: fi_freeinfo of fi_getinfo(3). Trusted with the structs that C passes back.

use super::layout::LONGEST;
use sys::heap;

/// fi_freeinfo: frees every entry of the list and every piece of each. Null is allowed.
///
/// # Safety
/// fi_getinfo(3): the list is from this library in the newest layout, pieces that were replaced are from the C
/// library's heap, and the list is not used any more.
pub unsafe fn release(mut list: *mut abi::fi_info) {
    while !list.is_null() {
        // SAFETY: the caller passes whole entries of the newest layout; each piece is null or from the heap, and
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

/// Wipes and frees a key.
///
/// # Safety
/// As [`heap::release`].
unsafe fn release_key(key: *mut u8, size: usize) {
    // FI_AV_AUTH_KEY is not a size, and a field that was never set may have a larger number than any key has bytes.
    let size = if size > LONGEST { 0 } else { size };
    // SAFETY: passed on from the caller.
    unsafe { heap::release_wiped(key, size) }
}

/// Closes a NIC object through its own table.
///
/// # Safety
/// `nic` is null or an open NIC object that is not used any more.
pub unsafe fn close_nic(nic: *mut abi::fid_nic) {
    // SAFETY: the caller promises an object whose tables its provider filled.
    let ops = unsafe { nic.as_ref().and_then(|nic| nic.fid.ops.as_ref()) };
    if let Some(close) = ops.and_then(|ops| ops.close) {
        // SAFETY: its own close, called once. If the NIC cannot be closed, it leaks and the entry is still freed.
        unsafe { close(nic.cast()) };
    }
}
