// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Objects on which threads may block until the transport's descriptor becomes readable.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::wait::Wait;

/// Objects on which a thread may block at any time without notice: wait objects, event queues, the progress thread.
/// While there is none, the transport's descriptor need not become readable.
#[derive(Default)]
pub struct Watchers {
    count: usize,
    /// Number of wait objects among them.
    waits: usize,
    /// Wait objects on which a thread blocks, or may block without notice.
    armed: Arc<AtomicUsize>,
}

impl Watchers {
    pub fn add(&mut self) {
        self.count += 1;
    }

    pub fn remove(&mut self) {
        self.count -= 1;
    }

    /// Adds a wait object.
    pub fn add_wait(&mut self, wait: Wait) -> Wait {
        let sleeps = usize::from(wait.can_sleep());
        self.count += sleeps;
        self.waits += sleeps;
        wait.counted(self.armed.clone())
    }

    pub fn remove_wait(&mut self, can_sleep: bool) {
        self.count -= usize::from(can_sleep);
        self.waits -= usize::from(can_sleep);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a thread may be blocked on the transport's descriptor.
    #[inline]
    pub fn may_sleep(&self) -> bool {
        // Relaxed: a thread arms the wait object under the lock, after it has polled.
        self.count > self.waits || self.armed.load(Ordering::Relaxed) > 0
    }
}
