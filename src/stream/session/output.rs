// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Outgoing frames: written at once, staged with others, or queued behind bytes that the link has not taken yet.

use crate::proto::{Frame, MAX_HEADER};
use crate::session::queue::{After, Out, OutFrame};
use crate::session::send::{STAGE_FULL, STAGE_HIGH_WATER, STAGE_LIMIT, TOGETHER};
use crate::session::{Cx, Session};
use base::{Error, IoVec, OpFlags, Result};
use engine::domain_state::TxOp;
use engine::transport::Address;
use sys::socket::Moved;

impl<A: Address> Session<A> {
    /// Sends a frame that requests something from the peer.
    pub fn send_bare(&mut self, cx: &mut Cx<'_, A>, frame: &Frame) {
        if self.tx.queue.is_empty() && self.tx.pace.writes(cx.common.polls) {
            self.write_now(cx, frame, IoVec::empty(), None);
        } else {
            self.send_always(cx, frame, IoVec::empty(), None);
        }
    }

    /// Stages or queues a frame.
    pub fn send_always(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        payload: IoVec,
        op: Option<TxOp>,
    ) {
        cx.watch();
        if !cx.link.gathers() && self.tx.queue.is_empty() {
            return self.write_now(cx, frame, payload, op);
        }
        let mut bytes = [0; MAX_HEADER];
        let counter = self.tx.next_counter();
        let header_len = frame.encode(counter, self.swap, &mut bytes);
        let len = payload.remaining();
        let inject = op.is_some_and(|op| op.flags.contains(OpFlags::INJECT));
        // A frame without an operation is an answer or a request, and small.
        let room = op.is_none() || (cx.link.gathers() && self.tx.staged <= STAGE_HIGH_WATER);
        if inject || (room && header_len + len <= STAGE_LIMIT) {
            self.stage(cx, &bytes[..header_len], &payload);
            match op {
                Some(op) => self.handed_over(cx, frame, op),
                None => self.tx.owe(header_len + len),
            }
            // A frame that waited for a successor now has one.
            let is_followed = matches!(self.tx.queue.front(), Some(Out::Frame(_)));
            let is_full = self.tx.staged >= STAGE_FULL || self.tx.pace.is_full();
            if (is_full || is_followed) && !self.tx.blocked {
                self.flush_conn(cx);
            }
            return;
        }
        let follows =
            |op: TxOp| op.flags.contains(OpFlags::MORE) && cx.domain.ep(self.ep).more_follows;
        let waits = op.is_some_and(follows);
        let after = self.after(cx, frame, op);
        self.tx.queue.push_back(Out::Frame(Box::new(OutFrame {
            header: bytes,
            header_len: header_len as u8,
            header_done: 0,
            payload,
            after,
        })));
        if self.tx.blocked {
            return;
        }
        // The next frame goes out with the same system call, and needs no flush of its own.
        if !waits || !cx.link.gathers() || self.tx.queue.len() >= GATHERED {
            return self.flush_conn(cx);
        }
        if !self.tx.dirty {
            self.tx.dirty = true;
            cx.common.dirty.push(cx.id);
        }
    }

    /// Returns the action for an operation when the kernel has taken its frame. Operations that wait for an answer join
    /// that list now, because frames leave in the order in which they are queued.
    pub fn after(&mut self, cx: &mut Cx<'_, A>, frame: &Frame, op: Option<TxOp>) -> After {
        let Some(mut op) = op else {
            return After::Nothing;
        };
        self.begin_waiting(cx, &mut op);
        match frame.is_acknowledged() {
            true => {
                self.tx.await_ack.push_back(op);
                After::Acknowledged(op)
            }
            false => After::Complete(op),
        }
    }

    /// Handles an operation whose frame is copied or written: it is complete unless the peer has to answer.
    #[inline]
    pub fn handed_over(&mut self, cx: &mut Cx<'_, A>, frame: &Frame, mut op: TxOp) {
        if frame.is_acknowledged() {
            self.begin_waiting(cx, &mut op);
            self.tx.await_ack.push_back(op);
        } else {
            cx.domain.sent(op.ep(), &op);
        }
    }

    /// Copies a frame behind the staged ones.
    pub fn stage(&mut self, cx: &mut Cx<'_, A>, header: &[u8], payload: &IoVec) {
        self.stage_with(cx, header, payload.remaining(), |out| payload.copy_out(out));
    }

    /// Does the same as `stage`, for a payload of `len` bytes that `copy` appends.
    #[inline]
    pub fn stage_with(
        &mut self,
        cx: &mut Cx<'_, A>,
        header: &[u8],
        len: usize,
        copy: impl FnOnce(&mut Vec<u8>),
    ) {
        let len = header.len() + len;
        let fits = match self.tx.queue.back() {
            Some(Out::Staged { bytes, .. }) => bytes.len() + len <= bytes.capacity(),
            _ => false,
        };
        if !fits {
            let mut bytes = cx.common.buffers.pop().unwrap_or_default();
            bytes.clear();
            bytes.reserve(len.max(STAGE_FULL + STAGE_LIMIT));
            self.tx.queue.push_back(Out::Staged {
                bytes,
                done: 0,
                owed: 0,
            });
        }
        if let Some(Out::Staged { bytes, .. }) = self.tx.queue.back_mut() {
            bytes.extend_from_slice(header);
            copy(bytes);
        }
        self.tx.staged += len;
        self.tx.pace.gather();
        self.mark_dirty(cx);
    }

    /// Marks the session for a flush. Over a socket the flushing thread may do that too; over shared memory only frames
    /// that found no room are queued, and copies that a sender shares with the peer.
    #[inline(always)]
    pub fn mark_dirty(&mut self, cx: &mut Cx<'_, A>) {
        if self.tx.dirty {
            return;
        }
        self.tx.dirty = true;
        let gathers = cx.link.gathers();
        cx.common.dirty.push(cx.id);
        if gathers && !cx.common.is_reading {
            cx.common.hold();
        }
    }

    /// Writes a frame to an idle connection and queues the bytes that the kernel does not take.
    #[inline]
    pub(super) fn write_now(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        payload: IoVec,
        op: Option<TxOp>,
    ) {
        let mut bytes = [0; MAX_HEADER];
        let counter = self.tx.next_counter();
        let header_len = frame.encode(counter, self.swap, &mut bytes);
        let len = payload.remaining();
        let total = header_len + len;
        let most = TOGETHER.min(cx.common.scratch.len());
        let together = &mut cx.common.scratch[..most];
        let moved = cx.link.send(&bytes[..header_len], &payload, together);
        if cx.link.gathers() {
            self.tx.pace.wrote();
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
                self.write_failed(cx, &error);
                0
            }
        };
        self.queue_rest(cx, frame, &bytes, header_len, payload, op, written);
    }

    /// Queues the rest of a frame that the kernel took in part.
    #[cold]
    #[allow(clippy::too_many_arguments)]
    fn queue_rest(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        bytes: &[u8; MAX_HEADER],
        header_len: usize,
        mut payload: IoVec,
        op: Option<TxOp>,
        written: usize,
    ) {
        let header_done = written.min(header_len);
        payload.advance(written - header_done);
        let inject = op.is_some_and(|op| op.flags.contains(OpFlags::INJECT));
        let copies = op.is_none() || cx.link.gathers();
        if inject || (copies && payload.remaining() <= STAGE_LIMIT) {
            self.stage(cx, &bytes[header_done..header_len], &payload);
            match op {
                Some(op) => self.handed_over(cx, frame, op),
                None => {
                    let left = header_len - header_done + payload.remaining();
                    self.tx.owe(left);
                }
            }
        } else {
            let after = self.after(cx, frame, op);
            self.tx.queue.push_back(Out::Frame(Box::new(OutFrame {
                header: *bytes,
                header_len: header_len as u8,
                header_done: header_done as u8,
                payload,
                after,
            })));
        }
        self.blocked(cx);
    }

    /// Completes the oldest operation that waits for an acknowledgement.
    pub fn acknowledged(&mut self, cx: &mut Cx<'_, A>) -> Result {
        let op = self.tx.await_ack.pop_front().ok_or(Error::IO)?;
        cx.domain.complete_tx(&op);
        Ok(())
    }

    pub fn send_ack(&mut self, cx: &mut Cx<'_, A>) {
        self.send_always(cx, &Frame::Ack, IoVec::empty(), None);
    }

    /// Records that an operation starts to wait for its peer.
    #[inline]
    pub fn begin_waiting(&mut self, cx: &mut Cx<'_, A>, op: &mut TxOp) {
        cx.domain.ep_mut(op.ep()).tx_pending += 1;
        op.since = cx.common.waits.stamp();
        cx.watch_waits();
    }
}

/// Maximum of long frames that wait for the next one.
const GATHERED: usize = 8;
