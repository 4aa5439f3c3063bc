// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Attempts to connect: they are repeated with growing pauses until a peer's time is over. What one attempt is, the provider
//! says.
#![forbid(unsafe_code)]

use core::time::Duration;

use crate::base::Error;
use crate::base::log::{Subsys, log_debug, log_warn};
use crate::engine::stream::net::Net;
use crate::engine::stream::session::State;
use crate::engine::stream::transport::{DomainOf, Due, Stream};
use crate::sync::stats::Count;

/// A pause is twice the one before so many times, and never longer than `LONGEST`.
const DOUBLINGS: u32 = 8;
const LONGEST: Duration = Duration::from_millis(500);

impl<N: Net> Stream<N> {
    /// An attempt of a connection that is idle again has failed: another one later, or the end. `passing`: a later one may do
    /// better.
    pub fn try_later(&mut self, domain: &mut DomainOf<N>, id: usize, error: Error, passing: bool) {
        let conn = &mut self.conns[id];
        let now = self.reactor.now();
        let deadline = conn.deadline.unwrap_or(now);
        if now >= deadline || !passing {
            let local = self.eps.get(conn.session.ep).map(|ep| ep.local.to_string());
            log_warn!(
                self.common.source,
                Subsys::EpCtrl,
                "no connection from {} to {} after {} attempts: {:?}",
                local.unwrap_or_default(),
                conn.session.peer,
                conn.attempts + 1,
                std::io::Error::from_raw_os_error(error.code()).to_string(),
            );
            return self.disconnect(domain, id, error);
        }
        conn.attempts += 1;
        domain
            .ep(conn.session.ep)
            .stats
            .count(Count::ConnectRetries);
        conn.last_error = Some(error);
        let pause = N::FIRST_PAUSE * (1 << conn.attempts.min(DOUBLINGS));
        let next = (now + pause.min(LONGEST)).min(deadline);
        log_debug!(
            self.common.source,
            Subsys::EpCtrl,
            "{}: attempt {} has come to nothing: error {}; next attempt in {} ms",
            conn.session.peer,
            conn.attempts,
            error.code(),
            (next - now).as_millis()
        );
        self.schedule(next, Due::Conn(id));
    }

    /// What a connection that is up will use, for who looks for the reason of what it does.
    pub fn log_protocol(&self, id: usize) {
        let conn = &self.conns[id];
        log_debug!(
            self.common.source,
            Subsys::EpCtrl,
            "{}: {} extensions, over {}, tagged messages above {} bytes {}",
            conn.session.peer,
            if conn.session.extended {
                "with"
            } else {
                "without"
            },
            conn.link.words(),
            self.common.limits.saved_size,
            match conn.session.rendezvous {
                true => "go by rendezvous",
                false => "go like others, without rendezvous",
            }
        );
    }

    #[cold]
    pub(super) fn log_end(&self, id: usize, error: Error) {
        let conn = &self.conns[id];
        log_debug!(
            self.common.source,
            Subsys::EpCtrl,
            "connection to {} ends as {:?}: error {}",
            conn.session.peer,
            conn.session.state,
            error.code()
        );
    }

    /// A deadline of a connection has come.
    pub(super) fn conn_due(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        if conn.session.state == State::Idle && !conn.has_work() {
            // Nobody waits for it any more; the next operation begins afresh.
            conn.deadline = None;
            conn.attempts = 0;
            return;
        }
        let now = self.reactor.now();
        let over = conn.deadline.is_some_and(|end| now >= end) || N::gives_up(conn, now);
        match conn.session.state {
            State::Idle if over => {
                let error = conn.last_error.unwrap_or(Error::TIMEDOUT);
                N::attempt_failed(self, domain, id, error);
            }
            State::Idle => drop(N::begin_connect(self, domain, id)),
            State::Connecting | State::Requested | State::Proving | State::Sharing if over => {
                N::attempt_failed(self, domain, id, Error::TIMEDOUT);
            }
            _ => {}
        }
    }
}
