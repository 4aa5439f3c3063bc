// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What was accepted and the application cannot hear of any more is delivered before an endpoint, or the process, ends:
//! progress goes on until it is, for a limited time.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::time::Instant;

use super::{Engine, Locked};
use crate::base::log::{Subsys, log_info};
use crate::engine::transport::Transport;
use crate::sys::event::sleep_on;

/// How long what the kernel has not sent is waited for: it goes on by itself as long as the peer sends nothing.
const KERNEL: Duration = Duration::from_secs(1);
/// The longest sleep between two polls of what is left.
const PAUSE: Duration = Duration::from_millis(10);
/// How long the end of the process waits for a thread that is inside a call, and may stay there.
const INSIDE: Duration = Duration::from_millis(200);

impl<T: Transport> Engine<T> {
    /// Before an endpoint is closed.
    pub(super) fn drain(&self, ep: usize) {
        self.drain_with(Some(ep), || self.lock_to_close().ok());
    }

    fn drain_with<'a>(
        &'a self,
        ep: Option<usize>,
        mut lock: impl FnMut() -> Option<Locked<'a, T>>,
    ) {
        let start = Instant::now();
        loop {
            let Some(mut state) = lock() else {
                return;
            };
            let limit = state.transport.close_limit();
            let spent = start.elapsed();
            let patient = spent < KERNEL.min(limit);
            if !state.transport.owes(ep, patient) {
                return;
            }
            state.progress_all();
            state.flush();
            if !state.transport.owes(ep, patient) {
                return;
            }
            let Some(left) = limit.checked_sub(spent).filter(|left| !left.is_zero()) else {
                return state.transport.tell_lost(ep);
            };
            drop(state);
            // A signal only means that what is left is polled earlier.
            let _ = sleep_on(&[self.poll_fd], Some(left.min(PAUSE)));
        }
    }
    /// When the process ends.
    pub(super) fn drain_at_exit(&self) {
        // What a child has of its parent's the parent sends.
        if !self.birth.is_here() {
            return;
        }
        let mut left_memory = false;
        self.drain_with(None, || {
            let mut state = self.state.lock_aside_within(INSIDE);
            if let Some(state) = state.as_deref_mut()
                && !std::mem::replace(&mut left_memory, true)
                && state.transport.owes(None, true)
            {
                // The program's destructors have run.
                state.transport.leave_memory(&mut state.domain);
            }
            if state.is_none() {
                log_info!(
                    self.provider,
                    Subsys::Domain,
                    "the process ends while a thread is inside a call: nothing is sent any more"
                );
            }
            state
        });
    }
}
