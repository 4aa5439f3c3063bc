// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The state of a connection, and its attempts: when one starts, how long it may take, and what follows a failed one.
//! Decides only; the session carries out each `Step`.

use core::time::Duration;
use std::time::Instant;

use super::loss::is_silence;
use super::{Common, Settings};
use base::Error;
use engine::connect_clock::ConnectClock;
use engine::peer::pacing::Range;
use engine::peer::retry::Pauses;
use engine::transport::Listener;

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

impl State {
    pub fn is_opening(self) -> bool {
        matches!(self, State::Connecting | State::Accepted)
    }
}

/// The next action of a session for its connection.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    Nothing,
    /// Open a connection below, with a request to the peer.
    Connect,
    /// Wait for a turn to connect: `Common::pacing`.
    Queue,
    /// Call `Session::due` at this time.
    Wake(Instant),
    /// Warn that the attempt goes on after its time: the peer's kernel has accepted it.
    Late,
    /// Close the current attempt, which has failed, and continue with `Connection::failed`.
    Fail(Error),
    /// Call `Session::due` at this time for another attempt.
    Retry(Instant),
    /// End the session, because no connection comes about.
    GiveUp(GivenUp),
    /// End the session after the packets that have already arrived are handled.
    End(Error),
}

/// The end of all attempts.
#[derive(Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// Error of the last attempt.
    pub error: Error,
    /// The next operation for the peer reports the error. After a test connection, it starts its own attempt instead.
    pub is_reported: bool,
    /// A test connection has found the peer's host silent.
    pub is_silent: bool,
}

pub struct Connection {
    state: State,
    /// Time that the peer has left to accept a connection.
    clock: ConnectClock,
    /// Start of the current attempt, start of the next attempt, and number of failed attempts.
    attempt_at: Option<Instant>,
    retry_at: Option<Instant>,
    attempts: u32,
    last_error: Error,
    /// The application has posted an operation since the last attempt began.
    has_waiter: bool,
    /// An accepted operation waits for this connection.
    has_operation: bool,
    /// An operation was refused during the attempts, so the next one has to report their failure.
    has_refused: bool,
    /// The peer has refused the attempt because of its own one.
    is_crossed: bool,
    /// The session waits for its turn to connect.
    is_queued: bool,
    /// The attempt counts in `Common::pacing`.
    is_counted: bool,
    /// The connection attempt only tests whether the peer's host is alive.
    is_look: bool,
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
            has_waiter: false,
            has_operation: false,
            has_refused: false,
            is_crossed: false,
            is_queued: false,
            is_counted: false,
            is_look: false,
        }
    }
}

pub const PAUSES: Pauses = Pauses {
    first: Duration::from_millis(2),
    longest: Duration::from_millis(500),
};

/// How long the provider tests for a peer whose connection has ended. The kernel tries three times in this period.
const LOOK: Duration = Duration::from_secs(5);

/// Time after which an attempt takes no room from others any more.
pub const LEASE: Duration = Duration::from_millis(500);

/// Attempts of a domain that may be in progress.
pub const ATTEMPTS: Range = Range {
    first: 128,
    least: 64,
    most: 1024,
    fast: Duration::from_millis(50),
    slow: Duration::from_millis(400),
};

/// A kernel refuses a connection within this time if nothing listens.
const REFUSAL: Duration = Duration::from_secs(1);

impl Connection {
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// Enters a state, and counts attempts in progress.
    pub fn set_state(&mut self, common: &mut Common, state: State) {
        self.leave(common);
        common.connecting += usize::from(state.is_opening());
        common.connecting -= usize::from(self.state.is_opening());
        self.state = state;
    }

    /// The attempt has ended, or takes no room from others any more.
    pub fn leave(&mut self, common: &mut Common) {
        if core::mem::take(&mut self.is_counted) {
            common.pacing.dropped();
        }
    }

    /// Connects, if the session has waited for its turn and still has to.
    pub fn take_turn(&mut self, common: &mut Common, now: Instant) -> Step {
        let is_wanted = core::mem::take(&mut self.is_queued) && self.is_awaited();
        match self.state {
            State::Idle if is_wanted => self.start(common, now),
            _ => Step::Nothing,
        }
    }

    /// Returns the number of failed attempts and the error of the last one.
    pub fn failures(&self) -> (u32, Error) {
        (self.attempts, self.last_error)
    }

    /// Connects for an operation, which waits or returns -FI_EAGAIN meanwhile.
    pub fn want(&mut self, common: &mut Common, now: Instant) -> Step {
        self.has_waiter = true;
        match self.state {
            State::Idle => self.start(common, now),
            _ => Step::Nothing,
        }
    }

    /// Records that an accepted operation waits for the connection.
    pub fn awaited_by_operation(&mut self) {
        self.has_operation = true;
    }

    /// Records that an operation returns -FI_EAGAIN.
    pub fn refuse(&mut self) {
        self.has_refused = true;
    }

    fn is_awaited(&self) -> bool {
        self.has_waiter || self.has_operation
    }

    /// Starts a test connection.
    pub fn look(&mut self, common: &mut Common, now: Instant) -> Step {
        if self.state != State::Idle || self.has_waiter {
            return Step::Nothing;
        }
        self.is_look = true;
        self.start(common, now)
    }

    /// Starts an attempt to connect, unless it is too early for one.
    fn start(&mut self, common: &mut Common, now: Instant) -> Step {
        let mut limit = common.settings.conn_timeout;
        if self.is_look {
            limit = limit.min(LOOK);
        }
        if self.retry_at.is_some_and(|at| now < at) {
            return Step::Nothing;
        }
        if self.is_queued {
            return Step::Nothing;
        }
        if !self.is_look && !common.pacing.begin() {
            self.is_queued = true;
            return Step::Queue;
        }
        self.clock.start(now, limit);
        self.has_waiter = false;
        (self.attempt_at, self.retry_at) = (Some(now), None);
        self.set_state(common, State::Connecting);
        self.is_counted = !self.is_look;
        Step::Connect
    }

    /// Returns the time at which `due` has to be called for the current attempt.
    pub fn deadline(&self) -> Option<Instant> {
        self.clock.deadline()
    }

    /// Handles a deadline. `has_reacted`: whether the peer's listener has reacted to the attempt at least like this,
    /// `None` if that is not known.
    pub fn due(
        &mut self,
        common: &mut Common,
        now: Instant,
        has_reacted: impl FnOnce(Listener) -> Option<bool>,
    ) -> Step {
        if self.is_counted
            && let Some(at) = self.attempt_at.filter(|&at| now >= at + LEASE)
        {
            // The peer may be absent, or compute.
            self.is_counted = false;
            common.pacing.lost(at, now);
        }
        match self.state {
            State::Idle if self.clock.is_over(now) => {
                // The application may have stopped waiting for the connection long ago.
                if self.is_awaited() {
                    return Step::GiveUp(self.give_up(common));
                }
                self.reset();
                Step::Nothing
            }
            State::Idle if self.is_awaited() => self.start(common, now),
            State::Connecting if !self.clock.is_over(now) => {
                self.deadline().map_or(Step::Nothing, Step::Wake)
            }
            State::Connecting => self.is_late(&common.settings, now, has_reacted),
            _ => Step::Nothing,
        }
    }

    /// Handles an attempt that the provider below has not completed in time. It continues if the peer exists, so that
    /// only its provider has to poll. Other libraries' providers below cannot report that; they end attempts
    /// themselves.
    fn is_late(
        &mut self,
        settings: &Settings,
        now: Instant,
        has_reacted: impl FnOnce(Listener) -> Option<bool>,
    ) -> Step {
        // A test connection must detect silence, because receives may wait for the peer.
        let least = match self.is_look {
            true => Listener::Accepted,
            false => Listener::Silent,
        };
        if !has_reacted(least).unwrap_or(!self.is_look) {
            return Step::Fail(Error::TIMEDOUT);
        }
        self.clock.restart(now, settings.conn_timeout);
        self.clock.stop(now);
        Step::Late
    }

    /// Handles the end of a connection, or of an attempt.
    pub fn end(&self, error: Error) -> Step {
        match self.state {
            State::Connecting => Step::Fail(error),
            _ => Step::End(error),
        }
    }

    /// The peer refuses the attempt because of its own one, or of a connection whose end it has not noticed. It lives,
    /// so its refusal says nothing about its listener, and the time limit begins anew.
    pub fn crossed(&mut self) {
        self.is_crossed = true;
    }

    /// The peer's kernel had accepted the attempt and then closed it.
    pub fn was_reset(&mut self, now: Instant) {
        self.clock.stop(now);
    }

    /// Handles the success of an attempt.
    pub fn up(&mut self, common: &mut Common, now: Instant) {
        if core::mem::take(&mut self.is_counted) {
            common.pacing.answered(self.attempt_at.unwrap_or(now), now);
        }
        self.set_state(common, State::Up);
        self.reset();
    }

    /// Forgets the failed attempts.
    fn reset(&mut self) {
        self.clock.reset();
        (self.retry_at, self.attempts) = (None, 0);
        (self.has_operation, self.has_refused) = (false, false);
        self.is_look = false;
    }

    /// Decides about another attempt after a failed one.
    pub fn failed(&mut self, common: &mut Common, now: Instant, error: Error) -> Step {
        self.set_state(common, State::Idle);
        self.last_error = error;
        self.attempts += 1;
        // A refusal by the kernel comes at once. If an attempt failed later, the peer's kernel had accepted it.
        let is_crossed = core::mem::take(&mut self.is_crossed);
        let lasted = self.attempt_at.filter(|&at| now - at >= REFUSAL);
        if let Some(begun) = lasted.filter(|_| !is_silence(error) && !is_crossed) {
            self.clock.stop(begun);
        }
        let is_awaited = self.is_awaited();
        let clock = &mut self.clock;
        match is_crossed {
            true => clock.restart(now, common.settings.conn_timeout),
            false => clock.resume(now),
        }
        let is_final = matches!(error, Error::INVAL | Error::ACCES | Error::MFILE);
        let is_seen = self.is_look && !is_awaited;
        let is_over = !clock.is_started() || clock.is_over(now);
        if is_final
            || is_seen
            || is_over
            || !is_crossed && error == Error::CONNREFUSED && clock.is_gone(now)
        {
            return Step::GiveUp(self.give_up(common));
        }
        let at = now + PAUSES.after(self.attempts, &mut common.jitter);
        self.retry_at = Some(at);
        Step::Retry(at)
    }

    /// Ends the attempts to connect.
    #[cold]
    fn give_up(&mut self, common: &mut Common) -> GivenUp {
        self.set_state(common, State::Over);
        let error = self.last_error;
        GivenUp {
            error,
            // Accepted operations report the failure themselves.
            is_reported: (!self.is_look || self.has_waiter)
                && (self.has_refused || !self.has_operation),
            is_silent: self.is_look && is_silence(error),
        }
    }
}
