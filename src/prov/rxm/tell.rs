// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Reports of operations that wait too long: see `engine::report`.

use super::lower::Due;
use super::state::{Rxm, StateOf};
use engine::peer::stall::attend_with;
use engine::report::Peer;

impl Rxm {
    /// Describes the peers of an endpoint.
    pub fn report_peers(&self, ep: usize) -> Vec<Peer> {
        self.sessions.snapshots(&self.lower, ep, self.lower.now())
    }

    /// See `peer::stall`.
    pub fn attend(&mut self, domain: &mut StateOf) {
        let now = self.lower.now();
        attend_with(self, domain, now, |rxm| {
            &mut rxm.sessions.common.stall_clock
        });
    }

    /// Schedules a wake-up for the next check.
    pub fn arm_look(&mut self, domain: &StateOf) {
        if let Some(at) = self.sessions.common.stall_clock.wakes(domain)
            && self.next_look.is_none()
        {
            self.next_look = Some(at);
            self.lower.reactor.schedule(at, Due::Look);
        }
    }

    pub fn look_due(&mut self) {
        self.next_look = None;
    }
}
