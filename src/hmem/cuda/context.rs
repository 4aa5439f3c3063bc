// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The context in which a thread calls the driver. The one of the program comes back at the end.

use core::ffi::c_int;
use core::ptr::null_mut;

use super::calls::{Calls, Object};

/// A context that is the thread's until this is dropped.
pub struct Current<'a> {
    calls: &'a Calls,
    context: usize,
    /// The device whose primary context it is.
    retained: Option<c_int>,
}

/// CUresult: there is no context.
pub const INVALID_CONTEXT: c_int = 201;

impl<'a> Current<'a> {
    /// The context at this address, which is that of memory that was allocated.
    pub fn of(calls: &'a Calls, context: usize) -> Result<Current<'a>, c_int> {
        Current::push(calls, context, None)
    }

    /// The primary context of a device, if the program has made it.
    pub fn primary(calls: &'a Calls, device: c_int) -> Result<Current<'a>, c_int> {
        let (mut flags, mut active, mut context) = (0, 0, null_mut());
        // SAFETY: the places are written during the call.
        let code = unsafe { (calls.primary_state)(device, &raw mut flags, &raw mut active) };
        if code != 0 || active == 0 {
            return Err(if code == 0 { INVALID_CONTEXT } else { code });
        }
        // SAFETY: as above.
        let code = unsafe { (calls.primary_retain)(&raw mut context, device) };
        match code {
            0 => Current::push(calls, context.addr(), Some(device)),
            code => Err(code),
        }
    }

    fn push(
        calls: &'a Calls,
        context: usize,
        retained: Option<c_int>,
    ) -> Result<Current<'a>, c_int> {
        let current = Current {
            calls,
            context,
            retained,
        };
        // SAFETY: the driver has named the context, and checks that it lives.
        match unsafe { (calls.push)(context as Object) } {
            0 => Ok(current),
            code => {
                current.give_back();
                core::mem::forget(current);
                Err(code)
            }
        }
    }

    pub fn context(&self) -> usize {
        self.context
    }

    fn give_back(&self) {
        if let Some(device) = self.retained {
            // SAFETY: it was retained above.
            unsafe { (self.calls.primary_release)(device) };
        }
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let mut context = null_mut();
        // SAFETY: the context was pushed by this thread; the place is written during the call.
        unsafe { (self.calls.pop)(&raw mut context) };
        self.give_back();
    }
}
