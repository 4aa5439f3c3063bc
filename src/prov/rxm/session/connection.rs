// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connecting: attempts of this side, accepted requests of the peer, and their results; fi_cm(3).

use core::time::Duration;
use std::time::Instant;

use super::loss::is_silence;
use super::wire::Place;
use super::{Cause, Common, Cx, Over, Session, Wire};
use crate::rxm::SOURCE;
use crate::rxm::proto::{ConnId, FlowControl, Reason, Request, Response, reason_of};
use base::log::{Subsys, log_debug, log_info, log_warn};
use base::{Error, Result};
use engine::connect_clock::ConnectClock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No attempt is in progress; the next operation starts one.
    Idle,
    /// This side has sent a request.
    Connecting,
    /// The peer's request was accepted.
    Accepted,
    Up,
    /// The connection has ended; only operations in flight below are still outstanding.
    Over,
}

pub struct Connection {
    pub(super) state: State,
    /// Time that the peer has left to accept a connection.
    pub(super) clock: ConnectClock,
    /// Start of the current attempt, start of the next attempt, and number of failed attempts.
    attempt_at: Option<Instant>,
    pub(super) retry_at: Option<Instant>,
    pub(super) attempts: u32,
    last_error: Error,
    /// An operation returned -FI_EAGAIN and waits for this connection.
    pub(super) is_wanted: bool,
    /// The connection attempt only tests whether the peer's host is alive.
    pub(super) is_look: bool,
}

impl Default for Connection {
    fn default() -> Connection {
        Connection {
            state: State::Idle,
            clock: ConnectClock::default(),
            attempt_at: None,
            retry_at: None,
            attempts: 0,
            last_error: Error::TIMEDOUT,
            is_wanted: false,
            is_look: false,
        }
    }
}

impl Connection {
    /// Returns the pause before the next attempt.
    fn pause(&self) -> Duration {
        let pause = FIRST_PAUSE * (1 << self.attempts.min(DOUBLINGS));
        pause.min(LONGEST_PAUSE)
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const DOUBLINGS: u32 = 9;
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How long the provider tests for a peer whose connection has ended. The kernel tries three times in this period.
const LOOK: Duration = Duration::from_secs(5);

/// A kernel refuses a connection within this time if nothing listens.
const REFUSAL: Duration = Duration::from_secs(1);

impl Session {
    #[inline]
    pub fn state(&self) -> State {
        self.connection.state
    }

    #[inline]
    pub fn is_up(&self) -> bool {
        self.connection.state == State::Up
    }

    /// Returns the peer's process, which the connection was made with.
    pub fn remote_pid(&self) -> u32 {
        self.remote.pid
    }

    /// Returns the number of failed attempts and the error of the last one.
    pub(super) fn failures(&self) -> (u32, Error) {
        (self.connection.attempts, self.connection.last_error)
    }

    /// Connects for an operation that returns -FI_EAGAIN meanwhile.
    pub fn want<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant) {
        self.connection.is_wanted = true;
        if self.connection.state == State::Idle {
            self.connect(cx, now);
        }
    }

    /// Starts a test connection after a connection has ended below without a reason. Receives that name the peer stay
    /// posted if it may return. If the peer's host is silent, they would wait forever; an attempt to connect finds that
    /// out.
    #[cold]
    pub fn look<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant) {
        if self.connection.state == State::Idle && !self.connection.is_wanted {
            self.connection.is_look = true;
            self.connect(cx, now);
        }
    }

    /// Starts an attempt to connect, unless it is too early for one.
    pub(super) fn connect<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant) {
        let mut limit = cx.common.settings.conn_timeout;
        let connection = &mut self.connection;
        if connection.is_look {
            limit = limit.min(LOOK);
        }
        if connection.retry_at.is_some_and(|at| now < at) {
            return;
        }
        connection.clock.start(now, limit);
        connection.is_wanted = false;
        (connection.attempt_at, connection.retry_at) = (Some(now), None);
        connection.state = State::Connecting;
        cx.common.connecting += 1;
        log_debug!(
            &SOURCE,
            Subsys::EpCtrl,
            "connecting to {}, attempt {}",
            self.peer,
            connection.attempts + 1
        );
        self.schedule_deadline(cx);
        if let Err(error) = self.begin_connect(cx) {
            self.attempt_failed(cx, now, error);
        }
    }

    fn begin_connect<W: Wire>(&mut self, cx: &mut Cx<'_, W>) -> Result {
        let own = self.own.ok_or(Error::OPBADSTATE)?;
        let place = self.new_place(cx.common);
        let request = Request {
            port: own.port(),
            flow: FlowControl::Off,
            eager: cx.common.settings.eager as u32,
            depth: cx.common.settings.receives as u32,
            id: self.conn_id(cx)?,
        };
        cx.wire.connect(place, &own, &self.peer, &request.encode())
    }

    /// Assigns a number to the next connection below.
    fn new_place(&mut self, common: &mut Common) -> Place {
        self.arrival = common.next_arrival(self.id);
        Place {
            arrival: self.arrival,
            id: self.id,
            ep: self.ep,
        }
    }

    /// Returns a new index by which the peer identifies the connection from now on.
    fn conn_id<W: Wire>(&mut self, cx: &mut Cx<'_, W>) -> Result<ConnId> {
        // Some peers treat it as a signed number.
        let index = (cx.wire.random()? & i32::MAX as u32).max(1);
        self.name = index;
        Ok(ConnId {
            index,
            pid: cx.common.pid,
        })
    }

    /// Accepts a request of the peer. Returns the new connection below, and its answer to the peer.
    pub fn accept<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        request: &Request,
    ) -> Result<(Place, Response)> {
        if self.connection.state == State::Connecting {
            self.drop_attempt(cx);
        }
        self.remote = request.id;
        self.connection.state = State::Accepted;
        // The provider below reports whether the peer has taken the answer, so there is no time limit here.
        cx.common.connecting += 1;
        let place = self.new_place(cx.common);
        let response = Response {
            id: self.conn_id(cx)?,
            depth: cx.common.settings.receives as u32,
            flow: FlowControl::Off,
        };
        Ok((place, response))
    }

    /// Handles the end of a connection, or of an attempt.
    pub fn end<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant, error: Error) {
        match self.connection.state {
            State::Connecting => self.attempt_failed(cx, now, error),
            _ => self.end_later(cx, error),
        }
    }

    /// Handles the failure of an attempt. `data`: private data of the peer's refusal.
    pub fn refused<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        now: Instant,
        error: Error,
        was_reset: bool,
        data: &[u8],
    ) {
        if cx.common.settings.is_ours && was_reset {
            // The peer's kernel had accepted the attempt and then closed it.
            self.connection.clock.stop(now);
        }
        let is_refusal = error == Error::CONNREFUSED && !data.is_empty();
        if self.connection.state == State::Connecting && is_refusal {
            let reason = reason_of(data);
            match reason {
                // The peer has started its own attempt, or has not noticed the end of the last connection. Its request
                // or the next attempt resolves both cases.
                Reason::Connected => {}
                _ if self.connection.attempts == 0 => log_warn!(
                    &SOURCE,
                    Subsys::EpCtrl,
                    "{} refuses to connect: it has another FI_OFI_RXM_BUFFER_SIZE than {}, or speaks otherwise",
                    self.peer,
                    cx.common.settings.eager
                ),
                _ => {}
            }
            log_debug!(&SOURCE, Subsys::EpCtrl, "{}: {reason:?}", self.peer);
        }
        self.end(cx, now, error);
    }

    /// Handles the success of an attempt. `data`: the peer's answer, if this side has sent the request.
    pub fn connected<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant, data: &[u8]) {
        let opened_here = self.connection.state == State::Connecting;
        match self.connection.state {
            State::Connecting => match Response::decode(data) {
                Some(response) => self.remote = response.id,
                None => {
                    log_warn!(
                        &SOURCE,
                        Subsys::EpCtrl,
                        "{}: answers as something else than ofi_rxm",
                        self.peer
                    );
                    return self.attempt_failed(cx, now, Error::CONNREFUSED);
                }
            },
            State::Accepted => {}
            State::Idle | State::Up | State::Over => return,
        }
        cx.common.connecting -= 1;
        self.connection.state = State::Up;
        self.connection.clock.reset();
        (self.connection.retry_at, self.connection.attempts) = (None, 0);
        self.connection.is_look = false;
        log_info!(
            &SOURCE,
            Subsys::EpCtrl,
            "connected to {}, opened by {}",
            self.peer,
            if opened_here { "us" } else { "the peer" }
        );
        if !self.inbox.is_empty() {
            cx.common.stall(self.id);
        }
    }

    /// Drops the current attempt; the session stays for another one.
    fn drop_attempt<W: Wire>(&mut self, cx: &mut Cx<'_, W>) {
        cx.common.connecting -= 1;
        self.connection.state = State::Idle;
        self.name = 0;
        self.close(cx);
    }

    /// Leaves the current state for `Over`.
    pub(super) fn set_over<W>(&mut self, cx: &mut Cx<'_, W>) {
        if matches!(self.connection.state, State::Connecting | State::Accepted) {
            cx.common.connecting -= 1;
        }
        self.connection.state = State::Over;
    }

    /// Schedules another attempt after a failed one, or gives up.
    pub(super) fn attempt_failed<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        now: Instant,
        error: Error,
    ) {
        self.drop_attempt(cx);
        let connection = &mut self.connection;
        connection.last_error = error;
        connection.attempts += 1;
        // A refusal by the kernel comes at once. If an attempt failed later, the peer's kernel had accepted it.
        let lasted = connection.attempt_at.filter(|&at| now - at >= REFUSAL);
        if let Some(begun) = lasted.filter(|_| !is_silence(error)) {
            connection.clock.stop(begun);
        }
        let clock = &mut connection.clock;
        clock.resume(now);
        let is_final = matches!(error, Error::INVAL | Error::ACCES | Error::MFILE);
        let is_seen = connection.is_look && !connection.is_wanted;
        let is_over = !clock.is_started() || clock.is_over(now);
        if is_final || is_seen || is_over || error == Error::CONNREFUSED && clock.is_gone(now) {
            return self.give_up(cx, now);
        }
        let at = now + connection.pause();
        connection.retry_at = Some(at);
        log_debug!(
            &SOURCE,
            Subsys::EpCtrl,
            "{}: attempt {} has come to nothing: {error:?}",
            self.peer,
            connection.attempts
        );
        cx.wire.schedule(self.id, at);
    }

    /// Ends the attempts to connect. The next operation for the peer reports the error, and the one after that connects
    /// again.
    #[cold]
    pub(super) fn give_up<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant) {
        let (attempts, error) = self.failures();
        let (is_look, is_wanted) = (self.connection.is_look, self.connection.is_wanted);
        if is_look && is_silence(error) {
            let why = format!("{} does not answer", self.peer);
            let outer = cx.domain.begin_loss(&why);
            self.fail_receives(cx, error);
            cx.domain.end_loss(outer);
        }
        // After a test connection, the next operation starts its own attempt.
        let is_reported = !is_look || is_wanted;
        if is_reported {
            log_warn!(
                &SOURCE,
                Subsys::EpCtrl,
                "no connection to {} after {} attempts: {:?}",
                self.peer,
                attempts,
                std::io::Error::from_raw_os_error(error.code()).to_string()
            );
        }
        self.connection.state = State::Over;
        cx.common.over.push(Over {
            id: self.id,
            cause: Cause::Unreachable(is_reported.then_some((error, now))),
        });
    }
}
