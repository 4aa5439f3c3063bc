// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Frames of collectives: from the state machine in `engine::coll` to connections and back. docs/wire/tcp.md,
//! "Extensions".

use crate::conn::Conn;
use crate::connector::Connector;
use crate::session::State;
use crate::session::groups::{HEADROOM, header_of};
use crate::transport::{DomainOf, Stream};
use base::log::{Subsys, log_warn};
use base::{Error, Result};
use engine::coll::Action;
use engine::id_set::IdSet;
use engine::transport::Groups;

impl<N: Connector> Groups for Stream<N> {
    const COLLECTIVES: bool = true;

    fn identity(addr: &N::Addr) -> Vec<u8> {
        N::identity(addr)
    }

    fn own_rank(&self, ep: usize, members: &[N::Addr]) -> Result<usize> {
        N::own_rank(&self.traffic.peers.ep(ep)?.local, members)
    }

    fn groups_moved(&mut self, domain: &mut DomainOf<N>, ep: usize) {
        if self.is_inherited() {
            return;
        }
        self.collectives_moved(domain, ep);
        // A stalled stream may hold a frame of a collective that has begun.
        if !self.traffic.common.stalled.is_empty() {
            self.traffic.retry_stalled(domain);
            self.settle(domain);
        }
    }
}

impl<N: Connector> Stream<N> {
    /// Carries out the actions that the collectives of an endpoint have queued.
    pub(super) fn collectives_moved(&mut self, domain: &mut DomainOf<N>, ep: usize) {
        let mut written = IdSet::default();
        while let Some(action) = domain.next_action(ep) {
            match action {
                Action::Lost(_) => {}
                Action::Ended(token, result) => domain.collective_over(ep, token, result),
                Action::Watch(peer) => drop(self.member(domain, ep, peer)),
                Action::Send { to, frame, bytes } => {
                    let Some(id) = self.member(domain, ep, to) else {
                        continue;
                    };
                    let header = header_of(&frame, bytes.len() - HEADROOM);
                    match self.traffic.peers[id].session.state {
                        State::Up => {
                            let (session, mut cx) = self.traffic.at(domain, id);
                            session.tx.out.send_bytes(&mut cx, &header, bytes);
                            written.insert(id);
                        }
                        _ => {
                            let frames =
                                self.traffic.peers[id].session.coll.get_or_insert_default();
                            frames.0.push_back((header, bytes));
                        }
                    }
                }
            }
        }
        for id in written.iter() {
            if self.traffic.peers.get(id).is_some_and(is_open) {
                self.with(domain, id, |session, cx| session.tx.out.flush(cx));
            }
        }
    }

    /// Returns the connection to a member and creates it if there is none. Returns `None` if the member is lost.
    fn member(&mut self, domain: &mut DomainOf<N>, ep: usize, peer: N::Addr) -> Option<usize> {
        let known = self.traffic.peers.find_ep(ep)?.conn_to(&peer);
        let id = known.unwrap_or_else(|| {
            self.call_connector(domain, |_, desk| desk.new_peer(ep, peer.clone()))
        });
        if self.traffic.peers[id].session.state == State::Resting {
            self.with(domain, id, |session, cx| session.withdraw_close(cx));
        }
        let conn = &mut self.traffic.peers[id];
        match conn.session.state {
            State::Up if !speaks(conn) => {
                self.mute(domain, id);
                None
            }
            State::Up => Some(id),
            _ => {
                conn.session.coll.get_or_insert_default();
                if conn.session.state == State::Idle
                    && !conn.clock.is_started()
                    && let Err(error) = self.begin_connect(domain, id)
                {
                    self.member_lost(domain, ep, &peer, error);
                }
                self.traffic.peers.contains(id).then_some(id)
            }
        }
    }

    /// Handles a peer that cannot take part, because it has no extensions or the other byte order.
    #[cold]
    fn mute(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = &mut self.traffic.peers[id];
        let (ep, peer) = (conn.session.peer.ep, conn.session.peer.addr.clone());
        conn.session.coll = None;
        log_warn!(
            self.traffic.common.source,
            Subsys::EpData,
            "{peer}: no collectives: not this library, or the other byte order"
        );
        self.member_lost(domain, ep, &peer, Error::OPNOTSUPP);
    }

    /// Handles a connection to a member that has come up.
    pub(super) fn member_up(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let Some(conn) = self.traffic.peers.get_mut(id) else {
            return;
        };
        let Some(frames) = conn.session.coll.take() else {
            return;
        };
        if !speaks(conn) {
            return self.mute(domain, id);
        }
        self.with(domain, id, |session, cx| {
            for (header, bytes) in frames.0 {
                session.tx.out.send_bytes(cx, &header, bytes);
            }
            session.tx.out.flush(cx);
        });
    }

    /// Handles the loss of a peer.
    pub(super) fn member_lost(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        peer: &N::Addr,
        error: Error,
    ) {
        domain.member_lost(ep, peer, error);
        self.collectives_moved(domain, ep);
    }
}

fn is_open<N: Connector>(conn: &Conn<N>) -> bool {
    conn.session.state == State::Up && !conn.session.tx.out.is_blocked()
}

/// Whether the peer takes extension frames and has the byte order of this host.
fn speaks<N: Connector>(conn: &Conn<N>) -> bool {
    conn.session.agreed.extended && !conn.session.tx.out.swaps()
}
