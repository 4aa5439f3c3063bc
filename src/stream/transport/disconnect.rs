// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Fails or drops operations when a peer is gone or its connection is given up.

use core::fmt;

use crate::conn::Conn;
use crate::connector::Connector;
use crate::session::State;
use crate::transport::{DomainOf, Stream};
use abi::FI_SHUTDOWN;
use base::Error;
use base::log::{Source, Subsys, log_failure, log_info};
use engine::domain_state::DomainState;
use engine::peer::loss::OuterLoss;
use engine::transport::Address;
use sync::stats::Count;
use sys::probe;

impl<N: Connector> Stream<N> {
    /// Fails everything that depended on a peer that is gone. Does nothing if the loss of another peer has removed this
    /// connection already.
    pub(super) fn disconnect(&mut self, domain: &mut DomainOf<N>, id: usize, error: Error) {
        let Some(conn) = self.traffic.peers.get_mut(id) else {
            return;
        };
        let error = conn.session.tx.out.take_cause().unwrap_or(error);
        if error == Error::CONNRESET && conn.session.closing.is_ready() && conn.session.is_quiet() {
            // The peer has closed the connection as agreed.
            return self.retire(domain, id);
        }
        let text = std::io::Error::from_raw_os_error(error.code());
        match error {
            // This side cancelled the connection.
            Error::CANCELED => self.disconnect_quietly(domain, id, error),
            Error::CONNRESET => self.disconnect_because(domain, id, error, &"ended"),
            Error::TIMEDOUT => self.disconnect_because(domain, id, error, &"does not answer"),
            Error::CONNREFUSED => self.disconnect_because(domain, id, error, &"refuses to connect"),
            _ => self.disconnect_because(domain, id, error, &format_args!("failed: {text}")),
        }
    }

    /// Does the same as `disconnect`; `what` describes what the peer did, or what happened to it.
    pub(super) fn disconnect_because(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        error: Error,
        what: &dyn fmt::Display,
    ) {
        let Some(conn) = self.traffic.peers.get(id) else {
            return;
        };
        let peer = conn.session.peer.addr.clone();
        // The end of an attempt to connect is logged elsewhere.
        let tells = conn.session.state.is_open() && !conn.session.is_reported;
        let blame = Blame::begin(domain, conn, what);
        self.disconnect_quietly(domain, id, error);
        let failed = blame.end(domain, self.traffic.common.source);
        if tells && failed == 0 {
            log_info!(self.traffic.common.source, Subsys::EpData, "{peer} {what}");
        }
    }

    fn disconnect_quietly(&mut self, domain: &mut DomainOf<N>, id: usize, error: Error) {
        let ep = self.traffic.peers[id].session.peer.ep;
        let rdm = self.traffic.peers.is_rdm(ep);
        let was_up = self.traffic.peers[id].session.state.is_open();
        self.traffic.peers[id].log_end(self.traffic.common.source, error);
        if was_up {
            domain.eps[ep].stats.count(Count::Disconnected);
            let peer = self.traffic.peers[id].session.peer.fi_addr;
            probe::lose(ep, id, peer, error.code().unsigned_abs().into());
        }
        if error == Error::TIMEDOUT {
            // The peer is not reading, so a regular close would be queued behind unsent data and never reach it.
            self.traffic.peers[id].link.close_at_once();
        }
        self.traffic.lines().close(id);
        // Frames to other peers that follow from this loss must not end the session a second time and must not use it.
        let session = &mut self.traffic.peers[id].session;
        (session.state, session.ending) = (State::Down, None);
        self.with(domain, id, |session, cx| session.fail_operations(cx, error));
        if rdm {
            if !self.traffic.peers.contains(id) {
                return;
            }
            if !was_up {
                let limit = self.traffic.common.limits.connect;
                self.traffic
                    .peers
                    .keep_error(id, error, self.traffic.poller.now(), limit);
            }
            let fi_addr = self.traffic.peers[id].session.peer.fi_addr;
            match (was_up, error) {
                (true, Error::TIMEDOUT) => domain.fail_receives_from(ep, fi_addr, error),
                (true, _) => domain.connection_ended(ep, fi_addr, error),
                (false, _) => {}
            }
            let conn = &self.traffic.peers[id];
            let peer = (!conn.receive_only).then(|| conn.session.peer.addr.clone());
            self.traffic.peers.keep_source(domain, id);
            self.traffic.peers.remove(domain, id);
            if let Some(peer) = peer {
                self.member_lost(domain, ep, &peer, error);
            }
            return;
        }
        domain.end_receives(ep, error);
        if was_up {
            self.traffic.peers[id].report(domain, FI_SHUTDOWN, &[]);
        }
    }
}

/// Names the peer in the error entries of operations that fail because of it.
pub(super) struct Blame {
    sentence: String,
    /// Whether the log reports the failed operations.
    tells: bool,
    outer: OuterLoss,
}

impl Blame {
    /// Begins before operations with a peer fail; `what` goes into their error entries and into the log.
    pub(super) fn begin<N: Connector>(
        domain: &mut DomainOf<N>,
        conn: &Conn<N>,
        what: &dyn fmt::Display,
    ) -> Blame {
        let sentence = format!("{} {what}", conn.session.peer.addr);
        let outer = domain.losses.begin(&sentence);
        Blame {
            sentence,
            tells: conn.session.state.is_open() && !conn.session.is_reported,
            outer,
        }
    }

    /// Ends after that, and returns the number of failed operations.
    pub(super) fn end<A: Address>(
        self,
        domain: &mut DomainState<A>,
        source: &'static Source,
    ) -> usize {
        let failed = domain.losses.end(self.outer);
        if self.tells && failed > 0 {
            log_failure!(
                source,
                Subsys::EpData,
                "{}: operations with it fail: {failed}",
                self.sentence
            );
        }
        failed
    }
}
