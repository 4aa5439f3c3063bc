// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Detection of silent hosts, for example after a power loss or with an unplugged cable. TCP alone detects them after a
//! quarter of an hour if data is in flight, and never if not; this module does after FI_TCP_PEER_TIMEOUT.
//!
//! The kernel probes idle connections (SO_KEEPALIVE), but not while data is in flight. Therefore, from the first
//! written byte until everything is acknowledged, a timer checks what the peer has acknowledged. TCP_USER_TIMEOUT is
//! not suitable: it also ends connections whose peer answers but has no room for a while.

use std::io;
use std::time::Duration;

use crate::tcp::Tcp;
use base::Error;
use base::log::{Subsys, log_warn};
use stream::poller::Due;
use stream::session::State;
use stream::transport::{DomainOf, Stream};
use sys::socket::Socket;

/// Number of checks within the timeout.
const LOOKS: u32 = 6;

/// Makes the kernel probe the peer while no data is in flight.
pub fn probe_at_rest(socket: &Socket, timeout: Duration) -> io::Result<()> {
    match timeout.is_zero() {
        true => socket.set_keepalive(None),
        // The first probe comes after half the time, then four more follow.
        false => socket.set_keepalive(Some((timeout / 2, timeout / 8, 4))),
    }
}

#[cold]
pub(super) fn watch_peers(stream: &mut Stream<Tcp>) {
    let timeout = stream.params.set.peer_timeout;
    // Without a timeout no check is ever due.
    stream.common.watches_peers = true;
    if !timeout.is_zero() {
        stream
            .poller
            .schedule(stream.poller.now() + timeout / LOOKS, Due::Peers);
    }
}

/// Disconnects peers that have not acknowledged anything for too long.
#[cold]
pub(super) fn check_peers(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>) {
    let (now, timeout) = (stream.poller.now(), stream.params.set.peer_timeout);
    let (mut silent, mut any) = (Vec::new(), false);
    for (id, conn) in stream.peers.iter_mut() {
        let Some(socket) = conn
            .link
            .socket()
            .filter(|_| conn.session.state == State::Up)
        else {
            continue;
        };
        let Some(since_answer) = socket.unanswered() else {
            conn.unanswered = None;
            continue;
        };
        any = true;
        let first = *conn.unanswered.get_or_insert(now);
        let waited = now.saturating_duration_since(first);
        if since_answer < waited {
            conn.unanswered = Some(now);
        } else if waited >= timeout {
            silent.push(id);
        }
    }
    for id in silent {
        // The loss of one peer may have ended the connection to another.
        let Some(conn) = stream.peers.get_mut(id) else {
            continue;
        };
        conn.session.is_reported = true;
        log_warn!(
            stream.common.source,
            Subsys::EpData,
            "{}: nothing was acknowledged for {} s: the connection is given up",
            conn.session.peer,
            timeout.as_secs_f32()
        );
        stream.disconnect(domain, id, Error::TIMEDOUT);
    }
    stream.common.watches_peers = false;
    if any {
        watch_peers(stream);
    }
}
