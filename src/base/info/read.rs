// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Converts a caller's `fi_info` from C to Rust. Trusted with the caller's pointers; only the bytes of each struct
//! that the caller's headers have are read.

use core::ffi::{CStr, c_char};
use core::mem::MaybeUninit;
use core::slice;

use super::layout::LONGEST;
use super::{DomainAttr, EpAttr, FabricAttr, Hints, Info, Layout, RxAttr, TxAttr};
use crate::{Caps, CompOrder, Error, Mode, MrMode, MsgOrder, OpFlags, Result, Secret};

/// A C struct of numbers and pointers.
///
/// # Safety
/// All bytes zero must be a valid value.
pub unsafe trait Plain: Copy {}

// SAFETY: integers, integer newtypes and raw pointers only, for each of these.
unsafe impl Plain for abi::fi_info {}
// SAFETY: as above.
unsafe impl Plain for abi::fi_tx_attr {}
// SAFETY: as above.
unsafe impl Plain for abi::fi_rx_attr {}
// SAFETY: as above.
unsafe impl Plain for abi::fi_ep_attr {}
// SAFETY: as above.
unsafe impl Plain for abi::fi_domain_attr {}
// SAFETY: as above.
unsafe impl Plain for abi::fi_fabric_attr {}
// SAFETY: as above.
unsafe impl Plain for abi::fi_cq_attr {}
// SAFETY: as above.
unsafe impl Plain for abi::fi_cntr_attr {}
// SAFETY: as above, and a union of pointers.
unsafe impl Plain for abi::fi_mr_attr {}

/// Returns a struct of which the caller has the first `size` bytes; the rest is zero. `None` for null.
///
/// # Safety
/// `ptr` is null or readable for `size` bytes.
pub unsafe fn grown<T: Plain>(ptr: *const T, size: usize) -> Option<T> {
    if ptr.is_null() {
        return None;
    }
    let mut value = MaybeUninit::<T>::zeroed();
    let known = size.min(size_of::<T>());
    // SAFETY: the caller promises the source; `known` fits the destination; the byte copy needs no alignment.
    unsafe {
        let to = value.as_mut_ptr().cast::<u8>();
        to.copy_from_nonoverlapping(ptr.cast::<u8>(), known);
    }
    // SAFETY: zero bytes are valid (`Plain`), and what was copied over them is the caller's value of the same type.
    Some(unsafe { value.assume_init() })
}

impl Hints {
    /// Reads hints written by a program with headers of `layout`.
    ///
    /// # Safety
    /// fi_getinfo(3): `ptr` is an `fi_info` from fi_allocinfo or fi_dupinfo whose pointers are null or valid for the
    /// lengths beside them; strings are terminated.
    pub unsafe fn read(ptr: *const abi::fi_info, layout: Layout) -> Result<Hints> {
        // SAFETY: the caller promises an `fi_info` of this layout.
        let info = unsafe { grown(ptr, layout.info) }.ok_or(Error::INVAL)?;
        // SAFETY: the attribute pointers are null or of the same headers as the struct that holds them; the addresses
        // have the lengths beside them.
        unsafe {
            Ok(Hints {
                caps: Caps::from_bits_retain(info.caps),
                mode: Mode::from_bits_retain(info.mode),
                addr_format: info.addr_format,
                src_addr: bytes(info.src_addr.cast(), info.src_addrlen)?,
                dest_addr: bytes(info.dest_addr.cast(), info.dest_addrlen)?,
                handle: info.handle.addr(),
                tx: grown(info.tx_attr, layout.tx).map(TxAttr::from),
                rx: grown(info.rx_attr, layout.rx).map(RxAttr::from),
                ep: grown(info.ep_attr, layout.ep)
                    .map(|attr| ep_attr(&attr))
                    .transpose()?,
                domain: grown(info.domain_attr, layout.domain)
                    .map(|attr| domain_attr(&attr))
                    .transpose()?,
                fabric: grown(info.fabric_attr, layout.fabric).map(|attr| fabric_attr(&attr)),
            })
        }
    }
}

impl Info {
    /// Reads the entry that a program passes to fi_domain(3), fi_endpoint(3) and similar calls; a missing part is zero.
    ///
    /// # Safety
    /// As [`Hints::read`].
    pub unsafe fn read(ptr: *const abi::fi_info, layout: Layout) -> Result<Info> {
        // SAFETY: passed on from the caller.
        unsafe { Hints::read(ptr, layout) }.map(Info::from)
    }
}

impl TxAttr {
    /// # Safety
    /// `ptr` is null or a `fi_tx_attr` of headers of `layout`.
    pub unsafe fn read(ptr: *const abi::fi_tx_attr, layout: Layout) -> Option<TxAttr> {
        // SAFETY: passed on from the caller.
        unsafe { grown(ptr, layout.tx) }.map(TxAttr::from)
    }
}

impl RxAttr {
    /// # Safety
    /// `ptr` is null or a `fi_rx_attr` of headers of `layout`.
    pub unsafe fn read(ptr: *const abi::fi_rx_attr, layout: Layout) -> Option<RxAttr> {
        // SAFETY: passed on from the caller.
        unsafe { grown(ptr, layout.rx) }.map(RxAttr::from)
    }
}

impl FabricAttr {
    /// # Safety
    /// `ptr` is null or a `fi_fabric_attr` whose strings are null or terminated.
    pub unsafe fn read(ptr: *const abi::fi_fabric_attr) -> Option<FabricAttr> {
        // SAFETY: passed on from the caller.
        unsafe { grown(ptr, Layout::CURRENT.fabric).map(|attr| fabric_attr(&attr)) }
    }
}

impl From<abi::fi_tx_attr> for TxAttr {
    fn from(attr: abi::fi_tx_attr) -> TxAttr {
        TxAttr {
            caps: Caps::from_bits_retain(attr.caps),
            mode: Mode::from_bits_retain(attr.mode),
            op_flags: OpFlags::from_bits_retain(attr.op_flags),
            msg_order: MsgOrder::from_bits_retain(attr.msg_order),
            comp_order: CompOrder::from_bits_retain(attr.comp_order),
            inject_size: attr.inject_size,
            size: attr.size,
            iov_limit: attr.iov_limit,
            rma_iov_limit: attr.rma_iov_limit,
            tclass: attr.tclass,
        }
    }
}

impl From<abi::fi_rx_attr> for RxAttr {
    fn from(attr: abi::fi_rx_attr) -> RxAttr {
        RxAttr {
            caps: Caps::from_bits_retain(attr.caps),
            mode: Mode::from_bits_retain(attr.mode),
            op_flags: OpFlags::from_bits_retain(attr.op_flags),
            msg_order: MsgOrder::from_bits_retain(attr.msg_order),
            comp_order: CompOrder::from_bits_retain(attr.comp_order),
            total_buffered_recv: attr.total_buffered_recv,
            size: attr.size,
            iov_limit: attr.iov_limit,
        }
    }
}

/// # Safety
/// The key is null or readable for the length beside it.
unsafe fn ep_attr(attr: &abi::fi_ep_attr) -> Result<EpAttr> {
    Ok(EpAttr {
        ep_type: attr.r#type.0,
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
        // SAFETY: passed on from the caller.
        auth_key: unsafe { key(attr.auth_key, attr.auth_key_size) }?,
        xpu_ctx: attr.xpu_ctx.expose_provenance(),
        max_tx_wr_size: attr.max_tx_wr_size,
        max_rx_wr_size: attr.max_rx_wr_size,
    })
}

/// # Safety
/// The name is null or terminated, the key null or readable for the length beside it.
unsafe fn domain_attr(attr: &abi::fi_domain_attr) -> Result<DomainAttr> {
    Ok(DomainAttr {
        domain: attr.domain.addr(),
        // SAFETY: passed on from the caller.
        name: unsafe { string(attr.name) },
        threading: attr.threading.0,
        control_progress: attr.control_progress.0,
        // SAFETY: both members of the union are the same integer type.
        progress: unsafe { attr.anonymous.progress.0 },
        resource_mgmt: attr.resource_mgmt.0,
        av_type: attr.av_type.0,
        mr_mode: MrMode::from_bits_retain(attr.mr_mode),
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
        caps: Caps::from_bits_retain(attr.caps),
        mode: Mode::from_bits_retain(attr.mode),
        auth_key_size: attr.auth_key_size,
        // SAFETY: passed on from the caller.
        auth_key: unsafe { key(attr.auth_key, attr.auth_key_size) }?,
        max_err_data: attr.max_err_data,
        mr_cnt: attr.mr_cnt,
        tclass: attr.tclass,
        max_ep_auth_key: attr.max_ep_auth_key,
        max_group_id: attr.max_group_id,
        max_cntr_value: attr.max_cntr_value,
        max_err_cntr_value: attr.max_err_cntr_value,
        max_xpu_ctx_cnt: attr.max_xpu_ctx_cnt,
    })
}

/// # Safety
/// The strings are null or terminated.
unsafe fn fabric_attr(attr: &abi::fi_fabric_attr) -> FabricAttr {
    FabricAttr {
        fabric: attr.fabric.addr(),
        // SAFETY: passed on from the caller.
        name: unsafe { string(attr.name) },
        // SAFETY: passed on from the caller.
        prov_name: unsafe { string(attr.prov_name) },
        prov_version: attr.prov_version,
        api_version: attr.api_version,
    }
}

/// # Safety
/// `ptr` is null or readable for `len` bytes.
unsafe fn bytes(ptr: *const u8, len: usize) -> Result<Option<Vec<u8>>> {
    if ptr.is_null() {
        return Ok(None);
    }
    is_length(len)?;
    // SAFETY: passed on from the caller.
    Ok(Some(unsafe { slice::from_raw_parts(ptr, len) }.to_vec()))
}

/// # Safety
/// As [`bytes`], except that `len` may be `FI_AV_AUTH_KEY`, which means that the keys are in the address vector.
unsafe fn key(ptr: *const u8, len: usize) -> Result<Option<Secret>> {
    if ptr.is_null() || len == abi::FI_AV_AUTH_KEY {
        return Ok(None);
    }
    is_length(len)?;
    // SAFETY: passed on from the caller.
    Ok(Some(unsafe { slice::from_raw_parts(ptr, len) }.into()))
}

/// Refuses lengths that no address or key has: a field that was never set, or an entry of a faulty plug-in.
fn is_length(len: usize) -> Result<()> {
    match len <= LONGEST {
        true => Ok(()),
        false => Err(Error::INVAL),
    }
}

/// # Safety
/// `ptr` is null or a terminated string.
unsafe fn string(ptr: *const c_char) -> Option<std::ffi::CString> {
    if ptr.is_null() {
        return None;
    }
    // SAFETY: passed on from the caller.
    Some(unsafe { CStr::from_ptr(ptr) }.to_owned())
}
