// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_domain.h>` as symbols: fi_domain(3), fi_av(3), fi_mr(3).

use core::{
    ffi::{c_int, c_void},
    mem::zeroed,
    ptr::null_mut,
};

use super::slots::{fi_control, fi_domain};
use abi::{
    FI_ENABLE, FI_GET_MR_XPU_DESC, FI_GET_RAW_MR, FI_KEY_NOTAVAIL, FI_MAP_RAW_MR, FI_REFRESH,
    FI_UNMAP_KEY, fi_addr_t, fi_info, fi_mr_map_raw, fi_mr_modify, fi_mr_raw_attr, fi_mr_xpu_desc,
    fid_domain, fid_fabric, fid_mr, fid_xpu_ctx, iovec,
};
use object::slots::call_slot;

#[unsafe(no_mangle)]
pub extern "C" fn fi_hmem_ze_device(driver_index: c_int, device_index: c_int) -> c_int {
    driver_index << 16 | device_index
}
symver!(fi_hmem_ze_device @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_domain2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags == 0 {
        // SAFETY: the caller's promises for fi_domain2 are those of fi_domain.
        return unsafe { fi_domain(fabric, info, domain, context) };
    }
    call_slot!(later (fabric, info, domain, flags, context) => fid_fabric.ops.domain2)
}
symver!(fi_domain2 @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_mr_desc(mr: *mut fid_mr) -> *mut c_void {
    // SAFETY: fi_mr(3): `mr` is an open region, or null, which is handled here.
    unsafe { mr.as_ref() }.map_or(null_mut(), |mr| mr.mem_desc)
}
symver!(fi_mr_desc @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_mr_key(mr: *mut fid_mr) -> u64 {
    // SAFETY: fi_mr(3): `mr` is an open region, or null, which is handled here.
    unsafe { mr.as_ref() }.map_or(FI_KEY_NOTAVAIL, |mr| mr.key)
}
symver!(fi_mr_key @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_mr_raw_attr(
    mr: *mut fid_mr,
    base_addr: *mut u64,
    raw_key: *mut u8,
    key_size: *mut usize,
    flags: u64,
) -> c_int {
    let mut attr = fi_mr_raw_attr {
        flags,
        base_addr,
        raw_key,
        key_size,
    };
    // SAFETY: as for fi_control; the struct lives until it returns.
    unsafe { fi_control(mr.cast(), FI_GET_RAW_MR as c_int, (&raw mut attr).cast()) }
}
symver!(fi_mr_raw_attr @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_mr_map_raw(
    domain: *mut fid_domain,
    base_addr: u64,
    raw_key: *mut u8,
    key_size: usize,
    key: *mut u64,
    flags: u64,
) -> c_int {
    let mut map = fi_mr_map_raw {
        flags,
        base_addr,
        raw_key,
        key_size,
        key,
    };
    // SAFETY: as for fi_control; the struct lives until it returns.
    unsafe { fi_control(domain.cast(), FI_MAP_RAW_MR as c_int, (&raw mut map).cast()) }
}
symver!(fi_mr_map_raw @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_mr_unmap_key(domain: *mut fid_domain, key: u64) -> c_int {
    let mut key = key;
    // SAFETY: as for fi_control; the number lives until it returns.
    unsafe { fi_control(domain.cast(), FI_UNMAP_KEY as c_int, (&raw mut key).cast()) }
}
symver!(fi_mr_unmap_key @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_mr_refresh(
    mr: *mut fid_mr,
    iov: *const iovec,
    count: usize,
    flags: u64,
) -> c_int {
    // SAFETY: integers and pointers, for which all zeroes are a valid value.
    let mut modify: fi_mr_modify = unsafe { zeroed() };
    modify.flags = flags;
    modify.attr.anonymous.mr_iov = iov;
    modify.attr.iov_count = count;
    // SAFETY: as for fi_control; the struct lives until it returns.
    unsafe { fi_control(mr.cast(), FI_REFRESH as c_int, (&raw mut modify).cast()) }
}
symver!(fi_mr_refresh @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_mr_enable(mr: *mut fid_mr) -> c_int {
    // SAFETY: as for fi_control.
    unsafe { fi_control(mr.cast(), FI_ENABLE as c_int, null_mut()) }
}
symver!(fi_mr_enable @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_mr_get_xpu_desc(
    mr: *mut fid_mr,
    buf: *mut c_void,
    len: *mut usize,
    flags: u64,
    ctx: *mut fid_xpu_ctx,
) -> c_int {
    let mut desc = fi_mr_xpu_desc {
        buf,
        len,
        flags,
        ctx,
    };
    // SAFETY: as for fi_control; the struct lives until it returns.
    unsafe {
        fi_control(
            mr.cast(),
            FI_GET_MR_XPU_DESC as c_int,
            (&raw mut desc).cast(),
        )
    }
}
symver!(fi_mr_get_xpu_desc @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub extern "C" fn fi_rx_addr(fi_addr: fi_addr_t, rx_index: c_int, rx_ctx_bits: c_int) -> fi_addr_t {
    if rx_ctx_bits == 0 {
        return fi_addr;
    }
    (rx_index as u64).wrapping_shl(64u32.wrapping_sub(rx_ctx_bits as u32)) | fi_addr
}
symver!(fi_rx_addr @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub extern "C" fn fi_group_addr(fi_addr: fi_addr_t, group_id: u32) -> fi_addr_t {
    u64::from(group_id) << 32 | fi_addr
}
symver!(fi_group_addr @@ "FABRIC_RS_1.0");
