// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The handshake of two endpoints, and the detection of a peer that has restarted.
//!
//! Each side gives the other the number that the other must put into its packets. Numbers of this library cannot be
//! guessed, so a packet with the right number comes from a host that has received it. A greeting can be forged or be an
//! old copy. It therefore changes nothing for a known peer, except that the peer gets a second number (`candidate`).
//! The peer counts as restarted only when it uses that second number.

use core::time::Duration;
use std::time::Instant;

use super::rtt::LONGEST;
use super::silence::Silence;
use super::window::MAX_TIMEOUTS;
use super::{Common, Cx, Session, Wire};
use crate::rxd::SOURCE;
use crate::rxd::proto::{Cts, Rts};
use base::log::{Subsys, log_info};
use base::{Error, Result};
use engine::peer::retry::Pauses;
use engine::transport::Address;

pub struct Greeting {
    /// The number that the peer must put into its packets; the lower bits may be the session's index in the table.
    own_id: u32,
    /// The number that the peer has chosen for packets to it; 0: not known yet.
    peer_id: u32,
    /// Whether the peer uses this library.
    pub is_ours: bool,
    /// Our greetings, while none is answered.
    asked: Option<Asked>,
    /// A greeting was sent since the last answer to one.
    expects_answer: bool,
    /// The first greeting counts in `Pacing`.
    is_counted: bool,
    up_since: Option<Instant>,
    /// Set while the peer may have restarted.
    candidate: Option<Candidate>,
    /// The error and time of the last failed handshake.
    failed: Option<(Error, Instant)>,
}

/// Greetings that the peer has not answered.
#[derive(Clone, Copy)]
struct Asked {
    /// Time of the first one, and when the next one is due.
    first: Instant,
    due: Instant,
    /// Number of greetings after the first one.
    repeats: u32,
}

#[derive(Clone, Copy)]
struct Candidate {
    own_id: u32,
    peer_id: u32,
    is_ours: bool,
}

/// The sender of a packet, judged by the number that the packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caller {
    Known,
    /// The peer has restarted.
    Anew,
    Unknown,
}

impl Greeting {
    pub fn new(own_id: u32) -> Greeting {
        Greeting {
            own_id,
            peer_id: 0,
            is_ours: false,
            asked: None,
            expects_answer: false,
            is_counted: false,
            up_since: None,
            candidate: None,
            failed: None,
        }
    }

    pub fn peer_id(&self) -> u32 {
        self.peer_id
    }

    pub fn is_up(&self) -> bool {
        self.peer_id != 0
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.asked.map(|asked| asked.due)
    }

    /// Moves the deadline, because the answer may wait unread.
    pub fn postpone(&mut self, by: Duration) {
        if let Some(asked) = &mut self.asked {
            asked.due += by;
        }
    }

    fn settle(&mut self, peer_id: u32, is_ours: bool, now: Instant) {
        (self.peer_id, self.is_ours, self.asked) = (peer_id, is_ours, None);
        self.up_since = Some(now);
    }
}

impl<A: Address> Session<A> {
    pub fn own_id(&self) -> u32 {
        self.greeting.own_id
    }

    /// Classifies the sender of a packet with the number `own_id`; `seq` is the packet's sequence number.
    pub fn caller(&self, own_id: u32, seq: Option<u64>) -> Caller {
        if own_id == self.greeting.own_id {
            return Caller::Known;
        }
        match &self.greeting.candidate {
            Some(candidate) if candidate.own_id == own_id => match seq {
                Some(0) => Caller::Anew,
                // The peer still uses its first number in order, so the greeting was an old copy.
                _ => Caller::Known,
            },
            _ => Caller::Unknown,
        }
    }

    /// Handles the first packet with the second number: the peer has restarted, so the state of the old session ends.
    pub fn restart_session<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        let Some(new) = self.greeting.candidate.take() else {
            return;
        };
        self.lose(cx, Error::CONNRESET, "the peer has begun anew");
        self.greeting.own_id = new.own_id;
        self.greeting.settle(new.peer_id, new.is_ours, cx.now);
    }

    /// Restores the session of a peer that uses `own_id`, the answer to an earlier greeting. Greets the peer to get its
    /// number.
    pub fn recall<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, own_id: u32) {
        self.greeting.own_id = own_id;
        self.greet(cx);
    }

    /// Greets the peer unless it is known or a greeting is unanswered.
    pub fn greet<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        if self.greeting.is_up() || self.is_greeting() {
            return;
        }
        if !cx.common.pacing.begin() {
            self.listed.greeting = true;
            return cx.common.pacing.wait(self.id);
        }
        self.greeting.is_counted = true;
        self.send_rts(cx);
        self.ask_until(cx, cx.now, 0);
    }

    /// Greets the peer if the session has waited for its turn.
    pub fn greet_in_turn<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        if std::mem::take(&mut self.listed.greeting) {
            self.greet(cx);
            self.arm(cx);
        }
    }

    /// Whether a greeting is not answered yet, or waits for its turn.
    pub fn is_greeting(&self) -> bool {
        self.greeting.asked.is_some() || self.listed.greeting
    }

    /// The session is dropped, or starts again.
    pub fn stop_greeting(&mut self, common: &mut Common) {
        if std::mem::take(&mut self.greeting.is_counted) {
            common.pacing.dropped();
        }
    }

    /// Greets the peer for an operation that returned -FI_EAGAIN. Returns the error of the last handshake if that
    /// failed within `REMEMBERED`.
    pub fn ask<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) -> Result {
        if let Some((error, at)) = self.greeting.failed
            && cx.now.saturating_duration_since(at) < REMEMBERED
        {
            return Err(error);
        }
        self.greet(cx);
        self.arm(cx);
        Ok(())
    }

    pub(super) fn greet_again<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        let Some(Asked { first, repeats, .. }) = self.greeting.asked else {
            return;
        };
        if std::mem::take(&mut self.greeting.is_counted) {
            cx.common.pacing.lost(first, cx.now);
        }
        if self.is_gone(cx) || repeats >= MAX_TIMEOUTS {
            let error = Error::CONNREFUSED;
            self.lose_silent(cx, error);
            self.greeting.failed = Some((error, cx.now));
            return;
        }
        if cx.common.settings.retry {
            self.send_rts(cx);
        }
        self.ask_until(cx, first, repeats + 1);
    }

    /// Sets the time at which the next greeting is due.
    fn ask_until<W>(&mut self, cx: &mut Cx<'_, A, W>, first: Instant, repeats: u32) {
        let pauses = Pauses {
            first: cx.common.rtt.patience().max(FIRST),
            longest: LONGEST,
        };
        let pause = pauses.after(repeats + 1, &mut cx.common.jitter);
        self.greeting.asked = Some(Asked {
            first,
            due: cx.now + pause,
            repeats,
        });
    }

    /// Sends a greeting. To a known peer it also checks that the peer has not restarted.
    pub(super) fn send_rts<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        self.greeting.expects_answer = true;
        let (id, name) = (self.greeting.own_id, &cx.common.name);
        let extended = cx.common.settings.extended;
        // If the wire has no room, the timer sends the greeting again.
        cx.wire.send(self.route, false, |out| {
            Rts::encode(id, name, extended, out)
        });
    }

    /// Handles a greeting of the peer.
    pub fn take_rts<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, rts: &Rts<'_>) {
        self.last_contact = cx.now;
        self.silence = Silence::default();
        let is_untouched = self.is_untouched();
        self.count_answer(cx);
        let greeting = &mut self.greeting;
        let is_new = match greeting.is_up() {
            false => {
                greeting.settle(rts.id, rts.is_ours, cx.now);
                false
            }
            true if rts.id != greeting.peer_id => true,
            // Numbers of this library are not reused; other libraries count from 1. Such a peer does not greet again
            // after it was answered, but an old copy of its greeting may arrive late.
            true => {
                let since = greeting
                    .up_since
                    .map(|since| cx.now.saturating_duration_since(since));
                let is_late = since.is_some_and(|since| since > LATE);
                is_late && !is_untouched && !rts.is_ours && cx.common.settings.extended
            }
        };
        let own_id = match is_new {
            false => greeting.own_id,
            true => {
                let known = greeting
                    .candidate
                    .filter(|candidate| candidate.peer_id == rts.id);
                let candidate = known.unwrap_or_else(|| Candidate {
                    own_id: cx.common.ids.another(&self.addr.to_bytes(), self.id),
                    peer_id: rts.id,
                    is_ours: rts.is_ours,
                });
                greeting.candidate = Some(candidate);
                candidate.own_id
            }
        };
        let (echo, extended) = (rts.id, cx.common.settings.extended);
        cx.wire.send(self.route, false, |out| {
            Cts::encode(echo, own_id, extended, out)
        });
        self.meet(cx);
    }

    /// Handles the answer to a greeting of this session. An unexpected answer is ignored, because it could end
    /// operations.
    pub fn take_cts<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, cts: &Cts) {
        if !std::mem::take(&mut self.greeting.expects_answer) {
            return;
        }
        self.is_proved = true;
        self.last_contact = cx.now;
        self.silence = Silence::default();
        self.rx.heard = Some(cx.now);
        self.count_answer(cx);
        // The peer may have answered any of several greetings. The longest time is the safe one.
        if let Some(asked) = self.greeting.asked {
            let time = cx.now.saturating_duration_since(asked.first);
            cx.common.rtt.measured(time);
        }
        if !self.greeting.is_up() {
            self.greeting.settle(cts.id, cts.is_ours, cx.now);
        } else if cts.id != self.greeting.peer_id {
            // Only the peer can know the echoed number, so the answer is genuine: the peer has restarted and lost its
            // state.
            let own_id = self.greeting.own_id;
            if !self.is_untouched() {
                self.lose(cx, Error::CONNRESET, "the peer has begun anew");
            }
            self.greeting.own_id = own_id;
            self.greeting.settle(cts.id, cts.is_ours, cx.now);
        }
        self.rx.probes = 0;
        self.meet(cx);
    }

    /// The peer has answered, or greeted itself.
    fn count_answer<W>(&mut self, cx: &mut Cx<'_, A, W>) {
        if std::mem::take(&mut self.greeting.is_counted) {
            let since = self.greeting.asked.map_or(cx.now, |asked| asked.first);
            cx.common.pacing.answered(since, cx.now);
        }
    }

    pub fn is_up(&self) -> bool {
        self.greeting.is_up()
    }

    /// Whether the peer is known to use another library.
    pub(super) fn is_foreign(&self) -> bool {
        self.greeting.is_up() && !self.greeting.is_ours
    }

    /// Called when the peer has answered, the first time or after a restart.
    fn meet<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        log_info!(&SOURCE, Subsys::EpCtrl, "{} has answered", self.addr);
        if self.rx.next > 0 {
            self.owe_ack(cx);
        }
        self.tx.window.set_plain(self.is_foreign());
        self.drop_long_atomics(cx);
        self.pump(cx);
        self.arm(cx);
    }

    /// Resets the handshake. If the peer is still alive, the new number shows it that this side has started again.
    pub(super) fn forget<W>(&mut self, cx: &mut Cx<'_, A, W>) {
        self.stop_greeting(cx.common);
        let own_id = cx.common.ids.another(&self.addr.to_bytes(), self.id);
        self.greeting = Greeting::new(own_id);
    }
}

/// Time until a greeting is repeated for the first time, unless answers are known to take longer.
const FIRST: Duration = Duration::from_millis(100);
/// Time for which a failed handshake ends later operations at once.
const REMEMBERED: Duration = Duration::from_secs(15);
/// A copy of an earlier greeting does not arrive later than this.
const LATE: Duration = Duration::from_secs(2);
