// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Puts packets of the peer in order: early packets are kept, repeated ones acknowledged again. A packet that lacks a
//! resource stops the peer until the resource is free.

use core::time::Duration;
use std::collections::BTreeMap;
use std::time::Instant;

use super::rtt::LONGEST;
use super::senders::Seen;
use super::sink::{Incoming, Sink, Stall, Step};
use super::window::MAX_TIMEOUTS;
use super::{Cx, Session, Wire};
use crate::rxd::proto::{Ack, Head, Packet};
use base::Error;
use engine::peer::claim::Claim;
use engine::srx::Claimed;
use engine::transport::Address;

#[derive(Default)]
pub struct ReceiveState {
    /// Sequence number of the next packet.
    pub next: u64,
    /// Packets after `next` that arrived early, and packet `next` itself while it is stalled.
    early: BTreeMap<u64, Box<[u8]>>,
    /// The operation to which the next packets belong.
    pub incoming: Option<Incoming>,
    /// Why the next packet waits, and where its bytes go once that is known.
    pub stall: Option<Stall>,
    pub decided: Option<Sink>,
    owes_ack: bool,
    seen: Seen,
    /// The acknowledgement must be sent at once.
    is_urgent: bool,
    /// Packets taken since the last acknowledgement.
    unacked: u32,
    /// The error with which the next packet is refused.
    pub refused: u32,
    /// Time of the last packet of the peer, and number of probes since then.
    pub heard: Option<Instant>,
    pub probes: u32,
}

impl ReceiveState {
    pub fn is_empty(&self) -> bool {
        self.early.is_empty() && self.incoming.is_none() && self.stall.is_none()
    }

    fn beyond(&self) -> u64 {
        let behind = self.early.range(self.next + 1..=self.next + 64);
        behind.fold(0, |bits, (seq, _)| bits | 1 << (seq - self.next - 1))
    }
}

impl<A: Address> Session<A> {
    pub(super) fn take_numbered<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, A, W>,
        head: Head,
        packet: &Packet<'_>,
        bytes: &[u8],
    ) {
        self.rx.probes = 0;
        cx.common.senders.heard(&mut self.rx.seen, cx.now);
        let Some(ahead) = head.seq.checked_sub(self.rx.next) else {
            return self.owe_ack(cx);
        };
        // Tests imitate other libraries, which send no acknowledgement in the middle of a message.
        let is_silent = !cx.common.settings.extended && self.rx.unacked < cx.common.settings.window;
        if ahead > 0 || !matches!(packet, Packet::Data(..)) && !cx.common.settings.extended {
            self.owe_ack(cx);
        } else if !is_silent {
            self.owe_ack_later(cx);
        }
        if ahead > 0 || self.rx.stall.is_some() {
            let keeps = cx.common.settings.extended || ahead == 0;
            if keeps && ahead < u64::from(cx.common.settings.window) {
                self.keep(cx, head.seq, bytes);
            }
            // Other libraries acknowledge at once, too.
            if !keeps {
                self.send_ack(cx);
            }
            return;
        }
        if self.advance(cx, packet, bytes) {
            self.take_early(cx);
        }
    }

    fn keep<W>(&mut self, cx: &mut Cx<'_, A, W>, seq: u64, bytes: &[u8]) {
        // The packet for which all others wait is always kept.
        if cx.common.early < MAX_EARLY || seq == self.rx.next {
            let before = self.rx.early.insert(seq, bytes.into());
            cx.common.early += usize::from(before.is_none());
        }
    }

    /// Takes early packets whose turn has come.
    fn take_early<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        while self.rx.stall.is_none()
            && let Some(bytes) = self.rx.early.remove(&self.rx.next)
        {
            cx.common.early -= 1;
            let Ok(packet) = Packet::decode(&bytes) else {
                return;
            };
            if !self.advance(cx, &packet, &bytes) {
                return;
            }
        }
    }

    /// Processes the expected packet. Returns whether it was taken.
    fn advance<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, A, W>,
        packet: &Packet<'_>,
        bytes: &[u8],
    ) -> bool {
        match self.step(cx, packet) {
            Step::Taken => {
                self.rx.next += 1;
                self.rx.refused = 0;
                self.rx.unacked += 1;
                let every = match cx.common.settings.extended {
                    true => ACK_EVERY.min(self.own_window(cx) / 2).max(1),
                    false => cx.common.settings.window,
                };
                if cx.common.settings.extended || self.rx.incoming.is_none() {
                    self.owe_ack_later(cx);
                }
                if self.rx.unacked >= every {
                    self.send_ack(cx);
                }
                true
            }
            Step::Stalled(stall) => {
                self.rx.stall = Some(stall);
                if !std::mem::replace(&mut self.listed.stalled, true) {
                    cx.common.stalled.push_back(self.id);
                }
                self.keep(cx, self.rx.next, bytes);
                false
            }
            Step::Refused(error) => {
                self.rx.refused = error.code() as u32;
                false
            }
            Step::Dropped => false,
        }
    }

    /// Retries the packet that waits for room. Returns whether it still waits.
    pub fn go_on<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) -> bool {
        self.try_to_go_on(cx);
        self.listed.stalled = self.rx.stall.is_some();
        self.listed.stalled
    }

    fn try_to_go_on<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        match self.rx.stall {
            Some(Stall::Queue) if cx.domain.may_receive(self.ep) => {}
            Some(Stall::Answers) if self.may_answer_any(cx) => {}
            Some(Stall::Memory(slot)) => {
                let srx = cx.domain.eps[self.ep].srx;
                let queue = &mut cx.domain.srxs[srx];
                let len = self.stalled_len();
                if !queue.has_room(self.id as u64, len, cx.common.settings.saved) {
                    return;
                }
                queue.begin_coming(slot);
                self.rx.decided = Some(Sink::Message(Claim::Kept(srx, slot)));
            }
            Some(Stall::Part(srx, slot)) => {
                let saved = cx.common.settings.saved;
                let queue = &mut cx.domain.srxs[srx];
                if !queue.may_grow(slot, cx.wire.mtu(), saved) {
                    return;
                }
            }
            _ => return,
        }
        self.resume(cx);
    }

    fn stalled_len(&self) -> u64 {
        let bytes = self.rx.early.get(&self.rx.next);
        match bytes.map(|bytes| Packet::decode(bytes)) {
            Some(Ok(Packet::Op(_, op, payload))) => op
                .segments
                .map_or(payload.len() as u64, |segments| segments.total),
            _ => 0,
        }
    }

    /// Delivers the message that waits here to the receive that matched it. Without a receive the message was
    /// discarded, so its bytes are dropped.
    pub fn deliver<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, claimed: Claimed) {
        let Claimed { envelope, recv } = claimed;
        self.rx.decided = Some(Sink::Message(Claim::of(recv, envelope)));
        self.resume(cx);
    }

    fn resume<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        self.rx.stall = None;
        self.take_early(cx);
        self.owe_ack(cx);
        self.arm(cx);
    }

    pub(super) fn owe_ack<W>(&mut self, cx: &mut Cx<'_, A, W>) {
        self.rx.is_urgent = true;
        self.owe_ack_later(cx);
    }

    /// Acknowledges at the end of the message, or when no more packets arrive.
    fn owe_ack_later<W>(&mut self, cx: &mut Cx<'_, A, W>) {
        self.rx.owes_ack = true;
        if !std::mem::replace(&mut self.listed.acks, true) {
            cx.common.acks.push(self.id);
        }
    }

    /// Sends a due acknowledgement. Returns whether it is still due, because there is no room now or more packets are
    /// about to arrive.
    pub fn acknowledge<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) -> bool {
        let more_comes = cx.common.is_busy && self.rx.incoming.is_some();
        let waits = more_comes && !self.rx.is_urgent;
        self.listed.acks = self.rx.owes_ack && (waits || !self.send_ack(cx));
        self.listed.acks
    }

    /// The window that the peer may use now.
    fn own_window<W>(&self, cx: &Cx<'_, A, W>) -> u32 {
        cx.common.senders.window(cx.common.settings.window)
    }

    pub fn send_ack<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) -> bool {
        // The peer has our greeting but its answer was lost. Our greeting will be repeated.
        if !self.greeting.is_up() {
            self.rx.owes_ack = false;
            return true;
        }
        let stops = self.rx.stall.is_some() || self.rx.refused != 0;
        let is_ours = self.greeting.is_ours && cx.common.settings.extended;
        let ack = Ack {
            peer: self.greeting.peer_id(),
            next: self.rx.next,
            window: if stops { 0 } else { self.own_window(cx) },
            refused: if is_ours { self.rx.refused } else { 0 },
            beyond: if is_ours { self.rx.beyond() } else { 0 },
        };
        let sent = cx.wire.send(self.route, false, |out| ack.encode(out));
        if sent {
            (self.rx.owes_ack, self.rx.is_urgent) = (false, false);
            self.rx.unacked = 0;
        }
        sent
    }

    /// Deadline of the next probe. Probes are needed if this side waits for the peer and has sent nothing that would be
    /// acknowledged.
    pub(super) fn probe_deadline(&self) -> Option<Instant> {
        let waits = self.rx.incoming.is_some() || !self.tx.reads.is_empty();
        if !waits || self.rx.stall.is_some() || self.send_deadline().is_some() {
            return None;
        }
        let patience = PROBE
            .saturating_mul(1 << self.rx.probes.min(8))
            .min(LONGEST);
        Some(self.rx.heard? + patience * (self.rx.probes + 1))
    }

    #[cold]
    pub(super) fn probe<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        self.rx.probes += 1;
        if self.is_gone(cx) || self.rx.probes > MAX_TIMEOUTS {
            return self.lose_silent(cx, Error::CONNRESET);
        }
        self.send_rts(cx);
    }

    /// Resets the receive state and returns the old one.
    pub(super) fn end_receiving<W>(&mut self, cx: &mut Cx<'_, A, W>) -> ReceiveState {
        let rx = std::mem::take(&mut self.rx);
        cx.common.early -= rx.early.len();
        rx
    }
}

/// Error code in the last acknowledgement: the endpoint is closed.
pub const GONE: u32 = Error::SHUTDOWN.code() as u32;
/// After this many packets in a row an acknowledgement is sent at once.
const ACK_EVERY: u32 = 16;
/// Most packets out of order that an endpoint keeps.
const MAX_EARLY: usize = 4096;
/// Time after which a silent peer is probed.
const PROBE: Duration = Duration::from_secs(1);
