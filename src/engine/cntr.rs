// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The values of a counter: fi_cntr(3). The handle is in `domain::cntr`.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use crate::engine::wait::Wait;

/// Shared by the handle and by the endpoints that count on it.
pub struct Counter {
    value: AtomicU64,
    errors: AtomicU64,
    pub wait: Wait,
    /// FI_CNTR_EVENTS_BYTES: counts bytes, not operations.
    bytes: bool,
    /// Value and errors, added, when somebody last asked whether they had changed.
    seen: AtomicU64,
}

impl Counter {
    pub fn new(wait: Wait, bytes: bool) -> Counter {
        Counter {
            value: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            wait,
            bytes,
            seen: AtomicU64::new(0),
        }
    }

    pub fn value(&self) -> u64 {
        self.value.load(Ordering::Acquire)
    }

    /// Whether the counter has changed since this was last asked.
    pub fn changed(&self) -> bool {
        let now = self.value().wrapping_add(self.errors());
        self.seen.swap(now, Ordering::Relaxed) != now
    }

    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Acquire)
    }

    /// An operation of `len` bytes has succeeded.
    #[inline]
    pub fn succeeded(&self, len: usize) {
        self.add(if self.bytes { len as u64 } else { 1 });
    }

    pub fn failed(&self) {
        self.add_errors(1);
    }

    pub fn add(&self, n: u64) {
        // Release: who sees the count also sees the data that it stands for.
        self.value.fetch_add(n, Ordering::Release);
        self.wait.notify_unlocked();
    }

    pub fn add_errors(&self, n: u64) {
        self.errors.fetch_add(n, Ordering::Release);
        self.wait.notify_unlocked();
    }

    pub fn set(&self, n: u64) {
        self.value.store(n, Ordering::Release);
        self.wait.notify_unlocked();
    }

    pub fn set_errors(&self, n: u64) {
        self.errors.store(n, Ordering::Release);
        self.wait.notify_unlocked();
    }
}
