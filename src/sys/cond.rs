// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A mutex and a condition variable of the C library, which the application waits on and we broadcast to.
//!
//! Trusted with: pthread calls on objects that C holds pointers to.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::thread::spawn;

pub struct Cond {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    cond: UnsafeCell<libc::pthread_cond_t>,
    /// A thread waits for the mutex to broadcast.
    owed: AtomicBool,
}

// SAFETY: pthread objects are made for use by many threads; they stay where the `Arc` put them.
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

    /// What C waits on, as long as this lives.
    pub fn for_c(&self) -> (*mut libc::pthread_mutex_t, *mut libc::pthread_cond_t) {
        (self.mutex.get(), self.cond.get())
    }

    /// Wakes all, without waiting. Without the mutex a thread between its last look and its wait would miss this; but
    /// it may be held by a thread that waits for a lock of ours, or by this very thread. Then another thread gets to
    /// wait.
    pub fn broadcast(self: &Arc<Self>) {
        // SAFETY: initialized, and at this address until dropped.
        if unsafe { libc::pthread_mutex_trylock(self.mutex.get()) } == 0 {
            self.broadcast_locked();
        } else if !self.owed.swap(true, Ordering::AcqRel) {
            let cond = self.clone();
            let spawned = spawn("fi-wake", move || {
                // SAFETY: as above; `cond` keeps it.
                unsafe { libc::pthread_mutex_lock(cond.mutex.get()) };
                // Before the broadcast: what comes from here on needs another one.
                cond.owed.store(false, Ordering::Release);
                cond.broadcast_locked();
            });
            if spawned.is_err() {
                self.owed.store(false, Ordering::Release);
                // SAFETY: as above. Most sleepers hear it.
                unsafe { libc::pthread_cond_broadcast(self.cond.get()) };
            }
        }
    }

    /// And unlocks.
    fn broadcast_locked(&self) {
        // SAFETY: initialized, at this address until dropped, and locked by this thread.
        unsafe {
            libc::pthread_cond_broadcast(self.cond.get());
            libc::pthread_mutex_unlock(self.mutex.get());
        }
    }
}
