// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connections that peers open to an RDM endpoint: docs/wire/tcp.md. `verdict` decides on each request.
//!
//! Without keys a peer's port is not proved: any process of that host can claim it, and receives the data for that peer
//! until the peer itself connects. A request of another process replaces a connection over TCP, because the peer's host
//! may have restarted without closing it. If not all users of the hosts can be trusted, use keys or a private network
//! for the job.

use core::time::Duration;
use std::net::SocketAddr;
use std::time::Instant;

use crate::tcp::Desk;
use crate::tcp::exchange::{Exchange, FIREWALL, read_exchange, write_exchange};
use crate::tcp::handshake::{Auth, Handshake};
use crate::tcp::net::Connections;
use crate::tcp::verdict::{Verdict, known_peer, unknown_peer};
use abi::*;
use base::Error;
use base::log::{Subsys, log_debug, log_info, log_warn};
use engine::address::ip::Addr;
use stream::desk::Action;
use stream::link::Link;
use stream::poller::Due;
use stream::poller::Poller;
use stream::proto::{CLOSES, CmHeader, CmKind, EXTENSIONS, RdmPrivate, private_of};
use stream::session::State;
use stream::session::closing::Closing;
use sys::addr;

/// A request that waits for the answer to the local request to the same peer. It will be accepted, but the peer may not
/// know yet.
pub struct Crossing {
    from: Handshake,
    header: CmHeader,
    private: RdmPrivate,
    /// When to stop waiting.
    until: Instant,
}

impl Crossing {
    /// Rejects the request, because the peer has accepted the local one after all.
    pub fn reject(&self) {
        let echo = private_of(&self.from.exchange);
        write_exchange(&self.from.socket, CmKind::Reject, echo, false);
    }

    /// Whether the peer has given up the request.
    pub fn has_ended(&self) -> bool {
        self.from.socket.has_ended()
    }

    /// When to stop waiting.
    pub fn until(&self) -> Instant {
        self.until
    }
}

/// A request that has arrived completely.
pub struct Request {
    pub(super) from: Handshake,
    pub(super) header: CmHeader,
    pub(super) private: RdmPrivate,
    /// The request has ended an earlier connection of the peer.
    pub(super) replaces: bool,
}

impl Request {
    pub(super) fn new(from: Handshake, header: CmHeader, private: RdmPrivate) -> Request {
        Request {
            from,
            header,
            private,
            replaces: false,
        }
    }
}

/// How long a request waits for the answer to the local request, which should be in flight because the peer is alive.
const CROSSING: Duration = Duration::from_secs(3);

impl Connections {
    /// Accepts up to `accepts` connections that wait at a listener.
    pub(super) fn accept_waiting(&mut self, desk: &mut Desk<'_>, ep: usize, accepts: usize) {
        for _ in 0..accepts {
            let Some(endpoint) = desk.peers.find_ep(ep) else {
                return;
            };
            let Some(listener) = &endpoint.listener else {
                return;
            };
            match listener.accept() {
                Ok(Some((socket, from))) => {
                    let _ = socket.set_nodelay(endpoint.own.nodelay);
                    let limit = self.site.set.conn_timeout;
                    let deadline = desk.poller.now() + limit;
                    let id = self.handshakes.insert(Handshake {
                        ep,
                        socket,
                        from,
                        exchange: Vec::new(),
                        deadline,
                        pending: None,
                        key: None,
                    });
                    let socket = &self.handshakes[id].socket;
                    if desk.poller.add_handshake(socket, id).is_err() {
                        self.handshakes.remove(id);
                        continue;
                    }
                    desk.poller.schedule(deadline, Due::Handshake(id));
                    if self.handshakes.is_crowded() {
                        self.drop_silent(desk, Some(id));
                    }
                }
                Ok(None) => return,
                // Out of descriptors: dropping a silent connection makes room.
                Err(_) if self.drop_silent(desk, None) => {}
                Err(error) => {
                    // Out of descriptors: leave the peers in the backlog for a moment.
                    log_warn!(desk.source, Subsys::EpCtrl, "cannot accept: {error}");
                    let endpoint = desk.peers.find_ep(ep);
                    if let Some(listener) = endpoint.and_then(|ep| ep.listener.as_ref()) {
                        desk.poller.remove_fd(listener);
                    }
                    let pause = Duration::from_millis(100);
                    desk.poller
                        .schedule(desk.poller.now() + pause, Due::Listener(ep));
                    return;
                }
            }
        }
    }

    /// Closes the connection without a request that was silent the longest. Returns false if there is none.
    pub(super) fn drop_silent(&mut self, desk: &mut Desk<'_>, newest: Option<usize>) -> bool {
        let Some(id) = self.handshakes.oldest_silent(newest) else {
            return false;
        };
        let from = self.handshakes[id].from;
        log_info!(
            desk.source,
            Subsys::EpCtrl,
            "{from} closed: it says nothing, and others come"
        );
        self.uninvite(desk, id, "it says nothing, and others come");
        true
    }

    /// Handles the deadline of a request that has not arrived.
    pub(super) fn handshake_due(&mut self, desk: &mut Desk<'_>, id: usize) {
        let now = desk.poller.now();
        let late = |handshake: &Handshake| now >= handshake.deadline;
        if self.handshakes.get(id).is_some_and(late) {
            self.uninvite(desk, id, "no proof of an authorization key in time");
        }
    }

    pub(super) fn drop_handshake(&mut self, poller: &mut Poller, id: usize) {
        if self.handshakes.contains(id) {
            let handshake = self.handshakes.remove(id);
            poller.remove_fd(&handshake.socket);
        }
    }

    /// Handles a request, or a part of it, at an RDM endpoint.
    pub(super) fn requested(&mut self, desk: &mut Desk<'_>, id: usize) {
        let handshake = &mut self.handshakes[id];
        if handshake.pending.is_some() {
            return self.invited(desk, id);
        }
        let from = handshake.from;
        let header = match read_exchange(&handshake.socket, &mut handshake.exchange) {
            Exchange::Partial => return,
            Exchange::Broken(why) => {
                log_warn!(desk.source, Subsys::EpCtrl, "{from} closed: {why}");
                return self.drop_handshake(desk.poller, id);
            }
            Exchange::Whole(header) => header,
        };
        let private = RdmPrivate::decode(private_of(&handshake.exchange));
        let (CmKind::Request, Some(private)) = (header.kind, private) else {
            log_warn!(
                desk.source,
                Subsys::EpCtrl,
                "{from} closed: not a tcp RDM endpoint"
            );
            if header.kind == CmKind::Request {
                let echo = private_of(&handshake.exchange);
                write_exchange(&handshake.socket, CmKind::Reject, echo, false);
            }
            return self.drop_handshake(desk.poller, id);
        };
        let handshake = self.handshakes.remove(id);
        desk.poller.remove_fd(&handshake.socket);
        if handshake.socket.has_ended() {
            // The peer has given up this attempt, perhaps long ago if the listener had to wait for descriptors. If the
            // request became a connection, it would replace one that the peer uses.
            return log_debug!(desk.source, Subsys::EpCtrl, "{from}: request given up");
        }
        self.admit(desk, Request::new(handshake, header, private));
    }

    /// Decides whether the peer's request becomes a connection: docs/wire/tcp.md, "Both sides connect".
    pub(super) fn admit(&mut self, desk: &mut Desk<'_>, request: Request) {
        let Request {
            from,
            header,
            private,
            replaces,
        } = request;
        if self.asks_for_key(desk, &from, &header) {
            return self.invite(desk, from, header, private);
        }
        let ep = from.ep;
        let Some((peer, own)) = self.names(desk, &from, &private) else {
            return;
        };
        let existing = desk.peers.conn_to(ep, &peer);
        let known = existing.map(|id| desk.peers[id].session.state);
        log_debug!(
            desk.source,
            Subsys::EpCtrl,
            "{peer} asks for a connection; state so far: {}",
            known.map_or("unknown", State::words)
        );
        let request = Request {
            from,
            header,
            private,
            replaces,
        };
        let verdict = match existing {
            Some(id) => known_peer(desk, id, &request, &peer, &own),
            None => unknown_peer(desk, &request, &peer),
        };
        let id = match verdict {
            Verdict::Add => desk.new_peer(ep, peer),
            Verdict::AddReceiveOnly => desk.new_receive_only(ep, peer),
            Verdict::Take(id) => id,
            Verdict::ReplaceAttempt(id) => self.give_up_attempt(desk, id),
            Verdict::Cross(id) => return self.cross(desk, id, request),
            Verdict::Retire(id) => {
                desk.act(Action::Retire(id));
                return desk.act(Action::Readmit(Box::new(request)));
            }
            Verdict::Restart(id) => {
                desk.end(id, Error::CONNRESET);
                let replaces = true;
                let request = Request {
                    replaces,
                    ..request
                };
                return desk.act(Action::Readmit(Box::new(request)));
            }
            Verdict::Reject { why, warning } => {
                if let Some(warning) = warning {
                    log_warn!(desk.source, Subsys::EpCtrl, "{peer}: {warning}");
                }
                return reject(desk, &request.from, &peer, why);
            }
        };
        self.accept_request(desk, id, peer, request);
    }

    /// Answers a request, and makes its socket the link of a connection.
    fn accept_request(&mut self, desk: &mut Desk<'_>, id: usize, peer: Addr, request: Request) {
        let Request {
            from,
            header,
            private,
            ..
        } = request;
        let proved = from.key.is_some();
        let answer = self.answer_to(desk, &from, &header, &private);
        // A peer that has proved its key got the response before.
        if !proved && !write_exchange(&from.socket, CmKind::Response, &answer.encode(), false) {
            return self.connect_failed(desk, id, Error::IO);
        }
        if let (Some(key), Some(av)) = (&from.key, desk.domain.eps[from.ep].av)
            && desk.peers[id].session.peer.fi_addr == FI_ADDR_NOTAVAIL
        {
            desk.domain.avs[av].keys.record_stranger(peer, key);
        }
        let now = desk.poller.now();
        let watched = desk.poller.watch(id, &from.socket, true, false);
        let conn = &mut desk.peers[id];
        conn.clock.stop(now);
        conn.opened_here = false;
        conn.own.peer_pid = private.pid;
        conn.session.tx.out.set_swaps(header.swapped);
        conn.session.agreed.rendezvous = answer.allows_rendezvous() && !header.swapped;
        conn.session.agreed.extended = answer.features & EXTENSIONS != 0;
        conn.session.closing = Closing::new(answer.features & CLOSES != 0);
        conn.session.agreed.refuses = conn.session.agreed.extended && desk.limits.answers_writes;
        conn.link = Link::Socket(from.socket);
        conn.own.auth = from.key.map(|key| Box::new(Auth::proved(key)));
        conn.session.tx.out.set_counter(u8::from(proved));
        if let Err(error) = watched {
            return desk.end(id, error.into());
        }
        self.settled(desk, id, answer.features);
    }

    /// Returns the private data of the response to a request.
    pub(super) fn answer_to(
        &self,
        desk: &Desk<'_>,
        from: &Handshake,
        header: &CmHeader,
        private: &RdmPrivate,
    ) -> RdmPrivate {
        let mut known = FIREWALL | EXTENSIONS | CLOSES;
        if !header.swapped && private.features & EXTENSIONS != 0 {
            // The response to a keyed request is computed twice, so it must not depend on the moment.
            known |= match header.keyed {
                true => self.shares(desk, from.ep, &from.socket),
                false => self.offers_to_share(desk, from.ep, &from.socket),
            };
        }
        private.answer(known, self.pid)
    }

    /// Returns the name of the peer that has sent a request, and the local name in the form that the peer sees.
    pub(super) fn names(
        &self,
        desk: &Desk<'_>,
        from: &Handshake,
        private: &RdmPrivate,
    ) -> Option<(Addr, Addr)> {
        let endpoint = desk.peers.find_ep(from.ep)?;
        let peer = addr::canonical(SocketAddr::new(from.from.ip(), private.port));
        let mut own = endpoint.local;
        if own.ip().is_unspecified()
            && let Ok(local) = from.socket.local()
        {
            own.set_ip(local.ip());
        }
        Some((with_scope(peer, from.from), addr::canonical(own)))
    }

    fn give_up_attempt(&mut self, desk: &mut Desk<'_>, id: usize) -> usize {
        desk.close_link(id);
        desk.peers[id].session.state = State::Idle;
        desk.peers[id].own.sharing = None;
        id
    }

    /// Keeps the peer's request after both sides have sent one and the peer's takes precedence. It is answered only
    /// after the peer has answered the local request. Some peers, when they find this request together with the answer
    /// to their own, take it for a new connection and close the established one; data sent there would be lost.
    pub(super) fn cross(&mut self, desk: &mut Desk<'_>, id: usize, request: Request) {
        let Request {
            from,
            header,
            private,
            ..
        } = request;
        log_debug!(
            desk.source,
            Subsys::EpCtrl,
            "{}: both sides connect, and its request counts once ours is answered",
            desk.peers[id].session.peer.addr
        );
        let until = desk.poller.now() + CROSSING;
        let crossing = Crossing {
            from,
            header,
            private,
            until,
        };
        desk.peers[id].own.crossing = Some(Box::new(crossing));
        desk.poller.schedule(until, Due::Conn(id));
        // The answer may have arrived already.
        self.answered(desk, id);
    }

    /// Accepts the request that waited for the end of the local attempt. Returns false if there is none.
    pub(super) fn admit_crossing(&mut self, desk: &mut Desk<'_>, id: usize) -> bool {
        let Some(crossing) = desk.peers[id].own.crossing.take() else {
            return false;
        };
        if crossing.has_ended() {
            return false;
        }
        self.admit(
            desk,
            Request::new(crossing.from, crossing.header, crossing.private),
        );
        true
    }
}

fn reject(desk: &Desk<'_>, from: &Handshake, peer: &Addr, why: &str) {
    log_info!(
        desk.source,
        Subsys::EpCtrl,
        "{peer}: request rejected: {why}"
    );
    write_exchange(
        &from.socket,
        CmKind::Reject,
        private_of(&from.exchange),
        false,
    );
}

/// Adds the interface on which the peer connected to a link-local address.
fn with_scope(peer: Addr, from: SocketAddr) -> Addr {
    match (peer, from) {
        (SocketAddr::V6(mut peer), SocketAddr::V6(from)) => {
            peer.set_scope_id(from.scope_id());
            peer.into()
        }
        _ => peer,
    }
}
