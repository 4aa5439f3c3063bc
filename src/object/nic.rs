// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! NIC objects of plug-ins, fi_nic(3). Trusted with: FI_DUP and fi_close of the object's own table.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Arc;

use abi::fid_nic;
use base::Result;
use base::info::{Card, Nic, close_nic, duplicate_nic};

/// A NIC object that this value owns; the pointer never changes.
struct Held(AtomicPtr<fid_nic>);

impl Card for Held {
    fn copy(&self) -> Result<*mut fid_nic> {
        // SAFETY: an open object, which only `drop` closes.
        unsafe { duplicate_nic(self.0.load(Ordering::Relaxed)) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: only this value has the object.
        unsafe { close_nic(*self.0.get_mut()) }
    }
}

/// Returns a copy of an entry's NIC. `None` if the entry has none, or if its provider cannot copy it.
///
/// # Safety
/// `nic` is NULL or an open NIC object.
pub unsafe fn nic_of(nic: *mut fid_nic) -> Option<Nic> {
    // SAFETY: promised by the caller.
    let copy = unsafe { duplicate_nic(nic) }.unwrap_or(null_mut());
    (!copy.is_null()).then(|| Nic::of(Arc::new(Held(AtomicPtr::new(copy)))))
}
