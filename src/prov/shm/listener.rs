// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connection setup between two processes: one connects to the unix socket of the other's endpoint and sends its name.
//! `shm_connect` of the engine defines the messages. docs/wire/shm.md.
//!
//! Two processes that start at the same time get two connections, each for the messages of the side that opened it.

use std::os::fd::AsRawFd;

use crate::shm::Shm;
use crate::shm::addr::Name;
use crate::shm::kind::SHM as SOURCE;
use base::log::{Subsys, log_debug, log_info, log_warn};
use base::{Error, Result};
use stream::Stream;
use stream::hello::{Hello, Verdict};
use stream::link::Link;
use stream::pending_peer::PendingPeer;
use stream::session::State;
use stream::shm_channel::ShmChannel;
use stream::shm_connect::{self, Heard, HelloExchange};
use stream::transport::DomainOf;
use sync::stats::Count;
use sys::probe;

/// Starts to connect to the peer of `id`, unless an attempt is in progress.
pub(super) fn connect_to(
    stream: &mut Stream<Shm>,
    domain: &mut DomainOf<Shm>,
    id: usize,
) -> Result {
    let conn = &mut stream.peers[id];
    if conn.session.state != State::Idle {
        return Ok(());
    }
    let now = stream.poller.now();
    conn.clock.start(now, stream.params.set.conn_timeout);
    if let Err(error) = open_channel(stream, domain, id) {
        shm_connect_failed(stream, domain, id, error);
        if !stream.peers.contains(id) {
            return Err(error);
        }
    }
    Ok(())
}

/// Sends the hello, with memory for both sides.
fn open_channel(stream: &mut Stream<Shm>, domain: &DomainOf<Shm>, id: usize) -> Result {
    let conn = &stream.peers[id];
    let ep = conn.session.ep;
    let endpoint = stream.peers.find_ep(ep).ok_or(Error::INVAL)?;
    let who = endpoint.local.as_str().as_bytes().to_vec();
    log_debug!(
        &SOURCE,
        Subsys::EpCtrl,
        "connecting to {} from {}, attempt {}",
        conn.session.peer,
        endpoint.local,
        conn.attempts + 1
    );
    let socket = shm_connect::connect_to(&stream.params.shm_listener(&conn.session.peer))
        .inspect_err(|&error| {
            if error == Error::ACCES {
                let peer = &conn.session.peer;
                log_warn!(
                    &SOURCE,
                    Subsys::EpCtrl,
                    "{peer}: it belongs to another user, not to ours"
                );
            }
        })?;
    let exchange = stream.shm.send_hello(domain, ep, &socket, who)?;
    let now = stream.poller.now();
    let conn = &mut stream.peers[id];
    // The peer's process exists and answers when it polls, however long that takes.
    conn.clock.stop(now);
    conn.opened_here = true;
    conn.link = Link::Socket(socket);
    conn.own = exchange;
    conn.session.state = State::Requested;
    stream.rewatch(id, true, false);
    Ok(())
}

/// Handles the peer's answer, or a part of it.
pub(super) fn answered(stream: &mut Stream<Shm>, domain: &mut DomainOf<Shm>, id: usize) {
    let conn = &mut stream.peers[id];
    let mut exchange = std::mem::take(&mut conn.own);
    let conn = &stream.peers[id];
    let Some(socket) = conn.link.socket() else {
        return;
    };
    match stream.shm.hear(socket, &mut exchange) {
        Heard::Wait => stream.peers[id].own = exchange,
        Heard::Ended => shm_connect_failed(stream, domain, id, Error::CONNREFUSED),
        Heard::Failed(error) => shm_connect_failed(stream, domain, id, error),
        Heard::Welcome { shm, is_direct } => {
            stream.peers[id].session.is_direct = is_direct;
            established(stream, domain, id, shm);
        }
        Heard::Refused(verdict) => {
            log_warn!(
                &SOURCE,
                Subsys::EpCtrl,
                "{}: refused: {verdict}",
                conn.session.peer
            );
            stream.disconnect(domain, id, verdict.error());
        }
        Heard::Nonsense => {
            log_warn!(
                &SOURCE,
                Subsys::EpCtrl,
                "{}: answers as something else than a shm endpoint",
                conn.session.peer
            );
            stream.disconnect(domain, id, Error::CONNREFUSED);
        }
    }
}

/// Completes the connection after both sides have mapped the memory.
fn established(
    stream: &mut Stream<Shm>,
    domain: &mut DomainOf<Shm>,
    id: usize,
    shm: Box<ShmChannel>,
) {
    let conn = &mut stream.peers[id];
    conn.session.state = State::Up;
    domain.ep(conn.session.ep).stats.count(Count::Connected);
    probe::connect(conn.session.ep, id, conn.session.fi_addr);
    conn.clock.reset();
    conn.attempts = 0;
    conn.session.extended = true;
    conn.session.rendezvous = true;
    log_info!(
        &SOURCE,
        Subsys::EpCtrl,
        "connected to {}, opened by {}, over {}",
        conn.session.peer,
        if conn.opened_here { "us" } else { "the peer" },
        shm.words()
    );
    stream.use_shm(domain, id, shm);
    stream.log_protocol(id);
    stream.rewatch(id, true, false);
    stream.with(domain, id, |session, cx| session.send_waiting(cx));
    stream.member_up(domain, id);
}

/// Schedules another attempt after a failed one, or ends the connection.
pub(super) fn shm_connect_failed(
    stream: &mut Stream<Shm>,
    domain: &mut DomainOf<Shm>,
    id: usize,
    error: Error,
) {
    stream.close_link(id);
    let conn = &mut stream.peers[id];
    conn.session.state = State::Idle;
    conn.own = HelloExchange::default();
    stream.try_later(domain, id, error, is_passing(error));
}

/// Accepts a peer, or sends the reason for a refusal.
pub(super) fn admit(
    stream: &mut Stream<Shm>,
    domain: &mut DomainOf<Shm>,
    pending: PendingPeer,
    hello: core::result::Result<Hello, Verdict>,
) {
    let hello = hello.and_then(|hello| Ok((name_of(&hello)?, hello)));
    let known = match &hello {
        Ok((_, hello)) => Ok(hello),
        Err(verdict) => Err(*verdict),
    };
    let welcomed = stream.shm.welcome(domain, &pending, known);
    let (Some((shm, is_direct)), Ok((name, _))) = (welcomed, hello) else {
        return;
    };
    log_debug!(&SOURCE, Subsys::EpCtrl, "{name} has opened a connection");
    let id = admit_peer(stream, domain, pending.ep, name);
    let conn = &mut stream.peers[id];
    conn.opened_here = false;
    conn.session.is_direct = is_direct;
    match stream.take_socket(id, pending.socket) {
        Ok(()) => established(stream, domain, id, shm),
        Err(error) => stream.disconnect(domain, id, error),
    }
}

/// Returns the connection for a peer that has connected. Without a connection to that peer, it serves both
/// directions.
fn admit_peer(
    stream: &mut Stream<Shm>,
    domain: &mut DomainOf<Shm>,
    ep: usize,
    peer: Name,
) -> usize {
    let endpoint = stream.peers.find_ep(ep);
    let known = endpoint.and_then(|ep| ep.conn_to(&peer));
    let to_self = endpoint.is_some_and(|ep| ep.local == peer);
    match known {
        None => stream.new_peer(domain, ep, peer),
        // The last attempt has failed and the next is not due yet: queued operations use this connection.
        Some(id) if stream.peers[id].session.state == State::Idle && !to_self => id,
        Some(_) => stream.new_receive_only(domain, ep, peer),
    }
}

/// Starts to accept peers.
pub(super) fn enable_endpoint(stream: &mut Stream<Shm>, ep: usize) -> Result {
    let endpoint = stream.peers.find_ep(ep).ok_or(Error::INVAL)?;
    if let Some(listener) = &endpoint.listener {
        stream.poller.add_listener(listener.as_raw_fd(), ep)?;
    }
    Ok(())
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
