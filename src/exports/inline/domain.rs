// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_domain.h>` as symbols: fi_domain(3), fi_av(3), fi_mr(3).

use core::{
    ffi::{c_char, c_int, c_void},
    mem::zeroed,
    ptr::null_mut,
};

use super::fabric::fi_control;
use crate::abi::{
    FI_ENABLE, FI_GET_RAW_MR, FI_KEY_NOTAVAIL, FI_MAP_RAW_MR, FI_REFRESH, FI_UNMAP_KEY, fi_addr_t,
    fi_av_attr, fi_cntr_attr, fi_cq_attr, fi_info, fi_mr_attr, fi_mr_map_raw, fi_mr_modify,
    fi_mr_raw_attr, fi_poll_attr, fi_wait_attr, fid, fid_av, fid_cntr, fid_cq, fid_domain,
    fid_fabric, fid_mr, fid_poll, fid_wait, iovec,
};

inline! {
    fn fi_domain(
        fabric: *mut fid_fabric, info: *mut fi_info, domain: *mut *mut fid_domain,
        context: *mut c_void,
    ) -> c_int => ops.domain;
    fn fi_domain_bind(
        domain: *mut fid_domain, fid: *mut fid, flags: u64,
    ) -> c_int => (fid) ops.bind;
    fn fi_cq_open(
        domain: *mut fid_domain, attr: *mut fi_cq_attr, cq: *mut *mut fid_cq, context: *mut c_void,
    ) -> c_int => ops.cq_open;
    fn fi_cntr_open(
        domain: *mut fid_domain, attr: *mut fi_cntr_attr, cntr: *mut *mut fid_cntr,
        context: *mut c_void,
    ) -> c_int => ops.cntr_open;
    fn fi_wait_open(
        fabric: *mut fid_fabric, attr: *mut fi_wait_attr, waitset: *mut *mut fid_wait,
    ) -> c_int => ops.wait_open;
    fn fi_poll_open(
        domain: *mut fid_domain, attr: *mut fi_poll_attr, pollset: *mut *mut fid_poll,
    ) -> c_int => ops.poll_open;
    fn fi_mr_reg(
        domain: *mut fid_domain, buf: *const c_void, len: usize, acs: u64, offset: u64,
        requested_key: u64, flags: u64, mr: *mut *mut fid_mr, context: *mut c_void,
    ) -> c_int => mr.reg;
    fn fi_mr_regv(
        domain: *mut fid_domain, iov: *const iovec, count: usize, acs: u64, offset: u64,
        requested_key: u64, flags: u64, mr: *mut *mut fid_mr, context: *mut c_void,
    ) -> c_int => mr.regv;
    fn fi_mr_regattr(
        domain: *mut fid_domain, attr: *const fi_mr_attr, flags: u64, mr: *mut *mut fid_mr,
    ) -> c_int => mr.regattr;
    fn fi_mr_bind(mr: *mut fid_mr, bfid: *mut fid, flags: u64) -> c_int => (fid) ops.bind;
    fn fi_av_open(
        domain: *mut fid_domain, attr: *mut fi_av_attr, av: *mut *mut fid_av, context: *mut c_void,
    ) -> c_int => ops.av_open;
    fn fi_av_bind(av: *mut fid_av, fid: *mut fid, flags: u64) -> c_int => (fid) ops.bind;
    fn fi_av_insert(
        av: *mut fid_av, addr: *const c_void, count: usize, fi_addr: *mut fi_addr_t, flags: u64,
        context: *mut c_void,
    ) -> c_int => ops.insert;
    fn fi_av_insertsvc(
        av: *mut fid_av, node: *const c_char, service: *const c_char, fi_addr: *mut fi_addr_t,
        flags: u64, context: *mut c_void,
    ) -> c_int => ops.insertsvc;
    fn fi_av_insertsym(
        av: *mut fid_av, node: *const c_char, nodecnt: usize, service: *const c_char, svccnt: usize,
        fi_addr: *mut fi_addr_t, flags: u64, context: *mut c_void,
    ) -> c_int => ops.insertsym;
    fn fi_av_remove(
        av: *mut fid_av, fi_addr: *mut fi_addr_t, count: usize, flags: u64,
    ) -> c_int => ops.remove;
    fn fi_av_lookup(
        av: *mut fid_av, fi_addr: fi_addr_t, addr: *mut c_void, addrlen: *mut usize,
    ) -> c_int => ops.lookup;
    fn fi_av_straddr(
        av: *mut fid_av, addr: *const c_void, buf: *mut c_char, len: *mut usize,
    ) -> *const c_char => ops.straddr;
    fn fi_av_insert_auth_key(
        av: *mut fid_av, auth_key: *const c_void, auth_key_size: usize, fi_addr: *mut fi_addr_t,
        flags: u64,
    ) -> c_int => ops.insert_auth_key optional;
    fn fi_av_lookup_auth_key(
        av: *mut fid_av, addr: fi_addr_t, auth_key: *mut c_void, auth_key_size: *mut usize,
    ) -> c_int => ops.lookup_auth_key optional;
    fn fi_av_set_user_id(
        av: *mut fid_av, fi_addr: fi_addr_t, user_id: fi_addr_t, flags: u64,
    ) -> c_int => ops.set_user_id optional;
}

slots! {
    fn domain2(
        fabric: *mut fid_fabric, info: *mut fi_info, domain: *mut *mut fid_domain, flags: u64,
        context: *mut c_void,
    ) -> c_int => ops.domain2 optional;
}

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
    // SAFETY: the same.
    unsafe { domain2(fabric, info, domain, flags, context) }
}
symver!(fi_domain2 @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_mr_desc(mr: *mut fid_mr) -> *mut c_void {
    // SAFETY: fi_mr(3): `mr` is null, answered here, or an open region.
    unsafe { mr.as_ref() }.map_or(null_mut(), |mr| mr.mem_desc)
}
symver!(fi_mr_desc @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_mr_key(mr: *mut fid_mr) -> u64 {
    // SAFETY: fi_mr(3): `mr` is null, answered here, or an open region.
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
    // SAFETY: integers and pointers, for which all zeroes is a value.
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
