// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Converts an entry from Rust to an `fi_info` in the newest layout. Every piece is from the C library's heap, because
//! programs free and replace pieces themselves (fi_getinfo(3), fi_freeinfo). Trusted with the pointers it has just
//! made.

use core::ptr::{self, null_mut};

use super::made::Given;
use super::member::bytes;
use super::read::Plain;
use super::release::release;
use super::{DomainAttr, EpAttr, FabricAttr, Hints, Info, Layout, Nic, RxAttr, TxAttr};
use crate::{Caps, Error, Mode, Result};
use sys::heap;

impl Info {
    /// Returns a new C entry. The caller frees it with [`release`], or passes it to the application, which frees it.
    pub fn write(&self) -> Result<*mut abi::fi_info> {
        if let Some(made) = &self.made
            && let Some(entry) = made.take(&Given {
                prov_name: self.fabric.prov_name.as_deref(),
                prov_version: self.fabric.prov_version,
                api_version: self.fabric.api_version,
                fabric: self.fabric.fabric,
                domain: self.domain.domain,
            })?
        {
            return Ok(entry);
        }
        View {
            caps: self.caps,
            mode: self.mode,
            addr_format: self.addr_format,
            src_addr: self.src_addr.as_deref(),
            dest_addr: self.dest_addr.as_deref(),
            handle: self.handle,
            tx: Some(&self.tx),
            rx: Some(&self.rx),
            ep: Some(&self.ep),
            domain: Some(&self.domain),
            fabric: Some(&self.fabric),
            nic: self.nic.as_ref(),
        }
        .write()
    }

    /// As [`Info::write`], for an event that may never be read: returns the entry as a number, and a function that
    /// frees it in that case.
    pub fn write_for_event(&self) -> Result<(usize, impl FnOnce() + Send + 'static)> {
        let info = self.write()? as usize;
        // SAFETY: allocated by `write` just now; called only if the number was not passed to the application.
        Ok((info, move || unsafe { release(info as *mut abi::fi_info) }))
    }
}

impl Hints {
    /// As [`Info::write`], but parts that are `None` stay null.
    pub fn write(&self) -> Result<*mut abi::fi_info> {
        View {
            caps: self.caps,
            mode: self.mode,
            addr_format: self.addr_format,
            src_addr: self.src_addr.as_deref(),
            dest_addr: self.dest_addr.as_deref(),
            handle: self.handle,
            tx: self.tx.as_ref(),
            rx: self.rx.as_ref(),
            ep: self.ep.as_ref(),
            domain: self.domain.as_ref(),
            fabric: self.fabric.as_ref(),
            nic: None,
        }
        .write()
    }
}

impl TxAttr {
    /// Stores the attributes in a struct of the application.
    ///
    /// # Safety
    /// `out` is null or a writable `fi_tx_attr` of headers of `layout`.
    pub unsafe fn store(&self, out: *mut abi::fi_tx_attr, layout: Layout) {
        // SAFETY: all bytes zero are a value (`Plain`).
        let mut raw = unsafe { core::mem::zeroed() };
        // Nothing is allocated for these members, so nothing fails.
        let _ = self.store_in(&mut raw);
        // SAFETY: passed on from the caller.
        unsafe { shrunk(&raw, out, layout.tx) }
    }
}

impl RxAttr {
    /// As [`TxAttr::store`].
    ///
    /// # Safety
    /// `out` is null or a writable `fi_rx_attr` of headers of `layout`.
    pub unsafe fn store(&self, out: *mut abi::fi_rx_attr, layout: Layout) {
        // SAFETY: all bytes zero are a value (`Plain`).
        let mut raw = unsafe { core::mem::zeroed() };
        // Nothing is allocated for these members, so nothing fails.
        let _ = self.store_in(&mut raw);
        // SAFETY: passed on from the caller.
        unsafe { shrunk(&raw, out, layout.rx) }
    }
}

/// Copies the members of a struct that the caller's headers have; does nothing for null.
///
/// # Safety
/// `out` is null or writable for `size` bytes.
unsafe fn shrunk<T: Plain>(value: &T, out: *mut T, size: usize) {
    if out.is_null() {
        return;
    }
    let known = size.min(size_of::<T>());
    // SAFETY: the caller promises the destination; `value` has at least as many bytes; the byte copy needs no
    // alignment.
    unsafe {
        let from = ptr::from_ref(value).cast::<u8>();
        out.cast::<u8>().copy_from_nonoverlapping(from, known);
    }
}

/// The members that [`Info`] and [`Hints`] have in common, borrowed.
struct View<'a> {
    caps: Caps,
    mode: Mode,
    addr_format: u32,
    src_addr: Option<&'a [u8]>,
    dest_addr: Option<&'a [u8]>,
    handle: usize,
    tx: Option<&'a TxAttr>,
    rx: Option<&'a RxAttr>,
    ep: Option<&'a EpAttr>,
    domain: Option<&'a DomainAttr>,
    fabric: Option<&'a FabricAttr>,
    nic: Option<&'a Nic>,
}

impl View<'_> {
    fn write(&self) -> Result<*mut abi::fi_info> {
        let mut entry = Entry(new_zeroed()?);
        let info = entry.info();
        info.caps = self.caps.bits();
        info.mode = self.mode.bits();
        info.addr_format = self.addr_format;
        if let Some(nic) = self.nic {
            info.nic = nic.copy()?;
        }
        info.handle = ptr::with_exposed_provenance_mut(self.handle);
        info.src_addrlen = self.src_addr.map_or(0, <[u8]>::len);
        info.src_addr = bytes(self.src_addr)?.cast();
        info.dest_addrlen = self.dest_addr.map_or(0, <[u8]>::len);
        info.dest_addr = bytes(self.dest_addr)?.cast();
        if let Some(attr) = self.tx {
            attr.store_in(place(&mut info.tx_attr)?)?;
        }
        if let Some(attr) = self.rx {
            attr.store_in(place(&mut info.rx_attr)?)?;
        }
        if let Some(attr) = self.ep {
            attr.store_in(place(&mut info.ep_attr)?)?;
        }
        if let Some(attr) = self.domain {
            attr.store_in(place(&mut info.domain_attr)?)?;
        }
        if let Some(attr) = self.fabric {
            attr.store_in(place(&mut info.fabric_attr)?)?;
        }
        Ok(entry.finish())
    }
}

/// An entry under construction: freed with all its pieces unless finished.
struct Entry(*mut abi::fi_info);

impl Entry {
    fn info(&mut self) -> &mut abi::fi_info {
        // SAFETY: allocated by `new_zeroed`, and not shared before `finish`.
        unsafe { &mut *self.0 }
    }

    fn finish(mut self) -> *mut abi::fi_info {
        core::mem::replace(&mut self.0, null_mut())
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // SAFETY: null, or an entry whose pieces are all from the heap and that was not shared yet.
        unsafe { release(self.0) }
    }
}

/// Returns a zeroed struct on the C heap.
fn new_zeroed<T: Plain>() -> Result<*mut T> {
    let piece = heap::zeroed(size_of::<T>()).ok_or(Error::NOMEM)?;
    Ok(piece.as_ptr().cast())
}

/// Stores a zeroed struct in `slot` and returns a reference to it; a later failure frees it with the entry.
fn place<T: Plain>(slot: &mut *mut T) -> Result<&mut T> {
    *slot = new_zeroed()?;
    // SAFETY: new, large enough, aligned, and zero is a valid value (`Plain`); the borrow ends with that of `slot`.
    Ok(unsafe { &mut **slot })
}
