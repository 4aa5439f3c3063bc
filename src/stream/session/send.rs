// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Decides how an operation is sent: its frame is written at once, staged with other frames, or queued.
//!
//! The first few messages in a row are written with a system call each. If the application posts more before it polls
//! its queue, small frames gather in a staging buffer and leave together: at the next poll, when the buffer is full,
//! before a sleep, at close, or from `engine::flusher` if the application does none of these. `pace` decides which
//! frames gather.
//!
//! An operation without an answer is complete when its bytes are in the kernel or in the staging buffer. Payloads above
//! 16 KiB are never copied. Once 256 KiB are staged for a peer, only injected payloads are copied.

use crate::link::Link;
use crate::proto::{
    Frame, MAX_HEADER, MAX_MESSAGE_HEADER, MAX_ONE_WRITE, Message, Write, renumber,
};
use crate::session::State;
use crate::session::atomic::seg_of;
use crate::session::queue::{Out, Payload, RENDEZVOUS_LIMIT, Waiting};
use crate::session::rma::ASKED;
use crate::session::{Cx, Session};
use crate::shm_channel::RECORD;
use base::flags::flags;
use base::{Error, IoVec, OpFlags, Result, Source};
use engine::domain_state::TxOp;
use engine::transport::Address;
use object::ops::transfer::{OneTx, OneWrite, Tx, What};
use sys::socket::Moved;

/// Frames up to this size are staged when they cannot be written at once.
pub const STAGE_LIMIT: usize = 16 * 1024;
/// A staging buffer that holds this many bytes is written.
pub const STAGE_FULL: usize = 64 * 1024;
/// If this many bytes are staged for one connection, payloads that can be sent from their own buffers are not copied.
pub const STAGE_HIGH_WATER: usize = 256 * 1024;
/// Frames up to this size are copied into one buffer before they are written, which is faster than two pieces.
pub const TOGETHER: usize = 512;
/// Maximum of empty staging buffers that are kept for reuse.
pub const SPARE_BUFFERS: usize = 16;

/// Flags that require an answer from the peer.
pub const WANTS_ACK: OpFlags = flags!(OpFlags: TRANSMIT_COMPLETE | DELIVERY_COMPLETE);

/// Flags of operations that the fast path for small operations cannot handle.
pub const SPECIAL: OpFlags =
    WANTS_ACK.union(flags!(OpFlags: FENCE | COMMIT_COMPLETE | MATCH_COMPLETE));

/// Flags of operations that may have to wait for earlier operations.
const HELD: OpFlags = flags!(OpFlags: FENCE | AFTER_READS);

/// Flags that the shortest path can handle. It is taken only while no read is outstanding.
pub const PLAIN: OpFlags = flags!(OpFlags:
    COMPLETION | INJECT | INJECT_COMPLETE | REMOTE_CQ_DATA | MORE | TRANSMIT | AFTER_READS
);

/// How an operation is sent.
#[derive(Clone, Copy)]
enum Way {
    /// One frame with header and payload.
    Frame,
    /// A request; the payload comes back.
    Read,
    /// An announcement of the message; the peer requests the payload when a receive has matched.
    Rendezvous,
    /// An announcement of the message and its address; the peer fetches the payload itself when a receive has matched.
    Offer,
    /// A request with payload; another payload comes back.
    Exchange,
}

impl<A: Address> Session<A> {
    /// Tries to write a message of one buffer into the shared memory ring. Works only if no earlier operation is
    /// waiting and no read is outstanding that the message would have to stay behind. Returns false if nothing was
    /// sent.
    #[inline(always)]
    pub fn post_one(&mut self, link: &mut Link, tx: &OneTx) -> bool {
        if link.gathers() || !self.is_free() {
            return false;
        }
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
        if !link.send_one(&header, header_len, &tx.piece) {
            return false;
        }
        self.tx.counter = counter.wrapping_add(1);
        true
    }

    /// Does the same for a message whose header is already encoded.
    #[inline(always)]
    pub fn post_encoded(
        &mut self,
        link: &mut Link,
        header: &mut [u8; MAX_MESSAGE_HEADER],
        header_len: usize,
        payload: &Source,
    ) -> bool {
        if link.gathers() || !self.is_free() {
            return false;
        }
        let counter = self.tx.counter;
        renumber(header, counter);
        if !link.send_one(header, header_len, payload) {
            return false;
        }
        self.tx.counter = counter.wrapping_add(1);
        true
    }

    /// Does the same for a write of one buffer to one remote segment.
    #[inline(always)]
    pub fn write_one(&mut self, link: &mut Link, one: &OneWrite) -> bool {
        if link.gathers() || !self.is_free() {
            return false;
        }
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
        if !link.send_one(&header, header_len, &one.piece) {
            return false;
        }
        self.writes_by_ring = true;
        self.tx.counter = counter.wrapping_add(1);
        true
    }

    /// Whether a new operation can be sent at once: no operation is queued or waiting, and no read is outstanding.
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
        let most = match cx.link.gathers() {
            true => TOGETHER,
            false => RECORD - MAX_MESSAGE_HEADER,
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

    /// Handles the usual case of a small frame: the connection is up, both hosts have the same byte order, and the
    /// frame is written at once or staged. `acked`: the frame requests an acknowledgement. Returns false if the general
    /// path must send the frame.
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
        // One test covers operations that have none of these flags.
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
        if !cx.link.gathers() {
            let (link, len) = (&mut *cx.link, op.len);
            let is_next = self.tx.queue.is_empty();
            if !(is_next && link.send_small(&header, header_len, payload, len)) {
                return false;
            }
            self.tx.counter = counter.wrapping_add(1);
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
                    // The kernel took nothing, so the general path starts over.
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

    /// Completes an operation whose small frame was written or staged, or lets it wait for the acknowledgement.
    #[inline(always)]
    fn small_sent(&mut self, cx: &mut Cx<'_, A>, mut op: TxOp, acked: bool) {
        if acked {
            self.begin_waiting(cx, &mut op);
            self.tx.await_ack.push_back(op);
        } else {
            cx.domain.sent(op.ep(), &op);
        }
    }

    /// Posts a message for a receive context of the peer's endpoint.
    pub fn post_message_to(
        &mut self,
        cx: &mut Cx<'_, A>,
        tx: &mut Tx<'_>,
        op: TxOp,
        context: u8,
    ) -> Result {
        let message = Message {
            tagged: tx.what == What::Tagged,
            // FI_COMMIT_COMPLETE is a default that is meant for other operations. The highest level of a message is
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

    /// Sends an operation, or queues it behind earlier ones, because frames to one peer leave in the order of the
    /// calls.
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

    /// Whether an operation has to wait for the connection, or for earlier operations.
    #[inline(always)]
    pub fn must_wait(&self, op: &TxOp) -> bool {
        let held = op.flags.intersects(HELD) && self.holds(op.what, op.flags);
        self.state != State::Up || !self.tx.waiting.is_empty() || held
    }

    /// Does the same as `submit` for a request with a payload that is answered with another payload.
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
        // The payload has to be copied, so it needs room in the staging buffer.
        if self.tx.staged > STAGE_HIGH_WATER {
            return Err(again(cx, &op));
        }
        self.exchange(cx, &frame, bytes, answer, op);
        Ok(())
    }

    /// Chooses how a frame is sent. Returns FI_EAGAIN if the maximum of announced messages or outstanding requests is
    /// reached.
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
            // The values have one byte order, and peers without the extensions do not implement atomic operations.
            Frame::Atomic(_) if !self.extended || self.swap => Err(Error::OPNOTSUPP),
            Frame::Atomic(atomic) if atomic.asks() => Ok(Way::Exchange),
            // Only the answer to a rendezvous shows that a receive has matched.
            _ if matched => Err(Error::OPNOTSUPP),
            _ => Ok(Way::Frame),
        }
    }

    /// Sends the first frame of an exchange.
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

    /// Sends a frame of an application's operation, or returns FI_EAGAIN.
    #[inline]
    fn send(&mut self, cx: &mut Cx<'_, A>, frame: &Frame, payload: IoVec, op: TxOp) -> Result {
        // A ring has little room. An injected operation, which is reported as sent at once, must be in the ring: the
        // application may never call the library again to move queued frames there, and the peer would wait for them.
        if !cx.link.gathers() {
            let most = MAX_HEADER + payload.remaining();
            if op.flags.contains(OpFlags::INJECT)
                && !(self.tx.queue.is_empty() && cx.link.has_room(most))
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
        // An injected payload has to be copied, so it waits for room. Other operations are queued, up to the size of
        // the transmit queue.
        if self.tx.staged > STAGE_HIGH_WATER && op.flags.contains(OpFlags::INJECT) {
            return Err(again(cx, &op));
        }
        self.send_always(cx, frame, payload, Some(op));
        Ok(())
    }

    /// Keeps an operation until the connection is up, or until the earlier operations are out of the way.
    #[cold]
    fn wait(&mut self, cx: &mut Cx<'_, A>, frame: Frame, payload: Payload, mut op: TxOp) {
        self.begin_waiting(cx, &mut op);
        self.tx.waiting.push_back(Waiting { frame, payload, op });
        if self.state == State::Up && !cx.common.held.contains(&cx.id) {
            cx.common.held.push(cx.id);
        }
    }

    /// Sends the waiting operations in order, as far as possible. Called when the connection is up or an operation has
    /// completed.
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

/// Returns FI_EAGAIN, so that the application posts the operation again later.
#[cold]
fn again<A: Address>(cx: &Cx<'_, A>, op: &TxOp) -> Error {
    cx.domain.ep(op.ep()).again()
}

/// Whether the message exceeds what a peer keeps as an unexpected message. Injected messages are excluded, because this
/// side does not keep their copies for long either.
#[inline]
fn is_held<A>(cx: &Cx<'_, A>, op: &TxOp) -> bool {
    op.len > cx.common.limits.saved_size && !op.flags.contains(OpFlags::INJECT)
}

/// The remote CQ data of an operation, if it has some.
pub fn remote_data(tx: &Tx<'_>) -> Option<u64> {
    tx.flags
        .contains(OpFlags::REMOTE_CQ_DATA)
        .then_some(tx.data)
}

/// Whether it is better that the peer fetches the message, and the peer probably can. The buffers of such a message
/// stay in use until its completion. A peer that may fetch a message before a receive has matched does not report the
/// match, so FI_MATCH_COMPLETE then needs a rendezvous. `stays`: the message has to wait at this side.
#[inline]
fn may_offer<A>(cx: &mut Cx<'_, A>, frame: &Frame, op: &TxOp, stays: bool) -> bool {
    let matched = op.flags.contains(OpFlags::MATCH_COMPLETE);
    let shm = cx.link.memory_mut().filter(|shm| shm.fetches(op.len));
    matches!(frame, Frame::Message(_))
        && !op.flags.contains(OpFlags::INJECT)
        && (cx.common.limits.keeps_offers || !matched)
        && shm.is_some_and(|shm| matched || stays || !shm.prefers_ring(op.len))
}
