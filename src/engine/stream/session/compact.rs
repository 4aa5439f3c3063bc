// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic operations and answers in their compact form over shared memory: whole, small, on one segment, and nothing
//! stands in their way. All else, also what is refused, is left to the general way, in `atomic` and `rma`.
#![forbid(unsafe_code)]

use crate::abi::*;
use crate::base::{Caps, CompFlags, IoVec, OpFlags};
use crate::engine::atomic::{apply, element_size};
use crate::engine::domain_state::TxOp;
use crate::engine::stream::proto::{AtomicOp, Frame, ReadResponse, RmaSeg};
use crate::engine::stream::session::atomic::{FEW, access_of, operation_of, payload_of, seg_of};
use crate::engine::stream::session::queue::ReadOp;
use crate::engine::stream::session::receive_state::At;
use crate::engine::stream::session::rma::{ANSWERS, ASKED};
use crate::engine::stream::session::send::SPECIAL;
use crate::engine::stream::session::{Cx, Session};
use crate::engine::transport::Address;
use crate::ffi::ops::atomic::{Atomic, Family};

impl<A: Address> Session<A> {
    /// Sends an atomic operation. False: nothing has happened.
    #[inline]
    pub fn post_compact(
        &mut self,
        cx: &mut Cx<'_, A>,
        atomic: &mut Atomic<'_>,
        mut op: TxOp,
    ) -> bool {
        let usual = cx.link.is_shm() && self.extended && !self.swap && !self.must_wait(&op);
        let payload = payload_of(atomic.family, atomic.op, op.len as u64) as usize;
        let operands = op.len.min(payload);
        let ([seg], true) = (atomic.target, usual && payload <= FEW) else {
            return false;
        };
        if op.flags.intersects(SPECIAL | OpFlags::REMOTE_CQ_DATA) || self.tx.asked > ASKED {
            return false;
        }
        let mut bytes = [0; FEW];
        atomic.operands.copy_to(&mut bytes[..operands]);
        if operands < payload {
            atomic.compare.copy_to(&mut bytes[operands..payload]);
        }
        let (what, seg) = (operation_of(atomic), seg_of(seg));
        if !self.write_copied(cx, &bytes[..payload], |counter, _, out| {
            what.encode_one(seg, payload, counter, out)
        }) {
            return false;
        }
        if atomic.family == Family::Base {
            cx.domain.sent(op.ep(), &op);
            return true;
        }
        self.begin_waiting(cx, &mut op);
        let iov = atomic.result.take();
        self.tx.ask(ReadOp { op, iov });
        true
    }

    /// Deals with a record, if it is one of these. False: nothing has happened.
    // Within the loop over all records it would cost each message some instructions.
    #[inline(never)]
    pub fn take_compact(&mut self, cx: &mut Cx<'_, A>, bytes: &[u8]) -> bool {
        let between = matches!(self.rx.at, At::Header) && self.rx.header_have == 0;
        if !between || self.swap {
            return false;
        }
        if let Some(payload) = ReadResponse::compact(bytes) {
            return self.take_answer(cx, payload);
        }
        match AtomicOp::compact(bytes) {
            Some((what, seg, payload)) => self.operate(cx, what, seg, payload),
            None => false,
        }
    }

    /// The answer to the operation that waits for one longest.
    #[inline]
    fn take_answer(&mut self, cx: &mut Cx<'_, A>, payload: &[u8]) -> bool {
        let tx = &mut self.tx;
        let its = |read: &ReadOp| read.op.len == payload.len();
        if !tx.await_read.front().is_some_and(its) {
            return false;
        }
        let Some(ReadOp { op, iov }) = tx.take_asked() else {
            return false;
        };
        iov.fill(payload);
        cx.domain.complete_tx(&op);
        true
    }

    /// A peer operates on memory of ours.
    #[inline]
    fn operate(&mut self, cx: &mut Cx<'_, A>, what: AtomicOp, seg: RmaSeg, payload: &[u8]) -> bool {
        let (ep, family) = (self.ep, what.family);
        let (datatype, op) = (fi_datatype(what.datatype.into()), fi_op(what.op.into()));
        let Some(size) = element_size(family, datatype, op) else {
            return false;
        };
        let fits = (1..=FEW as u64).contains(&seg.len)
            && seg.len.is_multiple_of(size as u64)
            && payload.len() as u64 == payload_of(family, op, seg.len)
            && payload.len() <= FEW;
        let access = access_of(family, op);
        let needed = access.capabilities() | Caps::ATOMIC;
        let served = cx.domain.ep(ep).caps.contains(needed);
        if !fits || !served || !self.extended || self.answers() > ANSWERS {
            return false;
        }
        let found =
            cx.domain
                .mrs
                .lookup_with(self.key.as_ref(), seg.key, seg.addr, seg.len, access);
        let Some((region, piece)) = found.ok().filter(|(region, _)| !region.is_single_use()) else {
            return false;
        };
        let (len, mut target) = (seg.len as usize, IoVec::from(piece));
        let counter = region.counter().filter(|_| op != FI_ATOMIC_READ).cloned();
        let mut bytes = [0; FEW];
        bytes[..payload.len()].copy_from_slice(payload);
        let (operands, compare) = bytes.split_at_mut(len);
        apply(datatype, op, &mut target, operands, compare);
        self.rx.was_written = true;
        if let Some(counter) = counter {
            cx.domain.count_region(&counter, len);
        }
        if family == Family::Base {
            cx.domain
                .written(ep, CompFlags::ATOMIC, len as u64, None, &self.sender());
            return true;
        }
        let answer = ReadResponse {
            payload: len as u64,
        };
        if !self.write_copied(cx, operands, |counter, _, out| {
            answer.encode(counter, false, out)
        }) {
            let answer = Frame::ReadResponse(answer);
            self.send_copied(cx, &answer, operands, false, true);
        }
        cx.domain.read_by_peer(ep, len as u64);
        true
    }
}
