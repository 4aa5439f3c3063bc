// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connections over shared memory: polling, sleeping, waking. Their sockets carry no frames, only wake-ups and the end
//! of the peer.
//!
//! While a domain has connections over memory, sockets are left to epoll, and every 8th poll calls it; a domain
//! without such connections pays a comparison.
//!
//! No process number is watched and nothing has a time limit: this side waits for a peer that is stopped. Data that a
//! dead peer had published is still delivered; then the operations that wait for it fail.

use core::time::Duration;
use std::time::Instant;

use crate::connector::Connector;
use crate::link::Emptied;
use crate::session::Ending;
use crate::session::records::GARBAGE;
use crate::shm_host::FastPoll;
use crate::transport::{DomainOf, Traffic};
use base::Error;

/// Consecutive records of one peer before the others get their turn.
const TURNS: usize = 64;
impl<N: Connector> Traffic<N> {
    /// Previews the next poll if that is cheap, that is, if earlier polls left no work.
    #[inline(always)]
    pub(in crate::transport) fn poll_fast(&self, domain: &DomainOf<N>) -> FastPoll {
        let left = self.common.dirty.len()
            | self.common.stalled.len()
            | self.common.held.len()
            | self.shm.full_len();
        let next = self.common.polls.wrapping_add(1);
        let is_idle = left == 0
            && self.shm.is_armed() == domain.watchers.may_sleep()
            && !self.poller.is_epoll_due(next);
        match is_idle {
            true => self.shm.preview(&self.peers),
            false => FastPoll::Unclear,
        }
    }

    /// Waits after an empty poll if the next record is likely to come at once, but no longer than a peer takes that
    /// waits for this side.
    #[cold]
    #[inline(never)]
    pub(in crate::transport) fn wait_a_moment(&mut self, domain: &mut DomainOf<N>) {
        // A thread that is about to sleep needs the processor.
        if self.shm.is_armed() || !self.poller.begin_spin() {
            return;
        }
        let (poller, waiters) = (&self.poller, &domain.waiters);
        let is_over = || waiters.is_any();
        let news = self
            .shm
            .wait_for_event(&mut self.peers, || poller.now(), is_over);
        self.poller.end_spin(news.is_some());
        if let Some(id) = news {
            self.read_ring(domain, id);
        }
    }

    #[inline]
    pub(in crate::transport) fn read_rings(&mut self, domain: &mut DomainOf<N>) {
        let mut i = 0;
        while let Some(id) = self.shm.polled(i) {
            let any = self.read_ring(domain, id);
            // The list changes if the connection ends or is held.
            if self.shm.polled(i) != Some(id) {
                continue;
            }
            i += 1;
            if any {
                self.poller.spin_found();
            }
        }
    }

    /// Leaves quiet peers to their doorbells and returns true, if this poll also calls epoll.
    #[inline]
    pub(in crate::transport) fn leave_quiet_peers(&mut self) -> bool {
        let calls_epoll = self.poller.is_epoll_due(self.common.polls);
        if calls_epoll {
            let all_share = self.shm.count() == self.peers.len();
            self.poller.plan_epoll(self.common.polls, all_share);
            let (peers, poller) = (&mut self.peers, &mut self.poller);
            self.shm.leave_quiet_peers(peers, poller, self.common.polls);
        }
        calls_epoll
    }

    /// Gives memory of rings back that are not used any more.
    #[inline]
    pub(in crate::transport) fn shrink_rings(&mut self) {
        if self.shm.is_visit_due(&self.poller) {
            self.shm.shrink_rings(&mut self.peers, &self.poller);
        }
    }

    /// Whether the next records have to stay in the ring; see `Session::waits_for_sender`.
    #[inline]
    fn waits_for_sender(&mut self, domain: &mut DomainOf<N>, id: usize) -> bool {
        if self
            .peers
            .get(id)
            .is_none_or(|conn| !conn.session.rx.told.is_sharing())
        {
            return false;
        }
        let waits = self.with(domain, id, |session, cx| session.waits_for_sender(cx));
        // If the answer could not be sent, the session may have ended.
        waits || self.peers[id].session.is_over()
    }

    /// Retries connections whose ring may have room again.
    #[cold]
    pub(in crate::transport) fn retry_full(&mut self, domain: &mut DomainOf<N>) {
        for id in self.shm.take_full() {
            let Some(conn) = self.peers.get_mut(id) else {
                continue;
            };
            if conn.session.is_over() {
                continue;
            }
            if conn.link.is_gone() && conn.session.rx.waits() {
                // The peer's data still waits for its receive, but operations to the peer can end now.
                self.shm.check_again(id);
                self.transmits_end(domain, id);
                continue;
            }
            if !conn.session.tx.out.is_blocked() {
                continue;
            }
            match conn.link.returned_room() {
                Some(false) => self.shm.check_again(id),
                Some(true) => {
                    conn.link.set_waiting(false);
                    conn.session.tx.out.unblock();
                    self.with(domain, id, |session, cx| {
                        session.tx.out.flush(cx);
                        session.retry_frame(cx);
                    });
                }
                None => self.lines().poll_ring(id),
            }
        }
    }

    /// Handles an event of the socket beside the memory.
    pub(in crate::transport) fn doorbell_rung(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = &mut self.peers[id];
        conn.link.take_rings();
        if conn.link.is_gone() {
            self.poller.expect_nothing(id, conn.link.fd());
            self.left_waiting(id);
        }
        if self.shm.has_full() {
            self.retry_full(domain);
        }
        if self
            .peers
            .get(id)
            .is_some_and(|conn| !conn.session.is_over() && !conn.session.rx.waits())
        {
            self.lines().poll_ring(id);
            self.read_ring(domain, id);
        }
    }

    /// Handles the end of a peer whose data waits for a receive. Operations to the peer fail without delay. If the data
    /// can never be complete, all operations fail.
    #[cold]
    fn left_waiting(&mut self, id: usize) {
        let Some(conn) = self.peers.get(id) else {
            return;
        };
        if !conn.session.rx.waits() {
            return;
        }
        if conn.session.rx.is_hopeless(conn.link.unread()) {
            return self.end(id, Ending::Lost(Error::CONNRESET));
        }
        self.shm.check_again(id);
    }

    /// Takes the records that the peer has written; returns whether there were any.
    #[inline]
    pub(in crate::transport) fn read_ring(&mut self, domain: &mut DomainOf<N>, id: usize) -> bool {
        let mut any = false;
        let conn = self.peers.get(id);
        if conn.is_some_and(|conn| conn.link.is_past_end()) {
            self.end(id, Ending::Fault(GARBAGE));
            return true;
        }
        let mut turns = TURNS;
        // After a record that is not a message, the next is likely not to be one either.
        let mut is_other = false;
        while turns > 0 && !self.waits_for_sender(domain, id) {
            if !is_other {
                let (session, mut cx) = self.at(domain, id);
                let left = session.take_messages(&mut cx, turns);
                any |= left.taken > 0;
                turns -= left.taken;
                if left.nothing {
                    self.found_empty(id);
                    break;
                }
            }
            let (session, mut cx) = self.at(domain, id);
            let writes = session.take_writes(&mut cx, turns);
            if writes > 0 {
                any = true;
                turns -= writes;
                is_other = false;
                continue;
            }
            let Some(conn) = self.peers.get_mut(id) else {
                break;
            };
            let Some(shm) = conn.link.memory_mut() else {
                break;
            };
            let record = match shm.peek() {
                Ok(Some(record)) => record,
                Ok(None) => {
                    self.found_empty(id);
                    break;
                }
                Err(_) => {
                    self.end(id, Ending::Fault(GARBAGE));
                    return true;
                }
            };
            if turns == 0 || !conn.session.state.is_open() || conn.session.rx.waits() {
                break;
            }
            if !domain.may_receive(conn.session.peer.ep) {
                self.hold(id);
                break;
            }
            any = true;
            turns -= 1;
            let (session, mut cx) = self.at(domain, id);
            match session.take_record(&mut cx, &record) {
                Ok(other) => is_other = other,
                Err(fault) => {
                    self.end(id, Ending::Fault(fault));
                    self.serve();
                    break;
                }
            }
            self.serve();
            if self.peers[id].session.is_over() {
                break;
            }
            let Some(conn) = self.peers.get_mut(id) else {
                break;
            };
            let Some(shm) = conn.link.memory_mut() else {
                break;
            };
            let (wakes, ended) = (shm.advance(record), shm.ended);
            if wakes {
                conn.link.ring();
            }
            if ended {
                self.left_waiting(id);
            }
        }
        any
    }

    /// Handles an empty ring after all records were taken.
    #[inline]
    fn found_empty(&mut self, id: usize) {
        let conn = &mut self.peers[id];
        let was_written = conn.session.exposed.take_written();
        match conn.link.read_to_end(was_written) {
            Emptied::Open => {}
            Emptied::Ended => self.end(id, Ending::Lost(Error::CONNRESET)),
            Emptied::Garbage => self.end(id, Ending::Fault(GARBAGE)),
        }
    }

    /// Gives frames that were reported as sent to the peer before the connection is closed; waits for room until
    /// `until`.
    pub(in crate::transport) fn last_flush_to_shm(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        until: Instant,
    ) {
        loop {
            self.with(domain, id, |session, cx| session.tx.out.flush(cx));
            let Some(conn) = self.peers.get_mut(id) else {
                return;
            };
            conn.link.ring_if_parked();
            if conn.link.is_dead() {
                return;
            }
            let left = until.saturating_duration_since(self.poller.now());
            if conn.session.tx.out.frames().staged() == 0 || left.is_zero() {
                return;
            }
            conn.link.set_waiting(true);
            if conn.link.may_continue() {
                conn.session.tx.out.unblock();
                continue;
            }
            conn.link
                .wait_for_ring(left.min(Duration::from_millis(100)));
            conn.session.tx.out.unblock();
            if conn.link.has_record() && !conn.session.rx.waits() {
                // Another thread may sleep on the doorbell that rang.
                self.poller.wake();
            }
        }
    }
}
