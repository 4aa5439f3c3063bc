// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Delivers accepted operations whose failure can no longer be reported before an endpoint, or the process, ends.
//! Progress continues until they have left, for a limited time.

use core::time::Duration;
use std::os::fd::AsFd;
use std::time::Instant;

use super::{Engine, Locked, State};
use crate::transport::Transport;
use base::log::{Subsys, log_info};
use sys::event::sleep_on;

/// How long data is waited for that the kernel has not sent. The kernel goes on sending after the close, unless the
/// peer sends something.
const KERNEL: Duration = Duration::from_secs(1);
/// The longest sleep between two polls.
const PAUSE: Duration = Duration::from_millis(10);
/// How long the end of the process waits for a thread that is inside a call and may never return.
const INSIDE: Duration = Duration::from_millis(200);

impl<T: Transport> Engine<T> {
    /// Called before an endpoint is closed.
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
            let State { domain, transport } = &mut *state;
            transport.prepare_drain(domain, ep);
            state.progress_all();
            state.flush();
            if !state.transport.owes(ep, patient) {
                return;
            }
            let Some(left) = limit.checked_sub(spent).filter(|left| !left.is_zero()) else {
                return state.transport.report_lost(ep);
            };
            drop(state);
            // A signal only makes the next poll earlier.
            let _ = sleep_on(&[self.poll_fd.as_fd()], Some(left.min(PAUSE)));
        }
    }
    /// Called when the process ends.
    pub(super) fn drain_at_exit(&self) {
        // Operations from before a fork are sent by the parent.
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
                // The program's destructors have run, so its memory may be gone.
                state.transport.release_memory(&mut state.domain);
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
