// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_rma.h>` as symbols: fi_rma(3).

use core::ffi::c_void;

use crate::abi::{fi_addr_t, fi_msg_rma, fid_ep, iovec, ssize_t};

inline! {
    fn fi_read(
        ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t,
        addr: u64, key: u64, context: *mut c_void,
    ) -> ssize_t => rma.read;
    fn fi_readv(
        ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
        src_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void,
    ) -> ssize_t => rma.readv;
    fn fi_readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> ssize_t => rma.readmsg;
    fn fi_write(
        ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t,
        addr: u64, key: u64, context: *mut c_void,
    ) -> ssize_t => rma.write;
    fn fi_writev(
        ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
        dest_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void,
    ) -> ssize_t => rma.writev;
    fn fi_writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> ssize_t => rma.writemsg;
    fn fi_inject_write(
        ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t, addr: u64, key: u64,
    ) -> ssize_t => rma.inject;
    fn fi_writedata(
        ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64,
        dest_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void,
    ) -> ssize_t => rma.writedata;
    fn fi_inject_writedata(
        ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t, addr: u64,
        key: u64,
    ) -> ssize_t => rma.injectdata;
}
