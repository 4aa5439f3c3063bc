// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The end of C entries: fi_freeinfo of fi_getinfo(3). Trusted with what C hands back.

use super::layout::LONGEST;
use crate::abi;
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
    // FI_AV_AUTH_KEY is no size, and no key is as long as a field that was never set can say.
    let size = if size > LONGEST { 0 } else { size };
    // SAFETY: passed on from the caller.
    unsafe { heap::release_wiped(key, size) }
}

/// Closes a NIC object by its maker.
///
/// # Safety
/// `nic` is null or an open NIC object that nothing uses any more.
pub unsafe fn close_nic(nic: *mut abi::fid_nic) {
    // SAFETY: the caller promises an object whose tables its maker filled.
    let ops = unsafe { nic.as_ref().and_then(|nic| nic.fid.ops.as_ref()) };
    if let Some(close) = ops.and_then(|ops| ops.close) {
        // SAFETY: its own close, called once. A NIC that cannot be closed is its maker's leak: freeing goes on.
        unsafe { close(nic.cast()) };
    }
}
