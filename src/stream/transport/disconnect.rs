// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Fails or drops operations when a peer is gone or its connection is given up.

use core::fmt;
use std::ffi::CString;

use crate::connector::Connector;
use crate::session::State;
use crate::session::receive_state::At;
use crate::transport::{DomainOf, Stream};
use abi::FI_SHUTDOWN;
use base::Error;
use base::log::{Subsys, log_info, log_warn};
use engine::domain_state::Loss;
use sync::stats::Count;
use sys::probe;

impl<N: Connector> Stream<N> {
    /// Fails everything that depended on a peer that is gone. Does nothing if the loss of another peer has removed this
    /// connection already.
    pub(super) fn disconnect(&mut self, domain: &mut DomainOf<N>, id: usize, error: Error) {
        let Some(conn) = self.peers.get_mut(id) else {
            return;
        };
        let error = conn.session.tx.out.take_cause().unwrap_or(error);
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
        let Some(conn) = self.peers.get(id) else {
            return;
        };
        let peer = conn.session.peer.addr.clone();
        // The end of an attempt to connect is logged elsewhere.
        let tells = conn.session.state == State::Up && !conn.session.is_reported;
        let failed = self.blame(domain, id, what, |stream, domain| {
            stream.disconnect_quietly(domain, id, error);
        });
        if tells && failed == 0 {
            log_info!(self.common.source, Subsys::EpData, "{peer} {what}");
        }
    }

    /// Runs `fail`, which fails operations with a peer, and returns the number of failed operations. `what` goes into
    /// their error entries and into the log.
    fn blame(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        what: &dyn fmt::Display,
        fail: impl FnOnce(&mut Self, &mut DomainOf<N>),
    ) -> usize {
        let conn = &self.peers[id];
        let tells = conn.session.state == State::Up && !conn.session.is_reported;
        let sentence = format!("{} {what}", conn.session.peer.addr);
        let why = CString::new(sentence.as_str()).unwrap_or_default();
        let loss = Loss {
            why: why.into(),
            failed: 0,
        };
        // The loss of one peer may cause the loss of another, because a collective ends; so this nests.
        let outer = domain.loss.replace(loss);
        fail(self, domain);
        let loss = std::mem::replace(&mut domain.loss, outer);
        let failed = loss.map_or(0, |loss| loss.failed);
        if tells && failed > 0 {
            log_warn!(
                self.common.source,
                Subsys::EpData,
                "{sentence}: operations with it fail: {failed}"
            );
        }
        failed
    }

    fn disconnect_quietly(&mut self, domain: &mut DomainOf<N>, id: usize, error: Error) {
        let ep = self.peers[id].session.peer.ep;
        let rdm = self.peers.is_rdm(ep);
        let was_up = self.peers[id].session.state == State::Up;
        self.peers[id].log_end(self.common.source, error);
        if was_up {
            domain.ep(ep).stats.count(Count::Disconnected);
            let peer = self.peers[id].session.peer.fi_addr;
            probe::lose(ep, id, peer, error.code().unsigned_abs().into());
        }
        if error == Error::TIMEDOUT {
            // The peer is not reading, so a regular close would be queued behind unsent data and never reach it.
            self.peers[id].link.close_at_once();
        }
        self.lines().close(id);
        // Frames to other peers that follow from this loss must not end the session a second time and must not use it.
        let session = &mut self.peers[id].session;
        (session.state, session.ending) = (State::Down, None);
        self.with(domain, id, |session, cx| session.fail_operations(cx, error));
        if rdm {
            if !self.peers.contains(id) {
                return;
            }
            if !was_up {
                let limit = self.common.limits.connect;
                self.peers.keep_error(id, error, self.poller.now(), limit);
            }
            if was_up && error == Error::TIMEDOUT {
                let fi_addr = self.peers[id].session.peer.fi_addr;
                domain.fail_receives_from(ep, fi_addr, error);
            }
            let conn = &self.peers[id];
            let peer = (!conn.receive_only).then(|| conn.session.peer.addr.clone());
            self.peers.keep_source(domain, id);
            self.peers.remove(id);
            if let Some(peer) = peer {
                self.member_lost(domain, ep, &peer, error);
            }
            return;
        }
        domain.end_receives(ep, error);
        if was_up {
            self.peers[id].report(domain, FI_SHUTDOWN, &[]);
        }
    }

    /// Handles the end of the stream by the peer while nothing is read from it. Operations to the peer fail at once.
    /// Received data waits for its receive, unless the rest of it can never arrive.
    #[cold]
    pub(super) fn ended_unread(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = &self.peers[id];
        let unread = conn.link.unread();
        let there = (unread + conn.session.rx.leftover.len()) as u64;
        let hopeless = match &conn.session.rx.at {
            // The frame needs an answer, and the peer no longer accepts one.
            At::Held(header) => header.is_answered(),
            at => at.unread().is_some_and(|unread| unread > there),
        };
        if hopeless {
            return self.disconnect(domain, id, Error::CONNRESET);
        }
        self.poller.expect_nothing(id);
        self.transmits_end(domain, id);
    }

    /// Fails all transmits, because the peer receives nothing any more. Data that it has sent may wait for its
    /// receives.
    pub(super) fn transmits_end(&mut self, domain: &mut DomainOf<N>, id: usize) {
        if self.peers[id].has_work() {
            self.blame(domain, id, &"ended", |stream, domain| {
                let session = &mut stream.peers[id].session;
                session.tx.fail(domain, Error::CONNRESET);
            });
        }
    }

    /// Drops all operations of a connection without a completion, because the endpoint is closed: fi_endpoint(3),
    /// fi_close.
    pub(super) fn discard_conn(&mut self, domain: &mut DomainOf<N>, id: usize) {
        self.lines().close(id);
        let conn = &mut self.peers[id];
        let ep = conn.session.peer.ep;
        if let Some((srx, slot)) = conn.session.rx.at.slot() {
            domain.rx_queue_mut(srx).lost(slot);
        }
        domain.each_srx(ep, |srx| srx.forget(id as u64));
        self.common.dirty.retain(|&dirty| dirty != id);
        self.common.stalled.retain(|&stalled| stalled != id);
        self.peers.remove(id);
    }
}
