// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A mutex and a condition variable of the C library, which the application waits on and the library broadcasts to.
//!
//! Trusted with: pthread calls on objects that C holds pointers to.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::thread::spawn;

pub struct Cond {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    cond: UnsafeCell<libc::pthread_cond_t>,
    /// Set while a helper thread waits for the mutex in order to broadcast.
    owed: AtomicBool,
}

// SAFETY: pthread objects are made for use by many threads; the `Arc` keeps them at their address.
unsafe impl Send for Cond {}
// SAFETY: as above.
unsafe impl Sync for Cond {}

impl Cond {
    pub fn new() -> Arc<Cond> {
        Arc::new(Cond {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            cond: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            owed: AtomicBool::new(false),
        })
    }

    /// Pointers for C callers, which are valid as long as this value lives.
    pub fn for_c(&self) -> (*mut libc::pthread_mutex_t, *mut libc::pthread_cond_t) {
        (self.mutex.get(), self.cond.get())
    }

    /// Wakes all waiters without blocking. A broadcast without the mutex would be lost on a thread between its last
    /// check and its wait. But the mutex may be held by a thread that waits for a lock of this library, or by this very
    /// thread; in that case a helper thread waits for the mutex and broadcasts.
    pub fn broadcast(self: &Arc<Self>) {
        // SAFETY: initialized, and at this address until dropped.
        if unsafe { libc::pthread_mutex_trylock(self.mutex.get()) } == 0 {
            self.broadcast_locked();
        } else if !self.owed.swap(true, Ordering::AcqRel) {
            let cond = self.clone();
            let spawned = spawn("fi-wake", move || {
                // SAFETY: as above; `cond` keeps the objects alive.
                unsafe { libc::pthread_mutex_lock(cond.mutex.get()) };
                // Cleared before the broadcast, because a call that comes later needs another broadcast.
                cond.owed.store(false, Ordering::Release);
                cond.broadcast_locked();
            });
            if spawned.is_err() {
                self.owed.store(false, Ordering::Release);
                // SAFETY: as above. This wakes all threads that wait already.
                unsafe { libc::pthread_cond_broadcast(self.cond.get()) };
            }
        }
    }

    /// Broadcasts and unlocks the mutex.
    fn broadcast_locked(&self) {
        // SAFETY: initialized, at this address until dropped, and locked by this thread.
        unsafe {
            libc::pthread_cond_broadcast(self.cond.get());
            libc::pthread_mutex_unlock(self.mutex.get());
        }
    }
}
