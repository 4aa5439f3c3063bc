// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Counters that triggers and deferred work name: fi_trigger(3). The structs belong to the provider until the operation
//! completes, so handles in them are replaced permanently; a struct that is used again has the right handles already.

use core::ffi::c_void;
use core::sync::atomic::Ordering;

use super::call::{Call, Name, Raw};
use super::{RECV_TRIGGERS, SEND_TRIGGERS, Wrapped, Wrapper, inside};
use abi::*;

/// Replaces the objects that deferred work names by the inner ones. The struct belongs to the provider until the work
/// completes, so they are replaced permanently; work that is queued again has the right ones already.
///
/// # Safety
/// fi_trigger(3): a struct in the form in which the application queues it.
pub(super) unsafe fn enter_work(work: *mut fi_deferred_work) {
    // SAFETY: promised by the caller. Every operation except a counter's begins with its endpoint, and those with the
    // counter; only pointers of the union are read.
    unsafe {
        (*work).triggering_cntr = inside((*work).triggering_cntr.cast()).cast();
        (*work).completion_cntr = inside((*work).completion_cntr.cast()).cast();
        let operation: *mut *mut fid = (*work).op.msg.cast();
        if !operation.is_null() {
            *operation = inside(*operation);
        }
    }
}

/// Returns the trigger bits after the operation flags of a side (FI_TRANSMIT, FI_RECV) were set; `before` has the old
/// bits.
pub(super) fn triggers(before: u8, flags: u64) -> u8 {
    let mut triggers = before & (SEND_TRIGGERS | RECV_TRIGGERS);
    for (side, bit) in [(FI_TRANSMIT, SEND_TRIGGERS), (FI_RECV, RECV_TRIGGERS)] {
        if flags & side != 0 {
            triggers &= !bit;
            triggers |= if flags & FI_TRIGGER != 0 { bit } else { 0 };
        }
    }
    triggers
}

/// Handles the context of a call if contexts are triggers by default.
///
/// # Safety
/// The arguments are as the manual page of the call requires.
pub(super) unsafe fn enter_default_trigger<H: Wrapped>(wrapper: &Wrapper<H>, call: &Call<'_>) {
    let besides = wrapper.besides.load(Ordering::Relaxed);
    if besides & (SEND_TRIGGERS | RECV_TRIGGERS) == 0
        || !matches!(call.slot.table(), "msg" | "tagged" | "rma" | "atomic")
        || call.argument(Name::msg).is_some()
    {
        return;
    }
    let bit = match call.argument(Name::src_addr).is_some() && call.slot.table() != "rma" {
        true => RECV_TRIGGERS,
        false => SEND_TRIGGERS,
    };
    if let Some(context) = call.argument(Name::context).filter(|_| besides & bit != 0) {
        // SAFETY: promised by the caller.
        unsafe { enter_trigger(Raw::of_number(context)) };
    }
}

/// Replaces the counter that a trigger names. The struct belongs to the provider until the operation completes.
///
/// # Safety
/// `context` is NULL or a trigger.
pub(super) unsafe fn enter_trigger(context: *mut c_void) {
    let trigger: *mut fi_triggered_context = context.cast();
    // SAFETY: promised by the caller.
    unsafe {
        if !trigger.is_null() && (*trigger).event_type == FI_TRIGGER_THRESHOLD {
            let counter = &raw mut (*trigger).trigger.threshold.cntr;
            *counter = inside((*counter).cast()).cast();
        }
    }
}

/// # Safety
/// NULL or an entry.
pub(super) unsafe fn triggers_of(info: *const fi_info) -> u8 {
    // SAFETY: promised by the caller; parts are NULL or structs.
    let (tx, rx) = unsafe {
        let Some(info) = info.as_ref() else {
            return 0;
        };
        (
            info.tx_attr.as_ref().map_or(0, |attr| attr.op_flags),
            info.rx_attr.as_ref().map_or(0, |attr| attr.op_flags),
        )
    };
    triggers(0, tx & FI_TRIGGER | FI_TRANSMIT) | triggers(0, rx & FI_TRIGGER | FI_RECV)
}
