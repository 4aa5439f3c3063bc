// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! From Rust to C: an `fi_info` in the newest layout, every piece from the C library's heap, because programs free and
//! replace pieces of it on their own (fi_getinfo(3), fi_freeinfo). Trusted with the pointers it has just made.

use core::ffi::CStr;
use core::ptr::{self, null_mut};

use super::list::release;
use super::read::Plain;
use super::{DomainAttr, EpAttr, FabricAttr, Hints, Info, RxAttr, TxAttr};
use crate::abi;
use crate::base::{Error, Result};
use crate::sys::heap;

impl Info {
    /// A new C entry; the caller frees it with [`release`] or hands it to the application, which will.
    pub fn write(&self) -> Result<*mut abi::fi_info> {
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
        }
        .write()
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
        }
        .write()
    }
}

/// What [`Info`] and [`Hints`] have in common, borrowed.
struct View<'a> {
    caps: u64,
    mode: u64,
    addr_format: u32,
    src_addr: Option<&'a [u8]>,
    dest_addr: Option<&'a [u8]>,
    handle: usize,
    tx: Option<&'a TxAttr>,
    rx: Option<&'a RxAttr>,
    ep: Option<&'a EpAttr>,
    domain: Option<&'a DomainAttr>,
    fabric: Option<&'a FabricAttr>,
}

impl View<'_> {
    fn write(&self) -> Result<*mut abi::fi_info> {
        let mut entry = Entry(new_zeroed()?);
        let info = entry.info();
        info.caps = self.caps;
        info.mode = self.mode;
        info.addr_format = self.addr_format;
        info.handle = ptr::with_exposed_provenance_mut(self.handle);
        info.src_addrlen = self.src_addr.map_or(0, <[u8]>::len);
        info.src_addr = bytes(self.src_addr)?.cast();
        info.dest_addrlen = self.dest_addr.map_or(0, <[u8]>::len);
        info.dest_addr = bytes(self.dest_addr)?.cast();
        if let Some(attr) = self.tx {
            info.tx_attr = new(tx_attr(attr))?;
        }
        if let Some(attr) = self.rx {
            info.rx_attr = new(rx_attr(attr))?;
        }
        if let Some(attr) = self.ep {
            let raw = place(&mut info.ep_attr)?;
            *raw = ep_attr(attr);
            raw.auth_key = bytes(attr.auth_key.as_deref())?;
        }
        if let Some(attr) = self.domain {
            let raw = place(&mut info.domain_attr)?;
            *raw = domain_attr(attr);
            raw.name = string(attr.name.as_deref())?;
            raw.auth_key = bytes(attr.auth_key.as_deref())?;
        }
        if let Some(attr) = self.fabric {
            let raw = place(&mut info.fabric_attr)?;
            *raw = fabric_attr(attr);
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
        // SAFETY: made by `new_zeroed` and not given away before `finish`.
        unsafe { &mut *self.0 }
    }

    fn finish(mut self) -> *mut abi::fi_info {
        core::mem::replace(&mut self.0, null_mut())
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // SAFETY: null, or an entry whose pieces all came from the heap and that nobody else has seen.
        unsafe { release(self.0) }
    }
}

/// A zeroed struct on the C heap.
fn new_zeroed<T: Plain>() -> Result<*mut T> {
    let piece = heap::zeroed(size_of::<T>()).ok_or(Error::NOMEM)?;
    Ok(piece.as_ptr().cast())
}

fn new<T: Plain>(value: T) -> Result<*mut T> {
    let piece = new_zeroed::<T>()?;
    // SAFETY: new and large enough; calloc aligns for every C type.
    unsafe { piece.write(value) };
    Ok(piece)
}

/// Puts a zeroed struct into `slot` and lends it, so that a later failure frees it with the entry.
fn place<T: Plain>(slot: &mut *mut T) -> Result<&mut T> {
    *slot = new_zeroed()?;
    // SAFETY: new, large enough, aligned, and zero is a valid value (`Plain`); the loan ends with that of `slot`.
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

fn tx_attr(attr: &TxAttr) -> abi::fi_tx_attr {
    abi::fi_tx_attr {
        caps: attr.caps,
        mode: attr.mode,
        op_flags: attr.op_flags,
        msg_order: attr.msg_order,
        comp_order: attr.comp_order,
        inject_size: attr.inject_size,
        size: attr.size,
        iov_limit: attr.iov_limit,
        rma_iov_limit: attr.rma_iov_limit,
        tclass: attr.tclass,
    }
}

fn rx_attr(attr: &RxAttr) -> abi::fi_rx_attr {
    abi::fi_rx_attr {
        caps: attr.caps,
        mode: attr.mode,
        op_flags: attr.op_flags,
        msg_order: attr.msg_order,
        comp_order: attr.comp_order,
        total_buffered_recv: attr.total_buffered_recv,
        size: attr.size,
        iov_limit: attr.iov_limit,
    }
}

fn ep_attr(attr: &EpAttr) -> abi::fi_ep_attr {
    abi::fi_ep_attr {
        r#type: abi::fi_ep_type(attr.ep_type),
        protocol: attr.protocol,
        protocol_version: attr.protocol_version,
        max_msg_size: attr.max_msg_size,
        msg_prefix_size: attr.msg_prefix_size,
        max_order_raw_size: attr.max_order_raw_size,
        max_order_war_size: attr.max_order_war_size,
        max_order_waw_size: attr.max_order_waw_size,
        mem_tag_format: attr.mem_tag_format,
        tx_ctx_cnt: attr.tx_ctx_cnt,
        rx_ctx_cnt: attr.rx_ctx_cnt,
        auth_key_size: attr.auth_key_size,
        auth_key: null_mut(),
    }
}

fn domain_attr(attr: &DomainAttr) -> abi::fi_domain_attr {
    abi::fi_domain_attr {
        domain: ptr::with_exposed_provenance_mut(attr.domain),
        name: null_mut(),
        threading: abi::fi_threading(attr.threading),
        control_progress: abi::fi_progress(attr.control_progress),
        anonymous: abi::fi_domain_attr_anonymous {
            progress: abi::fi_progress(attr.progress),
        },
        resource_mgmt: abi::fi_resource_mgmt(attr.resource_mgmt),
        av_type: abi::fi_av_type(attr.av_type),
        mr_mode: attr.mr_mode,
        mr_key_size: attr.mr_key_size,
        cq_data_size: attr.cq_data_size,
        cq_cnt: attr.cq_cnt,
        ep_cnt: attr.ep_cnt,
        tx_ctx_cnt: attr.tx_ctx_cnt,
        rx_ctx_cnt: attr.rx_ctx_cnt,
        max_ep_tx_ctx: attr.max_ep_tx_ctx,
        max_ep_rx_ctx: attr.max_ep_rx_ctx,
        max_ep_stx_ctx: attr.max_ep_stx_ctx,
        max_ep_srx_ctx: attr.max_ep_srx_ctx,
        cntr_cnt: attr.cntr_cnt,
        mr_iov_limit: attr.mr_iov_limit,
        caps: attr.caps,
        mode: attr.mode,
        auth_key: null_mut(),
        auth_key_size: attr.auth_key_size,
        max_err_data: attr.max_err_data,
        mr_cnt: attr.mr_cnt,
        tclass: attr.tclass,
        max_ep_auth_key: attr.max_ep_auth_key,
        max_group_id: attr.max_group_id,
        max_cntr_value: attr.max_cntr_value,
        max_err_cntr_value: attr.max_err_cntr_value,
    }
}

fn fabric_attr(attr: &FabricAttr) -> abi::fi_fabric_attr {
    abi::fi_fabric_attr {
        fabric: ptr::with_exposed_provenance_mut(attr.fabric),
        name: null_mut(),
        prov_name: null_mut(),
        prov_version: attr.prov_version,
        api_version: attr.api_version,
    }
}
