// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/fi_tagged.h>`: Tagged messages: fi_tagged(3).
//!
//! Declarations only; build.rs writes them into the public header.

use core::ffi::c_void;

use libc::{iovec, ssize_t};

use super::fabric::fi_addr_t;
use super::fi_endpoint::fid_ep;

/// For `ignore` with FI_TAG_MPI: any tag.
pub const FI_MPI_IGNORE_TAG: u64 = 0xffffffffu64;
/// For `ignore` with FI_TAG_MPI: any payload.
pub const FI_MPI_IGNORE_PAYLOAD: u64 = 0xff00000000u64;

/// A message with a tag. fi_tagged(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_msg_tagged {
    /// Pieces of memory.
    pub msg_iov: *const iovec,
    /// One descriptor for each piece, or NULL.
    pub desc: *mut *mut c_void,
    /// Number of pieces, up to iov_limit.
    pub iov_count: usize,
    /// The peer; FI_ADDR_UNSPEC on a connected endpoint or for any source.
    pub addr: fi_addr_t,
    /// A receive matches a message if (tag ^ the message's tag) & ~ignore is 0.
    pub tag: u64,
    /// For receives: bits of the tag that need not match.
    pub ignore: u64,
    /// Context, returned in the completion.
    pub context: *mut c_void,
    /// Remote CQ data, with FI_REMOTE_CQ_DATA.
    pub data: u64,
}

/// Messages with tags. fi_tagged(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_tagged {
    pub size: usize,
    pub recv: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *mut c_void,
            len: usize,
            desc: *mut c_void,
            src_addr: fi_addr_t,
            tag: u64,
            ignore: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub recvv: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            src_addr: fi_addr_t,
            tag: u64,
            ignore: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub recvmsg: Option<
        unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> ssize_t,
    >,
    pub send: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            dest_addr: fi_addr_t,
            tag: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub sendv: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            dest_addr: fi_addr_t,
            tag: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub sendmsg: Option<
        unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> ssize_t,
    >,
    pub inject: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            dest_addr: fi_addr_t,
            tag: u64,
        ) -> ssize_t,
    >,
    pub senddata: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            data: u64,
            dest_addr: fi_addr_t,
            tag: u64,
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
            tag: u64,
        ) -> ssize_t,
    >,
    // since 2.8
    pub trecv_flush: Option<unsafe extern "C" fn(ep: *mut fid_ep, flags: u64) -> ssize_t>,
}
