// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! How two endpoints get to know each other, and how one finds that the other has begun anew.
//!
//! Each tells the other by which number it wants to be called. Numbers of this library cannot be guessed, so what
//! carries them comes from somebody who has seen them. A greeting can be forged, or be an old one: it changes nothing
//! about a peer that is known, but gets it a second number (`candidate`). Only who calls by that one has begun anew.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::time::Instant;

use super::rtt::LONGEST;
use super::silence::Silence;
use super::window::MAX_TIMEOUTS;
use super::{Cx, Session, Wire};
use crate::base::log::{Subsys, log_info};
use crate::base::{Error, Result};
use crate::engine::transport::Address;
use crate::prov::rxd::SOURCE;
use crate::prov::rxd::proto::{Cts, Rts};

pub struct Greeting {
    /// What the peer is to call this side; the lower bits are its place in the table.
    own_id: u32,
    /// What the peer wants to be called; 0: not known yet.
    peer_id: u32,
    /// The peer is of this library.
    pub is_ours: bool,
    /// The own greeting is not answered: since when, and how many were sent.
    asked: Option<(Instant, u32)>,
    /// A greeting was sent since the last answer to one.
    expects_answer: bool,
    up_since: Option<Instant>,
    /// The peer seems to have begun anew.
    candidate: Option<Candidate>,
    /// Greeting has come to nothing.
    failed: Option<(Error, Instant)>,
}

#[derive(Clone, Copy)]
struct Candidate {
    own_id: u32,
    peer_id: u32,
    is_ours: bool,
}

/// What a number in a packet says of its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caller {
    Known,
    /// The peer has begun anew.
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
        let (since, count) = self.asked?;
        let patience = FIRST.saturating_mul(1 << count.min(16));
        Some(since + patience.min(LONGEST))
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

    /// Who calls this side by `own_id`; `seq` is the number of the packet.
    pub fn caller(&self, own_id: u32, seq: Option<u64>) -> Caller {
        if own_id == self.greeting.own_id {
            return Caller::Known;
        }
        match &self.greeting.candidate {
            Some(candidate) if candidate.own_id == own_id => match seq {
                Some(0) => Caller::Anew,
                // It goes on by its other number: the greeting was an old one.
                _ => Caller::Known,
            },
            _ => Caller::Unknown,
        }
    }

    /// The peer is the one that has the second number: what was before is over.
    pub fn begin_anew<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        let Some(new) = self.greeting.candidate.take() else {
            return;
        };
        self.lose(cx, Error::CONNRESET, c"the peer has begun anew");
        self.greeting.own_id = new.own_id;
        self.greeting.settle(new.peer_id, new.is_ours, cx.now);
    }

    /// The session is made again for a peer that calls this side by `own_id`, an answer to an earlier greeting. Greets
    /// the peer to get its number.
    pub fn recall<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, own_id: u32) {
        self.greeting.own_id = own_id;
        self.greet(cx);
    }

    /// Greets a peer, if nothing is known of it yet.
    pub fn greet<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        if self.greeting.is_up() || self.greeting.asked.is_some() {
            return;
        }
        self.send_rts(cx);
        self.greeting.asked = Some((cx.now, 0));
    }

    /// Greets a peer that an operation is meant for which waits outside. Why that has come to nothing, for a while.
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
        let Some((_, count)) = self.greeting.asked else {
            return;
        };
        if self.is_gone(cx) || count >= MAX_TIMEOUTS {
            let error = Error::CONNREFUSED;
            self.lose_silent(cx, error);
            self.greeting.failed = Some((error, cx.now));
            return;
        }
        if cx.common.settings.retry {
            self.send_rts(cx);
        }
        self.greeting.asked = Some((cx.now, count + 1));
    }

    /// Also asks whether a peer is still the one that it was.
    pub(super) fn send_rts<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        self.greeting.expects_answer = true;
        let (id, name) = (self.greeting.own_id, &cx.common.name);
        let extended = cx.common.settings.extended;
        // One that finds no room is sent by the timer.
        cx.wire.send(self.route, false, |out| {
            Rts::encode(id, name, extended, out)
        });
    }

    /// The peer greets.
    pub fn take_rts<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, rts: &Rts<'_>) {
        self.last_contact = cx.now;
        self.silence = Silence::default();
        let is_untouched = self.is_untouched();
        let greeting = &mut self.greeting;
        let is_new = match greeting.is_up() {
            false => {
                greeting.settle(rts.id, rts.is_ours, cx.now);
                false
            }
            true if rts.id != greeting.peer_id => true,
            // Numbers of this library do not come twice; others count from 1. They do not greet again once they have
            // been answered, but an old greeting may be late.
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

    /// The peer answers a greeting of this session. An answer that nothing asked for is ignored: it could end
    /// operations.
    pub fn take_cts<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, cts: &Cts) {
        if !std::mem::take(&mut self.greeting.expects_answer) {
            return;
        }
        self.is_proved = true;
        self.last_contact = cx.now;
        self.silence = Silence::default();
        self.rx.heard = Some(cx.now);
        if !self.greeting.is_up() {
            self.greeting.settle(cts.id, cts.is_ours, cx.now);
        } else if cts.id != self.greeting.peer_id {
            // Only the peer knows the number that is echoed, and it has forgotten this side.
            let own_id = self.greeting.own_id;
            if !self.is_untouched() {
                self.lose(cx, Error::CONNRESET, c"the peer has begun anew");
            }
            self.greeting.own_id = own_id;
            self.greeting.settle(cts.id, cts.is_ours, cx.now);
        }
        self.rx.probes = 0;
        self.meet(cx);
    }

    pub fn is_up(&self) -> bool {
        self.greeting.is_up()
    }

    /// The peer is known to be of another library.
    pub(super) fn is_foreign(&self) -> bool {
        self.greeting.is_up() && !self.greeting.is_ours
    }

    /// The peer is known, or known again.
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

    /// The peer is not known any more; should it be there, it learns by another number that this side begins anew.
    pub(super) fn forget<W>(&mut self, cx: &mut Cx<'_, A, W>) {
        let own_id = cx.common.ids.another(&self.addr.to_bytes(), self.id);
        self.greeting = Greeting::new(own_id);
    }
}

/// Until a greeting is repeated.
const FIRST: Duration = Duration::from_millis(10);
/// Until a peer that did not answer is tried for operations that wait outside.
const REMEMBERED: Duration = Duration::from_secs(15);
/// No copy of a greeting comes later than this.
const LATE: Duration = Duration::from_secs(2);
