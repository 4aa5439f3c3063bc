// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Turns of connections: how many attempts to connect are in progress at a time (`engine::peer::pacing`). If all ranks
//! of a job reached for all others at once, most pairs would connect twice, and all would wait.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use crate::conn::WaitsFor;
use crate::connector::Connector;
use crate::poller::Due;
use crate::session::State;
use crate::transport::{DomainOf, Stream};
use engine::peer::pacing::{Pacing, Range, STARTS};

/// Attempts of a domain that may be in progress. Their times are not measured, so only `LEASE` shows that they are
/// slow.
const ATTEMPTS: Range = Range {
    first: 32,
    least: 16,
    most: 128,
    fast: Duration::MAX,
    slow: Duration::MAX,
};
/// Time after which an attempt takes no turn from others any more: its peer may be absent, or compute.
const LEASE: Duration = Duration::from_millis(500);

pub(super) struct Turns {
    pacing: Pacing,
    /// Attempts in progress, with their start. Some may have ended.
    begun: VecDeque<(usize, Instant)>,
    /// The timer for the next turn is set.
    is_armed: bool,
}

impl Turns {
    pub(super) fn new() -> Turns {
        Turns {
            pacing: Pacing::new(ATTEMPTS),
            begun: VecDeque::new(),
            is_armed: false,
        }
    }

    /// Whether connections wait for their turn.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        self.pacing.has_waiting()
    }

    /// Counts an attempt if there is room for it.
    fn begin(&mut self, id: usize, now: Instant) -> bool {
        let may = self.pacing.begin();
        if may {
            self.begun.push_back((id, now));
        }
        may
    }

    /// Forgets attempts that have ended or take long. `state`: that of a connection, if it is there.
    fn sweep(&mut self, now: Instant, state: impl Fn(usize) -> Option<State>) {
        let pacing = &mut self.pacing;
        self.begun.retain(|&(id, at)| {
            match state(id) {
                Some(state) if state.is_opening() && now < at + LEASE => return true,
                Some(state) if state.is_opening() => pacing.lost(at, now),
                Some(state) if state.is_open() => pacing.answered(now, now),
                _ => pacing.dropped(),
            }
            false
        });
    }
}

impl<N: Connector> Stream<N> {
    /// Whether the connection may be opened now. If not, it waits for its turn.
    pub(super) fn has_turn(&mut self, id: usize) -> bool {
        if !self.traffic.peers.is_of_rdm(id) {
            return true;
        }
        if self.traffic.peers[id].waits_for == WaitsFor::Turn {
            return false;
        }
        let now = self.traffic.poller.now();
        if self.traffic.turns.begin(id, now) {
            return true;
        }
        self.sweep_turns(now);
        if self.traffic.turns.begin(id, now) {
            return true;
        }
        self.traffic.peers[id].waits_for = WaitsFor::Turn;
        self.traffic.turns.pacing.wait(id);
        self.arm_turns(now);
        false
    }

    fn sweep_turns(&mut self, now: Instant) {
        let peers = &self.traffic.peers;
        let state = |id| peers.get(id).map(|conn| conn.session.state);
        self.traffic.turns.sweep(now, state);
    }

    fn arm_turns(&mut self, now: Instant) {
        let turns = &mut self.traffic.turns;
        if !std::mem::replace(&mut turns.is_armed, true) {
            self.traffic.poller.schedule(now + LEASE, Due::Turns);
        }
    }

    /// Handles the deadline after which attempts take no turns from others.
    #[cold]
    pub(super) fn turns_due(&mut self, domain: &mut DomainOf<N>) {
        self.traffic.turns.is_armed = false;
        self.serve_turns(domain);
    }

    /// Opens connections that have waited for their turn.
    #[cold]
    pub(super) fn serve_turns(&mut self, domain: &mut DomainOf<N>) {
        let now = self.traffic.poller.now();
        self.sweep_turns(now);
        for _ in 0..STARTS {
            let Some(id) = self.traffic.turns.pacing.take_next() else {
                break;
            };
            let Some(conn) = self.traffic.peers.get_mut(id) else {
                continue;
            };
            // The peer may have opened the connection meanwhile.
            if conn.waits_for.end(WaitsFor::Turn) && conn.session.state == State::Idle {
                self.traffic.turns.begin(id, now);
                // A failure ends the connection, which reports it.
                let _ = self.connect_with_room(domain, id);
            }
        }
        if self.traffic.turns.pacing.is_ready() {
            // The application may sleep, and those that have begun may get no answer.
            self.traffic.turns.is_armed = true;
            self.traffic.poller.schedule(now, Due::Turns);
        } else if self.traffic.turns.has_waiting() {
            self.arm_turns(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_end_their_turn_with_their_state_or_their_time() {
        let start = Instant::now();
        let mut turns = Turns::new();
        for id in 0..ATTEMPTS.first as usize {
            assert!(turns.begin(id, start));
        }
        assert!(!turns.begin(32, start));
        turns.pacing.wait(32);
        turns.sweep(start, |_| Some(State::Requested));
        assert_eq!(turns.pacing.take_next(), None);
        // One is up, one has failed, and one is gone.
        turns.sweep(start, |id| match id {
            0 => Some(State::Up),
            1 => Some(State::Idle),
            2 => None,
            _ => Some(State::Connecting),
        });
        assert_eq!(turns.begun.len(), 29);
        assert_eq!(turns.pacing.take_next(), Some(32));
        // The peers of the others are absent.
        turns.sweep(start + LEASE, |_| Some(State::Connecting));
        assert!(turns.begun.is_empty());
        assert!(turns.begin(33, start + LEASE));
    }
}
