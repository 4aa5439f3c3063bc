// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Hosts that fall silent: a cable that was pulled, a host that lost its power. TCP by itself notices that after a quarter of
//! an hour where bytes are under way, and never where none are; here it is after FI_TCP_PEER_TIMEOUT.
//!
//! Connections at rest are left to the kernel, which probes them (SO_KEEPALIVE). Where bytes are under way it does not; so
//! from the first bytes that are written until all have been acknowledged, it is asked now and then what the peer has
//! acknowledged. TCP_USER_TIMEOUT is no way: it also ends connections whose peer answers, but makes no room for a while.
#![forbid(unsafe_code)]

use std::io;
use std::time::Duration;

use crate::base::Error;
use crate::base::log::{Subsys, log_warn};
use crate::engine::stream::session::State;
use crate::engine::stream::transport::{DomainOf, Due, Stream};
use crate::prov::tcp::Tcp;
use crate::sys::socket::Socket;

/// So often within the time that a peer has.
const LOOKS: u32 = 6;

/// The kernel probes the peer while nothing is under way.
pub fn probe_at_rest(socket: &Socket, timeout: Duration) -> io::Result<()> {
    match timeout.is_zero() {
        true => socket.set_keepalive(None),
        // Half the time until the first probe, then four of them.
        false => socket.set_keepalive(Some((timeout / 2, timeout / 8, 4))),
    }
}

impl Stream<Tcp> {
    #[cold]
    pub(super) fn watch_peers(&mut self) {
        let timeout = self.params.set.peer_timeout;
        // Where there is no limit nothing is ever due.
        self.common.watches_peers = true;
        if !timeout.is_zero() {
            self.schedule(self.reactor.now() + timeout / LOOKS, Due::Peers);
        }
    }

    /// Gives up peers that have not acknowledged anything for too long.
    #[cold]
    pub(super) fn check_peers(&mut self, domain: &mut DomainOf<Tcp>) {
        let (now, timeout) = (self.reactor.now(), self.params.set.peer_timeout);
        let (mut silent, mut any) = (Vec::new(), false);
        for (id, conn) in &mut self.conns {
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
            let Some(conn) = self.conns.get_mut(id) else {
                continue;
            };
            conn.session.is_reported = true;
            log_warn!(
                self.common.source,
                Subsys::EpData,
                "{}: nothing was acknowledged for {} s: the connection is given up",
                conn.session.peer,
                timeout.as_secs_f32()
            );
            self.disconnect(domain, id, Error::TIMEDOUT);
        }
        self.common.watches_peers = false;
        if any {
            self.watch_peers();
        }
    }
}
