// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory accesses of a peer: fi_rma(3), fi_atomic(3). An access without permission is refused and changes nothing.

use super::out::{ANSWER_COST, Body, Out};
use super::sink::{Atomic, Sink, Stall, Step, Write};
use super::{Cx, Session, Wire};
use crate::rxd::info::ATOMIC_SIZE;
use crate::rxd::proto::{Kind, MAX_IOVS, Op};
use abi::*;
use base::{Access, Caps, CompFlags, Error, IoVec, Result};
use engine::atomic::{apply, element_size};
use engine::transport::Address;
use object::ops::atomic::Family;
use stream::session::exposed::count_regions;
use stream::session::exposed::{access_of, payload_of};
use stream::session::receive_state::Regions;

/// The memory that a request accesses.
struct Named {
    iov: IoVec,
    regions: Regions,
    lens: [u64; MAX_IOVS],
}

impl<A: Address> Session<A> {
    pub(super) fn take_access<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, A, W>,
        op: &Op,
        payload: &[u8],
    ) -> Step {
        if op.kind.is_answered() && self.tx.answers > 0 {
            let copied = match op.kind {
                Kind::Read => 0,
                _ => op.iovs.total().unwrap_or(0).min(ATOMIC_SIZE as u64),
            };
            if !self.may_answer(cx, ANSWER_COST + copied as usize) {
                return Step::Stalled(Stall::Answers);
            }
        }
        let done = match op.kind {
            Kind::Write => self.take_write(cx, op, payload),
            Kind::Read => self.take_read(cx, op),
            _ => self.take_atomic(cx, op, payload),
        };
        match done {
            Ok(()) => Step::Taken,
            Err(error) => Step::Refused(error),
        }
    }

    fn take_write<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, op: &Op, payload: &[u8]) -> Result {
        let Named { iov, regions, lens } = self.named(cx, op, Caps::RMA, Access::REMOTE_WRITE)?;
        let len = lens.iter().sum();
        let data = op.data;
        #[rustfmt::skip]
        let write = Write { iov, regions, lens, len, data };
        self.begin(cx, Sink::Write(Box::new(write)), op, payload, len)
    }

    fn take_read<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, op: &Op) -> Result {
        let Named { iov, regions, lens } = self.named(cx, op, Caps::RMA, Access::REMOTE_READ)?;
        let transaction = op.segments.ok_or(Error::INVAL)?.transaction;
        // A small answer is copied, so that operations after the read do not change it, which is the order that
        // programs expect. The order is not guaranteed, so the answer is sent from the region if copies take too much
        // memory.
        let len = iov.remaining();
        let body = match len <= SMALL_ANSWER && self.may_copy(cx, ANSWER_COST + len) {
            true if iov.is_device() => {
                let body = Body::copied(&[&iov]);
                if iov.take_fault().is_some() {
                    return Err(Error::IO);
                }
                body
            }
            true => Body::copied(&[&iov]),
            false => Body::Region(iov, Box::new(regions)),
        };
        let answer = Out::answer(transaction, body, cx.wire.mtu());
        self.push_answer(cx, answer);
        cx.domain.read_by_peer(self.ep, lens.iter().sum());
        self.pump(cx);
        Ok(())
    }

    fn take_atomic<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, op: &Op, payload: &[u8]) -> Result {
        let family = match op.kind {
            Kind::Fetch => Family::Fetch,
            Kind::Compare => Family::Compare,
            _ => Family::Base,
        };
        let number = |word: u32| i32::try_from(word).map_err(|_| Error::OPNOTSUPP);
        let (datatype, operation) = (
            fi_datatype(number(op.atomic[0])? as _),
            fi_op(number(op.atomic[1])? as _),
        );
        let size = element_size(family, datatype, operation).ok_or(Error::OPNOTSUPP)?;
        let access = access_of(family, operation);
        if !cx.domain.eps[self.ep].caps.contains(access.capabilities()) {
            return Err(Error::OPNOTSUPP);
        }
        let len = op.iovs.total().ok_or(Error::INVAL)?;
        let whole = op
            .iovs
            .as_slice()
            .iter()
            .all(|iov| iov.len.is_multiple_of(size as u64));
        if len == 0 || len > ATOMIC_SIZE as u64 || !whole {
            return Err(Error::INVAL);
        }
        let needed = payload_of(family, operation, len);
        let missing = needed.saturating_sub(payload.len() as u64);
        let segments = op.segments.filter(|_| missing > 0);
        let fits = segments.is_some_and(|segments| {
            segments.total == needed && (2..=missing + 1).contains(&segments.count)
        });
        if missing > 0 && !fits {
            return Err(Error::INVAL);
        }
        let named = self.named(cx, op, Caps::ATOMIC, access)?;
        let atomic = Atomic {
            family,
            datatype,
            op: operation,
            iov: named.iov,
            regions: named.regions,
            lens: named.lens,
            len: len as usize,
            data: op.data,
            transaction: op.segments.map_or(0, |segments| segments.transaction),
            bytes: Vec::with_capacity(2 * len as usize),
        };
        // A reading operation ignores additional payload.
        let payload = &payload[..payload.len().min(needed as usize)];
        let mut begun = *op;
        if missing == 0 {
            begun.segments = None;
        }
        self.begin(cx, Sink::Atomic(Box::new(atomic)), &begun, payload, needed)
    }

    /// Executes an atomic operation whose operands have all arrived.
    pub(super) fn carry_out<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, mut atomic: Atomic) {
        let len = atomic.len;
        let mut bytes = core::mem::take(&mut atomic.bytes);
        bytes.resize(2 * len, 0);
        let (operands, compare) = bytes.split_at_mut(len);
        let Atomic { datatype, op, .. } = atomic;
        apply(datatype, op, &mut atomic.iov, operands, compare);
        if op != FI_ATOMIC_READ {
            count_regions(cx.domain, &atomic.regions, &atomic.lens);
        }
        if atomic.family == Family::Base {
            let (len, sender) = (len as u64, self.sender());
            return cx
                .domain
                .written(self.ep, CompFlags::ATOMIC, len, atomic.data, &sender);
        }
        bytes.truncate(len);
        let body = Body::Bytes(bytes.into_boxed_slice());
        let answer = Out::answer(atomic.transaction, body, cx.wire.mtu());
        self.push_answer(cx, answer);
        cx.domain.read_by_peer(self.ep, len as u64);
        self.pump(cx);
    }

    /// Looks up the memory of a request and checks the peer's permission.
    fn named<W>(
        &self,
        cx: &mut Cx<'_, A, W>,
        op: &Op,
        capability: Caps,
        access: Access,
    ) -> Result<Named> {
        // fi_getinfo(3): a primary capability that was not requested is not available.
        if !cx.domain.eps[self.ep]
            .caps
            .contains(capability | access.capabilities())
        {
            return Err(Error::OPNOTSUPP);
        }
        let mut named = Named {
            iov: IoVec::empty(),
            regions: Regions::default(),
            lens: [0; MAX_IOVS],
        };
        for (i, seg) in op.iovs.as_slice().iter().enumerate() {
            let found = cx
                .domain
                .mrs
                .lookup_with(None, seg.key, seg.addr, seg.len, access);
            let (region, piece) = found?;
            named.iov.push(piece);
            named.regions[i] = Some(region.clone());
            named.lens[i] = seg.len;
        }
        let all = named.regions.iter().flatten();
        all.for_each(|region| cx.domain.mrs.used(region));
        Ok(named)
    }
}

/// Answers to reads up to this size are copied instead of being sent from the region.
const SMALL_ANSWER: usize = 8192;
