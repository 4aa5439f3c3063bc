// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/fi_eq.h>` as symbols: fi_eq(3), fi_cq(3), fi_cntr(3), fi_poll(3).

use core::ffi::{c_char, c_int, c_void};

use crate::abi::{
    FI_ADDR_NOTAVAIL, fi_addr_t, fi_cq_err_entry, fi_eq_attr, fi_eq_err_entry, fid, fid_cntr,
    fid_cq, fid_eq, fid_fabric, fid_poll, fid_wait, ssize_t,
};

inline! {
    fn fi_trywait(
        fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int,
    ) -> c_int => ops.trywait;
    fn fi_wait(waitset: *mut fid_wait, timeout: c_int) -> c_int => ops.wait;
    fn fi_poll(
        pollset: *mut fid_poll, context: *mut *mut c_void, count: c_int,
    ) -> c_int => ops.poll;
    fn fi_poll_add(
        pollset: *mut fid_poll, event_fid: *mut fid, flags: u64,
    ) -> c_int => ops.poll_add;
    fn fi_poll_del(
        pollset: *mut fid_poll, event_fid: *mut fid, flags: u64,
    ) -> c_int => ops.poll_del;
    fn fi_eq_open(
        fabric: *mut fid_fabric, attr: *mut fi_eq_attr, eq: *mut *mut fid_eq, context: *mut c_void,
    ) -> c_int => ops.eq_open;
    fn fi_eq_read(
        eq: *mut fid_eq, event: *mut u32, buf: *mut c_void, len: usize, flags: u64,
    ) -> ssize_t => ops.read;
    fn fi_eq_readerr(
        eq: *mut fid_eq, buf: *mut fi_eq_err_entry, flags: u64,
    ) -> ssize_t => ops.readerr;
    fn fi_eq_write(
        eq: *mut fid_eq, event: u32, buf: *const c_void, len: usize, flags: u64,
    ) -> ssize_t => ops.write;
    fn fi_eq_sread(
        eq: *mut fid_eq, event: *mut u32, buf: *mut c_void, len: usize, timeout: c_int, flags: u64,
    ) -> ssize_t => ops.sread;
    fn fi_eq_strerror(
        eq: *mut fid_eq, prov_errno: c_int, err_data: *const c_void, buf: *mut c_char, len: usize,
    ) -> *const c_char => ops.strerror;
    fn fi_cq_read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> ssize_t => ops.read;
    fn fi_cq_readfrom(
        cq: *mut fid_cq, buf: *mut c_void, count: usize, src_addr: *mut fi_addr_t,
    ) -> ssize_t => ops.readfrom;
    fn fi_cq_sread(
        cq: *mut fid_cq, buf: *mut c_void, count: usize, cond: *const c_void, timeout: c_int,
    ) -> ssize_t => ops.sread;
    fn fi_cq_sreadfrom(
        cq: *mut fid_cq, buf: *mut c_void, count: usize, src_addr: *mut fi_addr_t,
        cond: *const c_void, timeout: c_int,
    ) -> ssize_t => ops.sreadfrom;
    fn fi_cq_signal(cq: *mut fid_cq) -> c_int => ops.signal;
    fn fi_cq_strerror(
        cq: *mut fid_cq, prov_errno: c_int, err_data: *const c_void, buf: *mut c_char, len: usize,
    ) -> *const c_char => ops.strerror;
    fn fi_cntr_read(cntr: *mut fid_cntr) -> u64 => ops.read;
    fn fi_cntr_readerr(cntr: *mut fid_cntr) -> u64 => ops.readerr;
    fn fi_cntr_add(cntr: *mut fid_cntr, value: u64) -> c_int => ops.add;
    fn fi_cntr_adderr(cntr: *mut fid_cntr, value: u64) -> c_int => ops.adderr optional;
    fn fi_cntr_set(cntr: *mut fid_cntr, value: u64) -> c_int => ops.set;
    fn fi_cntr_seterr(cntr: *mut fid_cntr, value: u64) -> c_int => ops.seterr optional;
    fn fi_cntr_wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int => ops.wait;
}

slots! {
    fn readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> ssize_t => ops.readerr;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_cq_readerr(
    cq: *mut fid_cq,
    buf: *mut fi_cq_err_entry,
    flags: u64,
) -> ssize_t {
    // SAFETY: fi_cq(3): `buf` is null or an entry that the caller lets us write.
    if let Some(entry) = unsafe { buf.as_mut() } {
        entry.src_addr = FI_ADDR_NOTAVAIL;
    }
    // SAFETY: the caller's promises for fi_cq_readerr.
    unsafe { readerr(cq, buf, flags) }
}
symver!(fi_cq_readerr @@ "FABRIC_RS_1.0");
