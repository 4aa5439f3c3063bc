// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A C entry from a plug-in. The application gets this struct itself, including members that this library does not
//! know.
//!
//! Trusted with: memory that a plug-in allocated from the C library's heap, piece by piece, as fi_getinfo(3) requires.

use core::ffi::CStr;
use core::fmt;
use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::layout::Layout;
use super::release::release;
use crate::{Error, Result};
use sys::heap;

/// One C entry, not linked to a list. `take` returns it only once.
pub struct Made(AtomicPtr<abi::fi_info>);

/// Members that this library sets in an entry: names, versions, open objects.
pub(super) struct Given<'a> {
    pub prov_name: Option<&'a CStr>,
    pub prov_version: u32,
    pub api_version: u32,
    pub fabric: usize,
    pub domain: usize,
}

impl Made {
    /// Takes an entry whose structs have at least the sizes of `known`. Structs that grew since then are extended,
    /// because the application reads them in the new size. An entry with FI_WR may have that size already, although its
    /// provider declares 2.7.
    ///
    /// # Safety
    /// The entry and its parts are pieces of the C library's heap, at least as long as `known`, and belong to the
    /// caller.
    pub unsafe fn new(entry: *mut abi::fi_info, known: Layout) -> Result<Made> {
        // SAFETY: promised by the caller.
        unsafe { (*entry).next = null_mut() };
        let made = Made(AtomicPtr::new(entry));
        let whole = Layout::CURRENT;
        // SAFETY: promised by the caller.
        unsafe {
            let has_sizes = (*entry).caps & abi::FI_WR != 0;
            if known.ep < whole.ep && !(has_sizes && heap::room((*entry).ep_attr) >= whole.ep) {
                (*entry).ep_attr = longer((*entry).ep_attr, known.ep, whole.ep)?;
            }
            if known.domain < whole.domain {
                (*entry).domain_attr = longer((*entry).domain_attr, known.domain, whole.domain)?;
            }
        }
        Ok(made)
    }

    /// Returns the entry with the members of `given`; the caller then owns it. `None` if it was taken before.
    pub(super) fn take(&self, given: &Given<'_>) -> Result<Option<*mut abi::fi_info>> {
        let taken = Made(AtomicPtr::new(self.0.swap(null_mut(), Ordering::AcqRel)));
        let entry = taken.0.load(Ordering::Relaxed);
        if entry.is_null() {
            return Ok(None);
        }
        let name = match given.prov_name {
            Some(name) => heap::copy(name.to_bytes_with_nul())
                .ok_or(Error::NOMEM)?
                .as_ptr(),
            None => null_mut(),
        };
        // SAFETY: this value owned the entry, which has this part: `Info::read` has checked it.
        unsafe {
            let fabric = &mut *(*entry).fabric_attr;
            heap::release(fabric.prov_name);
            fabric.prov_name = name.cast();
            fabric.prov_version = given.prov_version;
            fabric.api_version = given.api_version;
            fabric.fabric = with_exposed_provenance_mut(given.fabric);
            if let Some(domain) = (*entry).domain_attr.as_mut() {
                domain.domain = with_exposed_provenance_mut(given.domain);
            }
        }
        taken.0.store(null_mut(), Ordering::Relaxed);
        Ok(Some(entry))
    }
}

/// # Safety
/// `part` is NULL or a piece of the heap of at least `known` bytes. The caller uses only the result afterwards.
unsafe fn longer<T>(part: *mut T, known: usize, whole: usize) -> Result<*mut T> {
    if part.is_null() {
        return Ok(part);
    }
    // SAFETY: promised by the caller.
    let grown = unsafe { heap::resized(part.cast(), known, whole) };
    grown.map(|piece| piece.as_ptr().cast()).ok_or(Error::NOMEM)
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: NULL, or an entry that only this value owns, of pieces of the heap (`new`).
        unsafe { release(*self.0.get_mut()) }
    }
}

impl Clone for Made {
    /// Returns a value without an entry, because the C entry cannot be copied: unknown members may be pointers.
    fn clone(&self) -> Made {
        Made(AtomicPtr::new(null_mut()))
    }
}

impl PartialEq for Made {
    fn eq(&self, other: &Made) -> bool {
        self.0.load(Ordering::Relaxed) == other.0.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Made({:?})", self.0.load(Ordering::Relaxed))
    }
}
