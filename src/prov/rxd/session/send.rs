// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Sends packets as the window allows, retransmits lost ones, and completes operations when they are acknowledged.

use std::collections::VecDeque;
use std::time::Instant;

use super::out::{ANSWER_COST, Begin, Body, End, Out};
use super::receive::GONE;
use super::window::{News, Window};
use super::{Cx, Session, Wire};
use crate::rxd::info::ATOMIC_SIZE;
use crate::rxd::proto::{Ack, Void, error_of};
use base::{Error, IoVec};
use engine::domain_state::TxOp;
use engine::peer::table::Table;
use engine::share::fits;
use engine::transport::Address;

/// An operation that waits for the peer's answer.
pub struct ReadOp {
    pub op: TxOp,
    pub iov: IoVec,
    pub total: u64,
    pub got: u64,
    /// Packets of the answer that have arrived.
    pub segments: u64,
}

pub struct SendState {
    /// Oldest first, with consecutive packet numbers.
    pub outs: VecDeque<Out>,
    /// The first unassigned packet number.
    end: u64,
    /// Index in `outs` of the entry with the next unsent packet.
    at: usize,
    pub window: Window,
    pub reads: Table<ReadOp, PLACE_BITS>,
    turn: u16,
    /// Answers among `outs`, and the bytes that they take.
    pub answers: usize,
    pub answer_bytes: usize,
    pub is_blocked: bool,
}

impl SendState {
    /// `salt` is a random number.
    pub fn new(window: u32, salt: u32) -> SendState {
        SendState {
            outs: VecDeque::new(),
            end: 0,
            at: 0,
            window: Window::new(window, salt),
            reads: Table::default(),
            turn: 0,
            answers: 0,
            answer_bytes: 0,
            is_blocked: false,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.outs.is_empty() && self.reads.is_empty()
    }

    /// Registers an operation that waits for an answer. Returns its transaction number.
    pub fn expect(&mut self, op: TxOp, iov: IoVec, total: u64) -> u32 {
        self.turn = self.turn.wrapping_add(1);
        let (got, segments) = (0, 0);
        #[rustfmt::skip]
        let read = ReadOp { op, iov, total, got, segments };
        self.reads.insert(u64::from(self.turn % TURNS), read) as u32
    }

    pub fn push(&mut self, mut out: Out) {
        out.first = self.end;
        self.end += out.count;
        self.outs.push_back(out);
    }

    /// Whether no packet of it was sent.
    pub fn is_unsent(&self, out: &Out) -> bool {
        out.first >= self.window.next()
    }

    /// Removes an entry of which no packet was sent, and renumbers those after it.
    pub fn take_unsent(&mut self, is_meant: impl Fn(&Out) -> bool) -> Option<Out> {
        let meant = |out: &Out| self.is_unsent(out) && is_meant(out);
        let at = self.outs.iter().position(meant)?;
        let out = self.outs.remove(at)?;
        for later in self.outs.range_mut(at..) {
            later.first -= out.count;
        }
        self.end -= out.count;
        Some(out)
    }

    /// Drops the packets of a refused operation that were never sent, so that later operations follow at once. Its
    /// packets before `keep` stay.
    fn cut_unsent(&mut self, at: usize, keep: u64) {
        let keep = keep.max(self.window.next());
        let out = &mut self.outs[at];
        let cut = out.past().saturating_sub(keep);
        out.count -= cut;
        let is_sent = out.past() <= self.window.next();
        for later in self.outs.range_mut(at + 1..) {
            later.first -= cut;
        }
        self.end -= cut;
        if is_sent && self.at == at {
            self.at += 1;
        }
    }

    fn place_of(&self, seq: u64) -> Option<usize> {
        let at = self.outs.partition_point(|out| out.past() <= seq);
        (at < self.outs.len()).then_some(at)
    }
}

impl<A: Address> Session<A> {
    /// Whether one more answer that takes `cost` bytes may wait for the peer's acknowledgement. All peers of an
    /// endpoint share a limit, so that peers which acknowledge nothing do not use up its memory.
    pub(super) fn may_answer<W>(&self, cx: &Cx<'_, A, W>, cost: usize) -> bool {
        self.tx.answers < MAX_ANSWERS && self.answer_fits(cx, cost, MAX_ANSWER_BYTES)
    }

    /// Whether any request may be answered now. A peer is always allowed one answer.
    pub(super) fn may_answer_any<W>(&self, cx: &Cx<'_, A, W>) -> bool {
        self.tx.answers == 0 || self.may_answer(cx, ANSWER_COST + ATOMIC_SIZE)
    }

    /// Whether the data of an answer may be copied. The rest of the limit is for answers that are sent from the region
    /// itself.
    pub(super) fn may_copy<W>(&self, cx: &Cx<'_, A, W>, cost: usize) -> bool {
        self.answer_fits(cx, cost, MAX_ANSWER_BYTES / 2)
    }

    fn answer_fits<W>(&self, cx: &Cx<'_, A, W>, cost: usize, limit: usize) -> bool {
        fits(self.tx.answer_bytes, cx.common.answers, cost, limit)
    }

    /// Queues an answer.
    pub(super) fn push_answer<W>(&mut self, cx: &mut Cx<'_, A, W>, out: Out) {
        self.tx.answers += 1;
        self.tx.answer_bytes += out.cost;
        cx.common.answers += out.cost;
        self.push(cx, out);
    }

    /// Queues an operation or an answer.
    pub(super) fn push<W>(&mut self, cx: &mut Cx<'_, A, W>, out: Out) {
        cx.common.promised += usize::from(out.end.is_promised());
        self.tx.push(out);
        if !std::mem::replace(&mut self.listed.sending, true) {
            cx.common.sending.push(self.id);
        }
    }

    /// Sends what may be sent now.
    pub fn pump<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        if !self.greeting.is_up() {
            if !self.tx.outs.is_empty() {
                self.greet(cx);
            }
            return;
        }
        while let Some(seq) = self.tx.window.next_lost() {
            let Some(at) = self.tx.place_of(seq) else {
                return;
            };
            if !self.send_packet(cx, at, seq, false) {
                return self.block(cx);
            }
        }
        while self.tx.window.next() < self.tx.end && self.tx.window.has_room() {
            let seq = self.tx.window.next();
            let more = seq + 1 < self.tx.end && self.tx.window.will_have_room();
            if !self.send_packet(cx, self.tx.at, seq, more) {
                return self.block(cx);
            }
            if self.tx.outs[self.tx.at].past() == seq + 1 {
                self.tx.at += 1;
            }
        }
    }

    fn block<W>(&mut self, cx: &mut Cx<'_, A, W>) {
        self.tx.is_blocked = true;
        if !std::mem::replace(&mut self.listed.blocked, true) {
            cx.common.blocked.push(self.id);
        }
    }

    /// Called when the wire may have room again.
    pub fn unblock<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        (self.tx.is_blocked, self.listed.blocked) = (false, false);
        self.pump(cx);
        self.arm(cx);
    }

    fn send_packet<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, A, W>,
        at: usize,
        seq: u64,
        more: bool,
    ) -> bool {
        let head = self.head(seq);
        let out = &mut self.tx.outs[at];
        // The region was closed, so the answer becomes an error.
        if out.void.is_none() && out.body.is_gone() {
            out.void = Some(out.void_of(Error::CANCELED));
            self.tx.cut_unsent(at, seq + 1);
        }
        let out = &self.tx.outs[at];
        let mtu = cx.wire.mtu();
        let mut failed = None;
        let sent = cx.wire.send(self.route, more, |room| {
            let len = out.encode(seq - out.first, head, mtu, room);
            match out.body.take_fault() {
                false => len,
                true => failed.insert(out.void_of(Error::IO)).encode(head, room),
            }
        });
        // The device does not give the bytes, so the answer becomes an error.
        if failed.is_some() {
            self.tx.outs[at].void = failed;
            self.tx.cut_unsent(at, seq + 1);
        }
        if sent {
            self.tx.window.sent(seq, cx.now);
        }
        sent
    }

    pub(super) fn take_ack<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, ack: &Ack) {
        let keeps = self.greeting.is_ours;
        if keeps && ack.refused == GONE {
            return self.take_last_ack(cx, ack);
        }
        let beyond = if keeps { ack.beyond } else { 0 };
        let news = self
            .tx
            .window
            .acknowledged(ack.next, ack.window, beyond, cx.now);
        if matches!(news, News::Forged | News::Old) {
            return;
        }
        // The peer has announced that it has no room, so it is alive.
        if keeps && ack.window == 0 && ack.refused == 0 {
            self.tx.window.lives();
        }
        if news == News::Progress {
            if let Some(first) = self.tx.window.take_first() {
                cx.common.rtt.measured(first);
            }
            self.complete(cx);
        }
        if keeps && ack.refused != 0 {
            self.take_refusal(cx, ack.next, error_of(ack.refused));
        }
        self.pump(cx);
    }

    /// Handles the notice that the peer's endpoint is closed. It counts only with a number that the peer can have sent,
    /// because another host may have invented the packet.
    #[cold]
    fn take_last_ack<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, ack: &Ack) {
        match self.tx.window.acknowledged(ack.next, 0, 0, cx.now) {
            News::Forged | News::Old => return,
            News::Progress => self.complete(cx),
            News::Nothing => {}
        }
        self.lose(cx, Error::CONNRESET, "the peer has ended");
    }

    /// Completes the oldest operations, whose packets are all acknowledged.
    fn complete<W>(&mut self, cx: &mut Cx<'_, A, W>) {
        let acked = self.tx.window.acked();
        while let Some(first) = self.tx.outs.front()
            && first.past() <= acked
            && let Some(out) = self.tx.outs.pop_front()
        {
            self.tx.at = self.tx.at.saturating_sub(1);
            if let Begin::Answer(_) = out.begin {
                self.tx.answers -= 1;
                self.tx.answer_bytes -= out.cost;
                cx.common.answers -= out.cost;
            }
            cx.common.promised -= usize::from(out.end.is_promised());
            match out.end {
                End::Complete(op) => cx.domain.complete_tx(&op),
                End::Nothing => {}
            }
        }
    }

    /// The peer refuses access to its memory. The operation fails, and its packets are replaced so that later
    /// operations can proceed.
    #[cold]
    fn take_refusal<W>(&mut self, cx: &mut Cx<'_, A, W>, seq: u64, error: Error) {
        let Some(at) = self.tx.place_of(seq) else {
            return;
        };
        if seq >= self.tx.window.next() {
            return;
        }
        let out = &mut self.tx.outs[at];
        if out.void.is_some() {
            return;
        }
        let request = match &out.begin {
            Begin::Op(op) if op.kind.is_answered() => {
                op.segments.map(|segments| segments.transaction)
            }
            // Only memory accesses are refused.
            Begin::Op(op) if !op.kind.is_message() => None,
            _ => return,
        };
        out.void = Some(Void {
            transaction: 0,
            error: 0,
        });
        out.body = Body::nothing();
        cx.common.promised -= usize::from(out.end.is_promised());
        if let End::Complete(op) = std::mem::replace(&mut out.end, End::Nothing) {
            cx.domain.fail_tx(&op, error);
        }
        if let Some(read) = request.and_then(|number| self.tx.reads.remove(number.into())) {
            cx.domain.fail_tx(&read.op, error);
        }
        self.tx.cut_unsent(at, seq + 1);
        self.tx.window.resend(seq);
    }

    pub(super) fn send_deadline(&self) -> Option<Instant> {
        self.tx.window.deadline()
    }

    /// Handles a timeout without an acknowledgement.
    #[cold]
    pub(super) fn unanswered<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>) {
        let is_gone = self.is_gone(cx);
        if !self.tx.window.silence(cx.now) || is_gone {
            return self.lose_silent(cx, Error::CONNREFUSED);
        }
        if !cx.common.settings.retry {
            return;
        }
        // The peer may have restarted.
        if self.tx.window.timeouts().is_multiple_of(SUSPICIOUS) {
            self.send_rts(cx);
        }
        self.pump(cx);
    }
}

/// Most answers to a peer that are not acknowledged. A peer has at most 1024 operations in flight.
const MAX_ANSWERS: usize = 4096;
/// Bytes of memory for answers to all peers of an endpoint.
pub const MAX_ANSWER_BYTES: usize = 16 << 20;
/// After so many timeouts in a row a greeting checks whether the peer has restarted.
const SUSPICIOUS: u32 = 3;
/// Peers of other libraries return only 16 bits of a transaction number. Most of the bits are the place.
const PLACE_BITS: u32 = 11;
const TURNS: u16 = 1 << (15 - PLACE_BITS);
