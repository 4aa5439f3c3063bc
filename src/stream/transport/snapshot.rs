// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Snapshots of connections for reports: see `engine::report`.

use crate::conn::Conn;
use crate::connector::Connector;
use crate::link::Link;
use crate::session::State;
use crate::session::receive_state::At;
use crate::transport::{DomainOf, Stream};
use abi::FI_ADDR_NOTAVAIL;
use base::Error;
use engine::report::gather::attend;
use engine::report::{self, Peer, dump};

impl<N: Connector> Stream<N> {
    /// Describes the connections of an endpoint.
    pub(super) fn tell_peers(&self, ep: usize) -> Vec<Peer> {
        let own = self.peers.of_ep(ep);
        own.map(|(_, conn)| self.tell(conn)).collect()
    }

    fn tell(&self, conn: &Conn<N>) -> Peer {
        let session = &conn.session;
        let (sent, received) = conn.link.moved();
        let known = session.fi_addr != FI_ADDR_NOTAVAIL
            && self.peers.find_ep(session.ep).is_some_and(|ep| ep.rdm);
        let mut peer = Peer {
            address: session.peer.to_string(),
            fi_addr: known.then_some(session.fi_addr),
            state: words(session.state),
            is_up: session.state == State::Up,
            is_opening: !matches!(session.state, State::Up | State::Down),
            link: match conn.link {
                Link::Down => "none",
                _ => conn.link.words(),
            },
            is_memory: conn.link.is_ring(),
            sent,
            received,
            attempts: conn.attempts,
            last_error: conn.last_error.map(Error::code),
            ..Peer::default()
        };
        if session.tx.blocked {
            peer.notes.push("takes no bytes");
        }
        if conn.is_stalled {
            peer.notes.push("reported as stalled");
        }
        match session.rx.at {
            At::Stalled(_) | At::Stopped(_) => peer
                .notes
                .push("is not read: there is no room for its unexpected message"),
            At::Held(_) => peer.notes.push("is not read: it owes answers"),
            At::Header | At::Payload(_) => {}
        }
        if conn.link.is_gone() {
            peer.notes.push("has ended");
        }
        session.each_wait(|wait| {
            peer.add(report::Wait {
                what: wait.what.to_string(),
                len: wait.len,
                tag: wait.tag,
                stage: wait.stage.words(),
                age: self.common.waits.time(wait.since),
            });
        });
        peer
    }

    /// See `gather::attend`.
    pub(super) fn attend(&self, domain: &mut DomainOf<N>) {
        if attend(self, domain, self.poller.now()) {
            dump::ask_from_inside();
        }
    }
}

fn words(state: State) -> &'static str {
    match state {
        State::Idle => "not connected",
        State::Connecting => "connecting",
        State::Requested => "waits for the answer to its connection request",
        State::Proving => "proves its key",
        State::Sharing => "agrees on shared memory",
        State::Up => "connected",
        State::Down => "over",
    }
}
