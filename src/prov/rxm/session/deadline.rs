// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Time limits of attempts to connect, for hosts and ports that do not answer (`ConnectClock`).

use std::time::Instant;

use super::{Cx, Session, State, Wire};
use crate::rxm::SOURCE;
use base::Error;
use base::log::{Subsys, log_warn};
use engine::transport::Listener;

impl Session {
    pub(super) fn schedule_deadline<W: Wire>(&self, cx: &mut Cx<'_, W>) {
        if let Some(deadline) = self.connection.clock.deadline() {
            cx.wire.schedule(self.id, deadline);
        }
    }

    /// Whether the peer exists, so that only its provider has to poll. Other libraries' providers below cannot report
    /// that; they end attempts themselves.
    fn is_there<W: Wire>(&self, wire: &W) -> bool {
        // A test connection must detect silence, because receives may wait for the peer.
        let is_look = self.connection.is_look;
        let least = match is_look {
            true => Listener::Accepted,
            false => Listener::Silent,
        };
        self.arrival != 0 && wire.has_reacted(self.id, least).unwrap_or(!is_look)
    }

    /// Handles a deadline.
    pub fn due<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant) {
        let connection = &mut self.connection;
        match connection.state {
            State::Idle if connection.clock.is_over(now) => {
                // The application may have stopped waiting for the connection long ago.
                if connection.is_wanted {
                    return self.give_up(cx, now);
                }
                connection.clock.reset();
                (connection.retry_at, connection.attempts) = (None, 0);
                connection.is_look = false;
            }
            State::Idle if connection.is_wanted => self.connect(cx, now),
            State::Connecting if !connection.clock.is_over(now) => self.schedule_deadline(cx),
            State::Connecting => self.attempt_is_late(cx, now),
            _ => {}
        }
    }

    /// Handles an attempt that the provider below has not completed in time. It continues if the peer exists.
    fn attempt_is_late<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant) {
        if !self.is_there(cx.wire) {
            return self.attempt_failed(cx, now, Error::TIMEDOUT);
        }
        log_warn!(
            &SOURCE,
            Subsys::EpCtrl,
            "{} has accepted a connection and does not answer yet: operations for it wait",
            self.peer
        );
        let limit = cx.common.settings.conn_timeout;
        let clock = &mut self.connection.clock;
        clock.restart(now, limit);
        clock.stop(now);
    }
}
