// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Posts of the application: decides whether an operation waits for earlier ones, and with which frame it begins. The
//! outbox writes, stages or queues that frame.

use core::array;

use crate::link::Link;
use crate::proto::{Frame, MAX_MESSAGE_HEADER, MAX_ONE_WRITE, Message, RmaSeg, Write, renumber};
use crate::session::State;
use crate::session::atomic::seg_of;
use crate::session::outbox::TOGETHER;
use crate::session::payload::Payload;
use crate::session::send_state::{Way, is_held};
use crate::session::{Cx, Session};
use crate::shm_channel::RECORD;
use base::flags::flags;
use base::{IoVec, OpFlags, Result, Source};
use engine::domain_state::TxOp;
use engine::transport::Address;
use object::ops::transfer::{OneTx, OneWrite, Tx, What};

/// Flags that require an answer from the peer.
pub const WANTS_ACK: OpFlags = flags!(OpFlags: TRANSMIT_COMPLETE | DELIVERY_COMPLETE);

/// Flags of operations that the fast path for small operations cannot handle.
pub const SPECIAL: OpFlags =
    WANTS_ACK.union(flags!(OpFlags: FENCE | COMMIT_COMPLETE | MATCH_COMPLETE));

/// Flags that the shortest path can handle. It is taken only while no read is outstanding.
pub const PLAIN: OpFlags = flags!(OpFlags:
    COMPLETION | INJECT | INJECT_COMPLETE | REMOTE_CQ_DATA | MORE | TRANSMIT | AFTER_READS
);

impl<A: Address> Session<A> {
    /// Tries to write a message of one buffer into the shared memory ring. Works only if no earlier operation is
    /// waiting and no read is outstanding that the message would have to stay behind. Returns false if nothing was
    /// sent.
    #[inline(always)]
    pub fn post_one(&mut self, link: &mut Link, tx: &OneTx) -> bool {
        if link.gathers() || !self.is_free() {
            return false;
        }
        let message = message_of(tx);
        let mut header = [0; MAX_MESSAGE_HEADER];
        let len = message.encode(self.tx.out.counter(), false, &mut header);
        self.tx.out.post_one(link, &header, len, &tx.piece)
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
        renumber(header, self.tx.out.counter());
        self.tx.out.post_one(link, header, header_len, payload)
    }

    /// Does the same for a write of one buffer to one remote segment.
    #[inline(always)]
    pub fn write_one(&mut self, link: &mut Link, one: &OneWrite) -> bool {
        if link.gathers() || !self.is_free() {
            return false;
        }
        let write = write_of(one, false);
        let mut header = [0; MAX_ONE_WRITE];
        let len = write.encode_iter(self.tx.out.counter(), false, &mut header);
        let sent = self.tx.out.post_one(link, &header, len, &one.piece);
        if sent {
            self.direct.wrote_by_ring();
        }
        sent
    }

    /// Does the same as `write_one` for a socket, where the write is written or staged, and may request an answer.
    #[inline(always)]
    pub fn write_one_small(&mut self, cx: &mut Cx<'_, A>, one: &OneWrite, op: TxOp) -> bool {
        let acked = one.flags.intersects(WANTS_ACK);
        let write = write_of(one, acked);
        let encode =
            |counter, header: &mut [u8; MAX_ONE_WRITE]| write.encode_iter(counter, false, header);
        self.direct.wrote_by_ring();
        self.may_post_small(cx, &op, acked)
            && self
                .tx
                .out
                .post_small_to_socket(cx, &one.piece, op, acked, encode)
    }

    /// Whether a new operation can be sent at once: no operation is queued or waiting, and no read is outstanding.
    #[inline(always)]
    fn is_free(&self) -> bool {
        self.state == State::Up
            && self.tx.out.frames().is_empty()
            && !self.tx.has_waiting()
            && !self.tx.reads.is_reading()
            && !self.tx.out.swaps()
    }

    /// Does the same as `post_one` for a socket, where the message is written or staged.
    #[inline(always)]
    pub fn post_one_small(&mut self, cx: &mut Cx<'_, A>, tx: &OneTx, op: TxOp) -> bool {
        let message = message_of(tx);
        let encode =
            |counter, header: &mut [u8; MAX_MESSAGE_HEADER]| message.encode(counter, false, header);
        self.may_post_small(cx, &op, false)
            && self
                .tx
                .out
                .post_small_to_socket(cx, &tx.piece, op, false, encode)
    }

    /// Posts a message.
    #[inline]
    pub fn post_message(&mut self, cx: &mut Cx<'_, A>, tx: &mut Tx<'_>, op: TxOp) -> Result {
        let rendezvous = is_held(cx, &op) && self.agreed.rendezvous;
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
        self.may_post_small(cx, &op, acked)
            && self.tx.out.post_small(cx, payload, op, acked, encode)
    }

    #[inline(always)]
    fn may_post_small(&mut self, cx: &mut Cx<'_, A>, op: &TxOp, acked: bool) -> bool {
        cx.watch();
        let waits = self.state != State::Up || self.tx.has_waiting();
        // One test covers operations that have none of these flags.
        let asked = match acked {
            true => op.flags.difference(WANTS_ACK),
            false => op.flags,
        };
        let special = asked.intersects(SPECIAL.union(OpFlags::AFTER_READS))
            && (asked.intersects(SPECIAL) || self.tx.reads.is_reading());
        !waits && !self.tx.out.swaps() && !special
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
            self.tx
                .wait(cx, frame, Payload::of(&op, iov), op, self.state);
            return Ok(());
        }
        match self.tx.way(cx, &frame, Some(&iov), &op, self.agreed)? {
            Way::Frame => self.tx.out.send_operation(cx, &frame, iov, op),
            way => {
                let payload = Payload::of(&op, iov);
                self.tx.ask(cx, way, frame, payload, op);
                Ok(())
            }
        }
    }

    /// Whether an operation has to wait for the connection, or for earlier operations.
    #[inline(always)]
    pub fn must_wait(&self, op: &TxOp) -> bool {
        self.state != State::Up || self.tx.must_wait(op)
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
            self.tx.wait(cx, frame, payload, op, self.state);
            return Ok(());
        }
        self.tx.way(cx, &frame, None, &op, self.agreed)?;
        // The payload has to be copied, so it needs room in the staging buffer.
        if self.tx.out.is_crowded() {
            return Err(cx.again(&op));
        }
        self.tx.exchange(cx, &frame, bytes, answer, op);
        Ok(())
    }
}

#[inline(always)]
fn message_of(tx: &OneTx) -> Message {
    let has_data = tx.flags.contains(OpFlags::REMOTE_CQ_DATA);
    Message {
        tagged: tx.what == What::Tagged,
        ack: false,
        data: has_data.then_some(tx.data),
        tag: tx.tag,
        context: 0,
        payload: tx.piece.len() as u64,
    }
}

#[inline(always)]
fn write_of(one: &OneWrite, ack: bool) -> Write<array::IntoIter<RmaSeg, 1>> {
    let has_data = one.flags.contains(OpFlags::REMOTE_CQ_DATA);
    Write {
        segs: [seg_of(&one.target)].into_iter(),
        data: has_data.then_some(one.data),
        ack,
        commit: false,
        payload: one.piece.len() as u64,
    }
}

/// The remote CQ data of an operation, if it has some.
pub fn remote_data(tx: &Tx<'_>) -> Option<u64> {
    tx.flags
        .contains(OpFlags::REMOTE_CQ_DATA)
        .then_some(tx.data)
}
