// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Sends frames: writes them at once, stages them with others, or queues them.

use super::queue::After;
use super::{Outbox, STAGE_FULL, STAGE_HIGH_WATER, STAGE_LIMIT, TOGETHER};
use crate::proto::{Frame, MAX_HEADER, ReadResponse};
use crate::session::Cx;
use crate::session::receive_state::Regions;
use base::{IoVec, OpFlags, Result};
use engine::domain_state::TxOp;
use engine::mr::Target;
use engine::transport::Address;
use sys::socket::Moved;

/// Maximum of long frames that wait for the next one.
const GATHERED: usize = 8;

/// The header of a frame.
struct Head {
    bytes: [u8; MAX_HEADER],
    len: usize,
}

impl Head {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Outbox {
    /// Encodes the header of the next frame.
    #[inline]
    fn head(&mut self, frame: &Frame) -> Head {
        let mut bytes = [0; MAX_HEADER];
        let counter = self.next_counter();
        let len = frame.encode(counter, self.swaps, &mut bytes);
        Head { bytes, len }
    }

    /// Whether a frame that is sent now is written at once: no frame is queued, and the pace allows it.
    #[inline]
    pub fn writes_now<A>(&mut self, cx: &Cx<'_, A>) -> bool {
        self.frames.is_empty() && self.pace.writes(cx.common.polls)
    }

    /// Sends a frame of an application's operation, or returns FI_EAGAIN.
    #[inline]
    pub fn send_operation<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        payload: IoVec,
        op: TxOp,
    ) -> Result {
        // A ring has little room. An injected operation, which is reported as sent at once, must be in the ring: the
        // application may never call the library again to move queued frames there, and the peer would wait for them.
        if !cx.link.gathers() {
            let most = MAX_HEADER + payload.remaining();
            if op.flags.contains(OpFlags::INJECT)
                && !(self.frames.is_empty() && cx.link.has_room(most))
            {
                cx.link.ring_if_parked();
                return Err(cx.again(&op));
            }
            self.send(cx, frame, payload, Some(op));
            return Ok(());
        }
        let more = op.flags.contains(OpFlags::MORE);
        if self.frames.is_empty() && !more && self.pace.writes(cx.common.polls) {
            self.write_now(cx, frame, payload, Some(op));
            return Ok(());
        }
        // An injected payload has to be copied, so it waits for room. Other operations are queued, up to the size of
        // the transmit queue.
        if self.frames.staged() > STAGE_HIGH_WATER && op.flags.contains(OpFlags::INJECT) {
            return Err(cx.again(&op));
        }
        self.send(cx, frame, payload, Some(op));
        Ok(())
    }

    /// Sends a frame that requests something from the peer.
    #[inline]
    pub fn send_bare<A: Address>(&mut self, cx: &mut Cx<'_, A>, frame: &Frame) {
        if self.writes_now(cx) {
            self.write_now(cx, frame, IoVec::empty(), None);
        } else {
            self.answer(cx, frame);
        }
    }

    /// Stages or queues a frame without payload that answers a request of the peer.
    pub fn answer<A: Address>(&mut self, cx: &mut Cx<'_, A>, frame: &Frame) {
        self.send(cx, frame, IoVec::empty(), None);
    }

    /// Acknowledges an operation of the peer.
    pub fn send_ack<A: Address>(&mut self, cx: &mut Cx<'_, A>) {
        self.answer(cx, &Frame::Ack);
    }

    /// Stages or queues a frame.
    pub fn send<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        payload: IoVec,
        op: Option<TxOp>,
    ) {
        cx.watch();
        if !cx.link.gathers() && self.frames.is_empty() {
            return self.write_now(cx, frame, payload, op);
        }
        if is_of_device(op.as_ref()) {
            return self.queue_from_device(cx, frame, payload, op);
        }
        let head = self.head(frame);
        let len = payload.remaining();
        let inject = op.is_some_and(|op| op.flags.contains(OpFlags::INJECT));
        // A frame without an operation is an answer or a request, and small.
        let room = op.is_none() || (cx.link.gathers() && self.frames.staged() <= STAGE_HIGH_WATER);
        if inject || (room && head.len + len <= STAGE_LIMIT) {
            self.stage(cx, head.bytes(), &payload);
            match op {
                Some(op) => self.handed_over(cx, frame, op),
                None => self.frames.owe(head.len + len),
            }
            // A frame that waited for a successor now has one.
            let is_followed = self.frames.starts_uncopied();
            let is_full = self.frames.staged() >= STAGE_FULL || self.pace.is_full();
            if (is_full || is_followed) && !self.blocked {
                self.flush(cx);
            }
            return;
        }
        let follows =
            |op: TxOp| op.flags.contains(OpFlags::MORE) && cx.domain.eps[self.ep()].more_follows;
        let waits = op.is_some_and(follows);
        let after = self.after(cx, frame, op);
        self.frames.push(&head.bytes, (head.len, 0), payload, after);
        if self.blocked {
            return;
        }
        // The next frame goes out with the same system call, and needs no flush of its own.
        if !waits || !cx.link.gathers() || self.frames.len() >= GATHERED {
            return self.flush(cx);
        }
        if !self.dirty {
            self.dirty = true;
            cx.common.dirty.push(cx.id);
        }
    }

    /// Returns the action for an operation when the kernel has taken its frame. Operations that wait for an answer join
    /// that list now, because frames leave in the order in which they are queued.
    fn after<A: Address>(&mut self, cx: &mut Cx<'_, A>, frame: &Frame, op: Option<TxOp>) -> After {
        let Some(mut op) = op else {
            return After::Nothing;
        };
        cx.begin_waiting(&mut op);
        match frame.is_acknowledged() {
            true => {
                self.await_ack.push_back(op);
                After::Acknowledged(op)
            }
            false => After::Complete(op),
        }
    }

    /// Handles an operation whose frame is copied or written: it is complete unless the peer has to answer.
    #[inline]
    pub fn handed_over<A: Address>(&mut self, cx: &mut Cx<'_, A>, frame: &Frame, mut op: TxOp) {
        if frame.is_acknowledged() {
            cx.begin_waiting(&mut op);
            self.await_ack.push_back(op);
        } else {
            cx.domain.sent(op.ep(), &op);
        }
    }

    /// Writes a frame to an idle connection and queues the bytes that the kernel does not take.
    #[inline]
    fn write_now<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        payload: IoVec,
        op: Option<TxOp>,
    ) {
        if is_of_device(op.as_ref()) {
            return self.queue_from_device(cx, frame, payload, op);
        }
        let head = self.head(frame);
        let total = head.len + payload.remaining();
        let most = TOGETHER.min(cx.common.scratch.len());
        let together = &mut cx.common.scratch[..most];
        let moved = cx.link.send(head.bytes(), &payload, together);
        if cx.link.gathers() {
            self.pace.wrote();
        }
        let written = match moved {
            Ok(Moved::Bytes(n)) if n == total => {
                if let Some(op) = op {
                    self.handed_over(cx, frame, op);
                }
                return;
            }
            Ok(Moved::Bytes(n)) => n,
            Ok(Moved::Later | Moved::End) => 0,
            // Queued operations fail with the connection.
            Err(error) => {
                self.cannot_send(cx, error);
                0
            }
        };
        self.queue_rest(cx, frame, &head, payload, op, written);
    }

    /// Queues a frame whose payload a device has. Its bytes get to the stage as the link takes them.
    #[cold]
    fn queue_from_device<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        payload: IoVec,
        op: Option<TxOp>,
    ) {
        let head = self.head(frame);
        let after = self.after(cx, frame, op);
        self.frames.push(&head.bytes, (head.len, 0), payload, after);
        if !self.blocked {
            self.flush(cx);
        }
    }

    /// Queues the rest of a frame that the kernel took in part.
    #[cold]
    fn queue_rest<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        head: &Head,
        mut payload: IoVec,
        op: Option<TxOp>,
        written: usize,
    ) {
        let header_done = written.min(head.len);
        payload.advance(written - header_done);
        let inject = op.is_some_and(|op| op.flags.contains(OpFlags::INJECT));
        let copies = op.is_none() || cx.link.gathers();
        if inject || (copies && payload.remaining() <= STAGE_LIMIT) {
            self.stage(cx, &head.bytes[header_done..head.len], &payload);
            match op {
                Some(op) => self.handed_over(cx, frame, op),
                None => {
                    let left = head.len - header_done + payload.remaining();
                    self.frames.owe(left);
                }
            }
        } else {
            let after = self.after(cx, frame, op);
            self.frames
                .push(&head.bytes, (head.len, header_done), payload, after);
        }
        self.block(cx);
    }

    /// Sends a frame with a copied payload: at once, or behind queued frames; `alone` flushes those without delay.
    /// `answers`: the frame answers a request of the peer.
    pub fn send_copied<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        payload: &[u8],
        alone: bool,
        answers: bool,
    ) {
        let encode = |counter, swap, out: &mut _| frame.encode(counter, swap, out);
        if self.write_copied(cx, payload, encode) {
            return;
        }
        let len = self.stage_frame(cx, frame, payload);
        if answers {
            self.frames.owe(len);
        }
        let is_full = self.pace.is_full() || self.frames.staged() >= STAGE_FULL;
        if (alone || is_full || !cx.link.gathers()) && !self.blocked {
            self.flush(cx);
        }
    }

    /// Stages the frame of an operation that had to wait, with its copied payload.
    pub fn send_kept<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        payload: &[u8],
        op: TxOp,
    ) {
        self.stage_frame(cx, frame, payload);
        self.handed_over(cx, frame, op);
    }

    /// Queues a frame whose bytes have room for its header at the front.
    pub fn send_bytes<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        mut bytes: Vec<u8>,
    ) {
        let head = self.head(frame);
        bytes[..head.len].copy_from_slice(head.bytes());
        if bytes.len() <= STAGE_LIMIT {
            return self.stage_with(cx, &bytes, 0, |_| {});
        }
        self.frames.push_bytes(bytes);
        self.mark_dirty(cx);
    }

    /// Queues the answer to a read; small answers are copied together with others.
    pub fn answer_read<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        len: u64,
        target: Target,
        regions: Regions,
    ) {
        let answer = Frame::ReadResponse(ReadResponse { payload: len });
        let mut target = match target.into_one() {
            Ok(iov) if self.copies_answer(len) && iov.is_device() => {
                let mut bytes = Vec::new();
                iov.copy_out(&mut bytes);
                match iov.take_fault() {
                    None => self.send_copied(cx, &answer, &bytes, false, true),
                    // The read side ends the connection.
                    Some(_) => return cx.link.shutdown(),
                }
                cx.domain.read_by_peer(self.ep(), len);
                return;
            }
            Ok(iov) if self.copies_answer(len) => {
                self.send(cx, &answer, iov, None);
                cx.domain.read_by_peer(self.ep(), len);
                return;
            }
            Ok(iov) => Target::from(iov),
            Err(target) => target,
        };
        let head = self.head(&answer);
        let mut header_len = head.len;
        // The lists after the first become frames without a header. The last one ends the answer.
        let mut payload = target.pop().unwrap_or_default();
        while let Some(next) = target.pop() {
            self.frames
                .push(&head.bytes, (header_len, 0), payload, After::Nothing);
            (header_len, payload) = (0, next);
        }
        let after = After::Answered(regions, len);
        self.frames
            .push(&head.bytes, (header_len, 0), payload, after);
        // The ring takes what it has room for; only calls of the application flush the rest.
        if !cx.link.gathers() && !self.blocked {
            return self.flush(cx);
        }
        self.mark_dirty(cx);
    }
}

/// Staging and queueing.
impl Outbox {
    /// Stages a frame and returns its length.
    fn stage_frame<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        payload: &[u8],
    ) -> usize {
        let head = self.head(frame);
        self.stage_with(cx, head.bytes(), payload.len(), |out| {
            out.extend_from_slice(payload);
        });
        head.len + payload.len()
    }

    /// Copies a frame behind the staged ones.
    pub(super) fn stage<A: Address>(&mut self, cx: &mut Cx<'_, A>, header: &[u8], payload: &IoVec) {
        self.stage_with(cx, header, payload.remaining(), |out| payload.copy_out(out));
    }

    /// Does the same as `stage`, for a payload of `len` bytes that `copy` appends.
    #[inline]
    pub(super) fn stage_with<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        header: &[u8],
        len: usize,
        copy: impl FnOnce(&mut Vec<u8>),
    ) {
        let len = header.len() + len;
        self.frames.stage(&mut cx.common.buffers, len, |bytes| {
            bytes.extend_from_slice(header);
            copy(bytes);
        });
        self.pace.gather();
        self.mark_dirty(cx);
    }
}

/// Whether a device has memory of the operation.
#[inline(always)]
fn is_of_device(op: Option<&TxOp>) -> bool {
    op.is_some_and(|op| op.flags.contains(OpFlags::DEVICE))
}
