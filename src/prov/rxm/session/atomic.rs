// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic operations at the initiator and at the target (fi_atomic(3)): each is a message with an answer. The target
//! carries out all of them under the domain lock, in the order of their arrival.

use super::incoming::Taken;
use super::{Cx, Session, Wire};
use crate::rxm::HEAD_SIZE;
use crate::rxm::proto::{ATOMIC_HEADER, AtomicRequest, Fault, HEADER};
use crate::rxm::state::StateOf;
use abi::*;
use base::{Access, Caps, CompFlags, Error, IoVec};
use engine::atomic::apply;
use object::ops::atomic::Family;

/// Maximum of operand bytes in one operation: together with the values to compare they fit one packet of the usual
/// size.
pub const MOST: usize = 16384 - ATOMIC_HEADER;

/// Returns this maximum for one operation. Peers that run upstream's library do not support elements of more than eight
/// bytes, small floating-point numbers and FI_DIFF, and do not survive such a request.
pub fn most_of(family: Family, datatype: fi_datatype, op: fi_op) -> usize {
    match family {
        _ if datatype.0 > FI_FLOAT_COMPLEX.0 || op.0 > FI_MSWAP.0 => 0,
        Family::Compare => MOST / 2,
        _ => MOST,
    }
}

impl Session {
    /// Handles a peer's operation on local memory. It waits if there is no slot for the answer.
    pub(super) fn operate<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        msg: u64,
        request: &AtomicRequest<'_>,
    ) -> core::result::Result<Taken, Fault> {
        let (ep, name) = (self.link.ep(), self.link.remote_name());
        let head = request.head;
        let access = access_of(head.family, head.op);
        let caps = cx.domain.eps[ep].caps;
        if !caps.contains(Caps::ATOMIC) || !caps.contains(access.capabilities()) {
            return Err(Fault(
                "an atomic operation that the endpoint does not serve",
            ));
        }
        if head.family != Family::Base && !can_answer(cx.wire, HEADER + ATOMIC_HEADER + request.len)
        {
            return Ok(Taken::Later);
        }
        let Some(mut target) = memory_of(cx.domain, request, access) else {
            let answer = head.response(name, msg, -Error::ACCES.code(), 0);
            self.answer(cx, &answer, &[]);
            return Ok(Taken::Yes);
        };
        let (mut few, mut many) = ([0; FEW], Vec::new());
        let room = match few.get_mut(..request.len) {
            Some(room) => room,
            None => {
                many.resize(request.len, 0);
                &mut many[..]
            }
        };
        let own = request.operands.len().min(request.len);
        room[..own].copy_from_slice(&request.operands[..own]);
        let compare = &request.operands[own..];
        apply(head.datatype, head.op, &mut target, room, compare);
        let result: &[u8] = match head.family {
            Family::Base => {
                let (len, sender) = (request.len as u64, self.link.sender());
                cx.domain.written(ep, CompFlags::ATOMIC, len, None, &sender);
                &[]
            }
            _ => {
                cx.domain.read_by_peer(ep, request.len as u64);
                room
            }
        };
        let answer = head.response(name, msg, 0, result.len());
        self.answer(cx, &answer, result);
        Ok(Taken::Yes)
    }

    fn answer<W: Wire>(&mut self, cx: &mut Cx<'_, W>, head: &[u8], rest: &[u8]) {
        let sent = self.outgoing.send_packet(&mut self.link, cx, head, rest);
        self.end_if_unsent(cx, sent);
    }
}

/// Whether there is memory for an answer of this size.
fn can_answer<W: Wire>(wire: &W, len: usize) -> bool {
    len <= HEAD_SIZE || wire.copies_left() > 0
}

/// Results up to this size need no allocation.
const FEW: usize = 256;

/// Returns the access rights that a peer needs for the operation.
const fn access_of(family: Family, op: fi_op) -> Access {
    match (family, op) {
        (Family::Base, _) => Access::REMOTE_WRITE,
        (_, FI_ATOMIC_READ) => Access::REMOTE_READ,
        _ => Access::REMOTE,
    }
}

/// Returns the target memory of an operation, if all of it is registered with the necessary access rights.
fn memory_of(domain: &mut StateOf, request: &AtomicRequest<'_>, access: Access) -> Option<IoVec> {
    let mut target = IoVec::empty();
    let mut regions = Vec::new();
    for place in request.target.list() {
        let found = domain
            .mrs
            .lookup_with(None, place.key, place.addr, place.len as u64, access);
        let (region, piece) = found.ok()?;
        regions.push((region.clone(), place.len));
        target.push(piece).then_some(())?;
    }
    for (region, len) in regions {
        domain.mrs.used(&region);
        if request.head.op != FI_ATOMIC_READ
            && let Some(counter) = region.counter()
        {
            domain.count_region(counter, len);
        }
    }
    Some(target)
}
