// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connecting: passes events to the connection, and carries out its steps; fi_cm(3).

use std::time::Instant;

use super::connection::{GivenUp, LEASE, Step};
use super::wire::Place;
use super::{Cause, Cx, Over, Session, State, Wire};
use crate::rxm::SOURCE;
use crate::rxm::proto::{Reason, Request, Response, reason_of};
use base::log::{Subsys, log_debug, log_failure, log_info, log_warn};
use base::{Error, Result};

impl Session {
    /// Connects for an operation, which waits or returns -FI_EAGAIN meanwhile.
    pub fn want<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant) {
        let step = self.connection.want(cx.common, now);
        self.carry_out(cx, now, step);
    }

    /// Connects if the session has waited for its turn.
    pub fn take_turn<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant) {
        let step = self.connection.take_turn(cx.common, now);
        self.carry_out(cx, now, step);
    }

    /// Starts a test connection after a connection has ended below without a reason. Receives that name the peer stay
    /// posted if it may return. If the peer's host is silent, they would wait forever; an attempt to connect finds that
    /// out.
    #[cold]
    pub fn look<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant) {
        let step = self.connection.look(cx.common, now);
        self.carry_out(cx, now, step);
    }

    /// Handles a deadline.
    pub fn due<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant) {
        let (link, wire) = (&self.link, &*cx.wire);
        let has_reacted = |least| link.has_reacted(wire, least);
        let step = self.connection.due(cx.common, now, has_reacted);
        self.carry_out(cx, now, step);
    }

    /// Accepts a request of the peer. Returns the new connection below, and its answer to the peer.
    pub fn accept<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        request: &Request,
    ) -> Result<(Place, Response)> {
        if self.state() == State::Connecting {
            self.link.close(cx.wire);
        }
        // The provider below reports whether the peer has taken the answer, so there is no time limit here.
        self.connection.set_state(cx.common, State::Accepted);
        self.link.accept(cx, request)
    }

    /// Records whether the answer of `accept` has announced that this side counts posted receives.
    pub fn set_counts(&mut self, counts: bool) {
        self.link.set_counts(counts);
    }

    /// Handles the end of a connection, or of an attempt.
    pub fn end<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant, error: Error) {
        let step = self.connection.end(error);
        self.carry_out(cx, now, step);
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
            self.connection.was_reset(now);
        }
        let is_refusal = error == Error::CONNREFUSED && !data.is_empty();
        if self.state() == State::Connecting && is_refusal {
            let reason = reason_of(data);
            match reason {
                // The peer has started its own attempt, or has not noticed the end of the last connection. Its request
                // or the next attempt resolves both cases.
                Reason::Connected => self.connection.crossed(),
                _ if self.connection.failures().0 == 0 => log_warn!(
                    &SOURCE,
                    Subsys::EpCtrl,
                    "{} refuses to connect: it has another FI_OFI_RXM_BUFFER_SIZE than {}, or speaks otherwise",
                    self.link.peer(),
                    cx.common.settings.eager
                ),
                _ => {}
            }
            log_debug!(
                &SOURCE,
                Subsys::EpCtrl,
                "{}: {}",
                self.link.peer(),
                reason.words()
            );
        }
        self.end(cx, now, error);
    }

    /// Handles the success of an attempt. `data`: the peer's answer, if this side has sent the request.
    pub fn connected<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant, data: &[u8]) {
        let opened_here = self.state() == State::Connecting;
        match self.state() {
            State::Connecting => match Response::decode(data) {
                Some(response) => {
                    let Response {
                        id, flow, groups, ..
                    } = response;
                    self.link.set_remote(id, flow, groups);
                }
                None => {
                    log_warn!(
                        &SOURCE,
                        Subsys::EpCtrl,
                        "{}: answers as something else than ofi_rxm",
                        self.link.peer()
                    );
                    return self.carry_out(cx, now, Step::Fail(Error::CONNREFUSED));
                }
            },
            State::Accepted => {}
            State::Idle | State::Up | State::Over => return,
        }
        self.connection.up(cx.common, now);
        log_info!(
            &SOURCE,
            Subsys::EpCtrl,
            "connected to {}, opened by {}",
            self.link.peer(),
            if opened_here { "us" } else { "the peer" }
        );
        if self.link.has_credits()
            && let Err(error) = cx.wire.enable_credits(self.link.id())
        {
            // The peer waits for credits.
            return self.end_later(cx, error);
        }
        if !self.inbox.is_empty() {
            self.inbox.stall(cx.common, self.link.id());
        }
        let sent = self.outgoing.send_deferred(&mut self.link, cx);
        self.end_if_unsent(cx, sent);
    }

    /// Carries out a step, and the steps that follow from it.
    fn carry_out<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant, step: Step) {
        let (id, peer) = (self.link.id(), *self.link.peer());
        let (attempts, _) = self.connection.failures();
        match step {
            Step::Nothing => {}
            Step::Connect => {
                log_debug!(
                    &SOURCE,
                    Subsys::EpCtrl,
                    "connecting to {peer}, attempt {}",
                    attempts + 1
                );
                if let Some(deadline) = self.connection.deadline() {
                    cx.wire.schedule(id, deadline);
                }
                cx.wire.schedule(id, now + LEASE);
                if let Err(error) = self.link.connect(cx) {
                    self.carry_out(cx, now, Step::Fail(error));
                }
            }
            Step::Queue => cx.common.pacing.wait(id),
            Step::Wake(at) => cx.wire.schedule(id, at),
            Step::Late => log_warn!(
                &SOURCE,
                Subsys::EpCtrl,
                "{peer} has accepted a connection and does not answer yet: operations for it wait"
            ),
            Step::Fail(error) => {
                self.link.close(cx.wire);
                let step = self.connection.failed(cx.common, now, error);
                self.carry_out(cx, now, step);
            }
            Step::Retry(at) => {
                let (_, error) = self.connection.failures();
                log_debug!(
                    &SOURCE,
                    Subsys::EpCtrl,
                    "{peer}: attempt {attempts} has come to nothing: {error}"
                );
                cx.wire.schedule(id, at);
            }
            Step::GiveUp(given_up) => self.give_up(cx, now, &given_up),
            Step::End(error) => self.link.end_later(cx, error),
        }
    }

    /// Ends the session without a connection. The next operation for the peer reports the error, and the one after that
    /// connects again.
    #[cold]
    fn give_up<W: Wire>(&mut self, cx: &mut Cx<'_, W>, now: Instant, given_up: &GivenUp) {
        let (error, peer) = (given_up.error, self.link.peer());
        if given_up.is_silent {
            let outer = cx.domain.losses.begin(&format!("{peer} does not answer"));
            self.link.fail_receives(cx.domain, error);
            cx.domain.losses.end(outer);
        }
        if given_up.is_reported {
            let (attempts, _) = self.connection.failures();
            log_failure!(
                &SOURCE,
                Subsys::EpCtrl,
                "no connection to {peer} after {attempts} attempts: {error}"
            );
        }
        let outer = cx.domain.losses.begin(&format!("no connection to {peer}"));
        self.outgoing.fail_all(cx, Some(error));
        cx.domain.losses.end(outer);
        cx.common.over.push(Over {
            id: self.link.id(),
            cause: Cause::Unreachable(given_up.is_reported.then_some((error, now))),
        });
    }
}
