// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connection setup between two processes: one connects to the unix socket of the other's endpoint and sends its name.
//! `stream::shm_host::connect` defines the messages. docs/wire/shm.md.
//!
//! Two processes that start at the same time get two connections, each for the messages of the side that opened it.

use crate::shm::Desk;
use crate::shm::addr::Name;
use crate::shm::kind::SHM as SOURCE;
use crate::shm::net::Connections;
use base::log::{Subsys, log_debug, log_info, log_warn};
use base::{Error, Result};
use stream::desk::Action;
use stream::hello::{Hello, Verdict};
use stream::link::{Link, ShmLink};
use stream::pending_peer::PendingPeer;
use stream::session::State;
use stream::shm_channel::ShmChannel;
use stream::shm_host::connect::{self, Heard, HelloExchange};

impl Connections {
    /// Starts to connect to the peer of `id`, unless an attempt is in progress.
    pub(super) fn connect_to(&mut self, desk: &mut Desk<'_>, id: usize) -> Result {
        let conn = &mut desk.peers[id];
        if conn.session.state != State::Idle {
            return Ok(());
        }
        let now = desk.poller.now();
        conn.clock.start(now, self.site.set.conn_timeout);
        if let Err(error) = self.open_channel(desk, id) {
            self.shm_connect_failed(desk, id, error);
            return Err(error);
        }
        Ok(())
    }

    /// Sends the hello, with memory for both sides.
    fn open_channel(&mut self, desk: &mut Desk<'_>, id: usize) -> Result {
        let conn = &desk.peers[id];
        let ep = conn.session.peer.ep;
        let endpoint = desk.peers.find_ep(ep).ok_or(Error::INVAL)?;
        let who = endpoint.local.as_str().as_bytes().to_vec();
        log_debug!(
            &SOURCE,
            Subsys::EpCtrl,
            "connecting to {} from {}, attempt {}",
            conn.session.peer.addr,
            endpoint.local,
            conn.attempts + 1
        );
        let socket = connect::connect_to(&self.site.shm_listener(&conn.session.peer.addr))
            .inspect_err(|&error| {
                if error == Error::ACCES {
                    let peer = &conn.session.peer.addr;
                    log_warn!(
                        &SOURCE,
                        Subsys::EpCtrl,
                        "{peer}: it belongs to another user, not to ours"
                    );
                }
            })?;
        let mut exchange = desk.shm.send_hello(desk.domain, ep, &socket, who)?;
        let memory = exchange.take_memory().ok_or(Error::IO)?;
        let now = desk.poller.now();
        let conn = &mut desk.peers[id];
        // The peer's process exists and answers when it polls, however long that takes.
        conn.clock.stop(now);
        conn.opened_here = true;
        conn.link.offer(*memory, socket);
        conn.own = exchange;
        conn.session.state = State::Requested;
        desk.rewatch(id, true, false);
        desk.send_early(id);
        Ok(())
    }

    /// Handles the peer's answer, or a part of it.
    pub(super) fn answered(&mut self, desk: &mut Desk<'_>, id: usize) {
        let conn = &mut desk.peers[id];
        let mut exchange = std::mem::take(&mut conn.own);
        let Link::Offered(link) = &mut conn.link else {
            return;
        };
        let ShmLink { channel, doorbell } = &mut **link;
        match desk.shm.hear(doorbell, &mut exchange) {
            Heard::Wait => conn.own = exchange,
            Heard::Ended => self.shm_connect_failed(desk, id, Error::CONNREFUSED),
            // The peer has accepted, and may have taken messages. Another attempt would send them again.
            Heard::Failed(error) if conn.session.tx.early() > 0 => desk.end(id, error),
            Heard::Failed(error) => self.shm_connect_failed(desk, id, error),
            Heard::Welcome(welcome) => {
                let is_direct = desk.shm.identify_welcoming(doorbell, channel, &welcome);
                conn.session.direct.allow(is_direct);
                self.established(desk, id, None);
            }
            // The peer may have descriptors soon.
            Heard::Refused(verdict @ Verdict::Descriptors) => {
                self.end_attempt(desk, id, verdict.error(), true);
            }
            Heard::Refused(verdict) => {
                log_warn!(
                    &SOURCE,
                    Subsys::EpCtrl,
                    "{}: refused: {verdict}",
                    conn.session.peer.addr
                );
                desk.end(id, verdict.error());
            }
            Heard::Nonsense => {
                log_warn!(
                    &SOURCE,
                    Subsys::EpCtrl,
                    "{}: answers as something else than a shm endpoint",
                    conn.session.peer.addr
                );
                desk.end(id, Error::CONNREFUSED);
            }
        }
    }

    /// Completes the connection after both sides have mapped the memory.
    /// `shm`: the peer's memory, if it has opened the connection.
    fn established(&mut self, desk: &mut Desk<'_>, id: usize, shm: Option<Box<ShmChannel>>) {
        let conn = &mut desk.peers[id];
        conn.session.agreed.extended = true;
        conn.session.agreed.rendezvous = true;
        match shm {
            Some(shm) => desk.use_shm(id, shm),
            None => desk.use_offered(id),
        }
        let conn = &desk.peers[id];
        log_info!(
            &SOURCE,
            Subsys::EpCtrl,
            "connected to {}, opened by {}, over {}",
            conn.session.peer.addr,
            if conn.opened_here { "us" } else { "the peer" },
            conn.link.words()
        );
        desk.up(id);
    }

    /// Schedules another attempt after a failed one, or ends the connection.
    pub(super) fn shm_connect_failed(&mut self, desk: &mut Desk<'_>, id: usize, error: Error) {
        self.end_attempt(desk, id, error, is_passing(error));
    }

    /// Ends an attempt. `is_passing`: a later one may succeed.
    fn end_attempt(&mut self, desk: &mut Desk<'_>, id: usize, error: Error, is_passing: bool) {
        desk.close_link(id);
        let conn = &mut desk.peers[id];
        conn.session.state = State::Idle;
        conn.own = HelloExchange::default();
        desk.act(Action::Failed {
            id,
            error,
            is_passing,
        });
    }

    /// Accepts a peer, or sends the reason for a refusal.
    pub(super) fn admit(
        &mut self,
        desk: &mut Desk<'_>,
        pending: PendingPeer,
        hello: core::result::Result<Hello, Verdict>,
    ) {
        let hello = hello.and_then(|hello| Ok((name_of(&hello)?, hello)));
        let known = match &hello {
            Ok((_, hello)) => Ok(hello),
            Err(verdict) => Err(*verdict),
        };
        let welcomed = desk.shm.welcome(desk.domain, &pending, known);
        let (Some((shm, is_direct)), Ok((name, _))) = (welcomed, hello) else {
            return;
        };
        log_debug!(&SOURCE, Subsys::EpCtrl, "{name} has opened a connection");
        let id = self.admit_peer(desk, pending.ep, name);
        let conn = &mut desk.peers[id];
        conn.opened_here = false;
        conn.session.direct.allow(is_direct);
        match desk.take_socket(id, pending.socket) {
            Ok(()) => self.established(desk, id, Some(shm)),
            Err(error) => desk.end(id, error),
        }
    }

    /// Returns the connection for a peer that has connected. Without a connection to that peer, it serves both
    /// directions.
    fn admit_peer(&mut self, desk: &mut Desk<'_>, ep: usize, peer: Name) -> usize {
        let endpoint = desk.peers.find_ep(ep);
        let known = endpoint.and_then(|ep| ep.conn_to(&peer));
        let to_self = endpoint.is_some_and(|ep| ep.local == peer);
        match known {
            None => desk.new_peer(ep, peer),
            // The last attempt has failed and the next is not due yet: queued operations use this connection.
            Some(id) if desk.peers[id].session.state == State::Idle && !to_self => id,
            Some(_) => desk.new_receive_only(ep, peer),
        }
    }
}

/// Returns the name of the endpoint that has sent the hello.
fn name_of(hello: &Hello) -> core::result::Result<Name, Verdict> {
    let name = core::str::from_utf8(&hello.who).ok();
    name.and_then(Name::new).ok_or(Verdict::Version)
}

/// Whether a later attempt may succeed: the peer may be about to open its endpoint.
fn is_passing(error: Error) -> bool {
    matches!(
        error,
        Error::CONNREFUSED | Error::NOENT | Error::AGAIN | Error::IO
    )
}
