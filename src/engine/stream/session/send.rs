// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What an operation becomes: a frame written at once, a frame staged with others, a frame that waits.
//!
//! A few messages in a row are a system call each. When the application posts more before it looks at its queue, small frames
//! gather in a staging buffer and leave together: at the next look, when the buffer is full, before a sleep, at close, and by
//! `engine::flusher` where the application does nothing of that. `pace` says which frames gather.
//!
//! An operation without an answer is complete when its bytes are in the kernel or in the staging buffer. Payloads
//! above 16 KiB are never copied, and neither is any but an injected one once 256 KiB are staged for a peer.
#![forbid(unsafe_code)]

use crate::abi::*;
use crate::base::flags::flags;
use crate::base::{Caps, Error, IoVec, OpFlags, Piece, Result};
use crate::engine::domain_state::TxOp;
use crate::engine::ep_state::EpState;
use crate::engine::stream::link::Link;
use crate::engine::stream::proto::{
    Frame, MAX_HEADER, MAX_MESSAGE_HEADER, MAX_ONE_WRITE, Message, Write, renumber,
};
use crate::engine::stream::session::State;
use crate::engine::stream::session::atomic::seg_of;
use crate::engine::stream::session::queue::{Out, Payload, RENDEZVOUS_LIMIT, Waiting};
use crate::engine::stream::session::rma::ASKED;
use crate::engine::stream::session::{Cx, Session};
use crate::engine::stream::shm_channel::RECORD;
use crate::engine::transport::Address;
use crate::ffi::ops::transfer::{OneTx, OneWrite, Tx, What};
use crate::sys::socket::Moved;

/// Frames up to this size are staged when they cannot be written at once.
pub const STAGE_LIMIT: usize = 16 * 1024;
/// A staging buffer that holds this much is written.
pub const STAGE_FULL: usize = 64 * 1024;
/// Staged bytes of one connection from which on nothing is copied to them that can be sent from where it is.
pub const STAGE_HIGH_WATER: usize = 256 * 1024;
/// Frames up to this size are copied together before they are written, which is cheaper than two pieces.
pub const TOGETHER: usize = 512;
/// Staging buffers kept for the next use.
pub const SPARE_BUFFERS: usize = 16;

/// Flags that ask for an answer of the peer.
pub const WANTS_ACK: OpFlags = flags!(OpFlags: TRANSMIT_COMPLETE | DELIVERY_COMPLETE);

/// Flags of operations that do not go the usual way of small ones.
pub const SPECIAL: OpFlags =
    WANTS_ACK.union(flags!(OpFlags: FENCE | COMMIT_COMPLETE | MATCH_COMPLETE));

/// Flags of operations that may have to wait for those before them.
const HELD: OpFlags = flags!(OpFlags: FENCE | AFTER_READS);

/// Flags of operations that go the shortest way, which is behind no read.
pub const PLAIN: OpFlags = flags!(OpFlags:
    COMPLETION | INJECT | INJECT_COMPLETE | REMOTE_CQ_DATA | MORE | TRANSMIT | AFTER_READS
);

/// How an operation goes out.
#[derive(Clone, Copy)]
enum Way {
    /// One frame with header and payload.
    Frame,
    /// A request; the payload comes back.
    Read,
    /// The peer is told of the message, and asks for it when a receive has matched.
    Rendezvous,
    /// The peer is told where the message is, and fetches it when a receive has matched.
    Offer,
    /// A request with payload; another payload comes back.
    Exchange,
}

impl<A: Address> Session<A> {
    /// A message of one buffer over shared memory: nothing stands in its way, and no read is under way that it would
    /// have to stay behind. False: nothing has happened.
    #[inline(always)]
    pub fn post_one(&mut self, link: &mut Link, tx: &OneTx) -> bool {
        let Some(shm) = link.shm_mut().filter(|_| self.is_free()) else {
            return false;
        };
        let message = Message {
            tagged: tx.what == What::Tagged,
            ack: false,
            data: tx
                .flags
                .contains(OpFlags::REMOTE_CQ_DATA)
                .then_some(tx.data),
            tag: tx.tag,
            context: 0,
            payload: tx.piece.len() as u64,
        };
        let counter = self.tx.counter;
        let mut header = [0; MAX_MESSAGE_HEADER];
        let header_len = message.encode(counter, false, &mut header);
        if !matches!(shm.send_one(&header, header_len, &tx.piece), Ok(true)) {
            return false;
        }
        self.tx.counter = counter.wrapping_add(1);
        link.ring_if_parked();
        true
    }

    /// The same for a message whose header was encoded before.
    #[inline(always)]
    pub fn post_encoded(
        &mut self,
        link: &mut Link,
        header: &mut [u8; MAX_MESSAGE_HEADER],
        header_len: usize,
        payload: &Piece,
    ) -> bool {
        if !self.is_free() {
            return false;
        }
        let Some(shm) = link.shm_mut() else {
            return false;
        };
        let counter = self.tx.counter;
        renumber(header, counter);
        if !matches!(shm.send_one(header, header_len, payload), Ok(true)) {
            return false;
        }
        self.tx.counter = counter.wrapping_add(1);
        link.ring_if_parked();
        true
    }

    /// The same for a write of one buffer to one place.
    #[inline(always)]
    pub fn write_one(&mut self, link: &mut Link, one: &OneWrite) -> bool {
        let Some(shm) = link.shm_mut().filter(|_| self.is_free()) else {
            return false;
        };
        let has_data = one.flags.contains(OpFlags::REMOTE_CQ_DATA);
        let write = Write {
            segs: [seg_of(&one.target)].into_iter(),
            data: has_data.then_some(one.data),
            ack: false,
            commit: false,
            payload: one.piece.len() as u64,
        };
        let counter = self.tx.counter;
        let mut header = [0; MAX_ONE_WRITE];
        let header_len = write.encode_iter(counter, false, &mut header);
        if !matches!(shm.send_one(&header, header_len, &one.piece), Ok(true)) {
            return false;
        }
        self.writes_by_ring = true;
        self.tx.counter = counter.wrapping_add(1);
        link.ring_if_parked();
        true
    }

    /// What is posted goes out at once, behind nothing that waits and no read.
    #[inline(always)]
    fn is_free(&self) -> bool {
        self.state == State::Up
            && self.tx.queue.is_empty()
            && self.tx.waiting.is_empty()
            && !self.is_reading()
            && !self.swap
    }

    /// Posts a message.
    #[inline]
    pub fn post_message(&mut self, cx: &mut Cx<'_, A>, tx: &mut Tx<'_>, op: TxOp) -> Result {
        let rendezvous = is_held(cx, &op) && self.rendezvous;
        let most = match cx.link.shm() {
            None => TOGETHER,
            Some(_) => RECORD - MAX_MESSAGE_HEADER,
        };
        if op.len <= most && !rendezvous {
            let message = Message {
                tagged: tx.what == What::Tagged,
                ack: false,
                data: remote_data(tx),
                tag: tx.tag,
                context: 0,
                payload: op.len as u64,
            };
            let encode = |counter, header: &mut [u8; MAX_MESSAGE_HEADER]| {
                message.encode(counter, false, header)
            };
            if self.post_small(cx, &tx.iov, op, false, encode) {
                return Ok(());
            }
        }
        self.post_message_to(cx, tx, op, 0)
    }

    /// The usual case of a small frame: the connection is up and between hosts of one byte order, and the frame is
    /// written at once or staged. `acked`: the peer is asked for an acknowledgement. Returns false if the general
    /// path must send it.
    #[inline]
    pub fn post_small<const LEN: usize>(
        &mut self,
        cx: &mut Cx<'_, A>,
        payload: &IoVec,
        op: TxOp,
        acked: bool,
        encode: impl FnOnce(u8, &mut [u8; LEN]) -> usize,
    ) -> bool {
        cx.watch();
        let waits = self.state != State::Up || !self.tx.waiting.is_empty();
        // One test of the flags for operations that ask for nothing of all that.
        let asked = match acked {
            true => op.flags.difference(WANTS_ACK),
            false => op.flags,
        };
        let special = asked.intersects(SPECIAL.union(OpFlags::AFTER_READS))
            && (asked.intersects(SPECIAL) || self.is_reading());
        if waits || self.swap || special {
            return false;
        }
        let mut header = [0; LEN];
        let counter = self.tx.counter;
        let header_len = encode(counter, &mut header);
        if let Some(shm) = cx.link.shm_mut() {
            let sent = self.tx.queue.is_empty()
                && matches!(
                    shm.send_small(&header, header_len, payload, op.len),
                    Ok(true)
                );
            if !sent {
                return false;
            }
            self.tx.counter = counter.wrapping_add(1);
            cx.link.ring_if_parked();
            self.small_sent(cx, op, acked);
            return true;
        }
        let total = header_len + op.len;
        let more = op.flags.contains(OpFlags::MORE);
        match self.tx.queue.back_mut() {
            None if !more && self.tx.pace.writes(cx.common.polls) => {
                let frame = &mut cx.common.scratch[..total];
                frame[..header_len].copy_from_slice(&header[..header_len]);
                payload.copy_to(&mut frame[header_len..]);
                let moved = cx.link.write(frame);
                self.tx.pace.wrote();
                match moved {
                    Ok(Moved::Bytes(n)) if n == total => {}
                    // Nothing was taken: as if it had not been tried.
                    Ok(Moved::Later) => return false,
                    moved => {
                        let n = match moved {
                            Ok(Moved::Bytes(n)) => n,
                            _ => 0,
                        };
                        let rest = frame[n..].to_vec();
                        if let Err(error) = moved {
                            self.write_failed(cx, &error);
                        }
                        self.tx.counter = counter.wrapping_add(1);
                        self.stage_with(cx, &[], rest.len(), |out| out.extend_from_slice(&rest));
                        self.blocked(cx);
                        self.small_sent(cx, op, acked);
                        return true;
                    }
                }
                self.tx.counter = counter.wrapping_add(1);
                self.small_sent(cx, op, acked);
            }
            Some(Out::Staged { bytes, .. })
                if bytes.len() + total <= STAGE_FULL && self.tx.staged < STAGE_FULL =>
            {
                bytes.extend_from_slice(&header[..header_len]);
                payload.copy_out(bytes);
                self.tx.staged += total;
                self.tx.counter = counter.wrapping_add(1);
                self.tx.pace.gather();
                let is_full = self.tx.pace.is_full() && !self.tx.blocked;
                self.small_sent(cx, op, acked);
                self.mark_dirty(cx);
                if is_full {
                    self.flush_conn(cx);
                }
            }
            None => {
                self.tx.counter = counter.wrapping_add(1);
                self.stage(cx, &header[..header_len], payload);
                self.small_sent(cx, op, acked);
            }
            _ => return false,
        }
        true
    }

    /// A small frame is written or staged: its operation is complete, or waits for the acknowledgement.
    #[inline(always)]
    fn small_sent(&mut self, cx: &mut Cx<'_, A>, mut op: TxOp, acked: bool) {
        if acked {
            self.begin_waiting(cx, &mut op);
            self.tx.await_ack.push_back(op);
        } else {
            cx.domain.sent(op.ep(), &op);
        }
    }

    /// A message for a receive context of the peer's endpoint.
    pub fn post_message_to(
        &mut self,
        cx: &mut Cx<'_, A>,
        tx: &mut Tx<'_>,
        op: TxOp,
        context: u8,
    ) -> Result {
        let message = Message {
            tagged: tx.what == What::Tagged,
            // FI_COMMIT_COMPLETE is a default that is meant for other operations; a message has no higher level than
            // delivery.
            ack: tx
                .flags
                .intersects(WANTS_ACK | OpFlags::COMMIT_COMPLETE | OpFlags::MATCH_COMPLETE),
            data: remote_data(tx),
            tag: tx.tag,
            context,
            payload: op.len as u64,
        };
        self.submit(cx, Frame::Message(message), tx.iov.take(), op)
    }

    /// Sends an operation, or keeps it until its turn comes: frames of one peer leave in the order of the calls.
    #[inline]
    pub fn submit(&mut self, cx: &mut Cx<'_, A>, frame: Frame, iov: IoVec, op: TxOp) -> Result {
        if self.must_wait(&op) {
            self.wait(cx, frame, Payload::of(&op, iov), op);
            return Ok(());
        }
        match self.way(cx, &frame, &op)? {
            Way::Frame => self.send(cx, &frame, iov, op),
            way => {
                let payload = Payload::of(&op, iov);
                self.ask(cx, way, frame, payload, op);
                Ok(())
            }
        }
    }

    /// Whether an operation has to wait for the connection, or for those before it.
    #[inline(always)]
    pub fn must_wait(&self, op: &TxOp) -> bool {
        let held = op.flags.intersects(HELD) && self.holds(op.what, op.flags);
        self.state != State::Up || !self.tx.waiting.is_empty() || held
    }

    /// As `submit`, for a request with a payload of ours to which another payload answers.
    pub fn submit_exchange(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: Frame,
        bytes: &[u8],
        answer: IoVec,
        op: TxOp,
    ) -> Result {
        if self.must_wait(&op) {
            let payload = Payload::Exchange(Box::new((bytes.to_vec(), answer)));
            self.wait(cx, frame, payload, op);
            return Ok(());
        }
        self.way(cx, &frame, &op)?;
        // It has to be copied.
        if self.tx.staged > STAGE_HIGH_WATER {
            return Err(again(cx, &op));
        }
        self.exchange(cx, &frame, bytes, answer, op);
        Ok(())
    }

    /// FI_EAGAIN while the peer cannot be told of another message.
    fn way(&mut self, cx: &mut Cx<'_, A>, frame: &Frame, op: &TxOp) -> Result<Way> {
        let stays = is_held(cx, op);
        if matches!(frame, Frame::Message(message) if message.context != 0) && !self.extended {
            return Err(Error::OPNOTSUPP);
        }
        let matched = op.flags.contains(OpFlags::MATCH_COMPLETE);
        if may_offer(cx, frame, op, stays) {
            return match self.tx.rendezvous.len() < RENDEZVOUS_LIMIT {
                true => Ok(Way::Offer),
                false => Err(again(cx, op)),
            };
        }
        match frame {
            _ if frame.asks() && self.tx.asked > ASKED => Err(again(cx, op)),
            Frame::ReadRequest(_) => Ok(Way::Read),
            Frame::Message(message) if message.tagged && self.rendezvous && (matched || stays) => {
                match self.tx.rendezvous.len() < RENDEZVOUS_LIMIT {
                    true => Ok(Way::Rendezvous),
                    false => Err(again(cx, op)),
                }
            }
            // Values are of one byte order; peers that do not know the operation get none.
            Frame::Atomic(_) if !self.extended || self.swap => Err(Error::OPNOTSUPP),
            Frame::Atomic(atomic) if atomic.asks() => Ok(Way::Exchange),
            // Only a rendezvous tells that a receive has matched.
            _ if matched => Err(Error::OPNOTSUPP),
            _ => Ok(Way::Frame),
        }
    }

    /// Sends the frame that begins an exchange.
    fn ask(&mut self, cx: &mut Cx<'_, A>, way: Way, frame: Frame, payload: Payload, op: TxOp) {
        match (way, &frame, payload) {
            (Way::Rendezvous, Frame::Message(message), payload) => {
                self.announce(cx, message, payload, op);
            }
            (Way::Offer, Frame::Message(message), Payload::Buffers(iov)) => {
                self.offer(cx, message, iov, op);
            }
            (Way::Read, _, Payload::Buffers(iov)) => self.request_read(cx, &frame, iov, op),
            (_, _, Payload::Exchange(both)) => {
                self.exchange(cx, &frame, &both.0, both.1, op);
            }
            (_, _, payload) => self.send_payload(cx, &frame, payload, op),
        }
    }

    /// Sends a frame of the application's, or says that it has to wait.
    #[inline]
    fn send(&mut self, cx: &mut Cx<'_, A>, frame: &Frame, payload: IoVec, op: TxOp) -> Result {
        // A ring is small, and nobody but us fills it. What is reported as sent is in the ring, or the peer would wait
        // for an application that has no reason to come here again.
        if let Some(shm) = cx.link.shm_mut() {
            let most = MAX_HEADER + payload.remaining();
            if op.flags.contains(OpFlags::INJECT) && !(self.tx.queue.is_empty() && shm.takes(most))
            {
                cx.link.ring_if_parked();
                return Err(again(cx, &op));
            }
            self.send_always(cx, frame, payload, Some(op));
            return Ok(());
        }
        let more = op.flags.contains(OpFlags::MORE);
        if self.tx.queue.is_empty() && !more && self.tx.pace.writes(cx.common.polls) {
            self.write_now(cx, frame, payload, Some(op));
            return Ok(());
        }
        // What has to be copied waits for room; the rest is queued, as far as the transmit queue goes.
        if self.tx.staged > STAGE_HIGH_WATER && op.flags.contains(OpFlags::INJECT) {
            return Err(again(cx, &op));
        }
        self.send_always(cx, frame, payload, Some(op));
        Ok(())
    }

    /// Keeps an operation until the connection is up, or those before it are out of the way.
    #[cold]
    fn wait(&mut self, cx: &mut Cx<'_, A>, frame: Frame, payload: Payload, mut op: TxOp) {
        self.begin_waiting(cx, &mut op);
        self.tx.waiting.push_back(Waiting { frame, payload, op });
        if self.state == State::Up && !cx.common.held.contains(&cx.id) {
            cx.common.held.push(cx.id);
        }
    }

    /// The connection is up, or an operation has completed: what waited for it goes out, in order.
    pub fn send_waiting(&mut self, cx: &mut Cx<'_, A>) {
        while let Some(waiting) = self.tx.waiting.front() {
            if waiting.op.flags.intersects(HELD) && self.holds(waiting.op.what, waiting.op.flags) {
                break;
            }
            let (frame, op) = (waiting.frame, waiting.op);
            let way = match self.way(cx, &frame, &op) {
                Err(Error::AGAIN) => break,
                way => way,
            };
            let Some(waiting) = self.tx.waiting.pop_front() else {
                break;
            };
            let ep = waiting.op.ep();
            cx.domain.ep_mut(ep).tx_pending -= 1;
            match way {
                Ok(way) => self.ask(cx, way, waiting.frame, waiting.payload, waiting.op),
                Err(error) => cx.domain.send_failed(ep, &waiting.op, error),
            }
        }
        self.flush_conn(cx);
        if !self.tx.waiting.is_empty() && !cx.common.held.contains(&cx.id) {
            cx.common.held.push(cx.id);
        }
    }

    /// Stages or queues a frame of an operation that had to wait.
    pub fn send_payload(&mut self, cx: &mut Cx<'_, A>, frame: &Frame, payload: Payload, op: TxOp) {
        match payload {
            Payload::Buffers(iov) => self.send_always(cx, frame, iov, Some(op)),
            Payload::Copy(copy) => {
                let mut bytes = [0; MAX_HEADER];
                let counter = self.tx.next_counter();
                let len = frame.encode(counter, self.swap, &mut bytes);
                self.stage_with(cx, &bytes[..len], copy.len(), |out| out.extend(&copy));
                self.handed_over(cx, frame, op);
            }
            Payload::Exchange(both) => {
                self.exchange(cx, frame, &both.0, both.1, op);
            }
        }
    }
}

/// The operation is to be posted again later.
#[cold]
fn again<A: Address>(cx: &Cx<'_, A>, op: &TxOp) -> Error {
    cx.domain.ep(op.ep()).again()
}

/// Whether the message is too large for a peer to keep. What is injected is not held here for long either.
#[inline]
fn is_held<A>(cx: &Cx<'_, A>, op: &TxOp) -> bool {
    op.len > cx.common.limits.saved_size && !op.flags.contains(OpFlags::INJECT)
}

/// What the operation has for the target's queue.
pub fn remote_data(tx: &Tx<'_>) -> Option<u64> {
    tx.flags
        .contains(OpFlags::REMOTE_CQ_DATA)
        .then_some(tx.data)
}

/// What fences and FI_MATCH_COMPLETE demand of an operation.
pub fn check_flags(what: What, flags: OpFlags, ep: &EpState) -> Result {
    let has = |flag| flags.contains(flag);
    // What waits for a counter does not come here with its flag, unless the endpoint has not the capability.
    if has(OpFlags::TRIGGER) || has(OpFlags::FENCE) && !ep.caps.contains(Caps::FENCE) {
        return Err(Error::BADFLAGS);
    }
    // Whether messages that went before have matched is known only of those that asked for it.
    let knows_matches = what == What::Tagged && ep.ep_type != FI_EP_MSG.0 && !has(OpFlags::FENCE);
    match has(OpFlags::MATCH_COMPLETE) && !knows_matches {
        true => Err(Error::OPNOTSUPP),
        false => Ok(()),
    }
}

/// Whether the peer had better fetch the message, and is likely to be able to; its buffers are the application's until
/// the completion then. One that fetches before a receive has matched does not say when one has. Some messages are to
/// stay here.
#[inline]
fn may_offer<A>(cx: &mut Cx<'_, A>, frame: &Frame, op: &TxOp, stays: bool) -> bool {
    let matched = op.flags.contains(OpFlags::MATCH_COMPLETE);
    let shm = cx.link.shm_mut().filter(|shm| shm.fetches(op.len));
    matches!(frame, Frame::Message(_))
        && !op.flags.contains(OpFlags::INJECT)
        && (cx.common.limits.keeps_offers || !matched)
        && shm.is_some_and(|shm| matched || stays || !shm.prefers_ring(op.len))
}
