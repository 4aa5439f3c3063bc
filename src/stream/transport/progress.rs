// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The progress loop: reads the connections that `poller` names, and handles events of epoll and deadlines.

use core::time::Duration;
use std::time::Instant;

use crate::conn::Conn;
use crate::connector::{Connector, Event};
use crate::poller::Due;
use crate::poller::{Polled, Way};
use crate::session::State;
use crate::transport::{DomainOf, Stream};
use base::Error;
use engine::report::dump;
use engine::report::gather::attend;
use sys::event::{BATCH, Ready};

/// Least number of polls between two checks for a pending report request. The check also calls epoll, which costs much
/// more.
const ATTEND_EVERY: u64 = 256;

/// Time after which a poll asks epoll for no more events.
const MORE_EVENTS: Duration = Duration::from_micros(100);

/// Maximum of deadlines that one poll handles. The timer fires again at once for the others.
const DUES: usize = 64;

impl<N: Connector> Stream<N> {
    /// Polls everything that may have an event, if no memory is shared.
    #[inline(never)]
    pub(super) fn poll_sockets(&mut self, domain: &mut DomainOf<N>) {
        let found = match self.traffic.poller.way(self.traffic.common.polls) {
            Way::Hot => {
                self.clear_up(domain);
                self.traffic.poll_hot(domain)
            }
            Way::Predicted(next) => {
                self.clear_up(domain);
                self.traffic.poll_next(domain, next)
            }
            Way::Epoll => return self.poll_all(domain),
        };
        if found.came {
            self.settle(domain);
        }
        if found.asks {
            self.ask_epoll(domain);
        }
        self.retry_held(domain);
    }

    /// Polls everything that may have an event, if memory is shared.
    #[inline]
    pub(super) fn poll_rings(&mut self, domain: &mut DomainOf<N>) {
        self.clear_up(domain);
        if self.traffic.shm.is_armed() != domain.watchers.may_sleep() {
            // Threads may start to sleep, or no longer do.
            match self.traffic.shm.is_armed() {
                true => self.traffic.shm.disarm(&self.traffic.peers),
                false => self.arm_rings(domain),
            }
        }
        self.traffic.read_rings(domain);
        self.settle(domain);
        if self.traffic.leave_quiet_peers() {
            self.ask_epoll(domain);
        }
        self.retry_held(domain);
    }

    /// Makes peers ring the doorbell after each write from now on. Polls all rings once more for earlier records.
    fn arm_rings(&mut self, domain: &mut DomainOf<N>) {
        self.traffic.shm.arm(&self.traffic.peers);
        self.traffic.retry_full(domain);
        self.settle(domain);
        self.traffic.read_rings(domain);
        self.settle(domain);
    }

    /// Finishes work that earlier polls left.
    #[inline]
    fn clear_up(&mut self, domain: &mut DomainOf<N>) {
        if self.traffic.begin_poll() {
            self.traffic.clear_up(domain);
            self.settle(domain);
        }
    }

    /// Retries operations that wait for earlier ones.
    #[inline]
    fn retry_held(&mut self, domain: &mut DomainOf<N>) {
        if !self.traffic.common.held.is_empty() {
            self.traffic.retry_held(domain);
            self.settle(domain);
        }
    }

    /// Polls everything through epoll, which also watches the connections that are read directly.
    pub(super) fn poll_all(&mut self, domain: &mut DomainOf<N>) {
        self.traffic.poller.prepare_sleep();
        self.clear_up(domain);
        self.traffic.poller.attach_all(&self.traffic.peers);
        if self.traffic.has_shm() {
            self.arm_rings(domain);
        }
        self.ask_epoll(domain);
        if self.traffic.has_shm() {
            self.traffic
                .shm
                .stay_awake(&mut self.traffic.peers, &mut self.traffic.poller);
        }
        self.retry_held(domain);
    }

    fn ask_epoll(&mut self, domain: &mut DomainOf<N>) {
        let mut ready = [Ready {
            token: 0,
            readable: false,
            writable: false,
            broken: false,
            ended: false,
        }; BATCH];
        let n = self.traffic.poller.call_epoll(&mut ready);
        if n > 0 || self.traffic.poller.is_epoll_busy() {
            self.handle_events(domain, &mut ready, n);
        }
        if self.traffic.turns.has_waiting() {
            self.serve_turns(domain);
        }
        if N::MAY_SHARE {
            self.traffic.shrink_rings();
        }
        if self.traffic.poller.has_deadlines() {
            self.traffic.drop_deadlines(&self.connector);
        }
        let polls = self.traffic.common.polls;
        if polls >= self.attend_at {
            self.attend_at = polls.wrapping_add(ATTEND_EVERY);
            self.attend(domain);
        }
    }

    /// Handles `n` events, and those that further calls of epoll report while there are many, for a limited time.
    fn handle_events(
        &mut self,
        domain: &mut DomainOf<N>,
        ready: &mut [Ready; BATCH],
        mut n: usize,
    ) {
        let mut found = n;
        let mut end = None;
        for left in (0..self.traffic.poller.epoll_calls()).rev() {
            for ready in &ready[..n] {
                self.handle_event(domain, ready);
            }
            if n < BATCH || left == 0 {
                break;
            }
            let now = Instant::now();
            if now > *end.get_or_insert(now + MORE_EVENTS) {
                break;
            }
            n = self.traffic.poller.call_epoll(ready);
            found += n;
        }
        self.traffic.poller.record_found(found, n == BATCH);
    }

    fn handle_event(&mut self, domain: &mut DomainOf<N>, ready: &Ready) {
        match Polled::of(ready) {
            Polled::Timer => self.timer_due(domain),
            Polled::Conn(id) => {
                self.traffic.poller.reported(id);
                self.conn_ready(domain, id, ready);
            }
            Polled::Listener(ep) => self.accept_waiting(domain, ep),
            Polled::Handshake(id) if self.connector.has_handshake(id) => {
                self.connector_event(domain, Event::Handshake(id));
            }
            Polled::Pending(id) if self.traffic.shm.has_pending(id) => {
                if let Some(hello) = self.traffic.shm.read_hello(&mut self.traffic.poller, id) {
                    self.connector_event(domain, Event::Hello(hello));
                }
            }
            _ => {}
        }
    }

    fn conn_ready(&mut self, domain: &mut DomainOf<N>, id: usize, event: &Ready) {
        let Some(conn) = self.traffic.peers.get(id) else {
            return;
        };
        match conn.session.state {
            State::Up | State::Resting if conn.link.is_ring() => {
                self.traffic.doorbell_rung(domain, id);
                self.settle(domain);
            }
            State::Up | State::Resting if event.broken && !self.traffic.poller.interest(id).0 => {
                // Reading waited for room, and the rest of the data is not coming any more.
                self.disconnect(domain, id, Error::CONNRESET);
            }
            State::Up | State::Resting if event.ended && !self.traffic.poller.interest(id).0 => {
                self.traffic.ended_unread(domain, id);
                self.settle(domain);
            }
            State::Up | State::Resting => {
                let came = event.readable && self.traffic.read_conn(domain, id);
                self.settle(domain);
                if came && self.traffic.peers.contains(id) {
                    self.traffic.poller.mark_active(id);
                    self.traffic.lines().promote(id);
                }
                let blocked = |conn: &Conn<N>| conn.session.tx.out.is_blocked();
                if event.writable && self.traffic.peers.get(id).is_some_and(blocked) {
                    self.with(domain, id, |session, cx| session.unblocked(cx));
                    self.traffic.lines().unblocked(id);
                }
            }
            State::Connecting | State::Requested | State::Proving | State::Sharing => {
                self.connector_event(domain, Event::Opening(id));
            }
            State::Idle | State::Down => {}
        }
    }

    /// Handles deadlines that have passed.
    #[cold]
    fn timer_due(&mut self, domain: &mut DomainOf<N>) {
        self.traffic.poller.timer_expired();
        let now = self.traffic.poller.now();
        for _ in 0..DUES {
            let Some(due) = self.traffic.poller.next_due(now) else {
                break;
            };
            match due {
                Due::Conn(id) => self.conn_due(domain, id),
                Due::Handshake(id) => self.connector_event(domain, Event::HandshakeDue(id)),
                Due::PendingPeer(id) => self.traffic.shm.pending_due(&mut self.traffic.poller, id),
                Due::Peers => self.traffic.check_peers(),
                Due::Waits => self.traffic.check_waits(domain),
                Due::Listener(ep) => self.resume_listener(ep),
                Due::Room => self.room_due(domain),
                Due::Turns => self.turns_due(domain),
            }
            self.settle(domain);
        }
        self.traffic.poller.set_timer();
    }

    /// See `gather::attend`.
    pub(super) fn attend(&self, domain: &mut DomainOf<N>) {
        if attend(self, domain, self.traffic.poller.now()) {
            dump::request_dump_here();
        }
    }
}
