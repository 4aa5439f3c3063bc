// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Detection of silent hosts, for example after a power loss or with an unplugged cable. TCP alone detects them after a
//! quarter of an hour if data is in flight; this module does after `Limits::peer_timeout`.
//!
//! The kernel probes idle connections (SO_KEEPALIVE), but not while data is in flight. Therefore, from the first
//! written byte until everything is acknowledged, a timer checks what the peer has acknowledged. TCP_USER_TIMEOUT is
//! not suitable: it also ends connections whose peer answers but has no room for a while.

use crate::connector::Connector;
use crate::poller::Due;
use crate::session::Ending;
use crate::transport::Traffic;
use base::Error;
use base::log::{Subsys, log_warn};

/// Number of checks within the timeout.
const LOOKS: u32 = 6;

impl<N: Connector> Traffic<N> {
    /// Starts to check whether peers are still alive, because data is being sent to them.
    #[cold]
    pub(in crate::transport) fn watch_peers(&mut self) {
        let timeout = self.common.limits.peer_timeout;
        // Without a timeout no check is ever due.
        self.common.watches_peers = true;
        if !timeout.is_zero() {
            let at = self.poller.now() + timeout / LOOKS;
            self.poller.schedule(at, Due::Peers);
        }
    }

    /// Disconnects peers that have not acknowledged anything for too long.
    #[cold]
    pub(in crate::transport) fn check_peers(&mut self) {
        let (now, timeout) = (self.poller.now(), self.common.limits.peer_timeout);
        let (mut silent, mut any) = (Vec::new(), false);
        for (id, conn) in self.peers.iter_mut() {
            let is_up = conn.session.state.is_open();
            let Some(socket) = conn.link.socket().filter(|_| is_up) else {
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
            let conn = &mut self.peers[id];
            conn.session.is_reported = true;
            log_warn!(
                self.common.source,
                Subsys::EpData,
                "{}: nothing was acknowledged for {} s: the connection is given up",
                conn.session.peer.addr,
                timeout.as_secs_f32()
            );
            self.end(id, Ending::Lost(Error::TIMEDOUT));
        }
        self.common.watches_peers = false;
        if any {
            self.watch_peers();
        }
    }
}
