// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Attempts to connect. A failed attempt is repeated after a growing pause until the peer's time to accept a connection
//! is over (`ConnectClock`). The provider defines an attempt.

use core::time::Duration;

use crate::conn::WaitsFor;
use crate::connector::{Connector, Event};
use crate::poller::Due;
use crate::session::State;
use crate::transport::{DomainOf, Stream};
use base::Error;
use base::log::{Subsys, log_debug, log_failure};
use engine::descriptors::report_shortage;
use engine::peer::retry::Pauses;
use sync::stats::Count;

/// The longest pause between two attempts, and the same as a multiple of the first.
const DOUBLED: u32 = 256;
const LONGEST: Duration = Duration::from_millis(500);
impl<N: Connector> Stream<N> {
    /// Schedules another attempt after one has failed, or ends the connection. `passing`: a later attempt may succeed.
    pub(super) fn try_later(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        error: Error,
        passing: bool,
    ) {
        let (now, limit) = (
            self.traffic.poller.now(),
            self.traffic.common.limits.connect,
        );
        let clock = &mut self.traffic.peers[id].clock;
        clock.resume(now);
        if error == Error::AGAIN {
            clock.restart(now, limit);
        }
        let refuses = matches!(error, Error::CONNREFUSED | Error::NOENT);
        let is_over = !clock.is_started() || clock.is_over(now) || refuses && clock.is_gone(now);
        if is_over || !passing {
            return self.give_up(domain, id, error);
        }
        if error == Error::MFILE && N::CLOSES_IDLE {
            return self.wait_for_room(id);
        }
        let conn = &mut self.traffic.peers[id];
        conn.attempts += 1;
        domain.eps[conn.session.peer.ep]
            .stats
            .count(Count::ConnectRetries);
        conn.last_error = Some(error);
        let pauses = Pauses {
            first: 2 * N::FIRST_PAUSE,
            longest: LONGEST.min(N::FIRST_PAUSE * DOUBLED),
        };
        let next = now + pauses.after(conn.attempts, &mut self.traffic.common.jitter);
        let next = conn.clock.deadline().map_or(next, |end| next.min(end));
        log_debug!(
            self.traffic.common.source,
            Subsys::EpCtrl,
            "{}: attempt {} failed: error {}; next attempt in {} ms",
            conn.session.peer.addr,
            conn.attempts,
            error.code(),
            (next - now).as_millis()
        );
        conn.clock.pause(next);
        self.traffic.poller.schedule(next, Due::Conn(id));
    }

    /// Ends a connection that could not be established.
    fn give_up(&mut self, domain: &mut DomainOf<N>, id: usize, error: Error) {
        if error == Error::MFILE {
            report_shortage(self.traffic.common.source);
        }
        let conn = &self.traffic.peers[id];
        let local = self
            .traffic
            .peers
            .find_ep(conn.session.peer.ep)
            .map(|ep| ep.local.to_string());
        log_failure!(
            self.traffic.common.source,
            Subsys::EpCtrl,
            "no connection from {} to {} after {} attempts: {error}",
            local.unwrap_or_default(),
            conn.session.peer.addr,
            conn.attempts + 1,
        );
        self.disconnect(domain, id, error);
    }

    /// Handles a deadline of a connection.
    pub(super) fn conn_due(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let Some(conn) = self.traffic.peers.get_mut(id) else {
            return;
        };
        let now = self.traffic.poller.now();
        let room_until = self
            .traffic
            .room
            .moved()
            .map(|at| at + self.traffic.common.limits.connect);
        match conn.session.state {
            State::Idle if !conn.has_work() => {
                // No operation waits for the connection any more; the next one starts the clock again.
                conn.clock.reset();
                conn.attempts = 0;
            }
            State::Idle if conn.waits_for == WaitsFor::Room && room_until > Some(now) => {
                // Descriptors go from one connection to the next, and this one's turn comes.
                let room_until = room_until.unwrap_or(now);
                conn.clock.restart(now, room_until - now);
                self.traffic.poller.schedule(room_until, Due::Conn(id));
            }
            State::Idle if conn.clock.is_over(now) => {
                let error = conn.last_error.unwrap_or(Error::TIMEDOUT);
                self.connector_event(domain, Event::AttemptFailed(id, error));
            }
            State::Idle if conn.clock.is_pausing(now) => {}
            State::Idle => drop(self.begin_connect(domain, id)),
            State::Connecting => self.connecting_due(domain, id),
            State::Requested | State::Proving | State::Sharing
                if N::attempt_limit(&conn.own).is_some_and(|limit| now >= limit) =>
            {
                self.connector_event(domain, Event::AttemptFailed(id, Error::TIMEDOUT));
            }
            _ => {}
        }
    }

    /// Handles the deadline of an attempt that the kernel has had time to complete.
    fn connecting_due(&mut self, domain: &mut DomainOf<N>, id: usize) {
        // The application may not have polled since the peer's kernel answered.
        self.connector_event(domain, Event::Opening(id));
        let now = self.traffic.poller.now();
        let conn = self.traffic.peers.get_mut(id);
        let Some(conn) = conn.filter(|conn| conn.session.state == State::Connecting) else {
            return;
        };
        if N::is_on_this_host(conn) {
            // The queue of the listener is full. A new attempt finds room sooner than the kernel would, because the
            // kernel doubles its pauses.
            self.connector_event(domain, Event::AttemptFailed(id, Error::AGAIN));
        } else if conn.clock.is_over(now) {
            self.connector_event(domain, Event::AttemptFailed(id, Error::TIMEDOUT));
        } else if let Some(deadline) = conn.clock.deadline() {
            self.traffic.poller.schedule(deadline, Due::Conn(id));
        }
    }
}
