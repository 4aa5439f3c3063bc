// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Remote memory access, at the initiator and at the target: fi_rma(3).
//!
//! Reads and fetching atomics beyond the limit get FI_EAGAIN. Peers on libfabric request as much as their transmit
//! queue holds (256 by default, and 3000 are within the limit). Answers that are sent without a copy count with the
//! size of their frame.

use std::sync::Arc;

use crate::proto::{
    Frame, MAX_HEADER, MAX_SEGS, ReadRequest, ReadResponse, Refused, RmaSeg, Write,
};
use crate::session::atomic::seg_of;
use crate::session::outbox::TOGETHER;
use crate::session::receive::Fault;
use crate::session::receive_state::{Durable, Regions, Sink};
use crate::session::send::{WANTS_ACK, remote_data};
use crate::session::{Cx, Session};
use base::{Access, Caps, Error, OpFlags, Result, Span};
use engine::domain_state::{DomainState, TxOp};
use engine::mr::Target;
use engine::transport::Address;
use object::ops::transfer::{RemoteSeg, Tx};

impl<A: Address> Session<A> {
    pub fn post_write(&mut self, cx: &mut Cx<'_, A>, tx: &mut Tx<'_>, op: TxOp) -> Result {
        if self.is_direct && self.moved_directly(cx, tx, &op) {
            return Ok(());
        }
        self.writes_by_ring = true;
        let data = remote_data(tx);
        let acked = tx.flags.intersects(WANTS_ACK);
        if op.len <= TOGETHER {
            let write = Write {
                segs: segs(tx),
                data,
                ack: acked,
                commit: false,
                payload: op.len as u64,
            };
            let encode =
                |counter, header: &mut [u8; MAX_HEADER]| write.encode_iter(counter, false, header);
            if self.post_small(cx, &tx.iov, op, acked, encode) {
                return Ok(());
            }
        }
        let write = Frame::Write(Write {
            segs: segs(tx).collect(),
            data,
            ack: acked,
            commit: tx.flags.contains(OpFlags::COMMIT_COMPLETE),
            payload: op.len as u64,
        });
        self.submit(cx, write, tx.iov.take(), op)
    }

    pub fn post_read(&mut self, cx: &mut Cx<'_, A>, tx: &mut Tx<'_>, op: TxOp) -> Result {
        if self.is_direct && self.moved_directly(cx, tx, &op) {
            return Ok(());
        }
        let segs = segs(tx).collect();
        self.submit(
            cx,
            Frame::ReadRequest(ReadRequest { segs }),
            tx.iov.take(),
            op,
        )
    }

    /// Handles a write of the peer to local memory.
    pub fn write_request(
        &mut self,
        cx: &mut Cx<'_, A>,
        write: &Write,
    ) -> core::result::Result<(), Fault> {
        if write.segs.total() != write.payload {
            return Err(Fault::Rule("a write of another length than its segments"));
        }
        self.rx.was_written = true;
        let named = self.named(cx.domain, &write.segs, Caps::RMA, Access::REMOTE_WRITE);
        let (target, regions) = match named {
            Ok(named) => named,
            Err(why) => {
                let answer = (write.ack || write.commit).then_some(Refused::Ack);
                return self.refuse(cx, answer, write.payload, why);
            }
        };
        let sink = Sink::Write {
            target,
            data: write.data,
            durable: match write.commit {
                true => durable(&write.segs, &regions),
                false => None,
            },
            regions,
            lens: write.segs.lens(),
        };
        self.expect(cx, sink, write.payload, write.ack || write.commit);
        if write.payload == 0 {
            self.finish(cx);
        }
        Ok(())
    }

    /// Handles a read of the peer from local memory.
    pub fn read_request(
        &mut self,
        cx: &mut Cx<'_, A>,
        read: &ReadRequest,
    ) -> core::result::Result<(), Fault> {
        let named = self.named(cx.domain, &read.segs, Caps::RMA, Access::REMOTE_READ);
        let (target, regions) = match named {
            Ok(named) => named,
            Err(why) => return self.refuse(cx, Some(Refused::Response), 0, why),
        };
        if regions[0].is_none() {
            return Err(Fault::Rule("a read of nothing"));
        }
        let len = read.segs.total();
        self.tx.out.answer_read(cx, len, target, regions);
        Ok(())
    }

    /// Handles the answer to a local read.
    pub fn read_response(
        &mut self,
        cx: &mut Cx<'_, A>,
        response: &ReadResponse,
    ) -> core::result::Result<(), Fault> {
        let waiting = self.tx.reads.first();
        if waiting.is_some_and(|read| read.op.len as u64 != response.payload) {
            return Err(Fault::Rule("a read response of another length"));
        }
        let Some(read) = self.tx.reads.begin() else {
            return Err(Fault::Rule("a read response that nobody waits for"));
        };
        self.expect(cx, Sink::Read(read), response.payload, false);
        if response.payload == 0 {
            self.finish(cx);
        }
        Ok(())
    }

    /// Returns the memory that a request names, if the peer may access it, and the regions that contain it.
    /// `capability` is `RMA` or `ATOMIC`. The authorization key is that of the connection.
    pub(super) fn named(
        &self,
        domain: &mut DomainState<A>,
        segs: &[RmaSeg],
        capability: Caps,
        access: Access,
    ) -> core::result::Result<(Target, Regions), Fault> {
        // fi_getinfo(3): a primary capability that was not requested is not available.
        if !domain
            .ep(self.peer.ep)
            .caps
            .contains(capability | access.capabilities())
        {
            return Err(Fault::Rule(
                "an access to memory through an endpoint without the capability",
            ));
        }
        let mut target = Target::default();
        let mut regions = Regions::default();
        for (seg, place) in segs.iter().zip(&mut regions) {
            let (key, mrs) = (self.key.as_ref(), &domain.mrs);
            let found = mrs.lookup_all(key, seg.key, seg.addr, seg.len, access);
            let (region, pieces) = found.map_err(refused)?;
            target.push(pieces);
            *place = Some(region.clone());
        }
        let all = regions.iter().flatten();
        all.for_each(|region| domain.mrs.used(region));
        Ok((target, regions))
    }
}

/// Counts a complete write of the peer: one event for each region that it modified, with the bytes written there.
#[inline]
pub fn count_regions<A: Address>(
    domain: &mut DomainState<A>,
    regions: &Regions,
    lens: &[u64; MAX_SEGS],
) {
    for (i, region) in regions.iter().enumerate() {
        let Some(region) = region else {
            return;
        };
        if let Some(counter) = region.counter() {
            let is_it = |other: &Option<_>| other.as_ref().is_some_and(|o| Arc::ptr_eq(o, region));
            if !regions[..i].iter().any(is_it) {
                let segments = regions.iter().zip(lens).skip(i);
                let mine = segments.filter(|(other, _)| is_it(other));
                domain.count_region(counter, mine.map(|(_, &len)| len as usize).sum());
            }
        }
    }
}

/// Returns the parts of the target that lie in persistent memory (fi_cq(3), FI_COMMIT_COMPLETE).
#[cold]
pub fn durable(segs: &[RmaSeg], regions: &Regions) -> Durable {
    let targets = segs.iter().zip(regions.iter().flatten());
    let persistent = targets.filter(|(seg, region)| region.is_persistent() && seg.len > 0);
    let pieces = persistent.filter_map(|(seg, region)| region.reach(seg.addr, seg.len).ok());
    Some(
        pieces
            .flat_map(|pieces| pieces.spans().collect::<Vec<Span>>())
            .collect(),
    )
}

/// Checks the target of an RMA operation: as many bytes as the operation has, in up to four segments.
#[inline]
pub fn check_target(tx: &Tx<'_>, len: usize) -> Result {
    let add = |total: usize, seg: &RemoteSeg| total.checked_add(seg.len);
    match tx.target.iter().try_fold(0, add) {
        Some(total) if total == len && (1..=MAX_SEGS).contains(&tx.target.len()) => Ok(()),
        _ => Err(Error::INVAL),
    }
}

fn segs(tx: &Tx<'_>) -> impl ExactSizeIterator<Item = RmaSeg> {
    tx.target.iter().map(seg_of)
}

fn refused(error: Error) -> Fault {
    Fault::Rule(match error {
        Error::NOKEY => "it names a memory region that does not exist",
        Error::ACCES => "it has no right to that access to a memory region",
        Error::KEYREJECTED => "it reaches for a memory region of another authorization key",
        _ => "it reaches outside a memory region",
    })
}
