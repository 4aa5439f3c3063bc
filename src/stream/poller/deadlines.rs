// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Deadlines, and the spin after an empty poll. The reactor does the work.

use std::time::Instant;

use super::{Due, Poller};

impl Poller {
    pub fn schedule(&mut self, at: Instant, due: Due) {
        self.reactor.schedule(at, due);
    }

    /// Handles the expiry of the timer.
    pub(crate) fn timer_expired(&mut self) {
        self.reactor.end_wake();
    }

    /// Removes a deadline that is due. After the last one the caller must call `set_timer`.
    pub(crate) fn next_due(&mut self, now: Instant) -> Option<Due> {
        self.reactor.next_due(now)
    }

    pub(crate) fn set_timer(&self) {
        self.reactor.set_timer();
    }

    #[inline]
    pub(crate) fn has_deadlines(&self) -> bool {
        self.reactor.has_deadlines()
    }

    pub(crate) fn earliest_due(&self) -> Option<Due> {
        self.reactor.earliest()
    }

    /// Removes the earliest deadline. The caller must then call `set_timer`.
    pub(crate) fn drop_earliest(&mut self) {
        self.reactor.drop_earliest();
    }
}

/// Spinning after an empty poll: see `AdaptiveSpin`.
impl Poller {
    #[inline(always)]
    pub(crate) fn is_spin_due(&self) -> bool {
        self.reactor.spin.is_due()
    }

    #[inline(always)]
    pub(crate) fn spin_found(&mut self) {
        self.reactor.spin.found();
    }

    pub(crate) fn begin_spin(&mut self) -> bool {
        self.reactor.spin.take_turn()
    }

    pub(crate) fn end_spin(&mut self, has_found: bool) {
        self.reactor.spin.note(has_found);
    }
}
