// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Converts an entry from Rust to an `fi_info` in the newest layout. Every piece is from the C library's heap, because
//! programs free and replace pieces themselves (fi_getinfo(3), fi_freeinfo). Trusted with the pointers it has just
//! made.

use core::ffi::CStr;
use core::ptr::{self, null_mut};

use super::made::Given;
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
        tx_attr(&mut raw, self);
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
        rx_attr(&mut raw, self);
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
            tx_attr(place(&mut info.tx_attr)?, attr);
        }
        if let Some(attr) = self.rx {
            rx_attr(place(&mut info.rx_attr)?, attr);
        }
        if let Some(attr) = self.ep {
            let raw = place(&mut info.ep_attr)?;
            ep_attr(raw, attr);
            raw.auth_key = bytes(attr.auth_key.as_deref())?;
        }
        if let Some(attr) = self.domain {
            let raw = place(&mut info.domain_attr)?;
            domain_attr(raw, attr);
            raw.name = string(attr.name.as_deref())?;
            raw.auth_key = bytes(attr.auth_key.as_deref())?;
        }
        if let Some(attr) = self.fabric {
            let raw = place(&mut info.fabric_attr)?;
            fabric_attr(raw, attr);
            raw.name = string(attr.name.as_deref())?;
            raw.prov_name = string(attr.prov_name.as_deref())?;
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

fn bytes(value: Option<&[u8]>) -> Result<*mut u8> {
    match value {
        None => Ok(null_mut()),
        Some(value) => Ok(heap::copy(value).ok_or(Error::NOMEM)?.as_ptr().cast()),
    }
}

fn string(value: Option<&CStr>) -> Result<*mut core::ffi::c_char> {
    bytes(value.map(CStr::to_bytes_with_nul)).map(<*mut u8>::cast)
}

// Field by field, not struct by struct: the padding stays zero.

fn tx_attr(raw: &mut abi::fi_tx_attr, attr: &TxAttr) {
    raw.caps = attr.caps.bits();
    raw.mode = attr.mode.bits();
    raw.op_flags = attr.op_flags.bits();
    raw.msg_order = attr.msg_order.bits();
    raw.comp_order = attr.comp_order.bits();
    raw.inject_size = attr.inject_size;
    raw.size = attr.size;
    raw.iov_limit = attr.iov_limit;
    raw.rma_iov_limit = attr.rma_iov_limit;
    raw.tclass = attr.tclass;
}

fn rx_attr(raw: &mut abi::fi_rx_attr, attr: &RxAttr) {
    raw.caps = attr.caps.bits();
    raw.mode = attr.mode.bits();
    raw.op_flags = attr.op_flags.bits();
    raw.msg_order = attr.msg_order.bits();
    raw.comp_order = attr.comp_order.bits();
    raw.total_buffered_recv = attr.total_buffered_recv;
    raw.size = attr.size;
    raw.iov_limit = attr.iov_limit;
}

fn ep_attr(raw: &mut abi::fi_ep_attr, attr: &EpAttr) {
    raw.r#type = abi::fi_ep_type(attr.ep_type);
    raw.protocol = attr.protocol;
    raw.protocol_version = attr.protocol_version;
    raw.max_msg_size = attr.max_msg_size;
    raw.msg_prefix_size = attr.msg_prefix_size;
    raw.max_order_raw_size = attr.max_order_raw_size;
    raw.max_order_war_size = attr.max_order_war_size;
    raw.max_order_waw_size = attr.max_order_waw_size;
    raw.mem_tag_format = attr.mem_tag_format;
    raw.tx_ctx_cnt = attr.tx_ctx_cnt;
    raw.rx_ctx_cnt = attr.rx_ctx_cnt;
    raw.auth_key_size = attr.auth_key_size;
    raw.xpu_ctx = ptr::with_exposed_provenance_mut(attr.xpu_ctx);
    raw.max_tx_wr_size = attr.max_tx_wr_size;
    raw.max_rx_wr_size = attr.max_rx_wr_size;
}

fn domain_attr(raw: &mut abi::fi_domain_attr, attr: &DomainAttr) {
    raw.domain = ptr::with_exposed_provenance_mut(attr.domain);
    raw.threading = abi::fi_threading(attr.threading);
    raw.control_progress = abi::fi_progress(attr.control_progress);
    raw.anonymous.progress = abi::fi_progress(attr.progress);
    raw.resource_mgmt = abi::fi_resource_mgmt(attr.resource_mgmt);
    raw.av_type = abi::fi_av_type(attr.av_type);
    raw.mr_mode = attr.mr_mode.bits();
    raw.mr_key_size = attr.mr_key_size;
    raw.cq_data_size = attr.cq_data_size;
    raw.cq_cnt = attr.cq_cnt;
    raw.ep_cnt = attr.ep_cnt;
    raw.tx_ctx_cnt = attr.tx_ctx_cnt;
    raw.rx_ctx_cnt = attr.rx_ctx_cnt;
    raw.max_ep_tx_ctx = attr.max_ep_tx_ctx;
    raw.max_ep_rx_ctx = attr.max_ep_rx_ctx;
    raw.max_ep_stx_ctx = attr.max_ep_stx_ctx;
    raw.max_ep_srx_ctx = attr.max_ep_srx_ctx;
    raw.cntr_cnt = attr.cntr_cnt;
    raw.mr_iov_limit = attr.mr_iov_limit;
    raw.caps = attr.caps.bits();
    raw.mode = attr.mode.bits();
    raw.auth_key_size = attr.auth_key_size;
    raw.max_err_data = attr.max_err_data;
    raw.mr_cnt = attr.mr_cnt;
    raw.tclass = attr.tclass;
    raw.max_ep_auth_key = attr.max_ep_auth_key;
    raw.max_group_id = attr.max_group_id;
    raw.max_cntr_value = attr.max_cntr_value;
    raw.max_err_cntr_value = attr.max_err_cntr_value;
    raw.max_xpu_ctx_cnt = attr.max_xpu_ctx_cnt;
}

fn fabric_attr(raw: &mut abi::fi_fabric_attr, attr: &FabricAttr) {
    raw.fabric = ptr::with_exposed_provenance_mut(attr.fabric);
    raw.prov_version = attr.prov_version;
    raw.api_version = attr.api_version;
}
