// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connecting: the messages at the start of each stream, attempts and their deadlines. fi_cm(3); docs/wire/tcp.md.

use core::time::Duration;
use std::os::fd::AsRawFd;

use crate::tcp::Tcp;
use crate::tcp::alive::probe_at_rest;
use crate::tcp::exchange::{Exchange, FIREWALL, read_exchange, write_whole};
use crate::tcp::handshake::Auth;
use crate::tcp::keyed::REFUSED_FOR_KEYS;
use abi::*;
use base::log::{Subsys, log_debug, log_info, log_warn};
use base::{Error, Result};
use stream::link::Link;
use stream::proto::{CmHeader, CmKind, EXTENSIONS, RdmPrivate, encode_cm, private_of};
use stream::session::State;
use stream::transport::{DomainOf, Stream};
use sync::stats::Count;
use sys::probe;
use sys::socket::Socket;

/// Keepalive probes of a peer whose kernel has accepted the connection and that has not answered yet: idle time,
/// interval, count.
pub(super) const PROBES: (Duration, Duration, u32) =
    (Duration::from_secs(5), Duration::from_secs(2), 2);

/// Starts to connect to the peer of `id`, unless an attempt is in progress.
pub(super) fn begin_connect(
    stream: &mut Stream<Tcp>,
    domain: &mut DomainOf<Tcp>,
    id: usize,
) -> Result {
    let conn = &mut stream.peers[id];
    if conn.session.state != State::Idle {
        return Ok(());
    }
    conn.clock
        .start(stream.poller.now(), stream.params.set.conn_timeout);
    let peer = conn.session.peer;
    let (endpoint, conn) = stream.peers.with_ep(id)?;
    log_debug!(
        stream.common.source,
        Subsys::EpCtrl,
        "connecting to {peer} from {}, attempt {}",
        endpoint.local,
        conn.attempts + 1
    );
    let started = match endpoint.own.bound.take() {
        Some(bound) => bound.connect_to(peer),
        None if endpoint.own.has_port => {
            Socket::bound(endpoint.local, None, 0).and_then(|bound| bound.connect_to(peer))
        }
        None => Socket::connect(Some(endpoint.local), peer),
    };
    match started {
        Ok((socket, up)) => {
            let _ = socket.set_nodelay(endpoint.own.nodelay);
            let conn = &mut stream.peers[id];
            conn.session.state = State::Connecting;
            conn.opened_here = true;
            conn.own.exchange.clear();
            let fd = socket.as_raw_fd();
            conn.link = Link::Socket(socket);
            if let Err(error) = stream.poller.watch(id, fd, false, true) {
                connect_failed(stream, domain, id, error.into());
                return Ok(());
            }
            match up {
                true => connected(stream, domain, id),
                false => stream.schedule_attempt(id),
            }
        }
        Err(error) => {
            let error = match Error::from(error) {
                // This side has no free port. For attempts FI_EAGAIN would mean that the peer's queue is full.
                Error::AGAIN => Error::ADDRNOTAVAIL,
                error => error,
            };
            connect_failed(stream, domain, id, error);
            if !stream.peers.contains(id) {
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Handles the end of the kernel's attempt to connect.
pub(super) fn connected(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>, id: usize) {
    let conn = &stream.peers[id];
    let Some(socket) = conn.link.socket() else {
        return;
    };
    match socket.take_error() {
        // The event belongs to an earlier socket with the same number.
        Ok(None) if !socket.is_connected() => {}
        Ok(None) => {
            // From now on the name of an active endpoint is known.
            let (local, ep) = (socket.local(), conn.session.ep);
            if let (Ok(local), Some(endpoint)) = (local, stream.peers.find_ep_mut(ep))
                && !endpoint.rdm
            {
                endpoint.local = local;
            }
            send_request(stream, domain, id);
        }
        Ok(Some(error)) | Err(error) => connect_failed(stream, domain, id, error.into()),
    }
}

fn send_request(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>, id: usize) {
    let conn = &stream.peers[id];
    let (Some(endpoint), Some(socket)) =
        (stream.peers.find_ep(conn.session.ep), conn.link.socket())
    else {
        return;
    };
    if !endpoint.rdm && socket.has_ended() {
        // The listener has closed the connection because this side did not poll for long. It has seen no request,
        // so another attempt is not a duplicate.
        return super::msg::connect_again(stream, domain, id);
    }
    let private = match endpoint.rdm {
        true => RdmPrivate {
            version: 1,
            checked: false,
            features: EXTENSIONS
                | if endpoint.own.firewalled { FIREWALL } else { 0 }
                | super::same_host::shares(stream, conn.session.ep, socket),
            port: endpoint.local.port(),
            pid: stream.own.pid,
        }
        .encode()
        .to_vec(),
        false => conn.session.rx.leftover.clone(),
    };
    let _ = socket.set_keepalive(Some(PROBES));
    let keyed = endpoint.own.keys.is_some();
    let request = encode_cm(CmKind::Request, &private, !endpoint.rdm, keyed);
    if !write_whole(socket, &request) {
        return connect_failed(stream, domain, id, Error::IO);
    }
    let now = stream.poller.now();
    let conn = &mut stream.peers[id];
    // The peer answers when it polls, however long that takes.
    conn.clock.stop(now);
    conn.own.auth = keyed.then(|| Box::new(Auth::of(request)));
    conn.session.state = State::Requested;
    conn.session.rx.leftover = Vec::new();
    stream.rewatch(id, true, false);
}

/// Handles the answer to the local request, or a part of it.
pub(super) fn answered(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>, id: usize) {
    let conn = &mut stream.peers[id];
    let Some(socket) = conn.link.socket() else {
        return;
    };
    let header = match read_exchange(socket, &mut conn.own.exchange) {
        Exchange::Partial => return,
        Exchange::Broken(why) => {
            log_info!(
                stream.common.source,
                Subsys::EpCtrl,
                "{}: no answer: {why}",
                conn.session.peer
            );
            return connect_failed(stream, domain, id, Error::CONNREFUSED);
        }
        Exchange::Whole(header) => header,
    };
    let private = private_of(&conn.own.exchange).to_vec();
    log_debug!(
        stream.common.source,
        Subsys::EpCtrl,
        "{} has answered our request: {:?}",
        conn.session.peer,
        header.kind
    );
    match header.kind {
        CmKind::Response => established(stream, domain, id, &header, &private),
        _ if header.keyed => super::keyed::key_refused(stream, domain, id, REFUSED_FOR_KEYS),
        _ => rejected(stream, domain, id, private),
    }
}

/// Handles an accepted request.
fn established(
    stream: &mut Stream<Tcp>,
    domain: &mut DomainOf<Tcp>,
    id: usize,
    header: &CmHeader,
    private: &[u8],
) {
    let rdm = stream.peers.is_of_rdm(id);
    let conn = &mut stream.peers[id];
    conn.session.swap = header.swapped;
    if rdm {
        let Some(answer) = RdmPrivate::decode(private) else {
            log_warn!(
                stream.common.source,
                Subsys::EpCtrl,
                "{}: answers as something else than a tcp RDM endpoint",
                conn.session.peer
            );
            return connect_failed(stream, domain, id, Error::CONNREFUSED);
        };
        conn.own.peer_pid = answer.pid;
        conn.session.rendezvous = answer.allows_rendezvous() && !conn.session.swap;
        conn.session.extended = answer.features & EXTENSIONS != 0;
    } else {
        conn.session.extended = header.extended;
    }
    conn.session.refuses = conn.session.extended && stream.common.limits.answers_writes;
    if header.keyed || conn.own.auth.is_some() {
        return super::keyed::prove(stream, domain, id, header.keyed);
    }
    let agreed = agreed(stream, id);
    super::same_host::settled(stream, domain, id, agreed);
    if !rdm {
        super::msg::cm_event(stream, domain, id, FI_CONNECTED, private);
    }
}

/// Returns the features that the peer's response has agreed to.
pub(super) fn agreed(stream: &Stream<Tcp>, id: usize) -> u8 {
    let conn = &stream.peers[id];
    let private = private_of(&conn.own.exchange);
    match (RdmPrivate::decode(private), conn.link.socket()) {
        (Some(answer), Some(socket)) if conn.session.extended && !conn.session.swap => {
            answer.features & super::same_host::shares(stream, conn.session.ep, socket)
        }
        _ => 0,
    }
}

/// Handles a rejected request.
fn rejected(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>, id: usize, private: Vec<u8>) {
    if stream.peers.is_of_rdm(id) {
        // The peer has started its own attempt, or has not noticed the end of the last connection. Its request or
        // the next attempt resolves both cases.
        return connect_failed(stream, domain, id, Error::CONNREFUSED);
    }
    super::msg::msg_failed(
        stream,
        domain,
        id,
        Error::CONNREFUSED,
        Error::CONNREFUSED,
        private,
    );
}

/// Completes the connection: queued operations are sent.
pub(super) fn up(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>, id: usize) {
    let conn = &mut stream.peers[id];
    if let Some(socket) = conn.link.socket() {
        // Without keepalive the peer is only checked while data is in flight.
        let _ = probe_at_rest(socket, stream.params.set.peer_timeout);
    }
    conn.session.state = State::Up;
    domain.ep(conn.session.ep).stats.count(Count::Connected);
    probe::connect(conn.session.ep, id, conn.session.fi_addr);
    conn.session.key = <Tcp as stream::Net>::key(conn).cloned();
    conn.clock.reset();
    conn.attempts = 0;
    conn.own.exchange = Vec::new();
    conn.own.sharing = None;
    if let Some(crossing) = conn.own.crossing.take() {
        crossing.reject();
    }
    log_info!(
        stream.common.source,
        Subsys::EpCtrl,
        "connected to {}, opened by {}, {} extensions, over {}",
        conn.session.peer,
        if conn.opened_here { "us" } else { "the peer" },
        if conn.session.extended {
            "with"
        } else {
            "without"
        },
        conn.link.words()
    );
    stream.log_protocol(id);
    stream.rewatch(id, true, false);
    stream.promote(id);
    stream.with(domain, id, |session, cx| session.send_waiting(cx));
    stream.member_up(domain, id);
}

/// Schedules another attempt after a failed one, or ends the connection.
pub(super) fn connect_failed(
    stream: &mut Stream<Tcp>,
    domain: &mut DomainOf<Tcp>,
    id: usize,
    error: Error,
) {
    if !stream.peers.is_of_rdm(id) {
        return match (error, stream.peers[id].session.state) {
            (Error::AGAIN, State::Connecting) => super::msg::connect_again(stream, domain, id),
            // The listener had accepted the connection.
            (Error::CONNREFUSED, State::Requested | State::Proving) => {
                super::msg::msg_failed(stream, domain, id, error, Error::CONNRESET, Vec::new())
            }
            _ => super::msg::msg_failed(stream, domain, id, error, error, Vec::new()),
        };
    }
    stream.close_link(id);
    stream.peers[id].session.state = State::Idle;
    stream.peers[id].own.sharing = None;
    if super::accept::admit_crossing(stream, domain, id) {
        return;
    }
    stream.try_later(domain, id, error, is_passing(error));
}

/// Whether a later attempt may succeed.
fn is_passing(error: Error) -> bool {
    !matches!(
        error,
        Error::TIMEDOUT | Error::MFILE | Error::INVAL | Error::ACCES
    )
}
