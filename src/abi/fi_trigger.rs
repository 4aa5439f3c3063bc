// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/fi_trigger.h>`: Triggered operations and deferred work: fi_trigger(3).
//!
//! Declarations only; build.rs writes them into the public header.

use core::ffi::{c_int, c_void};

use super::fabric::fi_context2;
use super::fi_atomic::{fi_msg_atomic, fi_msg_compare, fi_msg_fetch};
use super::fi_domain::{fi_datatype, fi_hmem_iface};
use super::fi_endpoint::{fi_msg, fid_ep};
use super::fi_eq::fid_cntr;
use super::fi_rma::fi_msg_rma;
use super::fi_tagged::fi_msg_tagged;

c_enum! {
    /// Events that start a triggered operation. fi_trigger(3)
    pub enum fi_trigger_event {
        /// A counter reaches a value.
        FI_TRIGGER_THRESHOLD = 0,
        /// A device writes a variable.
        FI_TRIGGER_XPU = 1,
    }
}

c_enum! {
    /// Operations that can be deferred. fi_trigger(3)
    pub enum fi_op_type {
        FI_OP_RECV = 0,
        FI_OP_SEND = 1,
        FI_OP_TRECV = 2,
        FI_OP_TSEND = 3,
        FI_OP_READ = 4,
        FI_OP_WRITE = 5,
        FI_OP_ATOMIC = 6,
        FI_OP_FETCH_ATOMIC = 7,
        FI_OP_COMPARE_ATOMIC = 8,
        FI_OP_CNTR_SET = 9,
        FI_OP_CNTR_ADD = 10,
    }
}

/// A counter and its value. fi_trigger(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_trigger_threshold {
    pub cntr: *mut fid_cntr,
    pub threshold: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_trigger_var_value {
    pub val8: u8,
    pub val16: u16,
    pub val32: u32,
    pub val64: u64,
    pub data: *mut u8,
}

/// A variable that a device writes to start the operation. fi_trigger(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_trigger_var {
    pub datatype: fi_datatype,
    /// Elements at `addr`.
    pub count: c_int,
    /// Address of the variable.
    pub addr: *mut c_void,
    /// Value that the device writes. The member depends on `datatype`; `data` unless that is an integer of
    /// up to 64 bits.
    pub value: fi_trigger_var_value,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_trigger_xpu_device {
    pub reserved: u64,
    pub cuda: c_int,
    pub ze: c_int,
}

/// A device that starts the operation. fi_trigger(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_trigger_xpu {
    /// In and out: entries of `var`.
    pub count: c_int,
    pub iface: fi_hmem_iface,
    pub device: fi_trigger_xpu_device,
    pub var: *mut fi_trigger_var,
}

/// A deferred message. fi_trigger(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_op_msg {
    pub ep: *mut fid_ep,
    pub msg: fi_msg,
    pub flags: u64,
}

/// A deferred message with a tag. fi_trigger(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_op_tagged {
    pub ep: *mut fid_ep,
    pub msg: fi_msg_tagged,
    pub flags: u64,
}

/// A deferred read or write. fi_trigger(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_op_rma {
    pub ep: *mut fid_ep,
    pub msg: fi_msg_rma,
    pub flags: u64,
}

/// A deferred atomic operation. fi_trigger(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_op_atomic {
    pub ep: *mut fid_ep,
    pub msg: fi_msg_atomic,
    pub flags: u64,
}

/// A deferred atomic operation that returns the old value. fi_trigger(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_op_fetch_atomic {
    pub ep: *mut fid_ep,
    pub msg: fi_msg_atomic,
    pub fetch: fi_msg_fetch,
    pub flags: u64,
}

/// A deferred atomic operation that compares. fi_trigger(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_op_compare_atomic {
    pub ep: *mut fid_ep,
    pub msg: fi_msg_atomic,
    pub fetch: fi_msg_fetch,
    pub compare: fi_msg_compare,
    pub flags: u64,
}

/// A deferred change of a counter. fi_trigger(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_op_cntr {
    pub cntr: *mut fid_cntr,
    pub value: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_triggered_context_trigger {
    pub threshold: fi_trigger_threshold,
    pub xpu: fi_trigger_xpu,
    pub internal: [*mut c_void; 3],
}

/// The context of an operation with FI_TRIGGER if the mode has FI_CONTEXT. fi_trigger(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_triggered_context {
    pub event_type: fi_trigger_event,
    pub trigger: fi_triggered_context_trigger,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_triggered_context2_trigger {
    pub threshold: fi_trigger_threshold,
    pub xpu: fi_trigger_xpu,
    pub internal: [*mut c_void; 7],
}

/// The same if the mode has FI_CONTEXT2. fi_trigger(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_triggered_context2 {
    pub event_type: fi_trigger_event,
    pub trigger: fi_triggered_context2_trigger,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_deferred_work_op {
    pub msg: *mut fi_op_msg,
    pub tagged: *mut fi_op_tagged,
    pub rma: *mut fi_op_rma,
    pub atomic: *mut fi_op_atomic,
    pub fetch_atomic: *mut fi_op_fetch_atomic,
    pub compare_atomic: *mut fi_op_compare_atomic,
    pub cntr: *mut fi_op_cntr,
}

/// Argument of FI_QUEUE_WORK. The application must not touch the struct and the memory it points to
/// until the operation has completed. fi_trigger(3)
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_deferred_work {
    pub context: fi_context2,
    /// The operation starts when triggering_cntr reaches this value.
    pub threshold: u64,
    pub triggering_cntr: *mut fid_cntr,
    /// Counter of the completion, or NULL.
    pub completion_cntr: *mut fid_cntr,
    pub op_type: fi_op_type,
    pub op: fi_deferred_work_op,
}
