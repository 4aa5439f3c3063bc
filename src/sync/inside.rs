// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Counts the locks that the current thread holds. Some work must not be done under a lock; it waits until the thread
//! has left its last lock. Counting begins with the first `watch`; locks that were taken earlier are not counted.
#![forbid(unsafe_code)]

use core::cell::Cell;
use core::marker::PhantomData;
use std::sync::OnceLock;

/// While a value exists, its thread counts as inside a lock.
pub struct Inside {
    counted: bool,
    /// Binds the value to its thread.
    _thread: PhantomData<*const ()>,
}

impl Inside {
    /// Marks the current thread as inside a lock. The caller drops the value after the lock's guard.
    #[inline(always)]
    pub fn enter() -> Inside {
        let counted = is_watched();
        if counted {
            count();
        }
        Inside {
            counted,
            _thread: PhantomData,
        }
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        if self.counted {
            leave();
        }
    }
}

/// Starts counting: a thread calls `left` when it leaves its last lock. Only the first caller's `left` is used.
pub fn watch(left: fn()) {
    let _ = LEFT.set(left);
}

/// Returns true if `watch` was called.
#[inline(always)]
pub fn is_watched() -> bool {
    LEFT.get().is_some()
}

/// Returns true if this thread is inside a lock that was counted.
pub fn is_inside() -> bool {
    DEPTH.get() > 0
}

#[cold]
fn count() {
    DEPTH.set(DEPTH.get() + 1);
}

#[cold]
fn leave() {
    DEPTH.set(DEPTH.get() - 1);
    if !is_inside()
        && let Some(left) = LEFT.get()
    {
        left();
    }
}

thread_local! {
    /// Number of counted locks that the thread is inside.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

static LEFT: OnceLock<fn()> = OnceLock::new();
