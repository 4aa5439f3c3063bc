// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic operations, at the initiator and at the target: fi_atomic(3). Frames of our own: docs/wire/tcp.md, "Extensions".
#![forbid(unsafe_code)]

use crate::abi::*;
use crate::base::grow::append;
use crate::base::{Error, IoVec, Result};
use crate::engine::atomic::{apply, element_size};
use crate::engine::core::TxOp;
use crate::engine::stream::conn::{Durable, ReadOp, Regions, Sink};
use crate::engine::stream::context::split;
use crate::engine::stream::net::Net;
use crate::engine::stream::proto::{Header, MAX_HEADER, MAX_SEGS, Op, RmaSeg};
use crate::engine::stream::rma::{count_regions, durable, named};
use crate::engine::stream::rx::{Fault, commit};
use crate::engine::stream::transport::{Core, Stream};
use crate::engine::stream::tx::{STAGE_FULL, WANTS_ACK, check_flags};
use crate::ffi::ops::atomic::{Atomic, Family};
use crate::ffi::ops::transfer::What;

/// An operation of a peer whose operands are on their way.
pub struct AtomicIn {
    family: Family,
    datatype: fi_datatype,
    op: fi_op,
    target: IoVec,
    regions: Regions,
    /// The bytes of each segment.
    lens: [u64; MAX_SEGS],
    /// Bytes of the target.
    len: usize,
    data: Option<u64>,
    durable: Durable,
    /// Operands, then values to compare: as far as they have come.
    payload: Vec<u8>,
}

impl AtomicIn {
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// The next bytes of the payload.
    pub fn take(&mut self, bytes: &[u8]) -> Result {
        append(&mut self.payload, bytes, 2 * self.len)
    }
}

/// Payloads up to this size need no memory of their own.
pub(super) const FEW: usize = 128;

impl<N: Net> Stream<N> {
    /// Posts an atomic operation of the endpoint `port`, or of its transmit context `ep`. Memory belongs to the endpoint,
    /// whatever context the destination names.
    pub(super) fn post_atomic(
        &mut self,
        core: &mut Core<N>,
        port: usize,
        ep: usize,
        mut atomic: Atomic<'_>,
    ) -> Result {
        let state = core.eps.get(ep).ok_or(Error::INVAL)?;
        if !state.enabled {
            return Err(Error::OPBADSTATE);
        }
        let what = match atomic.family {
            Family::Base => What::Atomic,
            Family::Fetch | Family::Compare => What::AtomicFetch,
        };
        check_flags(what, atomic.flags, state)?;
        core.may_post(ep)?;
        let (dest, _) = split(core, port, atomic.dest)?;
        let id = self.connection(core, port, dest)?;
        self.conns[id].writes_by_ring = true;
        let len = match atomic.family {
            Family::Base => atomic.operands.remaining(),
            _ => atomic.result.remaining(),
        };
        let op = TxOp {
            since: 0,
            what,
            ep: ep as u32,
            flags: atomic.flags,
            context: atomic.context,
            len,
        };
        if self.post_short(core, id, &mut atomic, op) {
            return Ok(());
        }
        let (operands, compare) = (atomic.operands.remaining(), atomic.compare.remaining());
        let mut header = Header::new(code(atomic.family), (operands + compare) as u64);
        put_operation(&mut header, &atomic);
        if atomic.family == Family::Base {
            header.ack = atomic.flags & WANTS_ACK != 0;
            header.commit = atomic.flags & FI_COMMIT_COMPLETE != 0;
            header.data = (atomic.flags & FI_REMOTE_CQ_DATA != 0).then_some(atomic.data);
            return self.submit(core, id, header, atomic.operands, op);
        }
        let (mut few, mut many) = ([0; FEW], Vec::new());
        let bytes = room_for(operands + compare, &mut few, &mut many);
        let (own, compared) = bytes.split_at_mut(operands);
        atomic.operands.copy_to(own);
        atomic.compare.copy_to(compared);
        self.submit_exchange(core, id, header, bytes, atomic.result, op)
    }

    /// Sends an operation that has a result. Its payload is small, and copied.
    pub(super) fn exchange(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
        payload: &[u8],
        result: IoVec,
        mut op: TxOp,
    ) {
        self.begin_waiting(core, &mut op);
        let conn = &mut self.conns[id];
        conn.tx.ask(ReadOp { op, iov: result });
        let alone = conn.tx.queue.is_empty() && conn.tx.pace.writes(self.look);
        self.send_copied(core, id, header, payload, alone, false);
    }

    /// Sends a frame with a payload that is copied: at once, or behind what waits, and then without delay if it is `alone`.
    /// `answers`: the peer has asked for it.
    pub(super) fn send_copied(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
        payload: &[u8],
        alone: bool,
        answers: bool,
    ) {
        let encode = |counter, swap, out: &mut _| header.encode(counter, swap, out);
        if self.write_copied(id, payload, encode) {
            return;
        }
        let len = self.stage_frame(id, header, payload);
        let conn = &mut self.conns[id];
        if answers {
            conn.tx.owe(len);
        }
        let is_full = conn.tx.pace.is_full() || conn.tx.staged >= STAGE_FULL;
        if (alone || is_full || conn.duct.is_some()) && !conn.tx.blocked {
            self.flush_conn(core, id);
        }
    }

    /// Writes a frame at once, with a payload that is copied, if it is small, memory is shared with the peer and nothing is in
    /// front of it. Nothing is gained there by writing many at once, and the peer would wait for the last one.
    #[inline]
    pub(super) fn write_copied(
        &mut self,
        id: usize,
        payload: &[u8],
        encode: impl FnOnce(u8, bool, &mut [u8; MAX_HEADER]) -> usize,
    ) -> bool {
        let conn = &mut self.conns[id];
        let Some(duct) = &mut conn.duct else {
            return false;
        };
        if payload.len() > FEW || !conn.tx.queue.is_empty() {
            return false;
        }
        let mut bytes = [0; MAX_HEADER + FEW];
        let Some(start) = bytes.first_chunk_mut() else {
            return false;
        };
        let counter = conn.tx.counter;
        let len = encode(counter, conn.swap, start);
        bytes[len..len + payload.len()].copy_from_slice(payload);
        // What a peer has broken is found when the frame is written from the queue.
        let len = len + payload.len();
        if !matches!(duct.send_small(&bytes, len, &IoVec::empty(), 0), Ok(true)) {
            return false;
        }
        conn.tx.counter = counter.wrapping_add(1);
        self.ring_bell(id);
        true
    }

    /// Gives how long the frame is.
    fn stage_frame(&mut self, id: usize, header: &Header, payload: &[u8]) -> usize {
        let conn = &mut self.conns[id];
        let mut bytes = [0; MAX_HEADER];
        let counter = conn.tx.next_counter();
        let len = header.encode(counter, conn.swap, &mut bytes);
        self.stage_with(id, &bytes[..len], payload.len(), |out| {
            out.extend_from_slice(payload);
        });
        len + payload.len()
    }

    /// A peer operates on memory of ours. `bytes` is what has come behind the header; gives how many of them belong to it.
    pub(super) fn atomic_request(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
        bytes: &[u8],
    ) -> core::result::Result<usize, Fault> {
        let conn = &self.conns[id];
        let ep = conn.ep;
        if !conn.extended || conn.swap {
            return Err(Fault::Rule("an atomic operation that was not agreed upon"));
        }
        self.conns[id].rx.was_written = true;
        let mut request = read_operation(header)?;
        let access = access_of(request.family, request.op);
        if core.eps[ep].caps & access != access {
            return Err(Fault::Rule(
                "an atomic operation that the endpoint does not serve",
            ));
        }
        (request.target, request.regions) =
            named(core, &self.conns[id], header, FI_ATOMIC, access)?;
        if header.commit {
            request.durable = durable(header, &request.regions);
        }
        let ack = header.ack || header.commit;
        let payload = header.payload as usize;
        if payload <= FEW.min(bytes.len()) {
            let (mut few, mut many) = ([0; FEW], Vec::new());
            let room = room_for(payload.max(request.len), &mut few, &mut many);
            room[..payload].copy_from_slice(&bytes[..payload]);
            self.carry_out(core, id, &mut request, room);
            if ack {
                self.send_ack(core, id);
            }
            return Ok(payload);
        }
        self.expect(id, Sink::Atomic(Box::new(request)), header.payload, ack);
        Ok(0)
    }

    /// All of an operation is here.
    pub(super) fn arrived(&mut self, core: &mut Core<N>, id: usize, mut request: AtomicIn) {
        let mut payload = std::mem::take(&mut request.payload);
        self.carry_out(core, id, &mut request, &mut payload);
    }

    /// `payload` has the operands, then values to compare; the operands become the result.
    fn carry_out(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        request: &mut AtomicIn,
        payload: &mut [u8],
    ) {
        let AtomicIn {
            datatype, op, len, ..
        } = *request;
        let (operands, compare) = payload.split_at_mut(len);
        apply(datatype, op, &mut request.target, operands, compare);
        if let Some(parts) = &request.durable
            && !commit(&self.conns[id], parts)
        {
            return;
        }
        if op != FI_ATOMIC_READ {
            count_regions(core, &request.regions, &request.lens);
        }
        let conn = &self.conns[id];
        let ep = conn.ep;
        if request.family == Family::Base {
            core.written(ep, FI_ATOMIC, len as u64, request.data, &conn.sender());
            return;
        }
        let header = Header::new(Op::ReadRsp, len as u64);
        self.send_copied(core, id, &header, operands, false, true);
        core.read_by_peer(ep, len as u64);
    }
}

/// `len` bytes that are 0.
fn room_for<'a>(len: usize, few: &'a mut [u8; FEW], many: &'a mut Vec<u8>) -> &'a mut [u8] {
    match few.get_mut(..len) {
        Some(room) => room,
        None => {
            many.resize(len, 0);
            many
        }
    }
}

/// What a peer must be allowed to do with the memory.
pub(super) const fn access_of(family: Family, op: fi_op) -> u64 {
    match (family, op) {
        (Family::Base, _) => FI_REMOTE_WRITE,
        (_, FI_ATOMIC_READ) => FI_REMOTE_READ,
        _ => FI_REMOTE_READ | FI_REMOTE_WRITE,
    }
}

/// Bytes that go to the target for an operation on `len` of its bytes.
pub(super) const fn payload_of(family: Family, op: fi_op, len: u64) -> u64 {
    match family {
        _ if op.0 == FI_ATOMIC_READ.0 => 0,
        Family::Compare => 2 * len,
        _ => len,
    }
}

/// Anything but an operation that fetches or compares is taken for one that does neither.
pub(super) const fn family_of(op: Op) -> Family {
    match op {
        Op::AtomicFetch => Family::Fetch,
        Op::AtomicCompare => Family::Compare,
        _ => Family::Base,
    }
}

pub(super) const fn code(family: Family) -> Op {
    match family {
        Family::Base => Op::Atomic,
        Family::Fetch => Op::AtomicFetch,
        Family::Compare => Op::AtomicCompare,
    }
}

fn put_operation(header: &mut Header, atomic: &Atomic<'_>) {
    // Both are below 32: operations and types that nobody serves do not come here.
    header.index = atomic.op.0 as u8;
    header.datatype = atomic.datatype.0 as u8;
    for (place, seg) in header.segs.iter_mut().zip(atomic.target) {
        *place = RmaSeg {
            addr: seg.addr,
            len: seg.len as u64,
            key: seg.key,
        };
    }
    header.seg_count = atomic.target.len() as u8;
}

/// The operation that a header asks for, without its memory.
fn read_operation(header: &Header) -> core::result::Result<AtomicIn, Fault> {
    let family = family_of(header.op);
    let (datatype, op) = (
        fi_datatype(header.datatype.into()),
        fi_op(header.index.into()),
    );
    let Some(size) = element_size(family, datatype, op) else {
        return Err(Fault::Rule("an atomic operation that there is not"));
    };
    let len = header.segs_len();
    let payload = payload_of(family, op, len);
    let whole = |seg: &RmaSeg| seg.len.is_multiple_of(size as u64);
    if len == 0 || header.payload != payload || !header.segs().iter().all(whole) {
        return Err(Fault::Rule(
            "an atomic operation of another length than its segments",
        ));
    }
    Ok(AtomicIn {
        family,
        datatype,
        op,
        target: IoVec::empty(),
        regions: Regions::default(),
        lens: header.segs.map(|seg| seg.len),
        len: len as usize,
        data: header.data,
        durable: None,
        payload: Vec::new(),
    })
}
