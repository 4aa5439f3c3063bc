// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One peer of an endpoint: its session, the link under it, and the state of the connection and of its polling.
//!
//! The queue of frames belongs to the peer and not to the socket, so it survives if this side loses a simultaneous
//! connect. The first operation to a peer starts the connection and is queued; it does not return -FI_EAGAIN.

use std::io;
use std::time::Instant;

use crate::connector::Connector;
use crate::link::Link;
use crate::session::Session;
use crate::transport::DomainOf;
use base::Error;
use base::log::{Source, Subsys, log_debug, log_warn};
use engine::connect_clock::ConnectClock;
use engine::peer::stall::Stall;

/// The connection to a peer. Posted operations outlive attempts to connect.
pub struct Conn<N: Connector> {
    pub session: Session<N::Addr>,
    pub link: Link,
    /// We opened the connection that is up.
    pub opened_here: bool,
    /// Receives only: the second of two crossing connections, or the receiving half of one to this endpoint itself.
    pub receive_only: bool,
    /// Time that the peer has left to accept a connection.
    pub clock: ConnectClock,
    /// Attempts to connect that have failed.
    pub attempts: u32,
    /// Error of the last attempt that failed.
    pub last_error: Option<Error>,
    /// Whether operations stall, and whether the log has reported that.
    pub stall: Stall,
    /// Bytes moved over the link, both directions together, when an idle connection was last searched for.
    pub moved: u32,
    pub(crate) waits_for: WaitsFor,
    /// Time since which sent bytes are in flight and the peer has acknowledged none of them.
    pub unanswered: Option<Instant>,
    /// Places in the tables of the endpoint.
    pub(super) listed: Listed,
    /// State of the provider.
    pub own: N::Conn,
}

/// Where the tables of an endpoint name a connection, so that its end needs no search.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    /// Place in the list of all connections of the endpoint.
    pub(super) place: u32,
    /// Index of the address vector whose slot has the connection, or `UNASSIGNED`.
    pub(super) index: u32,
}

/// The connection is in no slot; addresses use less than 32 bits.
pub(super) const UNASSIGNED: u32 = u32::MAX;

impl<N: Connector> Conn<N> {
    pub fn new(ep: usize, peer: N::Addr, fi_addr: u64) -> Conn<N> {
        Conn {
            session: Session::new(ep, peer, fi_addr),
            link: Link::Down,
            opened_here: false,
            receive_only: false,
            clock: ConnectClock::default(),
            attempts: 0,
            last_error: None,
            stall: Stall::default(),
            moved: 0,
            waits_for: WaitsFor::Nothing,
            unanswered: None,
            listed: Listed {
                place: 0,
                index: UNASSIGNED,
            },
            own: N::Conn::default(),
        }
    }

    /// Logs the protocol options of a connection that is up, so that its behaviour can be explained from the log.
    pub(super) fn log_protocol(&self, source: &'static Source, saved_size: usize) {
        log_debug!(
            source,
            Subsys::EpCtrl,
            "{}: {} extensions, over {}, tagged messages above {} bytes {}",
            self.session.peer.addr,
            if self.session.agreed.extended {
                "with"
            } else {
                "without"
            },
            self.link.words(),
            saved_size,
            match self.session.agreed.rendezvous {
                true => "go by rendezvous",
                false => "go like others, without rendezvous",
            }
        );
    }

    #[cold]
    pub(super) fn log_end(&self, source: &'static Source, error: Error) {
        log_debug!(
            source,
            Subsys::EpCtrl,
            "connection to {}, which was \"{}\", ends: {error}",
            self.session.peer.addr,
            self.session.state.words(),
        );
    }

    /// Reports that a write has failed for a reason that does not end a stream by itself.
    #[cold]
    pub(super) fn report_unsent(&mut self, source: &'static Source, error: &io::Error) {
        log_warn!(
            source,
            Subsys::EpData,
            "{}: connection ended: cannot send: {error}",
            self.session.peer.addr
        );
        self.session.is_reported = true;
    }

    /// MSG: reports an event of the connection to the application.
    pub(super) fn report(&self, domain: &DomainOf<N>, number: u32, data: &[u8]) {
        let state = &domain.eps[self.session.peer.ep];
        if let Some(eq) = &state.eq {
            eq.cm_event(number, state.fid, 0, data, None);
        }
    }

    /// Returns to the state before the first attempt to connect, with the operations that wait for their turn.
    pub(super) fn renew(&mut self) {
        let peer = &self.session.peer;
        let next = Conn::new(peer.ep, peer.addr.clone(), peer.fi_addr);
        let last = std::mem::replace(self, next);
        // The endpoint still lists the connection.
        self.listed = last.listed;
        self.session.continue_from(last.session);
    }

    /// Whether something posted still depends on this peer.
    pub fn has_work(&self) -> bool {
        self.session.has_work() || self.session.is_awaited()
    }
}

/// Reason for which a connection is not opened yet.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) enum WaitsFor {
    #[default]
    Nothing,
    /// Its turn: `transport::turns`.
    Turn,
    /// A descriptor: `transport::room`.
    Room,
}

impl WaitsFor {
    /// Ends this wait. Returns whether there was one.
    pub(crate) fn end(&mut self, wait: WaitsFor) -> bool {
        let waits = *self == wait;
        if waits {
            *self = WaitsFor::Nothing;
        }
        waits
    }
}
