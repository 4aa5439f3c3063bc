// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Translation of an argument before and after the call of the object inside, by the type of the argument.

use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;
use core::ptr::NonNull;
use std::sync::Arc;

use super::{Layer, Note, inside, wrap};
use abi::*;

/// An argument of a slot.
pub(super) trait Argument: Copy {
    /// Value that `leave` restores.
    type Held: Default;

    /// Returns the argument for the object inside.
    ///
    /// # Safety
    /// The argument is as the man page of the call requires.
    #[inline]
    unsafe fn enter(self, _held: &mut Self::Held) -> Self {
        self
    }

    /// Runs after the call.
    ///
    /// # Safety
    /// As `enter`.
    #[inline]
    unsafe fn leave(self, _held: Self::Held, _layer: &Arc<Layer>, _succeeded: bool) {}
}

macro_rules! plain {
    ($($type:ty),* $(,)?) => { $(
        impl Argument for $type {
            type Held = ();
        }
    )* };
}

plain! {
    u64, usize, u32, c_int, fi_datatype, fi_op, fi_collective_op, fi_op_type,
    *const c_char, *const c_void, *const fi_ioc, *const fi_mr_attr, *const fi_msg, *const fi_msg_atomic,
    *const fi_msg_collective, *const fi_msg_rma, *const fi_msg_tagged, *const fi_rma_iov, *const iovec,
    *mut *mut c_void, *mut c_char,
    *mut c_void, *mut fi_addr_t, *mut fi_atomic_attr, *mut fi_av_attr, *mut fi_av_set_attr, *mut fi_collective_attr,
    *mut fi_cq_err_entry, *mut fi_eq_err_entry, *mut fi_ioc, *mut fi_poll_attr, *mut fi_rx_attr, *mut fi_tx_attr,
    *mut fi_wait_attr, *mut fi_xpu_attr, *mut fid_xpu_cntr, *mut fid_xpu_cq, *mut fid_xpu_ep, *mut u32, *mut usize,
    // Objects that are not wrapped.
    *mut fid_xpu_ctx, *mut *mut fid_xpu_ctx,
    // `special` deals with the array, and wraps these.
    *mut *mut fid, *mut *mut fid_cq, *mut *mut fid_ep,
}

impl Argument for *mut fid {
    type Held = ();

    #[inline]
    unsafe fn enter(self, _held: &mut ()) -> *mut fid {
        inside(self)
    }
}

impl Argument for *const fid_av_set {
    type Held = ();

    unsafe fn enter(self, _held: &mut ()) -> *const fid_av_set {
        inside(self.cast_mut().cast()).cast()
    }
}

macro_rules! opened {
    ($($type:ident)*) => { $(
        impl Argument for *mut *mut $type {
            type Held = ();

            unsafe fn leave(self, (): (), layer: &Arc<Layer>, succeeded: bool) {
                if !succeeded || self.is_null() {
                    return;
                }
                // SAFETY: the output argument for the object that the call has opened.
                if let Some(object) = NonNull::new(unsafe { *self }) {
                    // SAFETY: as above.
                    unsafe { *self = wrap(object, layer, Note::default()).as_ptr() };
                }
            }
        }
    )* };
}

opened! {
    fid_domain fid_pep fid_eq fid_wait fid_poll fid_cntr fid_av fid_av_set fid_mr fid_stx fid_mc
}

macro_rules! holders {
    ($($type:ident.$member:ident: $held:ty;)*) => { $(
        /// The struct has a handle that is replaced during the call. The struct is not copied because it may be longer
        /// than in this version.
        impl Argument for *mut $type {
            type Held = Option<$held>;

            unsafe fn enter(self, held: &mut Self::Held) -> Self {
                if !self.is_null() {
                    // SAFETY: the struct of the caller.
                    let place = unsafe { &raw mut (*self).$member };
                    // SAFETY: as above.
                    let handle = unsafe { *place };
                    let inner = inside(handle.cast());
                    if inner != handle.cast() {
                        *held = Some(handle);
                        // SAFETY: as above. No other thread may use the struct during the call.
                        unsafe { *place = inner.cast() };
                    }
                }
                self
            }

            unsafe fn leave(self, held: Self::Held, _layer: &Arc<Layer>, _succeeded: bool) {
                if let Some(handle) = held {
                    // SAFETY: as in `enter`.
                    unsafe { (*self).$member = handle };
                }
            }
        }
    )* };
}

holders! {
    fi_info.handle: Handle;
    fi_cq_attr.wait_set: *mut fid_wait;
    fi_eq_attr.wait_set: *mut fid_wait;
    fi_cntr_attr.wait_set: *mut fid_wait;
}

type Handle = *mut fid;

/// A copy of an operation's description that names the endpoint inside. The caller's own description is only read: it
/// may be constant, and other threads may use it.
pub(super) struct WrCopy {
    attr: fi_wr_attr,
    operation: Operation,
}

/// The longest of the operations; each begins with its endpoint.
union Operation {
    ep: *mut fid,
    msg: fi_op_msg,
    tagged: fi_op_tagged,
    rma: fi_op_rma,
    atomic: fi_op_atomic,
    fetch_atomic: fi_op_fetch_atomic,
    compare_atomic: fi_op_compare_atomic,
}

impl Argument for *const fi_wr_attr {
    type Held = Option<WrCopy>;

    unsafe fn enter(self, held: &mut Self::Held) -> Self {
        // SAFETY: the struct of the caller, whose union has pointers alone.
        let Some((attr, op)) = (unsafe { self.as_ref().map(|attr| (*attr, attr.op)) }) else {
            return self;
        };
        // SAFETY: as above; a pointer that is not NULL leads to the operation that the type names.
        let operation = unsafe {
            match attr.op_type {
                FI_OP_RECV | FI_OP_SEND => op.msg.as_ref().map(|&msg| Operation { msg }),
                FI_OP_TRECV | FI_OP_TSEND => op.tagged.as_ref().map(|&tagged| Operation { tagged }),
                FI_OP_READ | FI_OP_WRITE => op.rma.as_ref().map(|&rma| Operation { rma }),
                FI_OP_ATOMIC => op.atomic.as_ref().map(|&atomic| Operation { atomic }),
                FI_OP_FETCH_ATOMIC => {
                    (op.fetch_atomic.as_ref()).map(|&fetch_atomic| Operation { fetch_atomic })
                }
                FI_OP_COMPARE_ATOMIC => {
                    (op.compare_atomic.as_ref()).map(|&compare_atomic| Operation { compare_atomic })
                }
                // The object inside refuses it.
                _ => None,
            }
        };
        let Some(operation) = operation else {
            return self;
        };
        let copy = held.insert(WrCopy { attr, operation });
        // SAFETY: every member of the union begins with an endpoint.
        let endpoint = unsafe { copy.operation.ep };
        copy.operation.ep = inside(endpoint);
        copy.attr.op.msg = (&raw mut copy.operation).cast();
        &raw const copy.attr
    }
}

// Every operation begins with its endpoint.
const _: () = {
    assert!(offset_of!(fi_op_msg, ep) == 0 && offset_of!(fi_op_tagged, ep) == 0);
    assert!(offset_of!(fi_op_rma, ep) == 0 && offset_of!(fi_op_atomic, ep) == 0);
    assert!(offset_of!(fi_op_fetch_atomic, ep) == 0 && offset_of!(fi_op_compare_atomic, ep) == 0);
};
