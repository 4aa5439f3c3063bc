// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A receive context: posted receives, messages that came before their receive, and how they meet (fi_msg(3),
//! fi_tagged(3)).
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::abi::*;
use crate::base::grow::{append, heap_cost};
use crate::base::{Error, IoVec, Result};
use crate::engine::core::Parts;
use crate::engine::matching::{ANY, Matcher, MsgId};
use crate::ffi::ops::transfer::{OneRx, Rx, What};
use crate::hmem::{Host, Memory};

/// Room that must be left in a multi-receive buffer to keep it posted, unless FI_OPT_MIN_MULTI_RECV says otherwise.
pub const MIN_MULTI_RECV: usize = 16384;

/// Buffers that are kept for the next unexpected messages: how many, and of how many bytes at most.
const SPARE: usize = 256;
const SPARE_SIZE: usize = 1024;

/// A posted receive.
#[derive(Default)]
struct Posted<M: Memory> {
    iov: IoVec<M>,
    len: usize,
    context: usize,
    flags: u64,
    multi: Option<Arc<Multi>>,
}

/// A buffer that takes several messages: it is given back with the last of them.
#[derive(Default)]
pub struct Multi {
    /// Messages that are being written to it.
    open: AtomicUsize,
    /// It takes no more messages.
    full: AtomicBool,
}

/// A receive that has met its message.
pub struct RecvOp<M = Host> {
    /// Where the message goes; a cursor.
    pub iov: IoVec<M>,
    /// The address of the first byte, for the completion.
    pub base: usize,
    /// Bytes that the receive has room for.
    pub len: usize,
    pub context: usize,
    pub flags: u64,
    pub multi: Option<Arc<Multi>>,
}

/// What the completion of a filled receive says of the receive.
pub struct Filled {
    pub base: usize,
    pub context: usize,
    pub flags: u64,
}

/// Why `Srx::fill` has not filled a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfilled {
    /// None accepts the message.
    Unexpected,
    /// The one that does takes several messages, or has too little room.
    Special,
}

impl<M> RecvOp<M> {
    /// FI_MULTI_RECV if this completion gives the buffer back. To be asked once, when the operation completes.
    pub fn release(&self) -> u64 {
        match &self.multi {
            Some(multi)
                if multi.open.fetch_sub(1, Ordering::Relaxed) == 1
                    && multi.full.load(Ordering::Relaxed) =>
            {
                FI_MULTI_RECV
            }
            _ => 0,
        }
    }
}

/// What is known of a message besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    pub what: What,
    /// Who sent it, for matching: a fi_addr, or a number of the transport for a peer that no vector has.
    pub source: u64,
    /// The transport's name for the connection.
    pub token: u64,
    /// The endpoint it came in on.
    pub ep: usize,
    pub tag: u64,
    pub len: u64,
    pub data: Option<u64>,
    /// The transport's own: how it answers the sender.
    pub note: u64,
}

/// A message without a receive.
pub struct Unexpected<M = Host> {
    pub envelope: Envelope,
    pub bytes: Bytes,
    /// The address of a sender that is in no vector, where it is to be reported.
    origin: Option<Box<[u8]>>,
    /// What it counts for in the budget.
    charge: usize,
    /// The receive that took it while its bytes were still coming.
    taker: Option<Box<RecvOp<M>>>,
    discarded: bool,
}

/// Where the bytes of an unexpected message are.
pub enum Bytes {
    Here(Vec<u8>),
    Coming(Vec<u8>),
    /// Still with the transport: on the connection, or at the sender.
    There,
    /// Nowhere: the sender is gone. Only a claimed message is kept for that, until its receive comes.
    Lost,
}

/// A receive and a message whose bytes the transport has to bring. Without receive the bytes are dropped.
pub struct Claimed<M = Host> {
    pub envelope: Envelope,
    pub recv: Option<RecvOp<M>>,
}

/// What came of posting a receive; several outcomes for a buffer that takes several messages.
pub enum Outcome<M = Host> {
    /// The message is in the buffer. Its sender's address, if it was noted.
    Done(RecvOp<M>, Envelope, Option<Box<[u8]>>),
    /// The transport brings it.
    Claimed(Claimed<M>),
    /// The message was claimed, but its sender is gone.
    Lost(RecvOp<M>, Envelope),
    /// FI_PEEK: there is such a message.
    Peeked(Envelope, Option<Box<[u8]>>),
}

#[derive(Default)]
struct Lane<M: Memory> {
    matcher: Matcher<Posted<M>, Unexpected<M>>,
    /// Messages taken by FI_CLAIM, by the context of the peek.
    claims: HashMap<usize, MsgId>,
}

impl<M: Memory> Lane<M> {
    fn is_claimed(&self, id: MsgId) -> bool {
        self.claims.values().any(|&claimed| claimed == id)
    }
}

/// The memory that unexpected messages take: all of it, with what the tables and the heap add.
#[derive(Default)]
struct Budget {
    used: usize,
    /// Of each peer, by the transport's name for the connection.
    shares: Vec<usize>,
}

impl Budget {
    /// Whether `cost` bytes more may be used for a peer. A peer gets a multiple of what it leaves to the others: alone it may
    /// have nearly all, and whoever comes later finds some left.
    #[inline]
    fn has_room(&self, token: u64, cost: usize, limit: usize) -> bool {
        let Some(left) = limit.checked_sub(self.used.saturating_add(cost)) else {
            return false;
        };
        let own = self.shares.get(token as usize).copied().unwrap_or(0);
        (own + cost) / SHARE <= left
    }

    #[inline]
    fn charge(&mut self, token: u64, cost: usize) {
        let at = token as usize;
        if at >= self.shares.len() {
            self.shares.resize(at + 1, 0);
        }
        self.used += cost;
        self.shares[at] += cost;
    }

    #[inline]
    fn release<M>(&mut self, message: &Unexpected<M>) {
        self.used -= message.charge;
        self.shares[message.envelope.token as usize] -= message.charge;
    }
}

/// See `Budget::has_room`.
const SHARE: usize = 8;

/// Bytes that a kept message takes besides its payload.
const ENTRY: usize = Matcher::<Posted<Host>, Unexpected>::MESSAGE_COST;

/// Bytes that a message with a payload of this size takes.
#[inline]
fn cost_of(len: u64) -> usize {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    heap_cost(len).saturating_add(ENTRY)
}

/// Posted receives and unexpected messages of one receive context.
#[derive(Default)]
pub struct Srx<M: Memory = Host> {
    msg: Lane<M>,
    tagged: Lane<M>,
    budget: Budget,
    /// Buffers of such messages, for the next ones.
    spare: Vec<Vec<u8>>,
    pub min_multi_recv: usize,
    /// FI_TAGGED_MULTI_RECV: tagged buffers may take several messages, too.
    pub many_tagged: bool,
    /// Endpoints that receive here.
    pub eps: usize,
}

/// Names an unexpected message while its bytes come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    tagged: bool,
    id: MsgId,
}

impl<M: Memory> Srx<M> {
    pub fn new() -> Srx<M> {
        Srx {
            min_multi_recv: MIN_MULTI_RECV,
            ..Srx::default()
        }
    }

    /// Bytes that unexpected messages take.
    #[inline]
    pub fn saved(&self) -> usize {
        self.budget.used
    }

    /// Whether a message of this peer may be kept, with `len` bytes of it, where all may take up to `limit` bytes.
    #[inline]
    pub fn has_room(&self, token: u64, len: u64, limit: usize) -> bool {
        self.budget.has_room(token, cost_of(len), limit)
    }

    /// Messages that wait for a receive, also those that were claimed.
    pub fn unexpected_len(&self) -> usize {
        self.msg.matcher.unexpected_len() + self.tagged.matcher.unexpected_len()
    }

    #[inline]
    fn lane(&mut self, what: What) -> &mut Lane<M> {
        match what {
            What::Tagged => &mut self.tagged,
            _ => &mut self.msg,
        }
    }

    /// A message of `len` bytes arrives: the receive that takes it.
    #[inline]
    pub fn accept(&mut self, envelope: &Envelope) -> Option<RecvOp<M>> {
        let min = self.min_multi_recv;
        let matcher = &mut self.lane(envelope.what).matcher;
        let id = matcher.find_posted(envelope.source, envelope.tag)?;
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

    /// As `accept` for a message that is here as a whole: `fill` puts it into the plain receive that has room for it. Nothing
    /// happens for another kind of receive, or none.
    #[inline(always)]
    pub fn fill(
        &mut self,
        message: &Parts,
        source: u64,
        fill: impl FnOnce(&IoVec<M>),
    ) -> core::result::Result<Filled, Unfilled> {
        let matcher = &mut self.lane(message.what).matcher;
        let Some(id) = matcher.find_posted(source, message.tag) else {
            return Err(Unfilled::Unexpected);
        };
        let posted = matcher.posted(id);
        if posted.multi.is_some() || message.len > posted.len as u64 {
            return Err(Unfilled::Special);
        }
        fill(&posted.iov);
        let filled = Filled {
            base: posted.iov.base(),
            context: posted.context,
            flags: posted.flags,
        };
        matcher.release_posted(id);
        Ok(filled)
    }

    /// A message that no receive took. `bytes` says where they are.
    pub fn keep(&mut self, envelope: Envelope, bytes: Bytes) -> Slot {
        let charge = match &bytes {
            Bytes::Here(bytes) => ENTRY + heap_cost(bytes.capacity()),
            Bytes::Coming(_) => cost_of(envelope.len),
            Bytes::There | Bytes::Lost => ENTRY,
        };
        self.budget.charge(envelope.token, charge);
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
        Slot {
            tagged: envelope.what == What::Tagged,
            id,
        }
    }

    /// As `keep`, for a message that is here as a whole: `copy` appends its bytes.
    pub fn keep_whole(&mut self, envelope: Envelope, copy: impl FnOnce(&mut Vec<u8>)) -> Slot {
        let mut bytes = match envelope.len <= SPARE_SIZE as u64 {
            true => self.spare.pop().unwrap_or_default(),
            false => Vec::new(),
        };
        copy(&mut bytes);
        self.keep(envelope, Bytes::Here(bytes))
    }

    /// The bytes of a kept message are not needed any more.
    fn let_go(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() <= SPARE_SIZE && self.spare.len() < SPARE {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    fn slot_lane(&mut self, slot: Slot) -> &mut Lane<M> {
        match slot.tagged {
            true => &mut self.tagged,
            false => &mut self.msg,
        }
    }

    /// Notes who sent a message, for the completion of the receive that takes it (FI_SOURCE_ERR).
    pub fn note_origin(&mut self, slot: Slot, addr: Vec<u8>) {
        let message = self.slot_lane(slot).matcher.unexpected(slot.id);
        let (cost, token) = (heap_cost(addr.len()), message.envelope.token);
        message.origin = Some(addr.into_boxed_slice());
        message.charge += cost;
        self.budget.charge(token, cost);
    }

    /// The next bytes of a message whose bytes are coming. `NOMEM`: there is no memory for them.
    pub fn coming(&mut self, slot: Slot, part: &[u8]) -> Result {
        let message = self.slot_lane(slot).matcher.unexpected(slot.id);
        match &mut message.bytes {
            Bytes::Coming(bytes) => append(bytes, part, message.envelope.len as usize),
            _ => Ok(()),
        }
    }

    /// The bytes of a message that stood in the stream are taken after all.
    pub fn begin_coming(&mut self, slot: Slot) {
        let message = self.slot_lane(slot).matcher.unexpected(slot.id);
        let envelope = message.envelope;
        let cost = heap_cost(envelope.len as usize);
        message.bytes = Bytes::Coming(Vec::new());
        message.charge += cost;
        self.budget.charge(envelope.token, cost);
    }

    /// All bytes of a kept message are here: the receive that took it meanwhile, filled.
    pub fn arrived(&mut self, slot: Slot) -> Option<(RecvOp<M>, Envelope)> {
        let lane = self.slot_lane(slot);
        let message = lane.matcher.unexpected(slot.id);
        if message.taker.is_none() && !message.discarded {
            if let Bytes::Coming(bytes) = &mut message.bytes {
                message.bytes = Bytes::Here(std::mem::take(bytes));
            }
            return None;
        }
        let message = lane.matcher.take_unexpected(slot.id);
        self.budget.release(&message);
        let mut recv = *message.taker?;
        if let Bytes::Coming(bytes) = &message.bytes {
            recv.iov.copy_in(bytes);
        }
        Some((recv, message.envelope))
    }

    /// The connection that was bringing the bytes is gone: the receive that waited for them.
    pub fn lost(&mut self, slot: Slot) -> Option<(RecvOp<M>, Envelope)> {
        let lane = self.slot_lane(slot);
        if lane.is_claimed(slot.id) {
            lane.matcher.unexpected(slot.id).bytes = Bytes::Lost;
            return None;
        }
        let message = lane.matcher.take_unexpected(slot.id);
        self.budget.release(&message);
        message.taker.map(|recv| (*recv, message.envelope))
    }

    /// The receive that took a message while its bytes are coming is over: they are for nobody.
    pub fn abandon(&mut self, slot: Slot) {
        let message = self.slot_lane(slot).matcher.unexpected(slot.id);
        if message.taker.take().is_some() {
            message.discarded = true;
        }
    }

    /// Forgets messages of a connection that is gone and whose bytes are not here, and what was sent behind such a one: in its
    /// place it would be taken for it.
    pub fn forget(&mut self, token: u64) {
        for lane in [&mut self.msg, &mut self.tagged] {
            let is_gone = |message: &Unexpected<M>| {
                message.envelope.token == token && matches!(message.bytes, Bytes::There)
            };
            for &id in lane.claims.values() {
                let message = lane.matcher.unexpected(id);
                if is_gone(message) {
                    message.bytes = Bytes::Lost;
                }
            }
            let mut hole = false;
            let behind = |message: &Unexpected<M>| {
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

    /// Forgets the messages of an endpoint that is closed; others may go on receiving here.
    pub fn forget_ep(&mut self, ep: usize) {
        for lane in [&mut self.msg, &mut self.tagged] {
            let Lane { matcher, claims } = lane;
            claims.retain(|_, id| matcher.unexpected(*id).envelope.ep != ep);
            for message in &matcher.take_unexpected_if(|message| message.envelope.ep == ep) {
                self.budget.release(message);
            }
        }
    }

    /// A source has got (or lost) its address.
    pub fn rename_source(&mut self, from: u64, to: u64) {
        for lane in [&mut self.msg, &mut self.tagged] {
            // The completion of a later receive says who it was.
            let renamed = |message: &mut Unexpected<M>| message.envelope.source = to;
            lane.matcher.rename_source(from, to, renamed);
        }
    }

    /// Posts a plain receive of one buffer where no message waits: the usual case. False leaves it to `post`.
    #[inline(always)]
    pub fn post_one(&mut self, rx: &mut OneRx<M>, directed: bool) -> bool {
        let lane = self.lane(rx.what);
        let plain = rx.flags & (FI_PEEK | FI_CLAIM | FI_DISCARD | FI_MULTI_RECV) == 0;
        if !plain || lane.matcher.unexpected_len() > 0 {
            return false;
        }
        let source = if directed { rx.src } else { ANY };
        let (tag, ignore) = accepted(rx.what, rx.tag, rx.ignore);
        let matcher = &mut lane.matcher;
        matcher.post_by(source, tag, ignore, |posted| posted.put(rx));
        true
    }

    /// A receive is posted: its memory is taken. `directed`: it may name its source.
    pub fn post(
        &mut self,
        rx: &mut Rx<M>,
        directed: bool,
        out: &mut VecDeque<Outcome<M>>,
    ) -> Result {
        let source = if directed { rx.src } else { ANY };
        if rx.flags & (FI_PEEK | FI_CLAIM | FI_DISCARD) != 0 {
            return self.peek(rx, source, out);
        }
        let (tag, ignore) = accepted(rx.what, rx.tag, rx.ignore);
        let mut posted = Posted {
            len: rx.iov.remaining(),
            iov: rx.iov.take(),
            context: rx.context,
            flags: rx.flags,
            multi: self.takes_many(rx).then(Arc::default),
        };
        let min = self.min_multi_recv;
        loop {
            let lane = self.lane(rx.what);
            if lane.matcher.unexpected_len() == 0 {
                break;
            }
            let Some(id) = lane.matcher.find_unexpected(source, tag, ignore) else {
                break;
            };
            if posted.multi.is_none() {
                let recv = posted.whole();
                self.meet(rx.what, id, recv, out);
                return Ok(());
            }
            let len = lane.matcher.unexpected(id).envelope.len;
            let (recv, full) = posted.piece(len, min);
            self.meet(rx.what, id, recv, out);
            if full {
                return Ok(());
            }
        }
        let matcher = &mut self.lane(rx.what).matcher;
        matcher.post_by(source, tag, ignore, |place| *place = posted);
        Ok(())
    }

    /// fi_tagged(3): for tagged receives FI_MULTI_RECV is a capability of its own.
    #[inline]
    fn takes_many(&self, rx: &Rx<M>) -> bool {
        rx.flags & FI_MULTI_RECV != 0 && (rx.what == What::Msg || self.many_tagged)
    }

    /// A receive takes an unexpected message.
    fn meet(&mut self, what: What, id: MsgId, mut recv: RecvOp<M>, out: &mut VecDeque<Outcome<M>>) {
        let matcher = &mut self.lane(what).matcher;
        let message = matcher.unexpected(id);
        if let Bytes::Coming(_) = message.bytes {
            message.taker = Some(Box::new(recv));
            matcher.hide(id);
            return;
        }
        let message = matcher.take_unexpected(id);
        self.budget.release(&message);
        let envelope = message.envelope;
        match message.bytes {
            Bytes::Here(bytes) => {
                recv.iov.copy_in(&bytes);
                self.let_go(bytes);
                out.push_back(Outcome::Done(recv, envelope, message.origin));
            }
            // Not `Lost`: that is a claimed message, of which `peek` knows.
            _ => out.push_back(Outcome::Claimed(Claimed {
                envelope,
                recv: Some(recv),
            })),
        }
    }

    /// FI_PEEK, FI_CLAIM and FI_DISCARD of fi_tagged(3) and fi_msg(3).
    #[cold]
    fn peek(&mut self, rx: &mut Rx<M>, source: u64, out: &mut VecDeque<Outcome<M>>) -> Result {
        let (peek, claim, discard) = (
            rx.flags & FI_PEEK != 0,
            rx.flags & FI_CLAIM != 0,
            rx.flags & FI_DISCARD != 0,
        );
        let (tag, ignore) = accepted(rx.what, rx.tag, rx.ignore);
        let lane = self.lane(rx.what);
        if !peek {
            if !claim {
                return Err(Error::INVAL);
            }
            // The message was claimed before, with the same context.
            let id = lane.claims.remove(&rx.context).ok_or(Error::INVAL)?;
            if discard {
                let message = lane.matcher.unexpected(id);
                let Envelope { source, ep, .. } = message.envelope;
                let origin = message.origin.take();
                self.discard(rx.what, id, out);
                let nothing = Envelope::nothing(rx, source, ep);
                out.push_back(Outcome::Peeked(nothing, origin));
                return Ok(());
            }
            let recv = Posted {
                len: rx.iov.remaining(),
                iov: rx.iov.take(),
                context: rx.context,
                flags: rx.flags,
                multi: None,
            }
            .whole();
            let matcher = &mut self.lane(rx.what).matcher;
            if matches!(matcher.unexpected(id).bytes, Bytes::Lost) {
                let message = matcher.take_unexpected(id);
                self.budget.release(&message);
                out.push_back(Outcome::Lost(recv, message.envelope));
                return Ok(());
            }
            self.meet(rx.what, id, recv, out);
            return Ok(());
        }
        if claim && discard {
            return Err(Error::INVAL);
        }
        let found = lane.matcher.find_unexpected(source, tag, ignore);
        let id = found.ok_or(Error::NOMSG)?;
        let message = lane.matcher.unexpected(id);
        let (envelope, origin) = (message.envelope, message.origin.clone());
        if claim {
            lane.matcher.hide(id);
            lane.claims.insert(rx.context, id);
        } else if discard {
            self.discard(rx.what, id, out);
        }
        out.push_back(Outcome::Peeked(envelope, origin));
        Ok(())
    }

    fn discard(&mut self, what: What, id: MsgId, out: &mut VecDeque<Outcome<M>>) {
        let matcher = &mut self.lane(what).matcher;
        if let Bytes::Coming(_) = matcher.unexpected(id).bytes {
            matcher.unexpected(id).discarded = true;
            matcher.hide(id);
            return;
        }
        let message = matcher.take_unexpected(id);
        self.budget.release(&message);
        match message.bytes {
            Bytes::Here(bytes) => self.let_go(bytes),
            Bytes::Lost => {}
            _ => out.push_back(Outcome::Claimed(Claimed {
                envelope: message.envelope,
                recv: None,
            })),
        }
    }

    /// fi_cancel(3): the receive with this context, if it is still posted.
    pub fn cancel(&mut self, context: usize) -> Option<(RecvOp<M>, What)> {
        for what in [What::Msg, What::Tagged] {
            let matcher = &mut self.lane(what).matcher;
            let key = |posted: &Posted<M>| posted.context as u64;
            if let Some(id) = matcher.find_posted_by_key(key, context as u64) {
                let mut posted = matcher.take_posted(id);
                if let Some(multi) = &posted.multi {
                    multi.open.fetch_add(1, Ordering::Relaxed);
                    multi.full.store(true, Ordering::Relaxed);
                }
                return Some((posted.whole(), what));
            }
        }
        None
    }

    /// All posted receives, oldest first: the endpoint can receive no more.
    pub fn drain_posted(&mut self) -> Vec<(RecvOp<M>, What)> {
        let mut all = Vec::new();
        for what in [What::Msg, What::Tagged] {
            let posted = self.lane(what).matcher.drain_posted();
            all.extend(posted.into_iter().map(|mut posted| (posted.whole(), what)));
        }
        all
    }

    /// The posted receives that name this source, which is gone.
    pub fn drain_posted_from(&mut self, source: u64) -> Vec<(RecvOp<M>, What)> {
        let mut all = Vec::new();
        for what in [What::Msg, What::Tagged] {
            let posted = self.lane(what).matcher.drain_posted_from(source);
            all.extend(posted.into_iter().map(|mut posted| (posted.whole(), what)));
        }
        all
    }
}

/// Tag and ignored bits that a receive matches by: without tags it takes any.
#[inline]
fn accepted(what: What, tag: u64, ignore: u64) -> (u64, u64) {
    match what {
        What::Tagged => (tag, ignore),
        _ => (0, u64::MAX),
    }
}

impl Envelope {
    /// What a discarded claim reports.
    fn nothing<M>(rx: &Rx<M>, source: u64, ep: usize) -> Envelope {
        Envelope {
            what: rx.what,
            source,
            token: u64::MAX,
            ep,
            tag: rx.tag,
            len: 0,
            data: None,
            note: 0,
        }
    }
}

impl<M: Memory> Posted<M> {
    /// From now on it is this receive.
    #[inline]
    fn put(&mut self, rx: &mut OneRx<M>) {
        self.len = rx.piece.len();
        self.iov.set(rx.piece.take());
        self.context = rx.context;
        self.flags = rx.flags;
        self.multi = None;
    }

    /// The buffer goes to its message.
    #[inline]
    fn whole(&mut self) -> RecvOp<M> {
        RecvOp {
            base: self.iov.base(),
            iov: self.iov.take(),
            len: self.len,
            context: self.context,
            flags: self.flags,
            multi: self.multi.clone(),
        }
    }

    /// The next `len` bytes of a multi-receive buffer, or what is left of it; whether it takes no more messages.
    fn piece(&mut self, len: u64, min: usize) -> (RecvOp<M>, bool) {
        let left = self.iov.remaining();
        let used = usize::try_from(len).unwrap_or(usize::MAX).min(left);
        let recv = RecvOp {
            base: self.iov.address(),
            iov: self.iov.split_off(used),
            len: used,
            context: self.context,
            flags: self.flags,
            multi: self.multi.clone(),
        };
        let full = left - used < min.max(1);
        if let Some(multi) = &self.multi {
            multi.open.fetch_add(1, Ordering::Relaxed);
            multi.full.store(full, Ordering::Relaxed);
        }
        (recv, full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(token: u64, len: u64) -> Envelope {
        Envelope {
            what: What::Tagged,
            source: token,
            token,
            ep: 0,
            tag: 7,
            len,
            data: None,
            note: 0,
        }
    }

    fn receive(srx: &mut Srx, flags: u64, out: &mut VecDeque<Outcome>) -> Result {
        let mut rx = Rx {
            what: What::Tagged,
            iov: IoVec::empty(),
            src: ANY,
            tag: 7,
            ignore: 0,
            context: 1,
            flags,
        };
        srx.post(&mut rx, false, out)
    }

    #[test]
    fn every_message_counts_until_it_is_gone() {
        let mut srx = Srx::<Host>::new();
        let mut out = VecDeque::new();
        srx.keep_whole(envelope(1, 0), |_| ());
        assert_eq!(srx.saved(), ENTRY);
        srx.keep_whole(envelope(1, 100), |bytes| bytes.resize(100, 0));
        assert!(srx.saved() >= 2 * ENTRY + 100);
        let before = srx.saved();
        let slot = srx.keep(envelope(2, 1000), Bytes::There);
        assert_eq!(srx.saved(), before + ENTRY);
        srx.begin_coming(slot);
        assert_eq!(srx.saved(), before + cost_of(1000));
        srx.note_origin(slot, vec![0; 16]);
        assert!(srx.saved() > before + cost_of(1000));
        srx.coming(slot, &[1; 1000]).unwrap();
        assert!(srx.arrived(slot).is_none());
        for _ in 0..3 {
            receive(&mut srx, 0, &mut out).unwrap();
        }
        assert_eq!((srx.saved(), out.len()), (0, 3));
    }

    #[test]
    fn what_is_lost_forgotten_or_discarded_counts_no_more() {
        let mut srx = Srx::<Host>::new();
        let mut out = VecDeque::new();
        let coming = srx.keep(envelope(1, 50), Bytes::Coming(Vec::new()));
        srx.lost(coming);
        assert_eq!(srx.saved(), 0);
        srx.keep(envelope(1, 50), Bytes::There);
        srx.keep_whole(envelope(1, 3), |bytes| bytes.resize(3, 0));
        srx.forget(1);
        assert_eq!(srx.saved(), 0);
        srx.keep_whole(envelope(4, 3), |bytes| bytes.resize(3, 0));
        receive(&mut srx, FI_PEEK | FI_DISCARD, &mut out).unwrap();
        assert_eq!(srx.saved(), 0);
        // Claimed, and its sender is gone: it counts until its receive comes.
        srx.keep(envelope(5, 50), Bytes::There);
        receive(&mut srx, FI_PEEK | FI_CLAIM, &mut out).unwrap();
        srx.forget(5);
        assert_eq!(srx.saved(), ENTRY);
        receive(&mut srx, FI_CLAIM, &mut out).unwrap();
        assert_eq!(srx.saved(), 0);
        srx.keep_whole(envelope(6, 0), |_| ());
        srx.forget_ep(0);
        assert_eq!(srx.saved(), 0);
        assert!(srx.budget.shares.iter().all(|&share| share == 0));
    }

    #[test]
    fn no_peer_takes_the_share_of_another() {
        const LIMIT: usize = 1 << 20;
        let mut srx = Srx::<Host>::new();
        for peer in 0..4 {
            let mut kept = 0;
            while srx.has_room(peer, 100, LIMIT) {
                srx.keep_whole(envelope(peer, 100), |bytes| bytes.resize(100, 0));
                kept += 1;
            }
            assert!(kept > 0, "{peer}");
        }
        assert!(srx.saved() <= LIMIT);
        assert!(srx.budget.shares[0] > LIMIT / 2);
    }

    #[test]
    fn lengths_that_no_memory_has_are_no_overflow() {
        let srx = Srx::<Host>::new();
        assert!(!srx.has_room(0, u64::MAX, usize::MAX / 2));
        assert!(!srx.has_room(0, 1 << 40, 1 << 30));
    }
}
