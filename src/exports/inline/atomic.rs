// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_atomic.h>` as symbols: fi_atomic(3).

use core::ffi::{c_int, c_void};

use crate::abi::{
    fi_addr_t, fi_atomic_attr, fi_datatype, fi_ioc, fi_msg_atomic, fi_op, fid_domain, fid_ep,
    ssize_t,
};

inline! {
    fn fi_atomic(
        ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, dest_addr: fi_addr_t,
        addr: u64, key: u64, datatype: fi_datatype, op: fi_op, context: *mut c_void,
    ) -> ssize_t => atomic.write;
    fn fi_atomicv(
        ep: *mut fid_ep, iov: *const fi_ioc, desc: *mut *mut c_void, count: usize,
        dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op,
        context: *mut c_void,
    ) -> ssize_t => atomic.writev;
    fn fi_atomicmsg(
        ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64,
    ) -> ssize_t => atomic.writemsg;
    fn fi_inject_atomic(
        ep: *mut fid_ep, buf: *const c_void, count: usize, dest_addr: fi_addr_t, addr: u64,
        key: u64, datatype: fi_datatype, op: fi_op,
    ) -> ssize_t => atomic.inject;
    fn fi_fetch_atomic(
        ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
        result_desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype,
        op: fi_op, context: *mut c_void,
    ) -> ssize_t => atomic.readwrite;
    fn fi_fetch_atomicv(
        ep: *mut fid_ep, iov: *const fi_ioc, desc: *mut *mut c_void, count: usize,
        resultv: *mut fi_ioc, result_desc: *mut *mut c_void, result_count: usize,
        dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op,
        context: *mut c_void,
    ) -> ssize_t => atomic.readwritev;
    fn fi_fetch_atomicmsg(
        ep: *mut fid_ep, msg: *const fi_msg_atomic, resultv: *mut fi_ioc,
        result_desc: *mut *mut c_void, result_count: usize, flags: u64,
    ) -> ssize_t => atomic.readwritemsg;
    fn fi_compare_atomic(
        ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void,
        compare: *const c_void, compare_desc: *mut c_void, result: *mut c_void,
        result_desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype,
        op: fi_op, context: *mut c_void,
    ) -> ssize_t => atomic.compwrite;
    fn fi_compare_atomicv(
        ep: *mut fid_ep, iov: *const fi_ioc, desc: *mut *mut c_void, count: usize,
        comparev: *const fi_ioc, compare_desc: *mut *mut c_void, compare_count: usize,
        resultv: *mut fi_ioc, result_desc: *mut *mut c_void, result_count: usize,
        dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op,
        context: *mut c_void,
    ) -> ssize_t => atomic.compwritev;
    fn fi_compare_atomicmsg(
        ep: *mut fid_ep, msg: *const fi_msg_atomic, comparev: *const fi_ioc,
        compare_desc: *mut *mut c_void, compare_count: usize, resultv: *mut fi_ioc,
        result_desc: *mut *mut c_void, result_count: usize, flags: u64,
    ) -> ssize_t => atomic.compwritemsg;
    fn fi_atomicvalid(
        ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize,
    ) -> c_int => atomic.writevalid;
    fn fi_fetch_atomicvalid(
        ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize,
    ) -> c_int => atomic.readwritevalid;
    fn fi_compare_atomicvalid(
        ep: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize,
    ) -> c_int => atomic.compwritevalid;
    fn fi_query_atomic(
        domain: *mut fid_domain, datatype: fi_datatype, op: fi_op, attr: *mut fi_atomic_attr,
        flags: u64,
    ) -> c_int => ops.query_atomic optional;
}
