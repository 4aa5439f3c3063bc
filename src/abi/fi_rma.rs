// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/fi_rma.h>`: Remote memory access: fi_rma(3).
//!
//! Declarations only; build.rs writes them into the public header.

use core::ffi::c_void;

use libc::{iovec, ssize_t};

use super::fabric::fi_addr_t;
use super::fi_endpoint::fid_ep;

/// A piece of remote memory. fi_rma(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_rma_iov {
    /// Offset into the region, or a virtual address with FI_MR_VIRT_ADDR.
    pub addr: u64,
    /// Bytes.
    pub len: usize,
    /// Key of the region.
    pub key: u64,
}

/// A piece of remote memory as elements. fi_atomic(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_rma_ioc {
    /// Offset into the region, or a virtual address with FI_MR_VIRT_ADDR.
    pub addr: u64,
    /// Number of elements, not bytes.
    pub count: usize,
    /// Key of the region.
    pub key: u64,
}

/// A read or a write. fi_rma(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_msg_rma {
    /// Pieces of local memory.
    pub msg_iov: *const iovec,
    /// One descriptor for each piece, or NULL.
    pub desc: *mut *mut c_void,
    /// Number of pieces, up to iov_limit.
    pub iov_count: usize,
    /// The peer; FI_ADDR_UNSPEC on a connection.
    pub addr: fi_addr_t,
    /// Pieces of remote memory; as many bytes as the local ones.
    pub rma_iov: *const fi_rma_iov,
    /// Number of pieces, up to rma_iov_limit.
    pub rma_iov_count: usize,
    /// Context, returned in the completion.
    pub context: *mut c_void,
    /// Remote CQ data, with FI_REMOTE_CQ_DATA.
    pub data: u64,
}

/// Reads and writes. fi_rma(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_rma {
    pub size: usize,
    pub read: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *mut c_void,
            len: usize,
            desc: *mut c_void,
            src_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub readv: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            src_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub readmsg: Option<
        unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> ssize_t,
    >,
    pub write: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub writev: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub writemsg: Option<
        unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> ssize_t,
    >,
    pub inject: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
        ) -> ssize_t,
    >,
    pub writedata: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            data: u64,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub injectdata: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            data: u64,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
        ) -> ssize_t,
    >,
}
