// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Writes queued frames: as much as the kernel takes now, and the rest when it has room again.

use std::time::Instant;

use crate::conn::Conn;
use crate::connector::Connector;
use crate::transport::{DomainOf, Traffic};

impl<N: Connector> Traffic<N> {
    pub(in crate::transport) fn flush_dirty(&mut self, domain: &mut DomainOf<N>) {
        let mut dirty = std::mem::take(&mut self.common.dirty);
        for &id in &dirty {
            if self.peers.get(id).is_some_and(is_marked) {
                let (session, mut cx) = self.at(domain, id);
                session.tx.out.flush_marked(&mut cx);
                cx.link.ring_if_parked();
                session.go_on_helping(&mut cx);
            }
        }
        self.serve();
        dirty.clear();
        // Sessions that became dirty meanwhile stay on the list.
        dirty.append(&mut self.common.dirty);
        self.common.dirty = dirty;
        if !self.holds_back_frames() {
            self.common.held_back.end();
        }
    }

    /// Whether frames wait for room in a socket. (A session that copies a message together with its receiver also stays
    /// on the list.)
    pub(in crate::transport) fn holds_back_frames(&self) -> bool {
        let waits = |conn: &Conn<N>| is_marked(conn) && conn.link.gathers();
        let over_socket = |&id: &usize| self.peers.get(id).is_some_and(waits);
        self.common.dirty.iter().any(over_socket)
    }

    /// Hands frames that were reported as sent to the kernel before a socket is closed; waits for room until `until`.
    pub(in crate::transport) fn last_flush(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        until: Instant,
    ) {
        if !self.peers[id].session.state.is_open() {
            return;
        }
        if self.peers[id].link.is_ring() {
            return self.last_flush_to_shm(domain, id, until);
        }
        self.with(domain, id, |session, cx| session.tx.out.flush(cx));
        while let Some(conn) = self.peers.get(id)
            && conn.session.tx.out.frames().staged() > 0
            && conn
                .link
                .wait_writable(until.saturating_duration_since(self.poller.now()))
        {
            let before = conn.session.tx.out.frames().staged();
            self.with(domain, id, |session, cx| session.tx.out.flush(cx));
            // A connection that is writable but takes nothing is broken.
            if self
                .peers
                .get(id)
                .is_none_or(|conn| conn.session.tx.out.frames().staged() == before)
            {
                break;
            }
        }
    }
}

/// Whether a connection is to be flushed. Entries of the list that others have left have no mark.
fn is_marked<N: Connector>(conn: &Conn<N>) -> bool {
    conn.session.tx.out.is_marked()
}
