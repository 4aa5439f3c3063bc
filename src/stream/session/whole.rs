// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Fast path for complete frames other than messages, on one segment and without special flags. All other frames, also
//! refused ones, take the general path in `receive`, `rma` and `atomic`.

use crate::proto::{AtomicOp, Frame, ReadResponse, RmaSeg, Whole, Write};
use crate::session::atomic::{access_of, payload_of};
use crate::session::outbox::FEW;
use crate::session::receive_state::At;
use crate::session::{Cx, Session};
use abi::*;
use base::flags::flags;
use base::{Access, Caps, CompFlags, IoVec, Piece};
use engine::atomic::{apply, element_size};
use engine::domain_state::DomainState;
use engine::transport::Address;
use object::ops::atomic::Family;

impl<A: Address> Session<A> {
    /// Handles the frame that starts here, if it is one of these, and returns its size. Otherwise it does nothing.
    // Inlined into the loop over all frames it would cost each message some instructions.
    #[inline(never)]
    pub fn take_whole(&mut self, cx: &mut Cx<'_, A>, bytes: &[u8]) -> Option<usize> {
        let between = matches!(self.rx.at, At::Header) && self.rx.header_have == 0;
        if !between || self.tx.out.swaps() {
            return None;
        }
        let (whole, frame) = Whole::of(bytes)?;
        let taken = match whole {
            Whole::Write(write, payload) => self.written_at_once(cx, &write, payload),
            Whole::ReadRequest(seg) => self.read_at_once(cx, seg),
            Whole::ReadResponse(payload) => self.tx.take_answer(cx, payload),
            Whole::Atomic(what, seg, payload) => self.operate(cx, what, seg, payload),
        };
        taken.then_some(frame)
    }

    /// Handles a write of the peer to local memory.
    #[inline]
    fn written_at_once(
        &mut self,
        cx: &mut Cx<'_, A>,
        write: &Write<RmaSeg>,
        payload: &[u8],
    ) -> bool {
        const NEEDED: Caps = flags!(Caps: RMA | REMOTE_WRITE);
        if !cx.domain.ep(self.peer.ep).caps.contains(NEEDED)
            || write.ack && !self.tx.out.has_room_for_answers()
        {
            return false;
        }
        let taken = self.take_write(cx.domain, write, |to| to.fill(payload));
        if taken && write.ack {
            self.tx.out.send_ack(cx);
        }
        taken
    }

    /// Writes a payload to memory of one region with `fill`; returns false if that is not allowed.
    #[inline(always)]
    pub fn take_write(
        &mut self,
        domain: &mut DomainState<A>,
        write: &Write<RmaSeg>,
        fill: impl FnOnce(&Piece),
    ) -> bool {
        let (seg, key) = (write.segs, self.key.as_ref());
        let access = Access::REMOTE_WRITE;
        let found = domain
            .mrs
            .lookup_with(key, seg.key, seg.addr, seg.len, access);
        let Some((region, piece)) = found.ok().filter(|(region, _)| !region.is_single_use()) else {
            return false;
        };
        fill(&piece);
        self.rx.was_written = true;
        let (len, data) = (write.payload, write.data);
        if let Some(counter) = region.counter().cloned() {
            domain.count_region(&counter, len as usize);
        }
        domain.written(self.peer.ep, CompFlags::RMA, len, data, &self.peer.sender());
        true
    }

    /// Handles a small read of the peer from local memory.
    #[inline]
    fn read_at_once(&mut self, cx: &mut Cx<'_, A>, seg: RmaSeg) -> bool {
        let room = self.tx.out.has_room_for_answers() && self.tx.out.copies_answer(seg.len);
        const NEEDED: Caps = flags!(Caps: RMA | REMOTE_READ);
        if !room || !cx.domain.ep(self.peer.ep).caps.contains(NEEDED) {
            return false;
        }
        let (key, mrs) = (self.key.as_ref(), &cx.domain.mrs);
        let found = mrs.lookup_with(key, seg.key, seg.addr, seg.len, Access::REMOTE_READ);
        let Some((_, piece)) = found.ok().filter(|(region, _)| !region.is_single_use()) else {
            return false;
        };
        let answer = Frame::ReadResponse(ReadResponse { payload: seg.len });
        self.tx.out.send(cx, &answer, IoVec::from(piece), None);
        cx.domain.read_by_peer(self.peer.ep, seg.len);
        true
    }

    /// Handles an atomic operation of the peer on local memory.
    #[inline]
    fn operate(&mut self, cx: &mut Cx<'_, A>, what: AtomicOp, seg: RmaSeg, payload: &[u8]) -> bool {
        let (ep, family) = (self.peer.ep, what.family);
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
        if !fits || !served || !self.agreed.extended || !self.tx.out.has_room_for_answers() {
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
                .written(ep, CompFlags::ATOMIC, len as u64, None, &self.peer.sender());
            return true;
        }
        let answer = ReadResponse {
            payload: len as u64,
        };
        if !self.tx.out.write_copied(cx, operands, |counter, _, out| {
            answer.encode(counter, false, out)
        }) {
            let answer = Frame::ReadResponse(answer);
            self.tx.out.send_copied(cx, &answer, operands, false, true);
        }
        cx.domain.read_by_peer(ep, len as u64);
        true
    }
}
