// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Whether a thread is inside a lock, for what must not be done there, and waits until it has left the last one. It is
//! counted from the first `watch` on; who is inside by then was not counted.
#![forbid(unsafe_code)]

use core::cell::Cell;
use core::marker::PhantomData;
use std::sync::OnceLock;

/// While it lives, its thread is inside a lock.
pub struct Inside {
    counted: bool,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Inside {
    /// The thread has just taken a lock. Its value goes behind the lock's guard.
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

/// From now on threads inside locks are counted, and call `left` behind the last one. The first caller's `left` counts.
pub fn watch(left: fn()) {
    let _ = LEFT.set(left);
}

/// Whether `watch` was called.
#[inline(always)]
pub fn is_watched() -> bool {
    LEFT.get().is_some()
}

/// Whether this thread is inside a lock, as far as it was counted.
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
    /// Locks that the thread is inside of.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

static LEFT: OnceLock<fn()> = OnceLock::new();
