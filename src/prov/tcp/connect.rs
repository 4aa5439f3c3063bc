// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connecting: the messages at the start of each stream, attempts and their deadlines. fi_cm(3); docs/wire/tcp.md.

use core::time::Duration;

use crate::tcp::Desk;
use crate::tcp::alive::probe_at_rest;
use crate::tcp::congestion;
use crate::tcp::exchange::{Exchange, FIREWALL, read_exchange, write_whole};
use crate::tcp::handshake::Auth;
use crate::tcp::keyed::REFUSED_FOR_KEYS;
use crate::tcp::net::Connections;
use abi::*;
use base::log::{Subsys, log_debug, log_info, log_warn};
use base::{Error, Result};
use stream::desk::Action;
use stream::link::Link;
use stream::proto::{CLOSES, CmHeader, CmKind, EXTENSIONS, RdmPrivate, encode_cm, private_of};
use stream::session::State;
use stream::session::closing::Closing;
use sys::socket::Socket;

/// Keepalive probes of a peer whose kernel has accepted the connection and that has not answered yet: idle time,
/// interval, count.
pub(super) const PROBES: (Duration, Duration, u32) =
    (Duration::from_secs(5), Duration::from_secs(2), 2);

impl Connections {
    /// Starts to connect to the peer of `id`, unless an attempt is in progress.
    pub(super) fn begin_connect(&mut self, desk: &mut Desk<'_>, id: usize) -> Result {
        let conn = &mut desk.peers[id];
        if conn.session.state != State::Idle {
            return Ok(());
        }
        conn.clock
            .start(desk.poller.now(), self.site.set.conn_timeout);
        let peer = conn.session.peer.addr;
        let (endpoint, conn) = desk.peers.with_ep(id)?;
        log_debug!(
            desk.source,
            Subsys::EpCtrl,
            "connecting to {peer} from {}, attempt {}",
            endpoint.local,
            conn.attempts + 1
        );
        let opened = match endpoint.own.bound.take() {
            Some(bound) => Ok(bound),
            None if endpoint.own.has_port => Socket::bound(endpoint.local, None, 0),
            None => Socket::unconnected(Some(endpoint.local), peer),
        };
        let started = opened.and_then(|socket| {
            congestion::begin(&socket, self.site.set.congestion.as_deref());
            socket.connect_to(peer)
        });
        match started {
            Ok((socket, up)) => {
                let _ = socket.set_nodelay(endpoint.own.nodelay);
                let conn = &mut desk.peers[id];
                conn.session.state = State::Connecting;
                conn.opened_here = true;
                conn.own.exchange.clear();
                let watched = desk.poller.watch(id, &socket, false, true);
                conn.link = Link::Socket(socket);
                if let Err(error) = watched {
                    self.connect_failed(desk, id, error.into());
                    return Ok(());
                }
                match up {
                    true => self.connected(desk, id),
                    false => desk.schedule_attempt(id),
                }
            }
            Err(error) => {
                let error = match Error::from(error) {
                    // This side has no free port. For attempts FI_EAGAIN would mean that the peer's queue is full.
                    Error::AGAIN => Error::ADDRNOTAVAIL,
                    error => error,
                };
                self.connect_failed(desk, id, error);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Handles the end of the kernel's attempt to connect.
    pub(super) fn connected(&mut self, desk: &mut Desk<'_>, id: usize) {
        let conn = &desk.peers[id];
        let Some(socket) = conn.link.socket() else {
            return;
        };
        match socket.take_error() {
            // The event belongs to an earlier socket with the same number.
            Ok(None) if !socket.is_connected() => {}
            Ok(None) => {
                // From now on the name of an active endpoint is known.
                let (local, ep) = (socket.local(), conn.session.peer.ep);
                if let (Ok(local), Some(endpoint)) = (local, desk.peers.find_ep_mut(ep))
                    && !endpoint.rdm
                {
                    endpoint.local = local;
                }
                self.send_request(desk, id);
            }
            Ok(Some(error)) | Err(error) => self.connect_failed(desk, id, error.into()),
        }
    }

    fn send_request(&mut self, desk: &mut Desk<'_>, id: usize) {
        let conn = &desk.peers[id];
        let (Some(endpoint), Some(socket)) =
            (desk.peers.find_ep(conn.session.peer.ep), conn.link.socket())
        else {
            return;
        };
        if !endpoint.rdm && socket.has_ended() {
            // The listener has closed the connection because this side did not poll for long. It has seen no request,
            // so another attempt is not a duplicate.
            return self.connect_again(desk, id);
        }
        let private = match endpoint.rdm {
            true => RdmPrivate {
                version: 1,
                checked: false,
                features: EXTENSIONS
                    | CLOSES
                    | if endpoint.own.firewalled { FIREWALL } else { 0 }
                    | self.offers_to_share(desk, conn.session.peer.ep, socket),
                port: endpoint.local.port(),
                pid: self.pid,
            }
            .encode()
            .to_vec(),
            false => conn.session.rx.request_data().to_vec(),
        };
        let _ = socket.set_keepalive(Some(PROBES));
        let keyed = endpoint.own.keys.is_some();
        let request = encode_cm(CmKind::Request, &private, !endpoint.rdm, keyed);
        if !write_whole(socket, &request) {
            return self.connect_failed(desk, id, Error::IO);
        }
        let now = desk.poller.now();
        let conn = &mut desk.peers[id];
        // The peer answers when it polls, however long that takes.
        conn.clock.stop(now);
        conn.own.auth = keyed.then(|| Box::new(Auth::of(request)));
        conn.session.state = State::Requested;
        conn.session.rx.keep_request_data(Vec::new());
        desk.rewatch(id, true, false);
    }

    /// Handles the answer to the local request, or a part of it.
    pub(super) fn answered(&mut self, desk: &mut Desk<'_>, id: usize) {
        let conn = &mut desk.peers[id];
        let Some(socket) = conn.link.socket() else {
            return;
        };
        let header = match read_exchange(socket, &mut conn.own.exchange) {
            Exchange::Partial => return,
            Exchange::Broken(why) => {
                log_info!(
                    desk.source,
                    Subsys::EpCtrl,
                    "{}: no answer: {why}",
                    conn.session.peer.addr
                );
                return self.connect_failed(desk, id, Error::CONNREFUSED);
            }
            Exchange::Whole(header) => header,
        };
        let private = private_of(&conn.own.exchange).to_vec();
        log_debug!(
            desk.source,
            Subsys::EpCtrl,
            "{} has answered our request: {}",
            conn.session.peer.addr,
            match header.kind {
                CmKind::Response => "accepted",
                _ => "rejected",
            }
        );
        match header.kind {
            CmKind::Response => self.established(desk, id, &header, &private),
            _ if header.keyed => self.key_refused(desk, id, REFUSED_FOR_KEYS),
            _ => self.rejected(desk, id, private),
        }
    }

    /// Handles an accepted request.
    fn established(&mut self, desk: &mut Desk<'_>, id: usize, header: &CmHeader, private: &[u8]) {
        let rdm = desk.peers.is_of_rdm(id);
        let conn = &mut desk.peers[id];
        conn.session.tx.out.set_swaps(header.swapped);
        if rdm {
            let Some(answer) = RdmPrivate::decode(private) else {
                log_warn!(
                    desk.source,
                    Subsys::EpCtrl,
                    "{}: answers as something else than a tcp RDM endpoint",
                    conn.session.peer.addr
                );
                return self.connect_failed(desk, id, Error::CONNREFUSED);
            };
            conn.own.peer_pid = answer.pid;
            conn.session.agreed.rendezvous = answer.allows_rendezvous() && !header.swapped;
            conn.session.agreed.extended = answer.features & EXTENSIONS != 0;
            conn.session.closing = Closing::new(answer.features & CLOSES != 0);
        } else {
            conn.session.agreed.extended = header.extended;
        }
        conn.session.agreed.refuses = conn.session.agreed.extended && desk.limits.answers_writes;
        if header.keyed || conn.own.auth.is_some() {
            return self.prove(desk, id, header.keyed);
        }
        let agreed = self.agreed(desk, id);
        self.settled(desk, id, agreed);
        if !rdm {
            desk.act(Action::Event(id, FI_CONNECTED, private.to_vec()));
        }
    }

    /// Returns the features that the peer's response has agreed to.
    pub(super) fn agreed(&self, desk: &Desk<'_>, id: usize) -> u8 {
        let conn = &desk.peers[id];
        let private = private_of(&conn.own.exchange);
        match (RdmPrivate::decode(private), conn.link.socket()) {
            (Some(answer), Some(socket))
                if conn.session.agreed.extended && !conn.session.tx.out.swaps() =>
            {
                answer.features & self.shares(desk, conn.session.peer.ep, socket)
            }
            _ => 0,
        }
    }

    /// Handles a rejected request.
    fn rejected(&mut self, desk: &mut Desk<'_>, id: usize, private: Vec<u8>) {
        if desk.peers.is_of_rdm(id) {
            // The peer has started its own attempt, or has not noticed the end of the last connection. Its request or
            // the next attempt resolves both cases.
            return self.connect_failed(desk, id, Error::CONNREFUSED);
        }
        desk.act(Action::Refused {
            id,
            error: Error::CONNREFUSED,
            cause: Error::CONNREFUSED,
            private,
        });
    }

    /// Completes the connection: queued operations are sent.
    pub(super) fn up(&mut self, desk: &mut Desk<'_>, id: usize) {
        let conn = &mut desk.peers[id];
        if let Some(socket) = conn.link.socket() {
            // Without keepalive the peer is only checked while data is in flight.
            let _ = probe_at_rest(socket, self.site.set.peer_timeout);
            congestion::choose(socket, self.site.set.congestion.as_deref(), desk.source);
        }
        conn.own.exchange = Vec::new();
        conn.own.sharing = None;
        if let Some(crossing) = conn.own.crossing.take() {
            crossing.reject();
        }
        log_info!(
            desk.source,
            Subsys::EpCtrl,
            "connected to {}, opened by {}, {} extensions, over {}",
            conn.session.peer.addr,
            if conn.opened_here { "us" } else { "the peer" },
            if conn.session.agreed.extended {
                "with"
            } else {
                "without"
            },
            conn.link.words()
        );
        desk.up(id);
    }

    /// Schedules another attempt after a failed one, or ends the connection.
    pub(super) fn connect_failed(&mut self, desk: &mut Desk<'_>, id: usize, error: Error) {
        if !desk.peers.is_of_rdm(id) {
            return match (error, desk.peers[id].session.state) {
                (Error::AGAIN, State::Connecting) => self.connect_again(desk, id),
                // The listener had accepted the connection.
                (Error::CONNREFUSED, State::Requested | State::Proving) => {
                    desk.act(Action::Refused {
                        id,
                        error,
                        cause: Error::CONNRESET,
                        private: Vec::new(),
                    })
                }
                _ => desk.act(Action::Refused {
                    id,
                    error,
                    cause: error,
                    private: Vec::new(),
                }),
            };
        }
        let own = &mut desk.peers[id].own;
        if error == Error::TIMEDOUT && own.crossing.take_if(|it| it.has_ended()).is_some() {
            // The local attempt was limited because of the peer's request, which the peer has given up.
            return;
        }
        desk.close_link(id);
        desk.peers[id].session.state = State::Idle;
        desk.peers[id].own.sharing = None;
        if self.admit_crossing(desk, id) {
            return;
        }
        let is_passing = is_passing(error);
        desk.act(Action::Failed {
            id,
            error,
            is_passing,
        });
    }
}

/// Whether a later attempt may succeed.
fn is_passing(error: Error) -> bool {
    !matches!(error, Error::TIMEDOUT | Error::INVAL | Error::ACCES)
}
