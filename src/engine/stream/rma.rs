// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Remote memory access, at the initiator and at the target: fi_rma(3).
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::abi::*;
use crate::base::{Error, IoVec, Result};
use crate::engine::core::{Core as EngineCore, TxOp};
use crate::engine::stream::conn::{After, Conn, Durable, Frame, Out, ReadOp, Regions, Sink};
use crate::engine::stream::net::Net;
use crate::engine::stream::proto::{Header, MAX_HEADER, MAX_SEGS, Op, RmaSeg, encode_write};
use crate::engine::stream::rx::Fault;
use crate::engine::stream::transport::{Core, Stream};
use crate::engine::stream::tx::{STAGE_BRIM, TOGETHER, WANTS_ACK, remote_data};
use crate::engine::transport::{Address, MrRegion};
use crate::ffi::ops::transfer::{RemoteSeg, Tx};

impl<N: Net> Stream<N> {
    pub(super) fn post_write(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        tx: Tx<'_>,
        op: TxOp,
    ) -> Result {
        check_target(&tx, op.len)?;
        if self.conns[id].is_direct && self.moved_directly(core, id, &tx, &op) {
            return Ok(());
        }
        self.conns[id].writes_by_ring = true;
        let data = remote_data(&tx);
        if op.len <= TOGETHER {
            let encode = |counter, header: &mut [u8; MAX_HEADER]| {
                encode_write(data, segs(&tx), op.len, counter, header)
            };
            if self.post_small(core, id, &tx.iov, op, encode) {
                return Ok(());
            }
        }
        let mut header = Header::new(Op::Write, op.len as u64);
        put_target(&mut header, &tx);
        header.ack = tx.flags & WANTS_ACK != 0;
        header.commit = tx.flags & FI_COMMIT_COMPLETE != 0;
        header.data = data;
        self.submit(core, id, header, tx.iov, op)
    }

    pub(super) fn post_read(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        tx: Tx<'_>,
        op: TxOp,
    ) -> Result {
        check_target(&tx, op.len)?;
        if self.conns[id].is_direct && self.moved_directly(core, id, &tx, &op) {
            return Ok(());
        }
        let mut header = Header::new(Op::ReadReq, 0);
        put_target(&mut header, &tx);
        self.submit(core, id, header, tx.iov, op)
    }

    /// Asks for the bytes of a read.
    pub(super) fn request_read(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
        iov: IoVec,
        mut op: TxOp,
    ) {
        self.begin_waiting(core, &mut op);
        let conn = &mut self.conns[id];
        conn.tx.ask(ReadOp { op, iov });
        self.send_bare(core, id, header);
    }

    /// A peer writes to memory of ours.
    pub(super) fn write_request(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
    ) -> core::result::Result<(), Fault> {
        if header.segs_len() != header.payload {
            return Err(Fault::Rule("a write of another length than its segments"));
        }
        self.conns[id].rx.was_written = true;
        let (iov, regions) = named(core, &self.conns[id], header, FI_RMA, FI_REMOTE_WRITE)?;
        let sink = Sink::Write {
            iov,
            len: header.payload,
            data: header.data,
            durable: match header.commit {
                true => durable(header, &regions),
                false => None,
            },
            regions,
            lens: header.segs.map(|seg| seg.len),
        };
        self.expect(id, sink, header.payload, header.ack || header.commit);
        if header.payload == 0 {
            self.finish(core, id);
        }
        Ok(())
    }

    /// A peer reads memory of ours.
    pub(super) fn read_request(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
    ) -> core::result::Result<(), Fault> {
        let (iov, regions) = named(core, &self.conns[id], header, FI_RMA, FI_REMOTE_READ)?;
        if regions[0].is_none() {
            return Err(Fault::Rule("a read of nothing"));
        }
        let total = header.segs_len();
        let mut answer = Header::new(Op::ReadRsp, total);
        answer.payload = total;
        self.answer_read(core, id, &answer, iov, regions);
        Ok(())
    }

    /// Whether so many answers wait for a peer that a frame which is to be answered stays in the stream.
    #[inline]
    pub(super) fn owes_enough(&self, id: usize, header: &Header) -> bool {
        let answers = self.conns[id].answers();
        answers > ANSWERS && (header.asks() || answers > ACKS && header.is_answered())
    }

    /// Whether a frame that stood in the stream is dealt with: the peer has taken a good part of what waits for it.
    pub(super) fn may_answer(&self, id: usize) -> bool {
        self.conns[id].answers() <= ANSWERS / 2
    }

    /// Queues the answer to a read; small ones are copied with others.
    pub(super) fn answer_read(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
        iov: IoVec,
        regions: Regions,
    ) {
        let len = header.payload;
        if len <= SMALL_ANSWER && self.conns[id].tx.staged <= STAGE_BRIM {
            self.send_always(core, id, header, iov, None);
            core.read_by_peer(self.conns[id].ep, len);
            return;
        }
        let conn = &mut self.conns[id];
        let mut bytes = [0; MAX_HEADER];
        let counter = conn.tx.next_counter();
        let header_len = header.encode(counter, conn.swap, &mut bytes);
        conn.tx.answers += 1;
        conn.tx.queue.push_back(Out::Frame(Box::new(Frame {
            header: bytes,
            header_len: header_len as u8,
            header_done: 0,
            payload: iov,
            after: After::Answered(regions, len),
        })));
        // The ring takes what it has room for; nobody flushes it but the application.
        if conn.duct.is_some() && !conn.tx.blocked {
            return self.flush_conn(core, id);
        }
        self.mark_dirty(id);
    }

    /// fi_mr(3), fi_close: a region is closed. Accesses to it that are under way end with their connections: no frame
    /// tells a peer that its access has failed.
    #[cold]
    pub(super) fn end_accesses(&mut self, core: &mut Core<N>, region: &Arc<MrRegion>) {
        // Accesses hold it, besides its handle. The table does not any more.
        if Arc::strong_count(region) == 1 {
            return;
        }
        let conns = self.conns.iter();
        let accessing: Vec<usize> = conns
            .filter(|(_, conn)| conn.accesses(region))
            .map(|(id, _)| id)
            .collect();
        for id in accessing {
            // The loss of one peer may have ended the connection to another.
            if self.conns.contains(id) {
                const CLOSED: Fault = Fault::Rule("a memory region was closed under its access");
                self.fault(core, id, &CLOSED);
            }
        }
    }

    /// The answer to a read of ours.
    pub(super) fn read_response(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
    ) -> core::result::Result<(), Fault> {
        let conn = &mut self.conns[id];
        let waiting = conn.tx.await_read.front();
        if waiting.is_some_and(|read| read.op.len as u64 != header.payload) {
            return Err(Fault::Rule("a read response of another length"));
        }
        let Some(read) = conn.tx.take_asked() else {
            return Err(Fault::Rule("a read response that nobody waits for"));
        };
        self.expect(id, Sink::Read(read), header.payload, false);
        if header.payload == 0 {
            self.finish(core, id);
        }
        Ok(())
    }
}

/// So many bytes may wait for a peer to take them; then nothing of it is read that is to be answered until half of that is
/// gone. Frames that are only acknowledged have their own limit.
pub(super) const ANSWERS: usize = 1 << 20;
const ACKS: usize = 2 * ANSWERS;

/// What is asked of a peer at a time costs it no more than this: together with what it has copied of its own operations
/// (`STAGE_BRIM`) and of small answers that is less than `ANSWERS`. Two that read from each other with all they have do not wait
/// for each other.
pub(super) const ASKED: usize = ANSWERS / 4;

/// Answers to reads up to this size are copied at once, and not sent from where they are, while the peer takes them.
const SMALL_ANSWER: u64 = 8192;

/// The memory that a request names, if the peer may use it so, and the regions that it is in. `capability` is FI_RMA or
/// FI_ATOMIC. The authorization key is that of the connection.
pub(super) fn named<N: Net>(
    core: &mut Core<N>,
    conn: &Conn<N>,
    header: &Header,
    capability: u64,
    access: u64,
) -> core::result::Result<(IoVec, Regions), Fault> {
    // fi_getinfo(3): a primary capability that was not asked for is not there.
    if core.eps[conn.ep].caps & capability == 0 {
        return Err(Fault::Rule(
            "an access to memory through an endpoint without the capability",
        ));
    }
    let mut iov = IoVec::empty();
    let mut regions = Regions::default();
    for (seg, place) in header.segs().iter().zip(&mut regions) {
        let found = core
            .mrs
            .lookup_with(conn.key(), seg.key, seg.addr, seg.len, access);
        let (region, piece) = found.map_err(refused)?;
        if !iov.push(piece) {
            return Err(Fault::Rule("too many segments"));
        }
        *place = Some(region.clone());
    }
    let all = regions.iter().flatten();
    all.for_each(|region| core.mrs.used(region));
    Ok((iov, regions))
}

/// A peer's write is there: one event for each region that it modified, of the bytes that came to it.
#[inline]
pub(super) fn count_regions<A: Address>(
    core: &mut EngineCore<A>,
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
                core.count_region(counter, mine.map(|(_, &len)| len as usize).sum());
            }
        }
    }
}

/// fi_cq(3), FI_COMMIT_COMPLETE: the parts of the target that lie in persistent memory.
#[cold]
pub(super) fn durable(header: &Header, regions: &Regions) -> Durable {
    let targets = header.segs().iter().zip(regions.iter().flatten());
    let persistent = targets.filter(|(seg, region)| region.is_persistent() && seg.len > 0);
    let parts = persistent
        .filter_map(|(seg, region)| Some(region.reach_one(seg.addr, seg.len).ok()?.span()));
    Some(parts.collect())
}

/// The target of an RMA operation: as many bytes as the operation has, in up to four segments.
#[inline]
fn check_target(tx: &Tx<'_>, len: usize) -> Result {
    let add = |total: usize, seg: &RemoteSeg| total.checked_add(seg.len);
    match tx.target.iter().try_fold(0, add) {
        Some(total) if total == len && (1..=MAX_SEGS).contains(&tx.target.len()) => Ok(()),
        _ => Err(Error::INVAL),
    }
}

fn segs(tx: &Tx<'_>) -> impl ExactSizeIterator<Item = RmaSeg> {
    tx.target.iter().map(|seg| RmaSeg {
        addr: seg.addr,
        len: seg.len as u64,
        key: seg.key,
    })
}

fn put_target(header: &mut Header, tx: &Tx<'_>) {
    for (place, seg) in header.segs.iter_mut().zip(segs(tx)) {
        *place = seg;
    }
    header.seg_count = tx.target.len() as u8;
}

fn refused(error: Error) -> Fault {
    Fault::Rule(match error {
        Error::NOKEY => "it names a memory region that does not exist",
        Error::ACCES => "it has no right to that access to a memory region",
        Error::KEYREJECTED => "it reaches for a memory region of another authorization key",
        _ => "it reaches outside a memory region",
    })
}
