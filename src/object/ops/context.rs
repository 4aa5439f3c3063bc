// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The context argument of operations, and the condition that it names with FI_TRIGGER: fi_trigger(3).
//!
//! Trusted with: reading that condition, by the promise given to `Given::new`.

use core::ffi::c_void;
use core::ptr;

use crate::handle::Other;
use abi::*;
use base::{Error, OpFlags, Result};

/// The context argument of a call, with the flags of the call that require something of it. Only the entry points of
/// calls make one, and an operation owns it, so it is not read after its operation:
///
/// ```compile_fail,E0599
/// object::ops::transfer::Context::new(core::ptr::null_mut());
/// ```
///
/// ```compile_fail,E0507
/// use object::ops::transfer::{Context, Rx};
/// fn copy(rx: &Rx) -> Context {
///     rx.context
/// }
/// ```
///
/// The default is NULL.
#[derive(PartialEq, Eq, Debug)]
pub struct Context {
    number: usize,
    flags: OpFlags,
}

impl Default for Context {
    fn default() -> Context {
        Given(0).with(OpFlags::empty())
    }
}

/// A context argument before the flags of its call are known.
pub(super) struct Given(usize);

impl Given {
    /// # Safety
    /// fi_trigger(3): if the call or its endpoint has FI_TRIGGER among its flags, `context` must be NULL or a `struct
    /// fi_triggered_context`, which stays valid until the operation completes. Else it may be anything.
    #[inline]
    pub unsafe fn new(context: *mut c_void) -> Given {
        Given(context.expose_provenance())
    }

    #[inline]
    pub fn number(&self) -> usize {
        self.0
    }

    /// `flags` are those of the call.
    #[inline]
    pub fn with(self, flags: OpFlags) -> Context {
        Context {
            number: self.0,
            flags,
        }
    }
}

impl Context {
    /// The context of an operation of the library itself.
    pub fn own(number: usize) -> Context {
        Given(number).with(OpFlags::empty())
    }

    #[inline]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the context as a mere number, for a part of the operation that does not wait.
    pub fn untriggered(&self) -> Context {
        Given(self.number).with(OpFlags::empty())
    }

    /// Returns the counter and the threshold that the operation waits for. FI_EINVAL for an operation that was posted
    /// without FI_TRIGGER.
    ///
    /// The counter is not used after the operation:
    ///
    /// ```compile_fail,E0515
    /// use object::handle::Other;
    /// use object::ops::transfer::Rx;
    /// fn counter<'a>(rx: Rx) -> Other<'a> {
    ///     rx.context.condition().unwrap().0
    /// }
    /// ```
    pub fn condition(&self) -> Result<(Other<'_>, u64)> {
        if self.number == 0 || !self.flags.contains(OpFlags::TRIGGER) {
            return Err(Error::INVAL);
        }
        let context: *const fi_triggered_context = ptr::with_exposed_provenance(self.number);
        // SAFETY: `Given::new`: with this flag it is a fi_triggered_context (or fi_triggered_context2, which begins
        // like it), which stays valid until the operation completes; the operation owns this value.
        let context = unsafe { &*context };
        match context.event_type {
            FI_TRIGGER_THRESHOLD => {
                // SAFETY: the event type selects the member; any bits are valid for it.
                let threshold = unsafe { context.trigger.threshold };
                // SAFETY: fi_trigger(3): the counter stays open until the operation completes.
                let cntr = unsafe { Other::new(threshold.cntr.cast()) };
                Ok((cntr, threshold.threshold as u64))
            }
            FI_TRIGGER_XPU => Err(Error::NOSYS),
            _ => Err(Error::INVAL),
        }
    }

    /// Returns a context for a test, of an operation without FI_TRIGGER.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_test(number: usize) -> Context {
        Given(number).with(OpFlags::empty())
    }
}
