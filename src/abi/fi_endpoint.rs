// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/fi_endpoint.h>`: Endpoints and message transfers: fi_endpoint(3), fi_msg(3).
//!
//! Declarations only; build.rs writes them into the public header.

use core::ffi::{c_int, c_void};

use libc::{iovec, ssize_t};

use super::fabric::{fi_addr_t, fi_rx_attr, fi_tx_attr, fid, fid_t};
use super::fi_atomic::fi_ops_atomic;
use super::fi_cm::fi_ops_cm;
use super::fi_collective::fi_ops_collective;
use super::fi_rma::fi_ops_rma;
use super::fi_tagged::fi_ops_tagged;

pub const FI_OPT_ENDPOINT: c_int = 0;
pub const FI_OPT_MIN_MULTI_RECV: c_int = 0;
pub const FI_OPT_CM_DATA_SIZE: c_int = 1;
pub const FI_OPT_BUFFERED_MIN: c_int = 2;
pub const FI_OPT_BUFFERED_LIMIT: c_int = 3;
pub const FI_OPT_SEND_BUF_SIZE: c_int = 4;
pub const FI_OPT_RECV_BUF_SIZE: c_int = 5;
pub const FI_OPT_TX_SIZE: c_int = 6;
pub const FI_OPT_RX_SIZE: c_int = 7;
pub const FI_OPT_FI_HMEM_P2P: c_int = 8;
pub const FI_OPT_XPU_TRIGGER: c_int = 9;
pub const FI_OPT_CUDA_API_PERMITTED: c_int = 10;
pub const FI_OPT_SHARED_MEMORY_PERMITTED: c_int = 11;
pub const FI_OPT_MAX_MSG_SIZE: c_int = 12;
pub const FI_OPT_MAX_TAGGED_SIZE: c_int = 13;
pub const FI_OPT_MAX_RMA_SIZE: c_int = 14;
pub const FI_OPT_MAX_ATOMIC_SIZE: c_int = 15;
pub const FI_OPT_INJECT_MSG_SIZE: c_int = 16;
pub const FI_OPT_INJECT_TAGGED_SIZE: c_int = 17;
pub const FI_OPT_INJECT_RMA_SIZE: c_int = 18;
pub const FI_OPT_INJECT_ATOMIC_SIZE: c_int = 19;
pub const FI_OPT_FIREWALL_ADDR: c_int = 20;
pub const FI_HMEM_P2P_ENABLED: c_int = 0;
pub const FI_HMEM_P2P_REQUIRED: c_int = 1;
pub const FI_HMEM_P2P_PREFERRED: c_int = 2;
pub const FI_HMEM_P2P_DISABLED: c_int = 3;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_msg {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_ep {
    pub size: usize,
    pub cancel: Option<unsafe extern "C" fn(fid: fid_t, context: *mut c_void) -> ssize_t>,
    pub getopt: Option<
        unsafe extern "C" fn(
            fid: fid_t,
            level: c_int,
            optname: c_int,
            optval: *mut c_void,
            optlen: *mut usize,
        ) -> c_int,
    >,
    pub setopt: Option<
        unsafe extern "C" fn(
            fid: fid_t,
            level: c_int,
            optname: c_int,
            optval: *const c_void,
            optlen: usize,
        ) -> c_int,
    >,
    pub tx_ctx: Option<
        unsafe extern "C" fn(
            sep: *mut fid_ep,
            index: c_int,
            attr: *mut fi_tx_attr,
            tx_ep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub rx_ctx: Option<
        unsafe extern "C" fn(
            sep: *mut fid_ep,
            index: c_int,
            attr: *mut fi_rx_attr,
            rx_ep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub rx_size_left: Option<unsafe extern "C" fn(ep: *mut fid_ep) -> ssize_t>,
    pub tx_size_left: Option<unsafe extern "C" fn(ep: *mut fid_ep) -> ssize_t>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_msg {
    pub size: usize,
    pub recv: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *mut c_void,
            len: usize,
            desc: *mut c_void,
            src_addr: fi_addr_t,
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
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub recvmsg:
        Option<unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> ssize_t>,
    pub send: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            dest_addr: fi_addr_t,
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
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub sendmsg:
        Option<unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> ssize_t>,
    pub inject: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            dest_addr: fi_addr_t,
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
        ) -> ssize_t,
    >,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_ep {
    pub fid: fid,
    pub ops: *mut fi_ops_ep,
    pub cm: *mut fi_ops_cm,
    pub msg: *mut fi_ops_msg,
    pub rma: *mut fi_ops_rma,
    pub tagged: *mut fi_ops_tagged,
    pub atomic: *mut fi_ops_atomic,
    pub collective: *mut fi_ops_collective,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_pep {
    pub fid: fid,
    pub ops: *mut fi_ops_ep,
    pub cm: *mut fi_ops_cm,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_stx {
    pub fid: fid,
    pub ops: *mut fi_ops_ep,
}
