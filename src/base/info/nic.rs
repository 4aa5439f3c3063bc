// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The description of a network card, fi_nic(3). Providers below make it; entries of layered providers have copies.
//!
//! Trusted with: calling FI_DUP and fi_close of the object's own table.

use core::fmt;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::list::duplicate_nic;
use super::release::close_nic;
use crate::abi;
use crate::base::Result;

/// One NIC object that belongs to this value.
pub struct Nic(AtomicPtr<abi::fid_nic>);

impl Nic {
    /// A copy of an entry's NIC. None if the entry has none, or one that its maker does not copy.
    ///
    /// # Safety
    /// `nic` is NULL or an open NIC object.
    pub unsafe fn copy_of(nic: *mut abi::fid_nic) -> Option<Nic> {
        // SAFETY: promised by the caller.
        let copy = unsafe { duplicate_nic(nic) }.ok()?;
        (!copy.is_null()).then(|| Nic(AtomicPtr::new(copy)))
    }

    /// A copy for an entry in C, which closes it.
    pub(super) fn write(&self) -> Result<*mut abi::fid_nic> {
        // Relaxed: the pointer never changes.
        let nic = self.0.load(Ordering::Relaxed);
        // SAFETY: NULL or an open object, which only `drop` closes.
        unsafe { duplicate_nic(nic) }
    }
}

impl Drop for Nic {
    fn drop(&mut self) {
        // SAFETY: NULL or an object of this value alone.
        unsafe { close_nic(*self.0.get_mut()) }
    }
}

impl Clone for Nic {
    fn clone(&self) -> Nic {
        Nic(AtomicPtr::new(self.write().unwrap_or(null_mut())))
    }
}

/// Copies are not told apart.
impl PartialEq for Nic {
    fn eq(&self, _other: &Nic) -> bool {
        true
    }
}

impl fmt::Debug for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nic")
    }
}
