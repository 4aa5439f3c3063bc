// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connections over sockets: those that are read without a call of epoll, and the end of peers that are not read.

use crate::connector::Connector;
use crate::poller::Due;
use crate::session::{Ending, State};
use crate::transport::disconnect::Blame;
use crate::transport::{DomainOf, Traffic};
use base::Error;

/// Result of a poll without epoll.
pub(in crate::transport) struct Found {
    pub(in crate::transport) came: bool,
    /// Whether to call epoll, too.
    pub(in crate::transport) asks: bool,
}

impl<N: Connector> Traffic<N> {
    /// Reads the hot connections.
    pub(in crate::transport) fn poll_hot(&mut self, domain: &mut DomainOf<N>) -> Found {
        let mut i = 0;
        let mut came = false;
        while let Some(id) = self.poller.hot(i) {
            let any = self.read_conn(domain, id);
            came |= any;
            // The list changes if the connection ends or is left to epoll.
            if self.poller.hot(i) == Some(id) {
                i += 1;
                let is_unwatched = domain.watchers.is_empty();
                self.poller.record_poll(id, any, is_unwatched, &self.peers);
                if any {
                    self.poller.mark_active(id);
                }
            }
        }
        Found {
            came,
            asks: self.poller.must_call_epoll(self.common.polls, came),
        }
    }

    /// Polls only the predicted connection: programs talk to their peers in turn, and epoll costs as much as the
    /// message.
    pub(in crate::transport) fn poll_next(
        &mut self,
        domain: &mut DomainOf<N>,
        next: usize,
    ) -> Found {
        let came = self.peers.contains(next) && self.read_conn(domain, next);
        if came {
            self.poller.mark_active(next);
        }
        Found {
            came,
            asks: !came && self.poller.is_late(),
        }
    }

    /// Begins a poll; returns whether earlier polls left work.
    #[inline]
    pub(in crate::transport) fn begin_poll(&mut self) -> bool {
        self.common.polls = self.common.polls.wrapping_add(1);
        !self.common.dirty.is_empty() || !self.common.stalled.is_empty() || self.shm.has_full()
    }

    /// Finishes work that earlier polls left.
    pub(in crate::transport) fn clear_up(&mut self, domain: &mut DomainOf<N>) {
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
    fn is_awaited(&self, connector: &N, due: Due) -> bool {
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
                    State::Up | State::Resting | State::Down => false,
                }),
            Due::Handshake(id) => connector.has_handshake(id),
            Due::PendingPeer(id) => self.shm.has_pending(id),
            Due::Listener(ep) => self.peers.find_ep(ep).is_some(),
            Due::Peers | Due::Waits => true,
            Due::Room => self.room.is_armed(),
            Due::Turns => self.turns.has_waiting(),
        }
    }

    /// Removes deadlines whose purpose is fulfilled.
    pub(in crate::transport) fn drop_deadlines(&mut self, connector: &N) {
        let mut any = false;
        while let Some(due) = self.poller.earliest_due()
            && !self.is_awaited(connector, due)
        {
            self.poller.drop_earliest();
            any = true;
        }
        if any {
            self.poller.set_timer();
        }
    }

    /// Handles the end of the stream by the peer while nothing is read from it. Operations to the peer fail at once.
    /// Received data waits for its receive, unless the rest of it can never arrive.
    #[cold]
    pub(in crate::transport) fn ended_unread(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = &self.peers[id];
        let has_parted = conn.session.closing.is_ready() && conn.session.is_quiet();
        if has_parted && conn.link.unread() == 0 {
            return self.end(id, Ending::Lost(Error::CONNRESET));
        }
        if conn.session.rx.is_hopeless(conn.link.unread()) {
            return self.end(id, Ending::Lost(Error::CONNRESET));
        }
        self.poller.expect_nothing(id, conn.link.fd());
        self.transmits_end(domain, id);
    }

    /// Fails all transmits, because the peer receives nothing any more. Data that it has sent may wait for its
    /// receives.
    pub(in crate::transport) fn transmits_end(&mut self, domain: &mut DomainOf<N>, id: usize) {
        if self.peers[id].has_work() {
            let source = self.common.source;
            let conn = &mut self.peers[id];
            let blame = Blame::begin(domain, conn, &"ended");
            conn.session.tx.fail(domain, Error::CONNRESET);
            blame.end(domain, source);
        }
    }
}
