// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The sending side of a session: operations that wait for their turn, frames that wait for the link, and operations
//! that wait for the peer's answer.

mod unfinished;

use std::collections::VecDeque;

use crate::proto::{
    Exported, Frame, MAX_HEADER, Message, Offer, ReadResponse, ReadyToSend, Refused, Share,
};
use crate::session::announced::{Announced, Helping, places_of};
use crate::session::outbox::Outbox;
use crate::session::payload::Payload;
use crate::session::reads::{ReadOp, Reads};
use crate::session::receive::Fault;
use crate::session::told::GARBAGE;
use crate::session::{Agreed, Cx, State};
use crate::shm_channel::{Help, RECORD};
use base::flags::flags;
use base::{Error, IoVec, OpFlags, Result};
use engine::domain_state::TxOp;
use engine::transport::Address;
use hmem::export::{self, Export};
use object::ops::transfer::What;
use sync::split_copy::SplitCopy;
use sync::stats::Count;

/// Flags of operations that may have to wait for earlier operations.
const HELD: OpFlags = flags!(OpFlags: FENCE | AFTER_READS);

/// The sending side.
pub struct SendState {
    pub out: Outbox,
    pub reads: Reads,
    pub announced: Announced,
    /// Operations posted before the connection was up (the form of frames depends on the peer), or behind a fence.
    waiting: VecDeque<Waiting>,
}

/// An operation that waits for the connection, or for earlier operations.
struct Waiting {
    frame: Frame,
    payload: Payload,
    op: TxOp,
    /// The frame is in memory that the peer has not accepted yet: `send_early`. Those before it are there, too.
    is_early: bool,
}

/// How an operation is sent.
#[derive(Clone, Copy)]
pub enum Way {
    /// One frame with header and payload.
    Frame,
    /// A request; the payload comes back.
    Read,
    /// An announcement of the message; the peer requests the payload when a receive has matched.
    Rendezvous,
    /// An announcement of the message and its address; the peer fetches the payload itself when a receive has matched.
    Offer,
    /// The same for device memory, which the peer maps.
    Export,
    /// A request with payload; another payload comes back.
    Exchange,
}

impl SendState {
    pub fn new(ep: usize) -> SendState {
        SendState {
            out: Outbox::new(ep),
            reads: Reads::default(),
            announced: Announced::default(),
            waiting: VecDeque::new(),
        }
    }

    /// Whether operations wait for their turn.
    #[inline(always)]
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether an operation with one of the `HELD` flags has to wait for earlier operations.
    pub fn holds(&self, what: What, flags: OpFlags) -> bool {
        let after_reads = flags.contains(OpFlags::AFTER_READS) && what != What::Read;
        after_reads && self.reads.is_reading() || flags.contains(OpFlags::FENCE) && self.is_busy()
    }

    /// Whether an operation has to wait for earlier operations.
    #[inline(always)]
    pub fn must_wait(&self, op: &TxOp) -> bool {
        self.has_waiting() || op.flags.intersects(HELD) && self.holds(op.what, op.flags)
    }

    /// Chooses how a frame is sent. Returns FI_EAGAIN if the maximum of announced messages or outstanding requests is
    /// reached.
    pub fn way<A: Address>(
        &self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        iov: Option<&IoVec>,
        op: &TxOp,
        agreed: Agreed,
    ) -> Result<Way> {
        let stays = is_held(cx, op);
        if matches!(frame, Frame::Message(message) if message.context != 0) && !agreed.extended {
            return Err(Error::OPNOTSUPP);
        }
        let matched = op.flags.contains(OpFlags::MATCH_COMPLETE);
        let announced = |way| match self.announced.room() {
            0 => None,
            _ => Some(way),
        };
        if may_offer(cx, frame, op, stays) {
            return announced(Way::Offer).ok_or_else(|| cx.again(op));
        }
        if op.flags.contains(OpFlags::DEVICE) && may_export(cx, frame, iov, op) {
            return announced(Way::Export).ok_or_else(|| cx.again(op));
        }
        match frame {
            _ if frame.asks() && self.reads.is_full() => Err(cx.again(op)),
            Frame::ReadRequest(_) => Ok(Way::Read),
            Frame::Message(message)
                if message.tagged && agreed.rendezvous && (matched || stays) =>
            {
                announced(Way::Rendezvous).ok_or_else(|| cx.again(op))
            }
            // The values have one byte order, and peers without the extensions do not implement atomic operations.
            Frame::Atomic(_) if !agreed.extended || self.out.swaps() => Err(Error::OPNOTSUPP),
            Frame::Atomic(atomic) if atomic.asks() => Ok(Way::Exchange),
            // Only the answer to a rendezvous shows that a receive has matched.
            _ if matched => Err(Error::OPNOTSUPP),
            _ => Ok(Way::Frame),
        }
    }

    /// Sends the first frame of an exchange.
    pub fn ask<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        way: Way,
        frame: Frame,
        payload: Payload,
        op: TxOp,
    ) {
        match (way, &frame, payload) {
            (Way::Rendezvous, Frame::Message(message), payload) => {
                self.announce(cx, message, payload, op);
            }
            (Way::Offer, Frame::Message(message), Payload::Buffers(iov)) => {
                self.offer(cx, message, iov, op, None);
            }
            (Way::Export, Frame::Message(message), Payload::Buffers(iov)) => {
                let export = export_of(cx, Some(&iov));
                self.offer(cx, message, iov, op, export);
            }
            (Way::Read, _, Payload::Buffers(iov)) => self.request_read(cx, &frame, iov, op),
            (_, _, payload) => self.send_payload(cx, &frame, payload, op),
        }
    }

    /// Keeps an operation until the connection is up, or until the earlier operations are out of the way.
    #[cold]
    pub fn wait<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: Frame,
        payload: Payload,
        mut op: TxOp,
        state: State,
    ) {
        cx.begin_waiting(&mut op);
        self.waiting.push_back(Waiting {
            frame,
            payload,
            op,
            is_early: false,
        });
        match state {
            State::Up => cx.hold_back(),
            State::Requested => self.send_early(cx),
            _ => {}
        }
    }

    /// Writes the messages that wait for the connection into memory that the peer has not accepted yet, as far as they
    /// fit. The peer finds them when it accepts. The operations wait on: if the peer refuses the memory, or ends
    /// without an answer, it has taken none of them, and the next attempt sends them again.
    pub fn send_early<A: Address>(&mut self, cx: &mut Cx<'_, A>) {
        let first = self.early();
        for waiting in self.waiting.range_mut(first..) {
            let (frame, op) = (&waiting.frame, &waiting.op);
            let is_plain = matches!(frame, Frame::Message(message) if message.context == 0);
            if !is_plain || !may_be_early(cx, op) {
                return;
            }
            let mut header = [0; MAX_HEADER];
            let len = frame.encode(self.out.counter(), false, &mut header);
            let header = &header[..len];
            let sent = match &waiting.payload {
                Payload::Buffers(iov) => cx.link.send_early(header, iov),
                Payload::Copy(copy) => cx
                    .link
                    .send_early(&[header, copy].concat(), &IoVec::empty()),
                Payload::Exchange(_) => false,
            };
            if !sent {
                return;
            }
            self.out.next_counter();
            waiting.is_early = true;
        }
    }

    /// Whether a message that is posted now leaves before the connection is up: `send_early`.
    pub fn leaves_early<A: Address>(&self, cx: &mut Cx<'_, A>, op: &TxOp) -> bool {
        let is_message = matches!(op.what, What::Msg | What::Tagged);
        is_message
            && self.early() == self.waiting.len()
            && may_be_early(cx, op)
            && cx.link.takes_early(MAX_HEADER + op.len)
    }

    /// Returns the number of operations whose frames were written before the connection was up.
    pub fn early(&self) -> usize {
        self.waiting.partition_point(|waiting| waiting.is_early)
    }

    /// Handles the end of memory that the peer has not accepted.
    pub fn forget_early(&mut self) {
        for waiting in self
            .waiting
            .iter_mut()
            .take_while(|waiting| waiting.is_early)
        {
            waiting.is_early = false;
            self.out.set_counter(0);
        }
    }

    /// Hands the operations over whose frames were written before the connection was up.
    fn early_are_sent<A: Address>(&mut self, cx: &mut Cx<'_, A>) {
        let early = self.early();
        for waiting in self.waiting.drain(..early) {
            cx.domain.eps[waiting.op.ep()].tx_pending -= 1;
            self.out.handed_over(cx, &waiting.frame, waiting.op);
        }
    }

    /// Sends the waiting operations in order, as far as possible. Called when the connection is up or an operation has
    /// completed.
    pub fn send_waiting<A: Address>(&mut self, cx: &mut Cx<'_, A>, agreed: Agreed) {
        self.early_are_sent(cx);
        while let Some(waiting) = self.waiting.front() {
            if waiting.op.flags.intersects(HELD) && self.holds(waiting.op.what, waiting.op.flags) {
                break;
            }
            let (frame, op) = (waiting.frame, waiting.op);
            let iov = match &waiting.payload {
                Payload::Buffers(iov) => Some(iov),
                _ => None,
            };
            let way = match self.way(cx, &frame, iov, &op, agreed) {
                Err(Error::AGAIN) => break,
                way => way,
            };
            let Some(waiting) = self.waiting.pop_front() else {
                break;
            };
            let ep = waiting.op.ep();
            cx.domain.eps[ep].tx_pending -= 1;
            match way {
                Ok(way) => self.ask(cx, way, waiting.frame, waiting.payload, waiting.op),
                Err(error) => cx.domain.send_failed(ep, &waiting.op, error),
            }
        }
        self.out.flush(cx);
        if self.has_waiting() {
            cx.hold_back();
        }
    }

    /// Stages or queues a frame of an operation that had to wait.
    fn send_payload<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        payload: Payload,
        op: TxOp,
    ) {
        match payload {
            Payload::Buffers(iov) => self.out.send(cx, frame, iov, Some(op)),
            Payload::Copy(copy) => self.out.send_kept(cx, frame, &copy, op),
            Payload::Exchange(both) => {
                self.exchange(cx, frame, &both.0, both.1, op);
            }
        }
    }

    /// Requests the bytes of a read.
    pub fn request_read<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        iov: IoVec,
        mut op: TxOp,
    ) {
        cx.begin_waiting(&mut op);
        self.reads.ask(ReadOp { op, iov });
        self.out.send_bare(cx, frame);
    }

    /// Sends an operation that has a result. Its payload is small and is copied.
    pub fn exchange<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        payload: &[u8],
        result: IoVec,
        mut op: TxOp,
    ) {
        cx.begin_waiting(&mut op);
        self.reads.ask(ReadOp { op, iov: result });
        let alone = self.out.writes_now(cx);
        self.out.send_copied(cx, frame, payload, alone, false);
    }

    /// Returns the request whose answer arrives from now on.
    pub fn begin_answer(&mut self, response: &ReadResponse) -> core::result::Result<ReadOp, Fault> {
        let waiting = self.reads.first();
        if waiting.is_some_and(|read| read.op.len as u64 != response.payload) {
            return Err(Fault::Rule("a read response of another length"));
        }
        let read = self.reads.begin();
        read.ok_or(Fault::Rule("a read response that nobody waits for"))
    }

    /// Fails the oldest access that waits for an answer of this kind, because the peer refused it. `extended`: the peer
    /// may refuse accesses.
    #[cold]
    pub fn refused<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        answer: Refused,
        extended: bool,
    ) -> core::result::Result<(), Fault> {
        let op = match answer {
            _ if !extended => None,
            Refused::Ack => self.out.take_acknowledged(),
            Refused::Response => self.reads.take().map(|read| read.op),
        };
        let op = op.ok_or(Fault::Rule("a refusal that nothing waits for"))?;
        cx.domain.fail_tx(&op, Error::ACCES);
        Ok(())
    }

    /// Handles the answer to the oldest operation that waits for one, if it has arrived as a whole and fits.
    #[inline]
    pub fn take_answer<A: Address>(&mut self, cx: &mut Cx<'_, A>, payload: &[u8]) -> bool {
        let its = |read: &ReadOp| read.op.len == payload.len();
        if !self.reads.first().is_some_and(its) {
            return false;
        }
        let Some(ReadOp { op, iov }) = self.reads.take() else {
            return false;
        };
        iov.fill(payload);
        cx.domain.complete_into(&op, &iov);
        true
    }
}

/// Messages that stay here until the peer has a place for them.
impl SendState {
    /// Announces a message to the peer and keeps it until the peer requests it.
    fn announce<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        message: &Message,
        payload: Payload,
        mut op: TxOp,
    ) {
        cx.begin_waiting(&mut op);
        cx.domain.eps[op.ep()].stats.count(Count::Rendezvous);
        // There is a free index: `way` has checked it.
        let Some(index) = self.announced.free_index() else {
            return;
        };
        let ready = ReadyToSend {
            index,
            tag: message.tag,
            size: op.len as u64,
            data: message.data,
            ack: message.ack,
            context: message.context,
        };
        self.announced.insert(index, message, payload, op, None);
        self.out.send_bare(cx, &Frame::ReadyToSend(ready));
    }

    /// Sends an announced message for which the peer has a place now.
    pub fn cleared<A: Address>(&mut self, cx: &mut Cx<'_, A>, index: u8) -> Result {
        let waiting = self.announced.remove(index).ok_or(Error::IO)?;
        cx.domain.eps[waiting.op.ep()].tx_pending -= 1;
        if let (Some(kind), Some(shm)) = (waiting.exported, cx.link.memory_mut()) {
            shm.process_mut().does_not_map(kind);
        }
        let frame = Frame::RendezvousData(waiting.data);
        self.send_payload(cx, &frame, waiting.payload, waiting.op);
        Ok(())
    }

    /// Sends the address of a message to the peer, and leaves the message there until the peer has fetched it.
    /// `export`: it is in device memory.
    fn offer<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        message: &Message,
        iov: IoVec,
        mut op: TxOp,
        export: Option<Export>,
    ) {
        cx.begin_waiting(&mut op);
        cx.domain.eps[op.ep()].stats.count(Count::Offered);
        // There is a free index: `way` has checked it.
        let (Some(index), Some(shm)) = (self.announced.free_index(), cx.link.memory()) else {
            return;
        };
        let offer = Offer {
            index,
            tagged: message.tagged,
            tag: message.tag,
            data: message.data,
            places: places_of(&iov, usize::MAX),
            epoch: shm.epoch(),
            context: message.context,
        };
        let kind = export.map(|export| export.kind);
        self.announced
            .insert(index, message, Payload::Buffers(iov), op, kind);
        if let Some(export) = export {
            let exported = Exported { index, export };
            self.out.send_bare(cx, &Frame::Exported(exported));
        }
        self.out.send_bare(cx, &Frame::Offer(offer));
    }

    /// Completes a message that the peer has fetched.
    pub fn taken<A: Address>(&mut self, cx: &mut Cx<'_, A>, index: u8) -> Result {
        let done = self.announced.remove(index).ok_or(Error::IO)?;
        cx.domain.complete_tx(&done.op);
        Ok(())
    }

    /// Handles the peer's request to copy parts of a local message to the peer's buffer.
    pub fn asked_to_share<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        share: &Share,
    ) -> core::result::Result<(), Fault> {
        let offered = self.announced.get(share.index);
        let len = share.places.total();
        if offered.is_none_or(|out| len > out.op.len as u64) {
            return Err(Fault::Rule("it shares a message that it was not offered"));
        }
        let Some(job) = SplitCopy::new(share.job, len as usize) else {
            return Err(GARBAGE);
        };
        let (index, to) = (share.index, share.places.all());
        if cx.link.memory().is_some() {
            let helping = Box::new(Helping { index, job, to });
            self.announced.help(helping);
        }
        self.help(cx)
    }

    /// Copies a part of the message that the peer fetches, if there is one.
    pub fn help<A: Address>(&mut self, cx: &mut Cx<'_, A>) -> core::result::Result<(), Fault> {
        let Some(shm) = cx.link.memory() else {
            return Ok(());
        };
        let Some((from, mut helping)) = self.announced.end_help() else {
            return Ok(());
        };
        match shm.help(&mut helping.job, from, &helping.to) {
            Ok(Help::More) => {
                self.announced.help(helping);
                self.out.mark_dirty(cx);
            }
            Ok(Help::Last) => {
                let index = helping.index;
                self.out.answer(cx, &Frame::Done { index });
            }
            Ok(Help::Over) => {}
            Err(_) => return Err(GARBAGE),
        }
        Ok(())
    }
}

/// Whether the message exceeds what a peer keeps as an unexpected message. Injected messages are excluded, because this
/// side does not keep their copies for long either.
#[inline]
pub fn is_held<A>(cx: &Cx<'_, A>, op: &TxOp) -> bool {
    op.len > cx.common.limits.saved_size && !op.flags.contains(OpFlags::INJECT)
}

/// Whether the frame of an operation may be written before the connection is up, behind plain messages only.
fn may_be_early<A>(cx: &Cx<'_, A>, op: &TxOp) -> bool {
    let special = flags!(OpFlags: FENCE | MATCH_COMPLETE);
    !op.flags.intersects(special) && !is_held(cx, op)
}

/// Whether it is better that the peer fetches the message, and the peer probably can. The buffers of such a message
/// stay in use until its completion. A peer that may fetch a message before a receive has matched does not report the
/// match, so FI_MATCH_COMPLETE then needs a rendezvous. `stays`: the message has to wait at this side.
#[inline]
fn may_offer<A>(cx: &mut Cx<'_, A>, frame: &Frame, op: &TxOp, stays: bool) -> bool {
    let matched = op.flags.contains(OpFlags::MATCH_COMPLETE);
    let shm = cx
        .link
        .memory_mut()
        .filter(|shm| shm.process().fetches(op.len));
    matches!(frame, Frame::Message(_))
        && !op.flags.intersects(flags!(OpFlags: INJECT | DEVICE))
        && (cx.common.limits.keeps_offers || !matched)
        && shm.is_some_and(|shm| matched || stays || !shm.prefers_ring(op.len))
}

/// Whether the peer can probably map the device memory of the message and fetch it, which is better than to send it
/// through the ring.
#[cold]
fn may_export<A>(cx: &Cx<'_, A>, frame: &Frame, iov: Option<&IoVec>, op: &TxOp) -> bool {
    let matched = op.flags.contains(OpFlags::MATCH_COMPLETE);
    matches!(frame, Frame::Message(_))
        && op.len >= RECORD
        && !op.flags.contains(OpFlags::INJECT)
        && (cx.common.limits.keeps_offers || !matched)
        && export_of(cx, iov).is_some()
}

/// Returns the allocation of device memory that has the whole message, if the peer can probably map it.
fn export_of<A>(cx: &Cx<'_, A>, iov: Option<&IoVec>) -> Option<Export> {
    let shm = cx.link.memory()?;
    let mut spans = iov?.spans().filter(|span| span.len > 0);
    let (Some(only), None) = (spans.next(), spans.next()) else {
        return None;
    };
    export::of(only.start, only.len).filter(|export| shm.process().maps(export.kind))
}
