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
use super::fi_wr::fi_ops_wr;
use super::fi_xpu::fid_xpu_ep;

/// Level of the options below. fi_endpoint(3)
pub const FI_OPT_ENDPOINT: c_int = 0;
/// size_t: an FI_MULTI_RECV buffer with fewer bytes left is returned to the application.
pub const FI_OPT_MIN_MULTI_RECV: c_int = 0;
/// size_t: most bytes of `param` of fi_connect and the like; read only.
pub const FI_OPT_CM_DATA_SIZE: c_int = 1;
/// size_t: unused since release 2.0.
pub const FI_OPT_BUFFERED_MIN: c_int = 2;
/// size_t: unused since release 2.0.
pub const FI_OPT_BUFFERED_LIMIT: c_int = 3;
/// size_t: bytes of the send buffer of the transport below.
pub const FI_OPT_SEND_BUF_SIZE: c_int = 4;
/// size_t: bytes of the receive buffer of the transport below.
pub const FI_OPT_RECV_BUF_SIZE: c_int = 5;
/// size_t: operations that the transmit queue holds.
pub const FI_OPT_TX_SIZE: c_int = 6;
/// size_t: buffers that the receive queue holds.
pub const FI_OPT_RX_SIZE: c_int = 7;
/// int, FI_HMEM_P2P_*: whether devices transfer data directly, without a copy in host memory.
pub const FI_OPT_FI_HMEM_P2P: c_int = 8;
/// struct fi_trigger_xpu: variables that a device writes to start an operation; read only.
pub const FI_OPT_XPU_TRIGGER: c_int = 9;
/// bool: the provider may call CUDA.
pub const FI_OPT_CUDA_API_PERMITTED: c_int = 10;
/// bool: the provider may use shared memory.
pub const FI_OPT_SHARED_MEMORY_PERMITTED: c_int = 11;
/// size_t: most bytes of a message.
pub const FI_OPT_MAX_MSG_SIZE: c_int = 12;
/// size_t: most bytes of a tagged message.
pub const FI_OPT_MAX_TAGGED_SIZE: c_int = 13;
/// size_t: most bytes of a read or write.
pub const FI_OPT_MAX_RMA_SIZE: c_int = 14;
/// size_t: most bytes of an atomic operation.
pub const FI_OPT_MAX_ATOMIC_SIZE: c_int = 15;
/// size_t: most bytes of an injected message.
pub const FI_OPT_INJECT_MSG_SIZE: c_int = 16;
/// size_t: most bytes of an injected tagged message.
pub const FI_OPT_INJECT_TAGGED_SIZE: c_int = 17;
/// size_t: most bytes of an injected write.
pub const FI_OPT_INJECT_RMA_SIZE: c_int = 18;
/// size_t: most bytes of an injected atomic operation.
pub const FI_OPT_INJECT_ATOMIC_SIZE: c_int = 19;
/// bool: peers cannot connect to this endpoint.
pub const FI_OPT_FIREWALL_ADDR: c_int = 20;
/// The provider may use peer-to-peer transfers.
pub const FI_HMEM_P2P_ENABLED: c_int = 0;
/// The provider uses peer-to-peer transfers, or the operation fails.
pub const FI_HMEM_P2P_REQUIRED: c_int = 1;
/// The provider uses peer-to-peer transfers if possible.
pub const FI_HMEM_P2P_PREFERRED: c_int = 2;
/// The provider does not use peer-to-peer transfers.
pub const FI_HMEM_P2P_DISABLED: c_int = 3;

/// A message. fi_msg(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_msg {
    /// Pieces of memory.
    pub msg_iov: *const iovec,
    /// One descriptor for each piece, or NULL.
    pub desc: *mut *mut c_void,
    /// Number of pieces, up to iov_limit.
    pub iov_count: usize,
    /// The peer; FI_ADDR_UNSPEC on a connected endpoint or for any source.
    pub addr: fi_addr_t,
    /// Context, returned in the completion.
    pub context: *mut c_void,
    /// Remote CQ data, with FI_REMOTE_CQ_DATA.
    pub data: u64,
}

/// Operations of an endpoint itself. fi_endpoint(3)
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
    // since 2.7
    pub export_xpu:
        Option<unsafe extern "C" fn(ep: *mut fid_ep, flags: u64, xpu_ep: *mut fid_xpu_ep) -> c_int>,
    // since 2.8
    pub tx_flush: Option<unsafe extern "C" fn(ep: *mut fid_ep, flags: u64) -> ssize_t>,
}

/// Messages. fi_msg(3)
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
    // since 2.8
    pub recv_flush: Option<unsafe extern "C" fn(ep: *mut fid_ep, flags: u64) -> ssize_t>,
}

/// An endpoint. The functions of a table that it does not serve return -FI_ENOSYS. fi_endpoint(3)
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
    // since 2.8
    pub wr: *mut fi_ops_wr,
}

/// A passive endpoint, which listens for connection requests. fi_endpoint(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_pep {
    pub fid: fid,
    pub ops: *mut fi_ops_ep,
    pub cm: *mut fi_ops_cm,
}

/// A shared transmit context. fi_endpoint(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_stx {
    pub fid: fid,
    pub ops: *mut fi_ops_ep,
}
