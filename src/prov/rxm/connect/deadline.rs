// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Time limits of attempts to connect, for hosts and ports that do not answer (`ConnectClock`).

use std::time::Instant;

use crate::rxm::SOURCE;
use crate::rxm::conn::State;
use crate::rxm::state::{Due, Rxm, StateOf};
use base::Error;
use base::log::{Subsys, log_warn};
use engine::transport::Listener;
use object::ops::options::OPT_LISTENER;

impl Rxm {
    pub(super) fn schedule_deadline(&mut self, id: usize) {
        if let Some(deadline) = self.conns[id].clock.deadline() {
            self.reactor.schedule(deadline, Due::Conn(id));
        }
    }

    /// Whether the peer exists, so that only its provider has to poll. Other libraries' providers below cannot report
    /// that; they end attempts themselves.
    fn is_there(&self, id: usize) -> bool {
        let conn = &self.conns[id];
        let link = conn.link.as_ref();
        // A test connection must detect silence, because receives may wait for the peer.
        let least = match conn.is_look {
            true => Listener::Accepted,
            false => Listener::Silent,
        };
        link.is_some_and(|link| match link.getopt::<usize>(OPT_LISTENER) {
            Ok(listener) => listener >= least as usize,
            Err(_) => !conn.is_look,
        })
    }

    /// Handles a deadline of a connection.
    pub fn conn_due(&mut self, domain: &mut StateOf, id: usize) {
        let now = self.reactor.now();
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        match conn.state {
            State::Idle if conn.clock.is_over(now) => {
                // The application may have stopped waiting for the connection long ago.
                if conn.is_wanted {
                    return self.give_up(domain, id, now);
                }
                conn.clock.reset();
                (conn.retry_at, conn.attempts) = (None, 0);
                conn.is_look = false;
            }
            State::Idle if conn.is_wanted => self.connect(domain, id),
            State::Connecting if !conn.clock.is_over(now) => self.schedule_deadline(id),
            State::Connecting => self.attempt_is_late(domain, id, now),
            _ => {}
        }
    }

    /// Handles an attempt that the provider below has not completed in time. It continues if the peer exists.
    fn attempt_is_late(&mut self, domain: &mut StateOf, id: usize, now: Instant) {
        if !self.is_there(id) {
            return self.attempt_failed(domain, id, Error::TIMEDOUT);
        }
        log_warn!(
            &SOURCE,
            Subsys::EpCtrl,
            "{} has accepted a connection and does not answer yet: operations for it wait",
            self.conns[id].peer
        );
        let limit = self.lower.params.conn_timeout;
        let clock = &mut self.conns[id].clock;
        clock.restart(now, limit);
        clock.stop(now);
    }
}
