// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The lines to peers: the one place that decides which part of the domain serves the link of a connection. `Poller`
//! watches sockets, `ShmHost` polls rings.

use crate::connector::Connector;
use crate::peers::Peers;
use crate::poller::Poller;
use crate::session::State;
use crate::shm_host::ShmHost;

/// Connections, and the parts that poll them.
pub(super) struct Lines<'a, N: Connector> {
    pub(super) peers: &'a mut Peers<N>,
    pub(super) poller: &'a mut Poller,
    pub(super) shm: &'a mut ShmHost,
    /// Number of this poll.
    pub(super) poll: u64,
}

impl<N: Connector> Lines<'_, N> {
    /// Sets the events of the link that epoll watches for.
    pub(super) fn watch(&mut self, id: usize, read: bool, write: bool) {
        let conn = &self.peers[id];
        let Some(fd) = conn.link.fd() else {
            return;
        };
        let (read, write) = match conn.link.is_ring() {
            // The socket is only the doorbell: it signals a ring or the end of the peer.
            true => (true, false),
            false => {
                let rx = &conn.session.rx;
                (read && (!rx.waits() || rx.is_graced()), write)
            }
        };
        // If the kernel has no memory, the connection keeps the events that it has.
        let _ = self.poller.watch(id, fd, read, write);
    }

    /// Reads the connection directly for a while, after an event.
    pub(super) fn promote(&mut self, id: usize) {
        let conn = &self.peers[id];
        if conn.link.is_ring() {
            return self.poll_ring(id);
        }
        // While memory is shared, epoll serves all sockets.
        let shares = N::MAY_SHARE && self.shm.count() > 0;
        let is_allowed = conn.session.state == State::Up && !shares;
        self.poller.promote(id, is_allowed, self.peers);
    }

    /// Polls the ring of a connection directly.
    pub(super) fn poll_ring(&mut self, id: usize) {
        self.shm.promote(self.peers, self.poller, id, self.poll);
    }

    /// Stops reading from the connection until `resume_read`.
    pub(super) fn pause_read(&mut self, id: usize) {
        if self.peers[id].link.is_ring() {
            return self.shm.stop_polling(id);
        }
        self.poller.stop_direct_reads(id);
        let (_, write) = self.poller.interest(id);
        self.watch(id, false, write);
    }

    /// Reads from the connection again, unless the session still waits.
    pub(super) fn resume_read(&mut self, id: usize) {
        if !self.peers[id].session.rx.waits() {
            let (_, write) = self.poller.interest(id);
            self.watch(id, true, write);
            self.promote(id);
        }
    }

    /// Has epoll or the peer signal when a link that takes no more has room again.
    pub(super) fn blocked(&mut self, id: usize) {
        let conn = &self.peers[id];
        if !conn.session.tx.out.is_blocked() {
            return;
        }
        if conn.link.is_ring() {
            return self.shm.ring_is_full(self.peers, self.poller, id);
        }
        let (read, _) = self.poller.interest(id);
        self.watch(id, read, true);
    }

    /// Ends that after the session has continued to write.
    pub(super) fn unblocked(&mut self, id: usize) {
        let conn = self.peers.get(id);
        if conn.is_some_and(|conn| !conn.session.tx.out.is_blocked()) {
            let (read, _) = self.poller.interest(id);
            self.watch(id, read, false);
        }
    }

    /// Closes the link of a connection.
    pub(super) fn close(&mut self, id: usize) {
        let conn = &mut self.peers[id];
        self.poller.remove(id, conn.link.fd());
        if N::ALL_SHM || conn.link.is_ring() {
            // A forked child may hold the descriptor, too, so only a shutdown makes the peer see the end.
            conn.link.shutdown();
        }
        let (session, source) = (&conn.session, self.shm.source());
        let told = &session.rx.told;
        told.take_back(&conn.link, &session.peer, source, |_| true);
        if conn.link.close() {
            self.shm.remove(id);
        }
        conn.session.tx.forget_early();
    }
}
