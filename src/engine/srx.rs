// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A receive context: posted receives, unexpected messages, and their matching (fi_msg(3), fi_tagged(3)). This file
//! handles messages; `post` handles receives.

mod arrivals;
mod budget;
mod coming;
mod message;
mod post;
mod receive;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::HashMap;

pub use self::arrivals::Arrivals;
use self::budget::Budget;
pub use self::message::{Bytes, Envelope, MessageInfo, Unexpected};
pub use self::post::{Claimed, Outcome, PostedOne};
pub use self::receive::{Filled, RecvOp};
use self::receive::{Multi, Posted};
pub use self::watch::WaitingReceive;
use crate::ages::Ages;
use crate::matching::{Matcher, MsgId};
use base::grow::heap_cost;
use base::{CompFlags, IoVec};

use object::ops::transfer::What;
use sync::stats::{Count, EpStats};
use sys::probe;

/// Room that must be left in a multi-receive buffer to keep it posted, unless FI_OPT_MIN_MULTI_RECV says otherwise.
pub const MIN_MULTI_RECV: usize = 16384;

/// Buffers that are kept for later unexpected messages: their number, and the size of the largest in bytes.
const SPARE: usize = 256;
const SPARE_SIZE: usize = 1024;

#[derive(Default)]
struct Lane {
    matcher: Matcher<Posted, Unexpected>,
    /// Messages taken by FI_CLAIM, by the context of the peek.
    claims: HashMap<usize, MsgId>,
    ages: Ages,
    /// Receives up to this number were reported as late, if they were.
    told: u64,
}

impl Lane {
    fn is_claimed(&self, id: MsgId) -> bool {
        self.claims.values().any(|&claimed| claimed == id)
    }
}

/// Posted receives and unexpected messages of one receive context.
#[derive(Default)]
pub struct Srx {
    msg: Lane,
    tagged: Lane,
    budget: Budget,
    /// Buffers of unexpected messages, kept for later ones.
    spare: Vec<Vec<u8>>,
    pub min_multi_recv: usize,
    /// FI_TAGGED_MULTI_RECV: tagged buffers may receive several messages, too.
    pub many_tagged: bool,
    /// Number of endpoints that receive here.
    pub eps: usize,
    /// Number of upper bits in a source address that are a context of the source: fi_rx_addr(3).
    pub context_bits: u32,
    /// Set if the receives belong to another provider: fi_peer(3).
    pub arrivals: Option<Box<Arrivals>>,
    /// The statistics of the endpoint. A context that several endpoints share has its own, which are not shown.
    pub stats: EpStats,
}

/// Identifies an unexpected message while its bytes arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    tagged: bool,
    id: MsgId,
}

/// Writes the payload of a message to a receive.
pub trait Fill {
    fn fill(self, iov: &IoVec);
}

/// A closure would leave a call on the path of a small message.
impl Fill for &[u8] {
    #[inline(always)]
    fn fill(self, iov: &IoVec) {
        iov.fill(self);
    }
}

impl<F: FnOnce(&IoVec)> Fill for F {
    #[inline(always)]
    fn fill(self, iov: &IoVec) {
        self(iov);
    }
}

impl Srx {
    pub fn new() -> Srx {
        Srx {
            min_multi_recv: MIN_MULTI_RECV,
            ..Srx::default()
        }
    }

    /// Bytes used by unexpected messages.
    #[inline]
    pub fn saved(&self) -> usize {
        self.budget.used
    }

    /// Whether a message of this peer with `len` bytes may be kept if all messages together may use `limit` bytes.
    #[inline]
    pub fn has_room(&self, token: u64, len: u64, limit: usize) -> bool {
        self.budget.has_room(token, cost_of(len), limit)
    }

    /// Bytes used by unexpected messages of one peer.
    pub fn share_of(&self, token: u64) -> usize {
        self.budget.share_of(token)
    }

    /// Messages that wait for a receive, including claimed ones.
    pub fn unexpected_len(&self) -> usize {
        self.msg.matcher.unexpected_len() + self.tagged.matcher.unexpected_len()
    }

    #[inline]
    fn lane(&mut self, what: What) -> &mut Lane {
        match what {
            What::Tagged => &mut self.tagged,
            _ => &mut self.msg,
        }
    }

    /// Returns the receive that takes a message of `len` bytes that arrives.
    #[inline]
    pub fn accept(&mut self, envelope: &Envelope) -> Option<RecvOp> {
        let min = self.min_multi_recv;
        let matcher = &mut self.lane(envelope.what).matcher;
        let id = matcher.find_posted(envelope.source, envelope.tag)?;
        probe::matched(envelope.source, envelope.tag, envelope.len);
        let posted = matcher.posted(id);
        if posted.multi.is_none() {
            let recv = posted.whole();
            matcher.release_posted(id);
            return Some(recv);
        }
        let (recv, full) = posted.piece(envelope.len, min);
        if full {
            matcher.release_posted(id);
        }
        Some(recv)
    }

    /// The buffers of the next messages without a tag, one for each message, to read into directly. This is for
    /// transports that learn the length and the sender of a message only with its bytes. `accept` then returns the same
    /// receive, because receives do not name their sources there. The iteration ends with the first multi-receive
    /// buffer, because the place of later messages depends on the length of the one that goes there.
    #[inline]
    pub fn rooms(&self) -> impl Iterator<Item = &IoVec> {
        let mut is_known = true;
        let posted = self.msg.matcher.each_posted();
        let known = posted
            .take_while(move |posted| core::mem::replace(&mut is_known, posted.multi.is_none()));
        known.map(|posted| &posted.iov)
    }

    /// Like `accept` for a message that has arrived as a whole: copies it into the plain receive that matches and has
    /// room. Nothing happens if there is none or it is of another kind.
    #[inline(always)]
    pub fn fill(
        &mut self,
        message: &MessageInfo,
        source: u64,
        payload: impl Fill,
    ) -> core::result::Result<Filled, Unfilled> {
        let matcher = &mut self.lane(message.what).matcher;
        let Some(id) = matcher.find_posted(source, message.tag) else {
            return Err(Unfilled::Unexpected);
        };
        let posted = matcher.posted(id);
        if posted.multi.is_some() || message.len > posted.len as u64 {
            return Err(Unfilled::Special);
        }
        probe::matched(source, message.tag, message.len);
        payload.fill(&posted.iov);
        let filled = Filled {
            base: posted.iov.base(),
            context: posted.context,
            flags: posted.flags,
        };
        matcher.release_posted(id);
        Ok(filled)
    }

    /// The same for a multi-receive buffer with room in one piece. FI_MULTI_RECV: the buffer takes no more messages.
    #[inline]
    pub fn fill_next(
        &mut self,
        message: &MessageInfo,
        source: u64,
        payload: &[u8],
    ) -> Option<(Filled, CompFlags)> {
        let min = self.min_multi_recv;
        let matcher = &mut self.lane(message.what).matcher;
        let id = matcher.find_posted(source, message.tag)?;
        let posted = matcher.posted(id);
        posted.multi.as_ref()?;
        if posted.iov.is_device() {
            return None;
        }
        let piece = posted.iov.split_piece(usize::try_from(message.len).ok()?)?;
        probe::matched(source, message.tag, message.len);
        piece.fill(payload);
        let is_full = posted.iov.remaining() < min.max(1);
        let filled = Filled {
            base: piece.base(),
            context: posted.context,
            flags: posted.flags,
        };
        let release = posted.filled(is_full);
        if is_full {
            matcher.release_posted(id);
        }
        Some((filled, release))
    }

    /// Keeps a message that matched no receive. `bytes` is the location of its payload.
    #[inline]
    pub fn keep(&mut self, envelope: Envelope, bytes: Bytes) -> Slot {
        let charge = match &bytes {
            Bytes::Here(bytes) => ENTRY + heap_cost(bytes.capacity()),
            Bytes::Coming(_) | Bytes::There | Bytes::Lost => ENTRY,
        };
        self.budget.charge(envelope.token, charge);
        self.stats.count(Count::Unexpected);
        let lane = self.lane(envelope.what);
        let id = lane.matcher.arrive(
            envelope.source,
            envelope.tag,
            Unexpected {
                envelope,
                bytes,
                origin: None,
                charge,
                taker: None,
                discarded: false,
            },
        );
        let tagged = envelope.what == What::Tagged;
        let slot = Slot { tagged, id };
        if self.arrivals.is_some() {
            self.add_arrival(slot);
        }
        slot
    }

    /// Queues a request to the owner of the context for the receive of a message.
    #[cold]
    fn add_arrival(&mut self, slot: Slot) {
        if let Some(arrivals) = &mut self.arrivals {
            let token = arrivals.add();
            let lane = self.slot_lane(slot);
            lane.matcher.hide(slot.id);
            lane.claims.insert(token, slot.id);
        }
    }

    /// Like `keep`, for a message that has arrived as a whole: `copy` appends its bytes.
    #[inline]
    pub fn keep_whole(&mut self, envelope: Envelope, copy: impl FnOnce(&mut Vec<u8>)) -> Slot {
        let mut bytes = match envelope.len <= SPARE_SIZE as u64 {
            true => self.spare.pop().unwrap_or_default(),
            false => Vec::new(),
        };
        copy(&mut bytes);
        self.keep(envelope, Bytes::Here(bytes))
    }

    /// Takes messages out whose bytes are here, if no receive is to take them. The oldest are first. `wanted` gets also
    /// whether the bytes are here; it is called for each message that waits.
    pub fn take_whole(
        &mut self,
        mut wanted: impl FnMut(&Envelope, bool) -> bool,
    ) -> Vec<(Envelope, Vec<u8>)> {
        let mut all = Vec::new();
        for lane in [&mut self.msg, &mut self.tagged] {
            let is_taken = |message: &Unexpected| {
                let is_whole = matches!(message.bytes, Bytes::Here(_));
                wanted(&message.envelope, is_whole) && is_whole
            };
            for message in lane.matcher.take_waiting_if(is_taken) {
                self.budget.release(&message);
                if let Bytes::Here(bytes) = message.bytes {
                    all.push((message.envelope, bytes));
                }
            }
        }
        all
    }

    /// Recycles the buffer of a kept message.
    #[inline]
    fn let_go(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() <= SPARE_SIZE && self.spare.len() < SPARE {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    fn slot_lane(&mut self, slot: Slot) -> &mut Lane {
        match slot.tagged {
            true => &mut self.tagged,
            false => &mut self.msg,
        }
    }

    /// Records the address of a message's sender for the completion (FI_SOURCE_ERR).
    pub fn record_origin(&mut self, slot: Slot, addr: Vec<u8>) {
        let message = self.slot_lane(slot).matcher.unexpected(slot.id);
        let (cost, token) = (heap_cost(addr.len()), message.envelope.token);
        message.origin = Some(addr.into_boxed_slice());
        message.charge += cost;
        self.budget.charge(token, cost);
    }

    /// All bytes of a kept message have arrived. Returns the filled receive if one took the message meanwhile.
    pub fn arrived(&mut self, slot: Slot) -> Option<(RecvOp, Envelope)> {
        if self.is_matched(slot) {
            return self.take_met(slot);
        }
        let message = self.slot_lane(slot).matcher.unexpected(slot.id);
        if let Bytes::Coming(bytes) = &mut message.bytes {
            message.bytes = Bytes::Here(std::mem::take(bytes));
        }
        None
    }

    /// The connection that was delivering the bytes is gone. Returns the receive that waited for them.
    pub fn lost(&mut self, slot: Slot) -> Option<(RecvOp, Envelope)> {
        let lane = self.slot_lane(slot);
        if lane.is_claimed(slot.id) {
            lane.matcher.unexpected(slot.id).bytes = Bytes::Lost;
            return None;
        }
        let message = lane.matcher.take_unexpected(slot.id);
        self.budget.release(&message);
        message.taker.map(|recv| (*recv, message.envelope))
    }

    /// The receive that took a message is over while bytes of the message still arrive; the bytes are discarded.
    pub fn abandon(&mut self, slot: Slot) {
        let message = self.slot_lane(slot).matcher.unexpected(slot.id);
        if message.taker.take().is_some() {
            message.discarded = true;
            message.bytes = Bytes::Coming(Vec::new());
        }
    }

    /// Drops messages of a lost connection whose bytes are not here. Also drops unclaimed messages that the peer sent
    /// after such a message: a receive would take one of them instead of the lost message.
    pub fn forget(&mut self, token: u64) {
        // Most peers have left no message, and then there is nothing to look through.
        if self.share_of(token) == 0 {
            return;
        }
        for lane in [&mut self.msg, &mut self.tagged] {
            let is_gone = |message: &Unexpected| {
                message.envelope.token == token && matches!(message.bytes, Bytes::There)
            };
            for &id in lane.claims.values() {
                let message = lane.matcher.unexpected(id);
                if is_gone(message) {
                    message.bytes = Bytes::Lost;
                }
            }
            let mut hole = false;
            let behind = |message: &Unexpected| {
                hole |= is_gone(message);
                hole && message.envelope.token == token
            };
            let mut forgotten = lane.matcher.take_waiting_if(behind);
            forgotten.append(&mut lane.matcher.take_unexpected_if(is_gone));
            for message in &forgotten {
                self.budget.release(message);
            }
        }
    }

    /// Drops the message with this note of the transport, whose bytes are gone. A claimed one stays until its receive
    /// is posted, which then fails.
    #[cold]
    pub fn forget_message(&mut self, note: u64) {
        for lane in [&mut self.msg, &mut self.tagged] {
            let is_it = |message: &Unexpected| {
                message.envelope.note == note && matches!(message.bytes, Bytes::There)
            };
            for &id in lane.claims.values() {
                let message = lane.matcher.unexpected(id);
                if is_it(message) {
                    message.bytes = Bytes::Lost;
                }
            }
            for message in &lane.matcher.take_waiting_if(is_it) {
                self.budget.release(message);
            }
        }
    }

    /// Drops the messages of an endpoint that is closed; other endpoints may go on receiving here.
    pub fn forget_ep(&mut self, ep: usize) {
        for lane in [&mut self.msg, &mut self.tagged] {
            let Lane {
                matcher, claims, ..
            } = lane;
            claims.retain(|token, id| {
                let stays = matcher.unexpected(*id).envelope.ep != ep;
                if !stays && let Some(arrivals) = &mut self.arrivals {
                    arrivals.forget(*token);
                }
                stays
            });
            for message in &matcher.take_unexpected_if(|message| message.envelope.ep == ep) {
                self.budget.release(message);
            }
        }
    }

    /// Changes the source of a source's messages, and sets the `origin` of those that have none. Claimed messages are
    /// changed, too, because the completion of the later receive contains their source.
    pub fn change_source(&mut self, from: u64, to: u64, origin: Option<&[u8]>) {
        let budget = &mut self.budget;
        let mut renamed = |message: &mut Unexpected| {
            message.envelope.source = to;
            if let (None, Some(origin)) = (&message.origin, origin) {
                let cost = heap_cost(origin.len());
                message.origin = Some(origin.into());
                message.charge += cost;
                budget.charge(message.envelope.token, cost);
            }
        };
        for lane in [&mut self.msg, &mut self.tagged] {
            lane.matcher.rename_source(from, to, &mut renamed);
            for &id in lane.claims.values() {
                let message = lane.matcher.unexpected(id);
                if message.envelope.source == from {
                    renamed(message);
                }
            }
        }
    }
}

/// Why `Srx::fill` did not fill a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfilled {
    /// No receive matches the message.
    Unexpected,
    /// The matching receive takes several messages, or has too little room.
    Special,
}

/// Bytes of memory that a kept message uses besides its payload.
const ENTRY: usize = Matcher::<Posted, Unexpected>::MESSAGE_COST;

/// Bytes of memory that a message with a payload of this size uses.
#[inline]
fn cost_of(len: u64) -> usize {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    heap_cost(len).saturating_add(ENTRY)
}
