// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_collective.h>` as symbols: fi_collective(3), fi_av_set(3).

use core::ffi::{c_int, c_void};

use super::cm::fi_join;
use crate::abi::{
    FI_COLLECTIVE, fi_addr_t, fi_av_set_attr, fi_collective_addr, fi_collective_attr,
    fi_collective_op, fi_datatype, fi_op, fid_av, fid_av_set, fid_domain, fid_ep, fid_mc, ssize_t,
};

inline! {
    fn fi_av_set(
        av: *mut fid_av, attr: *mut fi_av_set_attr, set: *mut *mut fid_av_set, context: *mut c_void,
    ) -> c_int => ops.av_set optional;
    fn fi_av_set_union(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int => ops.set_union;
    fn fi_av_set_intersect(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int => ops.intersect;
    fn fi_av_set_diff(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int => ops.diff;
    fn fi_av_set_insert(set: *mut fid_av_set, addr: fi_addr_t) -> c_int => ops.insert;
    fn fi_av_set_remove(set: *mut fid_av_set, addr: fi_addr_t) -> c_int => ops.remove;
    fn fi_av_set_addr(set: *mut fid_av_set, coll_addr: *mut fi_addr_t) -> c_int => ops.addr;
    fn fi_barrier(
        ep: *mut fid_ep, coll_addr: fi_addr_t, context: *mut c_void,
    ) -> ssize_t => collective.barrier;
    fn fi_broadcast(
        ep: *mut fid_ep, buf: *mut c_void, count: usize, desc: *mut c_void, coll_addr: fi_addr_t,
        root_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: *mut c_void,
    ) -> ssize_t => collective.broadcast;
    fn fi_alltoall(
        ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
        result_desc: *mut c_void, coll_addr: fi_addr_t, datatype: fi_datatype, flags: u64,
        context: *mut c_void,
    ) -> ssize_t => collective.alltoall;
    fn fi_allreduce(
        ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
        result_desc: *mut c_void, coll_addr: fi_addr_t, datatype: fi_datatype, op: fi_op,
        flags: u64, context: *mut c_void,
    ) -> ssize_t => collective.allreduce;
    fn fi_allgather(
        ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
        result_desc: *mut c_void, coll_addr: fi_addr_t, datatype: fi_datatype, flags: u64,
        context: *mut c_void,
    ) -> ssize_t => collective.allgather;
    fn fi_reduce_scatter(
        ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
        result_desc: *mut c_void, coll_addr: fi_addr_t, datatype: fi_datatype, op: fi_op,
        flags: u64, context: *mut c_void,
    ) -> ssize_t => collective.reduce_scatter;
    fn fi_reduce(
        ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
        result_desc: *mut c_void, coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype,
        op: fi_op, flags: u64, context: *mut c_void,
    ) -> ssize_t => collective.reduce;
    fn fi_scatter(
        ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
        result_desc: *mut c_void, coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype,
        flags: u64, context: *mut c_void,
    ) -> ssize_t => collective.scatter;
    fn fi_gather(
        ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
        result_desc: *mut c_void, coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype,
        flags: u64, context: *mut c_void,
    ) -> ssize_t => collective.gather;
    fn fi_query_collective(
        domain: *mut fid_domain, coll: fi_collective_op, attr: *mut fi_collective_attr, flags: u64,
    ) -> c_int => ops.query_collective optional;
}

slots! {
    fn barrier2(
        ep: *mut fid_ep, coll_addr: fi_addr_t, flags: u64, context: *mut c_void,
    ) -> ssize_t => collective.barrier2 optional;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_join_collective(
    ep: *mut fid_ep,
    coll_addr: fi_addr_t,
    set: *const fid_av_set,
    flags: u64,
    mc: *mut *mut fid_mc,
    context: *mut c_void,
) -> c_int {
    let addr = fi_collective_addr { set, coll_addr };
    // SAFETY: as for fi_join; the address lives until it returns.
    unsafe {
        fi_join(
            ep,
            (&raw const addr).cast(),
            flags | FI_COLLECTIVE,
            mc,
            context,
        )
    }
}
symver!(fi_join_collective @@ "FABRIC_RS_1.0");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_barrier2(
    ep: *mut fid_ep,
    coll_addr: fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> ssize_t {
    if flags == 0 {
        // SAFETY: the caller's promises for fi_barrier2 are those of fi_barrier.
        return unsafe { fi_barrier(ep, coll_addr, context) };
    }
    // SAFETY: the same.
    unsafe { barrier2(ep, coll_addr, flags, context) }
}
symver!(fi_barrier2 @@ "FABRIC_RS_1.0");
