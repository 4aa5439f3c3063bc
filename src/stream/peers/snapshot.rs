// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What connections report: snapshots (see `engine::report`), and data that is still owed to peers.

use core::time::Duration;

use super::Peers;
use crate::conn::Conn;
use crate::connector::Connector;
use crate::link::Link;
use crate::session::State;
use abi::FI_ADDR_NOTAVAIL;
use base::Error;
use base::log::{Source, Subsys, log_warn};
use engine::peer::stall::Ticks;
use engine::report::{self, Peer};

impl<N: Connector> Peers<N> {
    /// Describes the connections of an endpoint.
    pub(crate) fn snapshot(&self, ep: usize, ticks: &Ticks) -> Vec<Peer> {
        let own = self.of_ep(ep);
        own.map(|(_, conn)| self.snapshot_of(conn, ticks)).collect()
    }

    fn snapshot_of(&self, conn: &Conn<N>, ticks: &Ticks) -> Peer {
        let session = &conn.session;
        let (sent, received) = conn.link.moved();
        let known = session.peer.fi_addr != FI_ADDR_NOTAVAIL && self.is_rdm(session.peer.ep);
        let mut peer = Peer {
            address: session.peer.addr.to_string(),
            fi_addr: known.then_some(session.peer.fi_addr),
            state: session.state.words(),
            is_up: session.state.is_open(),
            is_opening: !matches!(session.state, State::Up | State::Resting | State::Down),
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
        if session.tx.out.is_blocked() {
            peer.notes.push("takes no bytes");
        }
        if conn.stall.is_reported() {
            peer.notes.push("reported as stalled");
        }
        peer.notes.extend(session.rx.why_it_waits());
        if conn.link.is_gone() {
            peer.notes.push("has ended");
        }
        session.each_wait(|wait| {
            peer.add(report::Wait {
                what: wait.what.to_string(),
                len: wait.len,
                tag: wait.tag,
                stage: wait.stage.words(),
                age: ticks.time(ticks.age(wait.since)),
            });
        });
        peer
    }

    /// Whether accepted data has to leave before this endpoint or the process ends. `patient` includes data that is
    /// with the kernel, which sends it without this process unless the peer sends data meanwhile.
    pub(crate) fn owes(&self, ep: Option<usize>, patient: bool) -> bool {
        let owes = |id: usize| {
            let conn = &self.conns[id];
            conn.session.owes() || patient && conn.link.unsent() > 0
        };
        match ep {
            Some(ep) => self.eps.get(ep).is_some_and(|ep| ep.owes(owes)),
            None => self.eps.iter().any(|ep| ep.owes(owes)),
        }
    }

    /// Logs which data is given up, and for which peers.
    #[cold]
    pub(crate) fn log_lost(&self, source: &'static Source, limit: Duration, ep: Option<usize>) {
        let conns = match ep {
            Some(ep) => self.ids_of_ep(ep),
            None => self.ids(|_| true),
        };
        let conns = conns.into_iter().map(|id| &self.conns[id]);
        for conn in conns.filter(|conn| conn.session.owes()) {
            let bytes = conn.session.tx.promised().map(|op| op.len).sum::<usize>()
                + conn.session.tx.out.frames().staged();
            log_warn!(
                source,
                Subsys::EpData,
                "closed with {} operations and {bytes} bytes that {} has not taken within {} ms ({}): they are lost",
                conn.session.tx.promised().count(),
                conn.session.peer.addr,
                limit.as_millis(),
                conn.session.state.words(),
            );
        }
    }
}
