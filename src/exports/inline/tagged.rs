// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_tagged.h>` as symbols: fi_tagged(3).

use core::ffi::{c_int, c_void};

use crate::abi::{fi_addr_t, fi_msg_tagged, fid_ep, iovec, ssize_t};

inline! {
    fn fi_trecv(
        ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t,
        tag: u64, ignore: u64, context: *mut c_void,
    ) -> ssize_t => tagged.recv;
    fn fi_trecvv(
        ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
        src_addr: fi_addr_t, tag: u64, ignore: u64, context: *mut c_void,
    ) -> ssize_t => tagged.recvv;
    fn fi_trecvmsg(
        ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64,
    ) -> ssize_t => tagged.recvmsg;
    fn fi_tsend(
        ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t,
        tag: u64, context: *mut c_void,
    ) -> ssize_t => tagged.send;
    fn fi_tsendv(
        ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
        dest_addr: fi_addr_t, tag: u64, context: *mut c_void,
    ) -> ssize_t => tagged.sendv;
    fn fi_tsendmsg(
        ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64,
    ) -> ssize_t => tagged.sendmsg;
    fn fi_tinject(
        ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t, tag: u64,
    ) -> ssize_t => tagged.inject;
    fn fi_tsenddata(
        ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64,
        dest_addr: fi_addr_t, tag: u64, context: *mut c_void,
    ) -> ssize_t => tagged.senddata;
    fn fi_tinjectdata(
        ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t, tag: u64,
    ) -> ssize_t => tagged.injectdata;
}

#[unsafe(no_mangle)]
pub extern "C" fn fi_tag_mpi(tag: c_int, payload_id: u8) -> u64 {
    u64::from(payload_id) << 32 | u64::from(tag as u32)
}
symver!(fi_tag_mpi @@ "FABRIC_RS_1.0");
