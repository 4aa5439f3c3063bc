// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic operations of the peer on local memory: fi_atomic(3). They use extension frames: docs/wire/tcp.md,
//! "Extensions".

use super::{Durable, Exposed, Refusal, count_regions, device_failed};
use crate::proto::{self, AtomicOp, Frame, MAX_SEGS, ReadResponse, Refused, RmaSeg};
use crate::session::Cx;
use crate::session::outbox::{FEW, Outbox};
use crate::session::peer::Peer;
use crate::session::receive::Fault;
use crate::session::receive_state::Regions;
use abi::*;
use base::grow::append;
use base::{Access, Caps, CompFlags, Result};
use engine::atomic::{apply, element_size};
use engine::domain_state::DomainState;
use engine::mr::Target;
use engine::transport::Address;
use object::ops::atomic::Family;

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
    durable: Option<Durable>,
    /// Operands, then values to compare, as far as they have arrived.
    payload: Vec<u8>,
}

impl Exposed {
    /// Prepares an operation of the peer on local memory.
    pub fn atomic<A: Address>(
        &mut self,
        domain: &mut DomainState<A>,
        peer: &Peer<A>,
        atomic: &proto::Atomic,
    ) -> core::result::Result<AtomicIn, Refusal> {
        self.was_written = true;
        let mut request = AtomicIn::of(atomic).map_err(|why| Refusal { answer: None, why })?;
        let access = access_of(request.family, request.op);
        let named = match domain.eps[peer.ep].caps.contains(access.capabilities()) {
            true => self.named(domain, peer, &atomic.segs, Caps::ATOMIC, access),
            false => Err(Fault::Rule(
                "an atomic operation that the endpoint does not serve",
            )),
        };
        // A refused operation with a result ends the connection: docs/wire/tcp.md.
        (request.target, request.regions) = named.map_err(|why| Refusal {
            answer: (atomic.ack || atomic.commit).then_some(Refused::Ack),
            why,
        })?;
        if atomic.commit {
            request.durable = Some(Durable::of(&atomic.segs, &request.regions));
        }
        Ok(request)
    }
}

impl AtomicIn {
    /// Converts the operation of a frame, without its memory.
    fn of(atomic: &proto::Atomic) -> core::result::Result<AtomicIn, Fault> {
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

    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Appends the next bytes of the payload.
    pub fn take(&mut self, bytes: &[u8]) -> Result {
        append(&mut self.payload, bytes, 2 * self.len)
    }

    /// Handles an operation whose payload is complete.
    pub fn arrived<A: Address>(mut self, cx: &mut Cx<'_, A>, peer: &Peer<A>, out: &mut Outbox) {
        let mut payload = std::mem::take(&mut self.payload);
        self.carry_out(cx, peer, out, &mut payload);
    }

    /// Handles an operation whose small payload has arrived with its header.
    pub fn arrived_at_once<A: Address>(
        mut self,
        cx: &mut Cx<'_, A>,
        peer: &Peer<A>,
        out: &mut Outbox,
        payload: &[u8],
    ) {
        let (mut few, mut many) = ([0; FEW], Vec::new());
        let room = room_for(payload.len().max(self.len), &mut few, &mut many);
        room[..payload.len()].copy_from_slice(payload);
        self.carry_out(cx, peer, out, room);
    }

    /// Executes the operation. `payload` has the operands, then values to compare; the result replaces the operands.
    fn carry_out<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        peer: &Peer<A>,
        out: &mut Outbox,
        payload: &mut [u8],
    ) {
        let AtomicIn {
            datatype, op, len, ..
        } = *self;
        let (operands, compare) = payload.split_at_mut(len);
        apply_to(&mut self.target, datatype, op, operands, compare);
        if device_failed(cx, peer, &self.regions) {
            return;
        }
        if let Some(durable) = &self.durable
            && !durable.commit(cx, peer)
        {
            return;
        }
        if op != FI_ATOMIC_READ {
            count_regions(cx.domain, &self.regions, &self.lens);
        }
        let ep = peer.ep;
        if self.family == Family::Base {
            cx.domain
                .written(ep, CompFlags::ATOMIC, len as u64, self.data, &peer.sender());
            return;
        }
        let answer = Frame::ReadResponse(ReadResponse {
            payload: len as u64,
        });
        out.send_copied(cx, &answer, operands, false, true);
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

/// Returns `len` zero bytes.
pub fn room_for<'a>(len: usize, few: &'a mut [u8; FEW], many: &'a mut Vec<u8>) -> &'a mut [u8] {
    match few.get_mut(..len) {
        Some(room) => room,
        None => {
            many.resize(len, 0);
            many
        }
    }
}
