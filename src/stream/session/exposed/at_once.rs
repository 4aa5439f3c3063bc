// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Fast path for complete requests on one segment and without special flags. It does nothing if the general path has to
//! handle the request, also to refuse it.

use super::Exposed;
use super::atomic::{access_of, payload_of};
use std::sync::Arc;

use crate::proto::{AtomicOp, Frame, ReadResponse, RmaSeg, Write};
use crate::session::Cx;
use crate::session::outbox::{FEW, Outbox};
use crate::session::peer::Peer;
use abi::*;
use base::flags::flags;
use base::{Access, Caps, CompFlags, IoVec, Piece};
use engine::atomic::{apply, element_size};
use engine::domain_state::DomainState;
use engine::transport::{Address, MrRegion};
use object::ops::atomic::Family;

/// Whether the general path has nothing more to do for an access.
#[inline(always)]
fn is_plain((region, piece): &(&Arc<MrRegion>, Piece)) -> bool {
    !region.is_single_use() && !piece.is_device()
}

impl Exposed {
    /// Handles a write of the peer to local memory.
    #[inline]
    pub fn written_at_once<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        peer: &Peer<A>,
        out: &mut Outbox,
        write: &Write<RmaSeg>,
        payload: &[u8],
    ) -> bool {
        const NEEDED: Caps = flags!(Caps: RMA | REMOTE_WRITE);
        if !cx.domain.eps[peer.ep].caps.contains(NEEDED) || write.ack && !out.has_room_for_answers()
        {
            return false;
        }
        let taken = self.take_write(cx.domain, peer, write, |to| to.fill(payload));
        if taken && write.ack {
            out.send_ack(cx);
        }
        taken
    }

    /// Writes a payload to memory of one region with `fill`; returns false if that is not allowed.
    #[inline(always)]
    pub fn take_write<A: Address>(
        &mut self,
        domain: &mut DomainState<A>,
        peer: &Peer<A>,
        write: &Write<RmaSeg>,
        fill: impl FnOnce(&Piece),
    ) -> bool {
        let (seg, key) = (write.segs, self.key.as_ref());
        let access = Access::REMOTE_WRITE;
        let found = domain
            .mrs
            .lookup_with(key, seg.key, seg.addr, seg.len, access);
        let Some((region, piece)) = found.ok().filter(is_plain) else {
            return false;
        };
        fill(&piece);
        self.was_written = true;
        let (len, data) = (write.payload, write.data);
        if let Some(counter) = region.counter().cloned() {
            domain.count_region(&counter, len as usize);
        }
        domain.written(peer.ep, CompFlags::RMA, len, data, &peer.sender());
        true
    }

    /// Handles a small read of the peer from local memory.
    #[inline]
    pub fn read_at_once<A: Address>(
        &self,
        cx: &mut Cx<'_, A>,
        peer: &Peer<A>,
        out: &mut Outbox,
        seg: RmaSeg,
    ) -> bool {
        let room = out.has_room_for_answers() && out.copies_answer(seg.len);
        const NEEDED: Caps = flags!(Caps: RMA | REMOTE_READ);
        if !room || !cx.domain.eps[peer.ep].caps.contains(NEEDED) {
            return false;
        }
        let (key, mrs) = (self.key.as_ref(), &cx.domain.mrs);
        let found = mrs.lookup_with(key, seg.key, seg.addr, seg.len, Access::REMOTE_READ);
        let Some((_, piece)) = found.ok().filter(is_plain) else {
            return false;
        };
        let answer = Frame::ReadResponse(ReadResponse { payload: seg.len });
        out.send(cx, &answer, IoVec::from(piece), None);
        cx.domain.read_by_peer(peer.ep, seg.len);
        true
    }

    /// Handles an atomic operation of the peer on local memory.
    #[inline]
    pub fn operate<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        peer: &Peer<A>,
        out: &mut Outbox,
        what: AtomicOp,
        seg: RmaSeg,
        payload: &[u8],
    ) -> bool {
        let (ep, family) = (peer.ep, what.family);
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
        let served = cx.domain.eps[ep].caps.contains(needed);
        if !fits || !served || !out.has_room_for_answers() {
            return false;
        }
        let found =
            cx.domain
                .mrs
                .lookup_with(self.key.as_ref(), seg.key, seg.addr, seg.len, access);
        let Some((region, piece)) = found.ok().filter(is_plain) else {
            return false;
        };
        let (len, mut target) = (seg.len as usize, IoVec::from(piece));
        let counter = region.counter().filter(|_| op != FI_ATOMIC_READ).cloned();
        let mut bytes = [0; FEW];
        bytes[..payload.len()].copy_from_slice(payload);
        let (operands, compare) = bytes.split_at_mut(len);
        apply(datatype, op, &mut target, operands, compare);
        self.was_written = true;
        if let Some(counter) = counter {
            cx.domain.count_region(&counter, len);
        }
        if family == Family::Base {
            cx.domain
                .written(ep, CompFlags::ATOMIC, len as u64, None, &peer.sender());
            return true;
        }
        let answer = ReadResponse {
            payload: len as u64,
        };
        if !out.write_copied(cx, operands, |counter, _, to| {
            answer.encode(counter, false, to)
        }) {
            let answer = Frame::ReadResponse(answer);
            out.send_copied(cx, &answer, operands, false, true);
        }
        cx.domain.read_by_peer(ep, len as u64);
        true
    }
}
