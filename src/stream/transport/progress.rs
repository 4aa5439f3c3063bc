// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The progress loop: reads the connections that `poller` names, and handles events of epoll and deadlines.

use std::os::fd::AsRawFd;

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

/// Number of polls between two checks for a pending report request. The check also calls epoll, which costs much more.
const ATTEND_EVERY: u64 = 256;

/// Maximum of deadlines that one poll handles. The timer fires again at once for the others.
const DUES: usize = 64;

impl<N: Connector> Stream<N> {
    /// Polls everything that may have an event.
    pub(super) fn poll(&mut self, domain: &mut DomainOf<N>) {
        match self.has_shm() {
            true => self.poll_shm(domain),
            false => self.poll_sockets(domain),
        }
    }

    /// Does the work of `poll` if no memory is shared.
    #[inline(never)]
    pub(super) fn poll_sockets(&mut self, domain: &mut DomainOf<N>) {
        match self.poller.way(self.common.polls) {
            Way::Hot => self.poll_hot(domain),
            Way::Predicted(next) => self.poll_next(domain, next),
            Way::Epoll => return self.poll_all(domain),
        }
        if !self.common.held.is_empty() {
            self.retry_held(domain);
        }
    }

    /// Reads the hot connections.
    fn poll_hot(&mut self, domain: &mut DomainOf<N>) {
        self.clear_up(domain);
        let mut i = 0;
        let mut came = false;
        while let Some(id) = self.poller.hot(i) {
            let any = self.read_conn(domain, id);
            came |= any;
            // The list changes if the connection ends or is left to epoll.
            if self.poller.hot(i) == Some(id) {
                i += 1;
                self.poller.record_poll(id, any, domain.watchers == 0);
                if any {
                    self.poller.mark_active(id);
                }
            }
        }
        if self.poller.must_call_epoll(self.common.polls, came) {
            self.ask_epoll(domain);
        }
    }

    /// Polls only the predicted connection: programs talk to their peers in turn, and epoll costs as much as the
    /// message.
    fn poll_next(&mut self, domain: &mut DomainOf<N>, next: usize) {
        self.clear_up(domain);
        if self.peers.contains(next) && self.read_conn(domain, next) {
            self.poller.mark_active(next);
        } else if self.poller.is_late() {
            self.ask_epoll(domain);
        }
    }

    /// Polls everything through epoll, which also watches the connections that are read directly.
    pub(super) fn poll_all(&mut self, domain: &mut DomainOf<N>) {
        self.poller.prepare_sleep();
        self.clear_up(domain);
        self.poller.attach_all();
        if self.has_shm() {
            self.arm_shm(domain);
        }
        self.ask_epoll(domain);
        if self.has_shm() {
            self.shm.stay_awake(&mut self.peers, &mut self.poller);
        }
        if !self.common.held.is_empty() {
            self.retry_held(domain);
        }
    }

    /// Finishes work that earlier polls left.
    #[inline]
    pub(super) fn clear_up(&mut self, domain: &mut DomainOf<N>) {
        self.common.polls = self.common.polls.wrapping_add(1);
        if !self.common.dirty.is_empty() {
            self.flush_dirty(domain);
        }
        if !self.common.stalled.is_empty() {
            self.retry_stalled(domain);
        }
        if self.shm.has_full() {
            self.retry_full(domain);
        }
    }

    /// Whether something still depends on a deadline of this kind.
    fn is_awaited(&self, due: Due) -> bool {
        match due {
            Due::Conn(id) => self
                .peers
                .get(id)
                .is_some_and(|conn| match conn.session.state {
                    State::Connecting => true,
                    State::Idle => conn.clock.is_started(),
                    // The provider may give up an attempt before its end (`Connector::attempt_limit`).
                    State::Requested | State::Proving | State::Sharing => {
                        N::attempt_limit(&conn.own).is_some()
                    }
                    State::Up | State::Down => false,
                }),
            Due::Handshake(id) => self.connector.has_handshake(id),
            Due::PendingPeer(id) => self.shm.has_pending(id),
            Due::Listener(ep) => self.peers.find_ep(ep).is_some(),
            Due::Peers | Due::Waits => true,
        }
    }

    pub(super) fn ask_epoll(&mut self, domain: &mut DomainOf<N>) {
        let mut ready = [Ready {
            token: 0,
            readable: false,
            writable: false,
            broken: false,
            ended: false,
        }; BATCH];
        let n = self.poller.call_epoll(&mut ready);
        for ready in &ready[..n] {
            match Polled::of(ready) {
                Polled::Timer => self.timer_due(domain),
                Polled::Conn(id) => {
                    self.poller.reported(id);
                    self.conn_ready(domain, id, ready);
                }
                Polled::Listener(ep) => self.connector_event(domain, Event::Incoming(ep)),
                Polled::Handshake(id) if self.connector.has_handshake(id) => {
                    self.connector_event(domain, Event::Handshake(id));
                }
                Polled::Pending(id) if self.shm.has_pending(id) => {
                    if let Some(hello) = self.shm.read_hello(&mut self.poller, id) {
                        self.connector_event(domain, Event::Hello(hello));
                    }
                }
                _ => {}
            }
        }
        if self.poller.has_deadlines() {
            self.drop_deadlines();
        }
        if self.common.polls.is_multiple_of(ATTEND_EVERY) {
            self.attend(domain);
        }
    }

    fn conn_ready(&mut self, domain: &mut DomainOf<N>, id: usize, event: &Ready) {
        let Some(conn) = self.peers.get(id) else {
            return;
        };
        match conn.session.state {
            State::Up if conn.link.is_ring() => self.doorbell_rung(domain, id),
            State::Up if event.broken && !self.poller.interest(id).0 => {
                // Reading waited for room, and the rest of the data is not coming any more.
                self.disconnect(domain, id, Error::CONNRESET);
            }
            State::Up if event.ended && !self.poller.interest(id).0 => {
                self.ended_unread(domain, id)
            }
            State::Up => {
                if event.readable && self.read_conn(domain, id) && self.peers.contains(id) {
                    self.poller.mark_active(id);
                    self.lines().promote(id);
                }
                let blocked = |conn: &Conn<N>| conn.session.tx.out.is_blocked();
                if event.writable && self.peers.get(id).is_some_and(blocked) {
                    self.with(domain, id, |session, cx| session.unblocked(cx));
                    self.lines().unblocked(id);
                }
            }
            State::Connecting | State::Requested | State::Proving | State::Sharing => {
                self.connector_event(domain, Event::Opening(id));
            }
            State::Idle | State::Down => {}
        }
    }

    /// Removes deadlines whose purpose is fulfilled.
    fn drop_deadlines(&mut self) {
        let mut any = false;
        while let Some(due) = self.poller.earliest_due()
            && !self.is_awaited(due)
        {
            self.poller.drop_earliest();
            any = true;
        }
        if any {
            self.poller.set_timer();
        }
    }

    /// Handles deadlines that have passed.
    #[cold]
    fn timer_due(&mut self, domain: &mut DomainOf<N>) {
        self.poller.timer_expired();
        let now = self.poller.now();
        for _ in 0..DUES {
            let Some(due) = self.poller.next_due(now) else {
                break;
            };
            match due {
                Due::Conn(id) => self.conn_due(domain, id),
                Due::Handshake(id) => self.connector_event(domain, Event::HandshakeDue(id)),
                Due::PendingPeer(id) => self.shm.pending_due(&mut self.poller, id),
                Due::Peers => self.check_peers(domain),
                Due::Waits => self.check_waits(domain),
                Due::Listener(ep) => {
                    let listener = self.peers.find_ep(ep).and_then(|ep| ep.listener.as_ref());
                    // A descriptor that is already in the set stays.
                    for shm_listener in listener.into_iter().chain(self.connector.shm_listener(ep))
                    {
                        let fd = shm_listener.as_raw_fd();
                        let _ = self.poller.add_listener(fd, ep);
                    }
                }
            }
        }
        self.poller.set_timer();
    }

    /// See `gather::attend`.
    pub(super) fn attend(&self, domain: &mut DomainOf<N>) {
        if attend(self, domain, self.poller.now()) {
            dump::ask_from_inside();
        }
    }
}
