// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/fi_wr.h>`: Prepared work requests. Only the alpha of release 2.8 has this header.
//!
//! Names, arguments and return types are those of the page fi_wr(3) of the alpha (2026-10-01); the operation as the
//! third argument of the modify calls came on 2026-10-07. What is a guess is marked with "guess".
//!
//! Declarations only; build.rs writes them into the public header.

use core::ffi::{c_int, c_void};

use libc::{iovec, ssize_t};

use super::fabric::fi_addr_t;
use super::fi_endpoint::fid_ep;
use super::fi_rma::fi_rma_iov;
use super::fi_trigger::{
    fi_op_atomic, fi_op_compare_atomic, fi_op_fetch_atomic, fi_op_msg, fi_op_rma, fi_op_tagged,
    fi_op_type,
};

/// Memory of the caller that holds a prepared request: fi_ep_attr.max_tx_wr_size bytes, or
/// max_rx_wr_size for a receive.
pub type fi_wr = *mut c_void;

#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_wr_attr_op {
    pub msg: *mut fi_op_msg,
    pub tagged: *mut fi_op_tagged,
    pub rma: *mut fi_op_rma,
    pub atomic: *mut fi_op_atomic,
    pub fetch_atomic: *mut fi_op_fetch_atomic,
    pub compare_atomic: *mut fi_op_compare_atomic,
}

/// The operation that a request is prepared for. If it names an endpoint, that is the endpoint of the
/// call. Its context is ignored.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_wr_attr {
    /// FI_OP_RECV to FI_OP_COMPARE_ATOMIC.
    pub op_type: fi_op_type,
    /// The name of this type is a guess; C code does not see it.
    pub op: fi_wr_attr_op,
}

/// Operations on prepared requests.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_wr {
    pub size: usize,
    pub prepare: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            attr: *const fi_wr_attr,
            wr: *mut c_void,
            wr_len: *mut usize,
        ) -> c_int,
    >,
    pub queue_tx: Option<
        unsafe extern "C" fn(ep: *mut fid_ep, wr: *mut c_void, context: *mut c_void) -> ssize_t,
    >,
    pub queue_recv: Option<
        unsafe extern "C" fn(ep: *mut fid_ep, wr: *mut c_void, context: *mut c_void) -> ssize_t,
    >,
    pub queue_trecv: Option<
        unsafe extern "C" fn(ep: *mut fid_ep, wr: *mut c_void, context: *mut c_void) -> ssize_t,
    >,
    pub modify_addr: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            wr: *mut c_void,
            op_type: fi_op_type,
            addr: fi_addr_t,
        ) -> c_int,
    >,
    pub modify_iov: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            wr: *mut c_void,
            op_type: fi_op_type,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
        ) -> c_int,
    >,
    pub modify_rma_iov: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            wr: *mut c_void,
            op_type: fi_op_type,
            rma_iov: *const fi_rma_iov,
            count: usize,
        ) -> c_int,
    >,
    pub modify_tag: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            wr: *mut c_void,
            op_type: fi_op_type,
            tag: u64,
            ignore: u64,
        ) -> c_int,
    >,
    pub modify_data: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            wr: *mut c_void,
            op_type: fi_op_type,
            data: u64,
        ) -> c_int,
    >,
    pub modify_flags: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            wr: *mut c_void,
            op_type: fi_op_type,
            flags: u64,
        ) -> c_int,
    >,
}
