// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic operations, at the initiator and at the target: fi_atomic(3). They use extension frames: docs/wire/tcp.md,
//! "Extensions".

use crate::proto::{self, AtomicOp, Frame, MAX_SEGS, ReadResponse, Refused, RmaSeg};
use crate::session::outbox::FEW;
use crate::session::reads::ReadOp;
use crate::session::receive::Fault;
use crate::session::receive_state::{Durable, Regions, Sink};
use crate::session::rma::{count_regions, durable};
use crate::session::send::{SPECIAL, WANTS_ACK};
use crate::session::{Cx, Session};
use abi::*;
use base::grow::append;
use base::{Access, Caps, CompFlags, OpFlags, Result};
use engine::atomic::{apply, element_size};
use engine::domain_state::TxOp;
use engine::mr::Target;
use engine::transport::Address;
use object::ops::atomic::{Atomic, Family};
use object::ops::transfer::RemoteSeg;

/// An operation of the peer whose operands have not all arrived.
pub struct AtomicIn {
    family: Family,
    datatype: fi_datatype,
    op: fi_op,
    target: Target,
    regions: Regions,
    /// Bytes of each segment.
    lens: [u64; MAX_SEGS],
    /// Bytes of the target.
    len: usize,
    data: Option<u64>,
    durable: Durable,
    /// Operands, then values to compare, as far as they have arrived.
    payload: Vec<u8>,
}

impl AtomicIn {
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Appends the next bytes of the payload.
    pub fn take(&mut self, bytes: &[u8]) -> Result {
        append(&mut self.payload, bytes, 2 * self.len)
    }
}

impl<A: Address> Session<A> {
    /// Posts an atomic operation.
    pub fn post_atomic(&mut self, cx: &mut Cx<'_, A>, atomic: &mut Atomic<'_>, op: TxOp) -> Result {
        self.writes_by_ring = true;
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
        let ep = self.peer.ep;
        if !self.agreed.extended || self.tx.out.swaps() {
            return Err(Fault::Rule("an atomic operation that was not agreed upon"));
        }
        self.rx.was_written = true;
        let mut request = read_operation(atomic)?;
        let access = access_of(request.family, request.op);
        let named = match cx.domain.ep(ep).caps.contains(access.capabilities()) {
            true => self.named(cx.domain, &atomic.segs, Caps::ATOMIC, access),
            false => Err(Fault::Rule(
                "an atomic operation that the endpoint does not serve",
            )),
        };
        (request.target, request.regions) = match named {
            Ok(named) => named,
            Err(why) => {
                // An operation with a result ends the connection: docs/wire/tcp.md.
                let answer = (atomic.ack || atomic.commit).then_some(Refused::Ack);
                return self.refuse(cx, answer, atomic.payload, why).map(|()| 0);
            }
        };
        if atomic.commit {
            request.durable = durable(&atomic.segs, &request.regions);
        }
        let ack = atomic.ack || atomic.commit;
        let payload = atomic.payload as usize;
        if payload <= FEW.min(bytes.len()) {
            let (mut few, mut many) = ([0; FEW], Vec::new());
            let room = room_for(payload.max(request.len), &mut few, &mut many);
            room[..payload].copy_from_slice(&bytes[..payload]);
            self.carry_out(cx, &mut request, room);
            if ack {
                self.tx.out.send_ack(cx);
            }
            return Ok(payload);
        }
        self.expect(cx, Sink::Atomic(Box::new(request)), atomic.payload, ack);
        Ok(0)
    }

    /// Handles an operation whose payload is complete.
    pub fn arrived(&mut self, cx: &mut Cx<'_, A>, mut request: AtomicIn) {
        let mut payload = std::mem::take(&mut request.payload);
        self.carry_out(cx, &mut request, &mut payload);
    }

    /// Executes the operation. `payload` has the operands, then values to compare; the result replaces the operands.
    fn carry_out(&mut self, cx: &mut Cx<'_, A>, request: &mut AtomicIn, payload: &mut [u8]) {
        let AtomicIn {
            datatype, op, len, ..
        } = *request;
        let (operands, compare) = payload.split_at_mut(len);
        apply_to(&mut request.target, datatype, op, operands, compare);
        if let Some(parts) = &request.durable
            && !self.commit(cx, parts)
        {
            return;
        }
        if op != FI_ATOMIC_READ {
            count_regions(cx.domain, &request.regions, &request.lens);
        }
        let ep = self.peer.ep;
        if request.family == Family::Base {
            cx.domain.written(
                ep,
                CompFlags::ATOMIC,
                len as u64,
                request.data,
                &self.peer.sender(),
            );
            return;
        }
        let answer = Frame::ReadResponse(ReadResponse {
            payload: len as u64,
        });
        self.tx.out.send_copied(cx, &answer, operands, false, true);
        cx.domain.read_by_peer(ep, len as u64);
    }
}

/// Does the same as `apply`, on all pieces of the target. Each list of pieces holds whole elements.
fn apply_to(
    target: &mut Target,
    datatype: fi_datatype,
    op: fi_op,
    mut operands: &mut [u8],
    mut compare: &[u8],
) {
    while let Some(mut pieces) = target.pop() {
        let len = pieces.remaining();
        let (own, others) = operands.split_at_mut(len.min(operands.len()));
        let (compared, not_yet) = compare.split_at(len.min(compare.len()));
        apply(datatype, op, &mut pieces, own, compared);
        (operands, compare) = (others, not_yet);
    }
}

/// Returns `len` zero bytes.
fn room_for<'a>(len: usize, few: &'a mut [u8; FEW], many: &'a mut Vec<u8>) -> &'a mut [u8] {
    match few.get_mut(..len) {
        Some(room) => room,
        None => {
            many.resize(len, 0);
            many
        }
    }
}

/// Returns the access rights that a peer needs for the operation.
pub const fn access_of(family: Family, op: fi_op) -> Access {
    match (family, op) {
        (Family::Base, _) => Access::REMOTE_WRITE,
        (_, FI_ATOMIC_READ) => Access::REMOTE_READ,
        _ => Access::REMOTE,
    }
}

/// Returns the number of bytes sent to the target for an operation on `len` of its bytes.
pub const fn payload_of(family: Family, op: fi_op, len: u64) -> u64 {
    match family {
        _ if op.0 == FI_ATOMIC_READ.0 => 0,
        Family::Compare => 2 * len,
        _ => len,
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

/// Converts the operation of a frame, without its memory.
fn read_operation(atomic: &proto::Atomic) -> core::result::Result<AtomicIn, Fault> {
    let AtomicOp {
        family,
        op,
        datatype,
    } = atomic.what;
    let (datatype, op) = (fi_datatype(datatype.into()), fi_op(op.into()));
    let Some(size) = element_size(family, datatype, op) else {
        return Err(Fault::Rule("an atomic operation that there is not"));
    };
    let len = atomic.segs.total();
    let payload = payload_of(family, op, len);
    let whole = |seg: &RmaSeg| seg.len.is_multiple_of(size as u64);
    if len == 0 || atomic.payload != payload || !atomic.segs.iter().all(whole) {
        return Err(Fault::Rule(
            "an atomic operation of another length than its segments",
        ));
    }
    Ok(AtomicIn {
        family,
        datatype,
        op,
        target: Target::default(),
        regions: Regions::default(),
        lens: atomic.segs.lens(),
        len: len as usize,
        data: atomic.data,
        durable: None,
        payload: Vec::new(),
    })
}
