// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Streams for copies. They do not wait for the work of the program's kernels, which may themselves wait for the copy.

use core::ffi::{c_int, c_uint};
use core::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::calls::{Calls, Object};
use super::context::Current;

/// Streams that no copy uses.
#[derive(Default)]
pub struct Lanes(Mutex<Vec<Lane>>);

/// A stream and its context, for one copy at a time. One that is dropped is never used again: after an error the
/// driver may have destroyed it with its context.
pub struct Lane {
    pub context: usize,
    pub stream: usize,
}

impl Lane {
    pub fn stream(&self) -> Object {
        self.stream as Object
    }
}

/// CU_STREAM_NON_BLOCKING.
const NON_BLOCKING: c_uint = 1;

impl Lanes {
    fn free(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a stream of the current context.
    pub fn take(&self, calls: &Calls, current: &Current<'_>) -> Result<Lane, c_int> {
        let context = current.context();
        let mut free = self.free();
        if let Some(at) = free.iter().position(|lane| lane.context == context) {
            return Ok(free.swap_remove(at));
        }
        drop(free);
        let mut stream = null_mut();
        // SAFETY: the place is written during the call; the context is the thread's.
        match unsafe { (calls.create)(&raw mut stream, NON_BLOCKING) } {
            0 => Ok(Lane {
                context,
                stream: stream.addr(),
            }),
            code => Err(code),
        }
    }

    pub fn put(&self, lane: Lane) {
        self.free().push(lane);
    }

    /// Returns the contexts of the streams that no copy uses.
    pub fn contexts(&self) -> Vec<usize> {
        self.free().iter().map(|lane| lane.context).collect()
    }

    /// Destroys the streams.
    pub fn clear(&self, calls: &Calls) {
        let lanes = core::mem::take(&mut *self.free());
        for lane in lanes {
            if let Ok(_current) = Current::of(calls, lane.context) {
                // SAFETY: no copy uses the stream.
                unsafe { (calls.destroy)(lane.stream()) };
            }
        }
    }
}
