// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/providers/fi_peer.h>`: Objects shared between providers: fi_peer(3).
//!
//! Declarations only; build.rs writes them into the public header.

use core::ffi::{c_int, c_void};

use libc::{iovec, ssize_t};

use super::fabric::{fi_addr_t, fi_info, fid};
use super::fi_domain::{fi_av_attr, fid_domain};
use super::fi_endpoint::fid_ep;
use super::fi_eq::{fi_cq_err_entry, fi_cq_tagged_entry, fid_eq};

/// Functions that the owner of an address vector provides. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_av_owner {
    pub size: usize,
    pub query: Option<unsafe extern "C" fn(av: *mut fid_peer_av, attr: *mut fi_av_attr) -> c_int>,
    pub ep_addr: Option<unsafe extern "C" fn(av: *mut fid_peer_av, ep: *mut fid_ep) -> fi_addr_t>,
}

/// An address vector of another provider. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_peer_av {
    pub fid: fid,
    pub owner_ops: *mut fi_ops_av_owner,
}

/// Context for fi_av_open with FI_PEER. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_peer_av_context {
    pub size: usize,
    pub av: *mut fid_peer_av,
}

/// Functions that the owner of an address set provides. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_av_set_owner {
    pub size: usize,
    pub members: Option<
        unsafe extern "C" fn(
            av: *mut fid_peer_av_set,
            addr: *mut fi_addr_t,
            count: *mut usize,
        ) -> c_int,
    >,
}

/// An address set of another provider. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_peer_av_set {
    pub fid: fid,
    pub owner_ops: *mut fi_ops_av_set_owner,
}

/// Context for fi_av_set with FI_PEER. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_peer_av_set_context {
    pub size: usize,
    pub av_set: *mut fi_peer_av_set,
}

/// Functions that the owner of a completion queue provides. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_cq_owner {
    pub size: usize,
    /// Adds a completion.
    pub write: Option<
        unsafe extern "C" fn(
            cq: *mut fid_peer_cq,
            context: *mut c_void,
            flags: u64,
            len: usize,
            buf: *mut c_void,
            data: u64,
            tag: u64,
            src: fi_addr_t,
        ) -> ssize_t,
    >,
    /// Adds a failure.
    pub writeerr: Option<
        unsafe extern "C" fn(cq: *mut fid_peer_cq, err_entry: *const fi_cq_err_entry) -> ssize_t,
    >,
}

/// A completion queue of another provider. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_peer_cq {
    pub fid: fid,
    pub owner_ops: *mut fi_ops_cq_owner,
}

/// Context for fi_cq_open with FI_PEER. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_peer_cq_context {
    pub size: usize,
    pub cq: *mut fid_peer_cq,
}

/// Functions that the owner of a counter provides. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_cntr_owner {
    pub size: usize,
    pub inc: Option<unsafe extern "C" fn(cntr: *mut fid_peer_cntr)>,
    pub incerr: Option<unsafe extern "C" fn(cntr: *mut fid_peer_cntr)>,
}

/// A counter of another provider. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_peer_cntr {
    pub fid: fid,
    pub owner_ops: *mut fi_ops_cntr_owner,
}

/// Context for fi_cntr_open with FI_PEER. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_peer_cntr_context {
    pub size: usize,
    pub cntr: *mut fid_peer_cntr,
}

/// Context for fi_domain2 with FI_PEER. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_peer_domain_context {
    pub size: usize,
    pub domain: *mut fid_domain,
}

/// Context for fi_eq_open with FI_PEER. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_peer_eq_context {
    pub size: usize,
    pub eq: *mut fid_eq,
}

/// A receive that the owner matched, or an unexpected message; the peer fills the buffer. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_peer_rx_entry {
    pub srx: *mut fid_peer_srx,
    pub addr: fi_addr_t,
    pub msg_size: usize,
    pub tag: u64,
    pub cq_data: u64,
    pub flags: u64,
    pub context: *mut c_void,
    pub count: usize,
    pub desc: *mut *mut c_void,
    /// Private to the peer.
    pub peer_context: *mut c_void,
    /// Private to the owner.
    pub owner_context: *mut c_void,
    pub iov: *mut iovec,
}

/// Attributes of a message that select its receive. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_peer_match_attr {
    pub addr: fi_addr_t,
    pub msg_size: usize,
    pub tag: u64,
}

/// Functions that the owner of a shared receive context provides. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_srx_owner {
    pub size: usize,
    /// Returns the receive for a message. -FI_ENOENT: none is posted, and the peer passes the entry to
    /// queue_msg.
    pub get_msg: Option<
        unsafe extern "C" fn(
            srx: *mut fid_peer_srx,
            attr: *mut fi_peer_match_attr,
            entry: *mut *mut fi_peer_rx_entry,
        ) -> c_int,
    >,
    /// The same for a tagged message.
    pub get_tag: Option<
        unsafe extern "C" fn(
            srx: *mut fid_peer_srx,
            attr: *mut fi_peer_match_attr,
            entry: *mut *mut fi_peer_rx_entry,
        ) -> c_int,
    >,
    /// Queues an unexpected message.
    pub queue_msg: Option<unsafe extern "C" fn(entry: *mut fi_peer_rx_entry) -> c_int>,
    /// The same for a tagged message.
    pub queue_tag: Option<unsafe extern "C" fn(entry: *mut fi_peer_rx_entry) -> c_int>,
    /// Calls `get_addr` for each unexpected message whose sender address is unknown.
    pub foreach_unspec_addr: Option<
        unsafe extern "C" fn(
            srx: *mut fid_peer_srx,
            get_addr: Option<unsafe extern "C" fn(entry: *mut fi_peer_rx_entry) -> fi_addr_t>,
        ),
    >,
    /// Releases an entry.
    pub free_entry: Option<unsafe extern "C" fn(entry: *mut fi_peer_rx_entry)>,
}

/// Functions that a peer provides to the owner. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_srx_peer {
    pub size: usize,
    /// Starts the transfer of a queued message into the receive that was posted for it.
    pub start_msg: Option<unsafe extern "C" fn(entry: *mut fi_peer_rx_entry) -> c_int>,
    /// The same for a tagged message.
    pub start_tag: Option<unsafe extern "C" fn(entry: *mut fi_peer_rx_entry) -> c_int>,
    /// Discards a queued message.
    pub discard_msg: Option<unsafe extern "C" fn(entry: *mut fi_peer_rx_entry) -> c_int>,
    /// The same for a tagged message.
    pub discard_tag: Option<unsafe extern "C" fn(entry: *mut fi_peer_rx_entry) -> c_int>,
}

/// A shared receive context of another provider. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_peer_srx {
    pub ep_fid: fid_ep,
    pub owner_ops: *mut fi_ops_srx_owner,
    pub peer_ops: *mut fi_ops_srx_peer,
}

/// Context for fi_srx_context with FI_PEER. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_peer_srx_context {
    pub size: usize,
    pub srx: *mut fid_peer_srx,
}

/// Functions that report the transfers which a provider passed to another provider. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_transfer_peer {
    pub size: usize,
    pub complete: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *mut fi_cq_tagged_entry,
            src_addr: fi_addr_t,
        ) -> ssize_t,
    >,
    pub comperr:
        Option<unsafe extern "C" fn(ep: *mut fid_ep, buf: *mut fi_cq_err_entry) -> ssize_t>,
}

/// Context for fi_endpoint2 with FI_PEER_TRANSFER. fi_peer(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_peer_transfer_context {
    pub size: usize,
    pub info: *mut fi_info,
    pub ep: *mut fid_ep,
    pub peer_ops: *mut fi_ops_transfer_peer,
}

/// An incomplete type: fi_peer_av_set_context points to it, but no header defines it.
pub struct fi_peer_av_set {
    _opaque: [u8; 0],
}
