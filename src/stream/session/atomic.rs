// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic operations, at the initiator and at the target: fi_atomic(3). They use extension frames: docs/wire/tcp.md,
//! "Extensions".

use crate::proto::{self, AtomicOp, Frame, RmaSeg};
use crate::session::exposed::{payload_of, room_for};
use crate::session::outbox::FEW;
use crate::session::reads::ReadOp;
use crate::session::receive::Fault;
use crate::session::receive_state::Sink;
use crate::session::send::{SPECIAL, WANTS_ACK};
use crate::session::{Cx, Session};
use base::{OpFlags, Result};
use engine::domain_state::TxOp;
use engine::transport::Address;
use object::ops::atomic::{Atomic, Family};
use object::ops::transfer::RemoteSeg;

impl<A: Address> Session<A> {
    /// Posts an atomic operation.
    pub fn post_atomic(&mut self, cx: &mut Cx<'_, A>, atomic: &mut Atomic<'_>, op: TxOp) -> Result {
        self.direct.wrote_by_ring();
        if self.post_compact(cx, atomic, op) {
            return Ok(());
        }
        let (operands, compare) = (atomic.operands.remaining(), atomic.compare.remaining());
        let asked = |flags| atomic.family == Family::Base && atomic.flags.intersects(flags);
        let frame = Frame::Atomic(proto::Atomic {
            what: operation_of(atomic),
            segs: atomic.target.iter().map(seg_of).collect(),
            data: asked(OpFlags::REMOTE_CQ_DATA).then_some(atomic.data),
            ack: asked(WANTS_ACK),
            commit: asked(OpFlags::COMMIT_COMPLETE),
            payload: (operands + compare) as u64,
        });
        if atomic.family == Family::Base {
            return self.submit(cx, frame, atomic.operands.take(), op);
        }
        let (mut few, mut many) = ([0; FEW], Vec::new());
        let bytes = room_for(operands + compare, &mut few, &mut many);
        let (own, compared) = bytes.split_at_mut(operands);
        atomic.operands.copy_to(own);
        atomic.compare.copy_to(compared);
        self.submit_exchange(cx, frame, bytes, atomic.result.take(), op)
    }

    /// Sends a small operation on one segment over shared memory, if nothing has to precede it. Returns false if
    /// nothing was done.
    #[inline]
    pub fn post_compact(
        &mut self,
        cx: &mut Cx<'_, A>,
        atomic: &mut Atomic<'_>,
        mut op: TxOp,
    ) -> bool {
        let usual = !cx.link.gathers()
            && self.agreed.extended
            && !self.tx.out.swaps()
            && !self.must_wait(&op);
        let payload = payload_of(atomic.family, atomic.op, op.len as u64) as usize;
        let operands = op.len.min(payload);
        let ([seg], true) = (atomic.target, usual && payload <= FEW) else {
            return false;
        };
        if op.flags.intersects(SPECIAL | OpFlags::REMOTE_CQ_DATA) || self.tx.reads.is_full() {
            return false;
        }
        let mut bytes = [0; FEW];
        atomic.operands.copy_to(&mut bytes[..operands]);
        if operands < payload {
            atomic.compare.copy_to(&mut bytes[operands..payload]);
        }
        let (what, seg) = (operation_of(atomic), seg_of(seg));
        if !self
            .tx
            .out
            .write_copied(cx, &bytes[..payload], |counter, _, out| {
                what.encode_one(seg, payload, counter, out)
            })
        {
            return false;
        }
        if atomic.family == Family::Base {
            cx.domain.sent(op.ep(), &op);
            return true;
        }
        cx.begin_waiting(&mut op);
        let iov = atomic.result.take();
        self.tx.reads.ask(ReadOp { op, iov });
        true
    }

    /// Handles an operation of the peer on local memory. `bytes` follow the header; returns how many of them belong to
    /// the operation.
    pub fn atomic_request(
        &mut self,
        cx: &mut Cx<'_, A>,
        atomic: &proto::Atomic,
        bytes: &[u8],
    ) -> core::result::Result<usize, Fault> {
        if !self.agreed.extended || self.tx.out.swaps() {
            return Err(Fault::Rule("an atomic operation that was not agreed upon"));
        }
        let request = match self.exposed.atomic(cx.domain, &self.peer, atomic) {
            Ok(request) => request,
            Err(refusal) => return self.refuse(cx, refusal, atomic.payload).map(|()| 0),
        };
        let ack = atomic.ack || atomic.commit;
        let payload = atomic.payload as usize;
        if payload <= FEW.min(bytes.len()) {
            let out = &mut self.tx.out;
            request.arrived_at_once(cx, &self.peer, out, &bytes[..payload]);
            if ack {
                out.send_ack(cx);
            }
            return Ok(payload);
        }
        let sink = Sink::Atomic(Box::new(request));
        self.rx.expect(cx, sink, atomic.payload, ack);
        Ok(0)
    }
}

/// Returns the operation in the form of a frame. Both numbers are below 32, because unsupported operations and types
/// were refused earlier.
pub fn operation_of(atomic: &Atomic<'_>) -> AtomicOp {
    AtomicOp {
        family: atomic.family,
        op: atomic.op.0 as u8,
        datatype: atomic.datatype.0 as u8,
    }
}

pub fn seg_of(seg: &RemoteSeg) -> RmaSeg {
    RmaSeg {
        addr: seg.addr,
        len: seg.len as u64,
        key: seg.key,
    }
}
