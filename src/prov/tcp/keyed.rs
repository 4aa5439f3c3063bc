// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connections of endpoints with an authorization key: after the connection messages both sides prove their keys; only
//! then the connection is up. A peer with no key, or another one, is refused. fi_endpoint(3), auth_key;
//! docs/wire/tcp.md.
//!
//! A connection that an RDM endpoint accepts replaces nothing before its proof: until then it is only a socket.

use core::cmp::Ordering;

use crate::tcp::Desk;
use crate::tcp::accept::Request;
use crate::tcp::auth::{Context, Outcome, Prover};
use crate::tcp::exchange::{write_exchange, write_whole};
use crate::tcp::handshake::{Auth, Handshake, Pending, compare};
use crate::tcp::net::Connections;
use crate::tcp::request::Accepted;
use abi::FI_CONNECTED;
use base::log::{Subsys, log_info, log_warn};
use base::{Error, Result};
use engine::address::ip::Addr;
use engine::auth::Key;
use stream::desk::Action;
use stream::ep::Ep;
use stream::poller::Due;
use stream::proto::{CmHeader, CmKind, EXTENSIONS, MAX_AUTH, RdmPrivate, encode_cm, private_of};
use stream::session::State;
use stream::transport::DomainOf;
use sys::random::unpredictable;
use sys::socket::{Moved, Socket};

pub const REFUSED_FOR_KEYS: &str =
    "it refuses this endpoint's authorization key, or the want of one";
const PEER_HAS_NONE: &str = "it has no authorization key";
const NO_KEY_FOR_IT: &str = "this endpoint has no authorization key for it";
const PEER_HAS_ONE: &str = "it has an authorization key and this endpoint has none";

/// Returns the keys that a peer may prove. If each address has its own key, a peer in the vector must prove that one.
fn keys_for(
    domain: &DomainOf<Connections>,
    ep: usize,
    endpoint: &Ep<Connections>,
    peer: &Addr,
) -> Vec<Key> {
    let keys = endpoint.own.keys.as_deref().unwrap_or_default();
    let known = match domain.eps[ep].av {
        Some(av) if endpoint.own.keys_of_av => {
            let av = &domain.avs[av];
            av.find(peer).map(|index| av.keys.of(index))
        }
        _ => None,
    };
    // Keys that were added to the vector later do not belong to the endpoint.
    let fits = |key: &&Key| known.is_none_or(|own| own == Some(key));
    keys.iter().filter(fits).cloned().collect()
}

/// Result of reading a prover's socket.
enum Poll {
    Wait,
    Proved(Key),
    Refused(&'static str),
    /// The peer has gone.
    Ended,
}

/// Reads the bytes of the proofs and nothing behind them.
fn poll(socket: &Socket, prover: &mut Prover) -> Poll {
    let mut room = [0; MAX_AUTH];
    loop {
        let n = match socket.read(&mut room[..prover.wants()]) {
            Ok(Moved::Bytes(n)) => n,
            Ok(Moved::Later) => return Poll::Wait,
            Ok(Moved::End) | Err(_) => return Poll::Ended,
        };
        // The socket is new, so it has room for the answer.
        match prover.take(&room[..n]) {
            Outcome::Wait => {}
            Outcome::Send(bytes) if write_whole(socket, &bytes) => {}
            Outcome::Proved(key, rest) if rest.is_empty() || write_whole(socket, &rest) => {
                return Poll::Proved(key);
            }
            Outcome::Send(_) | Outcome::Proved(..) => return Poll::Ended,
            Outcome::Refused(why, refuse) => {
                write_whole(socket, &refuse);
                socket.shutdown();
                return Poll::Refused(why);
            }
        }
    }
}

impl Connections {
    /// Continues after the peer has accepted the request. `keyed`: the peer's endpoint has a key.
    #[cold]
    pub(super) fn prove(&mut self, desk: &mut Desk<'_>, id: usize, keyed: bool) {
        let conn = &mut desk.peers[id];
        match &conn.own.auth {
            None => return self.key_refused(desk, id, PEER_HAS_ONE),
            Some(_) if !keyed || !conn.session.agreed.extended => {
                return self.key_refused(desk, id, PEER_HAS_NONE);
            }
            Some(_) => {}
        }
        match self.begin_proof(desk, id) {
            Ok(()) => desk.rewatch(id, true, false),
            Err(Error::KEYREJECTED) => self.key_refused(desk, id, NO_KEY_FOR_IT),
            Err(error) => self.connect_failed(desk, id, error),
        }
    }

    fn begin_proof(&mut self, desk: &mut Desk<'_>, id: usize) -> Result {
        let (endpoint, conn) = desk.peers.with_ep(id)?;
        let keys = keys_for(
            desk.domain,
            conn.session.peer.ep,
            endpoint,
            &conn.session.peer.addr,
        );
        let key = keys.first().ok_or(Error::KEYREJECTED)?;
        let (Some(socket), Some(auth)) = (conn.link.socket(), &mut conn.own.auth) else {
            return Err(Error::IO);
        };
        let request = std::mem::take(&mut auth.request);
        let context = Context::new(
            socket.local()?,
            socket.peer()?,
            &request,
            &conn.own.exchange,
        );
        let nonce = unpredictable()?;
        let (prover, hello) =
            Prover::connecting(key.clone(), context, nonce, conn.session.tx.out.swaps());
        auth.prover = Some(prover);
        conn.session.state = State::Proving;
        match write_whole(socket, &hello) {
            true => Ok(()),
            false => Err(Error::IO),
        }
    }

    /// Handles an event of a connection whose peer has not proved its key yet.
    #[cold]
    pub(super) fn proving(&mut self, desk: &mut Desk<'_>, id: usize) {
        let conn = &mut desk.peers[id];
        let prover = conn.own.auth.as_mut().and_then(|auth| auth.prover.as_mut());
        let (Some(socket), Some(prover)) = (conn.link.socket(), prover) else {
            return;
        };
        match poll(socket, prover) {
            Poll::Wait => {}
            Poll::Ended => {
                log_info!(
                    desk.source,
                    Subsys::EpCtrl,
                    "{} has gone without a proof of its authorization key",
                    conn.session.peer.addr
                );
                self.connect_failed(desk, id, Error::CONNREFUSED);
            }
            Poll::Refused(why) => self.key_refused(desk, id, why),
            Poll::Proved(key) => self.proved(desk, id, key),
        }
    }

    fn proved(&mut self, desk: &mut Desk<'_>, id: usize, key: Key) {
        let rdm = desk.peers.is_of_rdm(id);
        let conn = &mut desk.peers[id];
        conn.own.auth = Some(Box::new(Auth::proved(key)));
        // Number of frames sent so far.
        let sent = if conn.opened_here { 2 } else { 1 };
        conn.session.tx.out.set_counter(sent);
        let private = private_of(&conn.own.exchange).to_vec();
        let agreed = self.agreed(desk, id);
        self.settled(desk, id, agreed);
        if !rdm {
            desk.act(Action::Event(id, FI_CONNECTED, private.to_vec()));
        }
    }

    /// Ends a connection because the two keys differ or one side has none: a later attempt would not succeed either.
    #[cold]
    pub(super) fn key_refused(&mut self, desk: &mut Desk<'_>, id: usize, why: &str) {
        let conn = &mut desk.peers[id];
        let peer = conn.session.peer.addr;
        log_warn!(desk.source, Subsys::EpCtrl, "{peer}: no connection: {why}");
        conn.own.auth = None;
        if desk.peers.is_of_rdm(id) {
            return desk.end(id, Error::KEYREJECTED);
        }
        desk.act(Action::Refused {
            id,
            error: Error::KEYREJECTED,
            cause: Error::KEYREJECTED,
            private: Vec::new(),
        });
    }

    /// MSG: checks whether a request fits the endpoint that accepts it, and refuses it if not.
    pub(super) fn check_key(&self, desk: &Desk<'_>, ep: usize, request: &Accepted) -> Result {
        let why = match (desk.peers.ep(ep)?.own.keys.is_some(), request.is_keyed()) {
            (true, false) => PEER_HAS_NONE,
            (false, true) => PEER_HAS_ONE,
            _ => return Ok(()),
        };
        let peer = request.from();
        log_warn!(
            desk.source,
            Subsys::EpCtrl,
            "{peer}: request refused: {why}"
        );
        request.refuse_key();
        Err(Error::KEYREJECTED)
    }

    /// MSG: returns the prover that a keyed endpoint needs to accept this request with this response.
    pub(super) fn accept_proof(
        &self,
        desk: &Desk<'_>,
        ep: usize,
        request: &Accepted,
        response: &[u8],
    ) -> Result<Option<Box<Auth>>> {
        let Some(keys) = &desk.peers.ep(ep)?.own.keys else {
            return Ok(None);
        };
        let prover = request.prover(keys, response)?;
        Ok(Some(Box::new(Auth::by(prover))))
    }

    /// Whether a request at an RDM endpoint involves a key on either side.
    pub(super) fn asks_for_key(
        &self,
        desk: &Desk<'_>,
        from: &Handshake,
        header: &CmHeader,
    ) -> bool {
        let keyed = desk
            .peers
            .find_ep(from.ep)
            .is_some_and(|ep| ep.own.keys.is_some());
        from.key.is_none() && (keyed || header.keyed)
    }

    /// RDM: answers a request that involves a key. `admit` continues after the peer has proved its key.
    #[cold]
    pub(super) fn invite(
        &mut self,
        desk: &mut Desk<'_>,
        mut from: Handshake,
        header: CmHeader,
        private: RdmPrivate,
    ) {
        let Some((peer, own)) = self.names(desk, &from, &private) else {
            return;
        };
        let Some(endpoint) = desk.peers.find_ep(from.ep) else {
            return;
        };
        let echo = private_of(&from.exchange);
        let keys = match (&endpoint.own.keys, header.keyed) {
            (Some(_), true) if private.features & EXTENSIONS != 0 => {
                keys_for(desk.domain, from.ep, endpoint, &peer)
            }
            (keys, _) => {
                let why = if keys.is_some() {
                    PEER_HAS_NONE
                } else {
                    PEER_HAS_ONE
                };
                log_warn!(
                    desk.source,
                    Subsys::EpCtrl,
                    "{peer}: request refused: {why}"
                );
                write_whole(&from.socket, &encode_cm(CmKind::Reject, echo, false, true));
                return;
            }
        };
        if let Some(id) = endpoint.conn_to(&peer)
            && peer != own
        {
            let conn = &desk.peers[id];
            let taken = matches!(
                conn.session.state,
                State::Proving | State::Sharing | State::Up | State::Resting
            ) && conn.opened_here
                && conn.own.peer_pid == private.pid;
            // Any process can claim to be this peer, so even a request that takes precedence changes nothing before its
            // proof. The proof may start at once: peers with a key can read the answer to their own request before the
            // local request's.
            let ours =
                conn.session.state == State::Requested && compare(&peer, &own) == Ordering::Less;
            if ours || taken {
                write_exchange(&from.socket, CmKind::Reject, echo, false);
                return;
            }
        }
        let answer = self.answer_to(desk, &from, &header, &private);
        let response = encode_cm(CmKind::Response, &answer.encode(), false, true);
        match pending(&from, keys, header, private, &response) {
            Ok(pending) if write_whole(&from.socket, &response) => from.pending = Some(pending),
            Ok(_) => return,
            Err(error) => {
                log_warn!(
                    desk.source,
                    Subsys::EpCtrl,
                    "{peer}: request dropped: {error}"
                );
                return;
            }
        }
        let limit = self.site.set.conn_timeout;
        from.deadline = desk.poller.now() + limit;
        let deadline = from.deadline;
        let id = self.handshakes.insert(from);
        match desk.poller.add_handshake(&self.handshakes[id].socket, id) {
            Ok(()) => desk.poller.schedule(deadline, Due::Handshake(id)),
            Err(_) => drop(self.handshakes.remove(id)),
        }
    }
}

fn pending(
    from: &Handshake,
    keys: Vec<Key>,
    header: CmHeader,
    private: RdmPrivate,
    response: &[u8],
) -> Result<Box<Pending>> {
    let local = from.socket.local()?;
    let context = Context::new(from.from, local, &from.exchange, response);
    let prover = Prover::accepting(keys, context, unpredictable()?, header.swapped);
    Ok(Box::new(Pending {
        header,
        private,
        prover,
    }))
}

impl Connections {
    /// Handles an event of a socket whose peer has not proved its key yet.
    #[cold]
    pub(super) fn invited(&mut self, desk: &mut Desk<'_>, id: usize) {
        let handshake = &mut self.handshakes[id];
        let Some(pending) = &mut handshake.pending else {
            return;
        };
        match poll(&handshake.socket, &mut pending.prover) {
            Poll::Wait => {}
            Poll::Proved(key) => {
                let (header, private) = (pending.header, pending.private);
                let mut handshake = self.handshakes.remove(id);
                desk.poller.remove_fd(&handshake.socket);
                handshake.pending = None;
                handshake.key = Some(key);
                self.admit(desk, Request::new(handshake, header, private));
            }
            Poll::Refused(why) => self.uninvite(desk, id, why),
            Poll::Ended => self.uninvite(desk, id, "it has gone without a proof of its key"),
        }
    }

    /// Drops a connection without a valid proof. Operations queued for the peer start a local attempt.
    pub(super) fn uninvite(&mut self, desk: &mut Desk<'_>, id: usize, why: &str) {
        let handshake = &self.handshakes[id];
        let Some(pending) = &handshake.pending else {
            return self.drop_handshake(desk.poller, id);
        };
        let names = self.names(desk, handshake, &pending.private);
        let peer = names.map_or(handshake.from, |(peer, _)| peer);
        log_warn!(desk.source, Subsys::EpCtrl, "{peer}: no connection: {why}");
        let ep = handshake.ep;
        self.drop_handshake(desk.poller, id);
        if let Some(conn) = desk.peers.conn_to(ep, &peer)
            && desk.peers[conn].session.state == State::Idle
        {
            desk.poller.schedule(desk.poller.now(), Due::Conn(conn));
        }
    }
}
