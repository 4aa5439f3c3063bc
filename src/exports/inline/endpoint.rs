// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_endpoint.h>` as symbols: fi_endpoint(3), fi_msg(3).

use core::{
    ffi::{c_int, c_void},
    ptr::null_mut,
};

use super::fabric::{fi_alias, fi_control};
use crate::abi::{
    FI_ENABLE, fi_addr_t, fi_info, fi_msg, fi_rx_attr, fi_tx_attr, fid, fid_domain, fid_ep,
    fid_fabric, fid_pep, fid_stx, fid_t, iovec, ssize_t,
};

inline! {
    fn fi_passive_ep(
        fabric: *mut fid_fabric, info: *mut fi_info, pep: *mut *mut fid_pep, context: *mut c_void,
    ) -> c_int => ops.passive_ep;
    fn fi_endpoint(
        domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep, context: *mut c_void,
    ) -> c_int => ops.endpoint;
    fn fi_scalable_ep(
        domain: *mut fid_domain, info: *mut fi_info, sep: *mut *mut fid_ep, context: *mut c_void,
    ) -> c_int => ops.scalable_ep;
    fn fi_ep_bind(ep: *mut fid_ep, bfid: *mut fid, flags: u64) -> c_int => (fid) ops.bind;
    fn fi_pep_bind(pep: *mut fid_pep, bfid: *mut fid, flags: u64) -> c_int => (fid) ops.bind;
    fn fi_scalable_ep_bind(sep: *mut fid_ep, bfid: *mut fid, flags: u64) -> c_int => (fid) ops.bind;
    fn fi_cancel(fid: fid_t, context: *mut c_void) -> ssize_t => (fid_ep) ops.cancel;
    fn fi_setopt(
        fid: fid_t, level: c_int, optname: c_int, optval: *const c_void, optlen: usize,
    ) -> c_int => (fid_ep) ops.setopt;
    fn fi_getopt(
        fid: fid_t, level: c_int, optname: c_int, optval: *mut c_void, optlen: *mut usize,
    ) -> c_int => (fid_ep) ops.getopt;
    fn fi_tx_context(
        ep: *mut fid_ep, idx: c_int, attr: *mut fi_tx_attr, tx_ep: *mut *mut fid_ep,
        context: *mut c_void,
    ) -> c_int => ops.tx_ctx;
    fn fi_rx_context(
        ep: *mut fid_ep, idx: c_int, attr: *mut fi_rx_attr, rx_ep: *mut *mut fid_ep,
        context: *mut c_void,
    ) -> c_int => ops.rx_ctx;
    fn fi_rx_size_left(ep: *mut fid_ep) -> ssize_t => ops.rx_size_left;
    fn fi_tx_size_left(ep: *mut fid_ep) -> ssize_t => ops.tx_size_left;
    fn fi_stx_context(
        domain: *mut fid_domain, attr: *mut fi_tx_attr, stx: *mut *mut fid_stx,
        context: *mut c_void,
    ) -> c_int => ops.stx_ctx;
    fn fi_srx_context(
        domain: *mut fid_domain, attr: *mut fi_rx_attr, rx_ep: *mut *mut fid_ep,
        context: *mut c_void,
    ) -> c_int => ops.srx_ctx;
    fn fi_recv(
        ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t,
        context: *mut c_void,
    ) -> ssize_t => msg.recv;
    fn fi_recvv(
        ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
        src_addr: fi_addr_t, context: *mut c_void,
    ) -> ssize_t => msg.recvv;
    fn fi_recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> ssize_t => msg.recvmsg;
    fn fi_send(
        ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> ssize_t => msg.send;
    fn fi_sendv(
        ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
        dest_addr: fi_addr_t, context: *mut c_void,
    ) -> ssize_t => msg.sendv;
    fn fi_sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> ssize_t => msg.sendmsg;
    fn fi_inject(
        ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t,
    ) -> ssize_t => msg.inject;
    fn fi_senddata(
        ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64,
        dest_addr: fi_addr_t, context: *mut c_void,
    ) -> ssize_t => msg.senddata;
    fn fi_injectdata(
        ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t,
    ) -> ssize_t => msg.injectdata;
}

slots! {
    fn endpoint2(
        domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep, flags: u64,
        context: *mut c_void,
    ) -> c_int => ops.endpoint2 optional;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_endpoint2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags == 0 {
        // SAFETY: the caller's promises for fi_endpoint2 are those of fi_endpoint.
        return unsafe { fi_endpoint(domain, info, ep, context) };
    }
    // SAFETY: the same.
    unsafe { endpoint2(domain, info, ep, flags, context) }
}
symver!(fi_endpoint2 @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_enable(ep: *mut fid_ep) -> c_int {
    // SAFETY: as for fi_control.
    unsafe { fi_control(ep.cast(), FI_ENABLE as c_int, null_mut()) }
}
symver!(fi_enable @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_ep_alias(
    ep: *mut fid_ep,
    alias_ep: *mut *mut fid_ep,
    flags: u64,
) -> c_int {
    let mut alias = null_mut();
    // SAFETY: as for fi_alias; `alias` lives until it returns.
    let answer = unsafe { fi_alias(ep.cast(), &raw mut alias, flags) };
    if answer == 0 {
        // SAFETY: fi_endpoint(3): the caller lets us write the new handle.
        unsafe { alias_ep.write(alias.cast()) };
    }
    answer
}
symver!(fi_ep_alias @@ "FABRIC_RS_1.0");
