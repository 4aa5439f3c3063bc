// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/fi_eq.h>`: Event queues, completion queues, counters, wait and poll sets: fi_eq(3), fi_cq(3), fi_cntr(3),
//! fi_poll(3).
//!
//! Declarations only; build.rs writes them into the public header.

use core::ffi::{c_char, c_int, c_void};

use libc::{pollfd, pthread_cond_t, pthread_mutex_t, ssize_t};

use super::fabric::{fi_addr_t, fi_info, fid, fid_t};
use super::fi_xpu::{fid_xpu_cntr, fid_xpu_cq, fid_xpu_ctx};

/// Kinds of events. FI_NOTIFY: the state of an object changed, struct fi_eq_entry. fi_eq(3)
pub const FI_NOTIFY: u32 = 0;
/// A connection request arrived, struct fi_eq_cm_entry. The application passes its info to fi_endpoint
/// or the handle in it to fi_reject, and then frees the info with fi_freeinfo.
pub const FI_CONNREQ: u32 = 1;
/// The connection is established, struct fi_eq_cm_entry.
pub const FI_CONNECTED: u32 = 2;
/// The connection has ended, struct fi_eq_cm_entry.
pub const FI_SHUTDOWN: u32 = 3;
/// The region is registered, struct fi_eq_entry.
pub const FI_MR_COMPLETE: u32 = 4;
/// The addresses are inserted, struct fi_eq_entry; `data` is their number.
pub const FI_AV_COMPLETE: u32 = 5;
/// The group is joined, struct fi_eq_entry.
pub const FI_JOIN_COMPLETE: u32 = 6;

c_enum! {
    /// Wait objects: how a thread blocks until a queue or counter changes. fi_eq(3), fi_cq(3), fi_cntr(3)
    pub enum fi_wait_obj {
        /// None: the application does not use the sread and wait calls.
        FI_WAIT_NONE = 0,
        /// The provider's choice; the application blocks only in the sread and wait calls.
        FI_WAIT_UNSPEC = 1,
        /// A wait set. Deprecated.
        FI_WAIT_SET = 2,
        /// A file descriptor for poll(2) and the like; FI_GETWAIT returns it.
        FI_WAIT_FD = 3,
        /// A mutex and a condition variable. Deprecated.
        FI_WAIT_MUTEX_COND = 4,
        /// None: a waiting thread polls and yields the processor between two polls.
        FI_WAIT_YIELD = 5,
        /// Several file descriptors, struct fi_wait_pollfd.
        FI_WAIT_POLLFD = 6,
    }
}

c_enum! {
    /// The struct of a queue's entries. fi_cq(3)
    pub enum fi_cq_format {
        /// The provider's choice.
        FI_CQ_FORMAT_UNSPEC = 0,
        /// struct fi_cq_entry.
        FI_CQ_FORMAT_CONTEXT = 1,
        /// struct fi_cq_msg_entry.
        FI_CQ_FORMAT_MSG = 2,
        /// struct fi_cq_data_entry.
        FI_CQ_FORMAT_DATA = 3,
        /// struct fi_cq_tagged_entry.
        FI_CQ_FORMAT_TAGGED = 4,
    }
}

c_enum! {
    /// Meaning of the argument `cond` of fi_cq_sread. fi_cq(3)
    pub enum fi_cq_wait_cond {
        /// The argument is ignored.
        FI_CQ_COND_NONE = 0,
        /// The number of entries to wait for, cast to a pointer.
        FI_CQ_COND_THRESHOLD = 1,
    }
}

c_enum! {
    /// Unit of a counter. fi_cntr(3)
    pub enum fi_cntr_events {
        /// Operations.
        FI_CNTR_EVENTS_COMP = 0,
        /// Bytes.
        FI_CNTR_EVENTS_BYTES = 1,
    }
}

/// A wait set. Deprecated. fi_poll(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_wait_attr {
    pub wait_obj: fi_wait_obj,
    /// 0.
    pub flags: u64,
}

/// Operations of a wait set. Deprecated. fi_poll(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_wait {
    pub size: usize,
    pub wait: Option<unsafe extern "C" fn(waitset: *mut fid_wait, timeout: c_int) -> c_int>,
}

/// A wait set. Deprecated. fi_poll(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_wait {
    pub fid: fid,
    pub ops: *mut fi_ops_wait,
}

/// Result of FI_GETWAIT for FI_WAIT_MUTEX_COND. fi_eq(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_mutex_cond {
    pub mutex: *mut pthread_mutex_t,
    pub cond: *mut pthread_cond_t,
}

/// Result of FI_GETWAIT for FI_WAIT_POLLFD. fi_poll(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_wait_pollfd {
    /// Out: a number that changes whenever the set of descriptors changes.
    pub change_index: u64,
    /// In and out: entries of `fd`; with -FI_ETOOSMALL the number that is needed.
    pub nfds: usize,
    /// Array for poll(2).
    pub fd: *mut pollfd,
}

/// A poll set. Deprecated. fi_poll(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_poll_attr {
    /// 0.
    pub flags: u64,
}

/// Operations of a poll set. Deprecated. fi_poll(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_poll {
    pub size: usize,
    pub poll: Option<
        unsafe extern "C" fn(
            pollset: *mut fid_poll,
            context: *mut *mut c_void,
            count: c_int,
        ) -> c_int,
    >,
    pub poll_add: Option<
        unsafe extern "C" fn(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int,
    >,
    pub poll_del: Option<
        unsafe extern "C" fn(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int,
    >,
}

/// A poll set. Deprecated. fi_poll(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_poll {
    pub fid: fid,
    pub ops: *mut fi_ops_poll,
}

/// An event queue. fi_eq(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_eq_attr {
    /// Least number of events that the queue holds; 0: the provider's choice.
    pub size: usize,
    /// FI_WRITE allows fi_eq_write; FI_AFFINITY.
    pub flags: u64,
    pub wait_obj: fi_wait_obj,
    /// With FI_AFFINITY: the processor for interrupts.
    pub signaling_vector: c_int,
    /// With FI_WAIT_SET. Deprecated.
    pub wait_set: *mut fid_wait,
}

/// An event. fi_eq(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_eq_entry {
    /// The object that the event concerns.
    pub fid: fid_t,
    /// Context of the object or of the operation.
    pub context: *mut c_void,
    /// Depends on the kind of event.
    pub data: u64,
}

/// A failure. fi_eq(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_eq_err_entry {
    /// The object that the event concerns.
    pub fid: fid_t,
    /// Context of the object or of the operation.
    pub context: *mut c_void,
    /// Depends on the operation, for example the index of the address that failed.
    pub data: u64,
    /// FI_E*, positive.
    pub err: c_int,
    /// The provider's own code, see fi_eq_strerror.
    pub prov_errno: c_int,
    /// In: buffer for details, or NULL. Out: details, such as the `param` that the peer passed to
    /// fi_reject.
    pub err_data: *mut c_void,
    /// Bytes of err_data. If 0 on input, err_data points to memory of the library on return, valid until
    /// the next read.
    pub err_data_size: usize,
}

/// An event of a connection. fi_eq(3), fi_cm(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_eq_cm_entry {
    /// The endpoint.
    pub fid: fid_t,
    /// With FI_CONNREQ: attributes of an endpoint that accepts the connection; the application frees them.
    pub info: *mut fi_info,
    /// The `param` that the peer passed. Its length is the return value of the read minus the size of
    /// this struct.
    pub data: [u8; 0],
}

/// Operations of an event queue. fi_eq(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_eq {
    pub size: usize,
    pub read: Option<
        unsafe extern "C" fn(
            eq: *mut fid_eq,
            event: *mut u32,
            buf: *mut c_void,
            len: usize,
            flags: u64,
        ) -> ssize_t,
    >,
    pub readerr: Option<
        unsafe extern "C" fn(eq: *mut fid_eq, buf: *mut fi_eq_err_entry, flags: u64) -> ssize_t,
    >,
    pub write: Option<
        unsafe extern "C" fn(
            eq: *mut fid_eq,
            event: u32,
            buf: *const c_void,
            len: usize,
            flags: u64,
        ) -> ssize_t,
    >,
    pub sread: Option<
        unsafe extern "C" fn(
            eq: *mut fid_eq,
            event: *mut u32,
            buf: *mut c_void,
            len: usize,
            timeout: c_int,
            flags: u64,
        ) -> ssize_t,
    >,
    pub strerror: Option<
        unsafe extern "C" fn(
            eq: *mut fid_eq,
            prov_errno: c_int,
            err_data: *const c_void,
            buf: *mut c_char,
            len: usize,
        ) -> *const c_char,
    >,
}

/// An event queue. fi_eq(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_eq {
    pub fid: fid,
    pub ops: *mut fi_ops_eq,
}

/// A completion. fi_cq(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cq_entry {
    /// The context of the operation.
    pub op_context: *mut c_void,
}

/// A completion. fi_cq(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cq_msg_entry {
    /// The context of the operation.
    pub op_context: *mut c_void,
    /// Kind of the operation: FI_SEND, FI_RECV, FI_MSG, FI_TAGGED, FI_RMA, ...
    pub flags: u64,
    /// Bytes received.
    pub len: usize,
}

/// A completion. fi_cq(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cq_data_entry {
    /// The context of the operation.
    pub op_context: *mut c_void,
    /// Kind of the operation: FI_SEND, FI_RECV, FI_MSG, FI_TAGGED, FI_RMA, ...
    pub flags: u64,
    /// Bytes received.
    pub len: usize,
    /// With FI_MULTI_RECV: address of the message in the buffer.
    pub buf: *mut c_void,
    /// With FI_REMOTE_CQ_DATA: data of the sender.
    pub data: u64,
}

/// A completion. fi_cq(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cq_tagged_entry {
    /// The context of the operation.
    pub op_context: *mut c_void,
    /// Kind of the operation: FI_SEND, FI_RECV, FI_MSG, FI_TAGGED, FI_RMA, ...
    pub flags: u64,
    /// Bytes received.
    pub len: usize,
    /// With FI_MULTI_RECV: address of the message in the buffer.
    pub buf: *mut c_void,
    /// With FI_REMOTE_CQ_DATA: data of the sender.
    pub data: u64,
    /// Tag of the message received.
    pub tag: u64,
}

/// A failed operation. For a program that requested a version below 1.5 the struct ends with err_data,
/// below 1.20 with err_data_size. fi_cq(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cq_err_entry {
    /// The context of the operation.
    pub op_context: *mut c_void,
    /// Kind of the operation.
    pub flags: u64,
    /// Bytes placed.
    pub len: usize,
    /// With FI_MULTI_RECV: address of the message in the buffer.
    pub buf: *mut c_void,
    /// With FI_REMOTE_CQ_DATA: data of the sender.
    pub data: u64,
    /// Tag of the message received.
    pub tag: u64,
    /// With FI_ETRUNC: bytes that did not fit.
    pub olen: usize,
    /// FI_E*, positive.
    pub err: c_int,
    /// The provider's own code, see fi_cq_strerror.
    pub prov_errno: c_int,
    /// In: buffer for details, or NULL. Out: details.
    pub err_data: *mut c_void,
    /// Bytes of err_data. If 0 on input, err_data points to memory of the library on return, valid until
    /// the next read.
    pub err_data_size: usize,
    /// The sender, if it is known: with FI_SOURCE_ERR or authorization keys.
    pub src_addr: fi_addr_t,
}

/// A completion queue. fi_cq(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cq_attr {
    /// Least number of entries that the queue holds; 0: the provider's choice.
    pub size: usize,
    /// FI_AFFINITY, FI_PEER.
    pub flags: u64,
    pub format: fi_cq_format,
    pub wait_obj: fi_wait_obj,
    /// With FI_AFFINITY: the processor for interrupts.
    pub signaling_vector: c_int,
    /// Condition that ends the wait of fi_cq_sread.
    pub wait_cond: fi_cq_wait_cond,
    /// With FI_WAIT_SET. Deprecated.
    pub wait_set: *mut fid_wait,
    // since 2.7
    /// With FI_XPU: the device that reads the queue. fi_xpu(3)
    pub xpu_ctx: *mut fid_xpu_ctx,
}

/// Operations of a completion queue. fi_cq(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_cq {
    pub size: usize,
    pub read:
        Option<unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> ssize_t>,
    pub readfrom: Option<
        unsafe extern "C" fn(
            cq: *mut fid_cq,
            buf: *mut c_void,
            count: usize,
            src_addr: *mut fi_addr_t,
        ) -> ssize_t,
    >,
    pub readerr: Option<
        unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> ssize_t,
    >,
    pub sread: Option<
        unsafe extern "C" fn(
            cq: *mut fid_cq,
            buf: *mut c_void,
            count: usize,
            cond: *const c_void,
            timeout: c_int,
        ) -> ssize_t,
    >,
    pub sreadfrom: Option<
        unsafe extern "C" fn(
            cq: *mut fid_cq,
            buf: *mut c_void,
            count: usize,
            src_addr: *mut fi_addr_t,
            cond: *const c_void,
            timeout: c_int,
        ) -> ssize_t,
    >,
    pub signal: Option<unsafe extern "C" fn(cq: *mut fid_cq) -> c_int>,
    pub strerror: Option<
        unsafe extern "C" fn(
            cq: *mut fid_cq,
            prov_errno: c_int,
            err_data: *const c_void,
            buf: *mut c_char,
            len: usize,
        ) -> *const c_char,
    >,
    // since 2.7
    pub export_xpu:
        Option<unsafe extern "C" fn(cq: *mut fid_cq, flags: u64, xpu_cq: *mut fid_xpu_cq) -> c_int>,
}

/// A completion queue. fi_cq(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_cq {
    pub fid: fid,
    pub ops: *mut fi_ops_cq,
}

/// A counter. fi_cntr(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cntr_attr {
    pub events: fi_cntr_events,
    pub wait_obj: fi_wait_obj,
    /// With FI_WAIT_SET. Deprecated.
    pub wait_set: *mut fid_wait,
    /// 0, FI_PEER.
    pub flags: u64,
    // since 2.7
    /// With FI_XPU: the device that reads the counter. fi_xpu(3)
    pub xpu_ctx: *mut fid_xpu_ctx,
}

/// Operations of a counter. fi_cntr(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_cntr {
    pub size: usize,
    pub read: Option<unsafe extern "C" fn(cntr: *mut fid_cntr) -> u64>,
    pub readerr: Option<unsafe extern "C" fn(cntr: *mut fid_cntr) -> u64>,
    pub add: Option<unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int>,
    pub set: Option<unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int>,
    pub wait:
        Option<unsafe extern "C" fn(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int>,
    pub adderr: Option<unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int>,
    pub seterr: Option<unsafe extern "C" fn(cntr: *mut fid_cntr, value: u64) -> c_int>,
    // since 2.7
    pub export_xpu: Option<
        unsafe extern "C" fn(cntr: *mut fid_cntr, flags: u64, xpu_cntr: *mut fid_xpu_cntr) -> c_int,
    >,
}

/// A counter. fi_cntr(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_cntr {
    pub fid: fid,
    pub ops: *mut fi_ops_cntr,
}
