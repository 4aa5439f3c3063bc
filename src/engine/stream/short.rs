// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic operations and answers in their usual form (`proto::Short`) over shared memory: whole, small, on one segment, and
//! nothing stands in their way. All else, also what is refused, is left to the general way, in `atomic` and `rma`.
#![forbid(unsafe_code)]

use crate::abi::*;
use crate::base::IoVec;
use crate::engine::atomic::{apply, element_size};
use crate::engine::core::TxOp;
use crate::engine::stream::atomic::{FEW, access_of, code, family_of, payload_of};
use crate::engine::stream::conn::{At, ReadOp};
use crate::engine::stream::net::Net;
use crate::engine::stream::proto::{Header, Op, RmaSeg, Short, ShortAtomic, short_frame};
use crate::engine::stream::rma::{ANSWERS, ASKED};
use crate::engine::stream::transport::{Core, Stream};
use crate::engine::stream::tx::SPECIAL;
use crate::ffi::ops::atomic::{Atomic, Family};

impl<N: Net> Stream<N> {
    /// Sends an atomic operation. False: nothing has happened.
    #[inline]
    pub(super) fn post_short(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        atomic: &mut Atomic<'_>,
        mut op: TxOp,
    ) -> bool {
        let conn = &self.conns[id];
        let usual = conn.duct.is_some() && conn.extended && !conn.swap && !self.must_wait(id, &op);
        let payload = payload_of(atomic.family, atomic.op, op.len as u64) as usize;
        let operands = op.len.min(payload);
        let ([seg], true) = (atomic.target, usual && payload <= FEW) else {
            return false;
        };
        if op.flags & (SPECIAL | FI_REMOTE_CQ_DATA) != 0 || conn.tx.asked > ASKED {
            return false;
        }
        let mut bytes = [0; FEW];
        atomic.operands.copy_to(&mut bytes[..operands]);
        if operands < payload {
            atomic.compare.copy_to(&mut bytes[operands..payload]);
        }
        let short = Short::Atomic(ShortAtomic {
            op: code(atomic.family),
            index: atomic.op.0 as u8,
            datatype: atomic.datatype.0 as u8,
            seg: RmaSeg {
                addr: seg.addr,
                len: seg.len as u64,
                key: seg.key,
            },
            payload: &bytes[..payload],
        });
        if !self.write_copied(id, &bytes[..payload], |counter, _, out| {
            short.encode(counter, out)
        }) {
            return false;
        }
        if atomic.family == Family::Base {
            core.sent(op.ep(), &op);
            return true;
        }
        self.begin_waiting(core, &mut op);
        let iov = atomic.result.take();
        self.conns[id].tx.ask(ReadOp { op, iov });
        true
    }

    /// Deals with a record, if it is one of these. False: nothing has happened.
    // Within the loop over all records it would cost each message some instructions.
    #[inline(never)]
    pub(super) fn take_short(&mut self, core: &mut Core<N>, id: usize, bytes: &[u8]) -> bool {
        let conn = &self.conns[id];
        let between = matches!(conn.rx.at, At::Header) && conn.rx.header_have == 0;
        if !between || conn.swap {
            return false;
        }
        match short_frame(bytes) {
            Some(Short::Answer(payload)) => self.take_answer(core, id, payload),
            Some(Short::Atomic(atomic)) => self.operate(core, id, &atomic),
            None => false,
        }
    }

    /// The answer to the operation that waits for one longest.
    #[inline]
    fn take_answer(&mut self, core: &mut Core<N>, id: usize, payload: &[u8]) -> bool {
        let tx = &mut self.conns[id].tx;
        let its = |read: &ReadOp| read.op.len == payload.len();
        if !tx.await_read.front().is_some_and(its) {
            return false;
        }
        let Some(ReadOp { op, iov }) = tx.take_asked() else {
            return false;
        };
        iov.fill(payload);
        core.eps[op.ep()].tx_pending -= 1;
        core.sent(op.ep(), &op);
        true
    }

    /// A peer operates on memory of ours.
    #[inline]
    fn operate(&mut self, core: &mut Core<N>, id: usize, atomic: &ShortAtomic<'_>) -> bool {
        let conn = &self.conns[id];
        let (ep, family) = (conn.ep, family_of(atomic.op));
        let (datatype, op) = (
            fi_datatype(atomic.datatype.into()),
            fi_op(atomic.index.into()),
        );
        let &ShortAtomic { seg, payload, .. } = atomic;
        let Some(size) = element_size(family, datatype, op) else {
            return false;
        };
        let fits = (1..=FEW as u64).contains(&seg.len)
            && seg.len.is_multiple_of(size as u64)
            && payload.len() as u64 == payload_of(family, op, seg.len)
            && payload.len() <= FEW;
        let access = access_of(family, op);
        let served = core.eps[ep].caps & (access | FI_ATOMIC) == access | FI_ATOMIC;
        if !fits || !served || !conn.extended || conn.answers() > ANSWERS {
            return false;
        }
        let found = core
            .mrs
            .lookup_with(conn.key(), seg.key, seg.addr, seg.len, access);
        let Some((region, piece)) = found.ok().filter(|(region, _)| !region.is_single_use()) else {
            return false;
        };
        let (len, mut target) = (seg.len as usize, IoVec::from(piece));
        let counter = region.counter().filter(|_| op != FI_ATOMIC_READ).cloned();
        let mut bytes = [0; FEW];
        bytes[..payload.len()].copy_from_slice(payload);
        let (operands, compare) = bytes.split_at_mut(len);
        apply(datatype, op, &mut target, operands, compare);
        self.conns[id].rx.was_written = true;
        if let Some(counter) = counter {
            core.count_region(&counter, len);
        }
        if family == Family::Base {
            core.written(ep, FI_ATOMIC, len as u64, None, &self.conns[id].sender());
            return true;
        }
        let answer = Short::Answer(operands);
        if !self.write_copied(id, operands, |counter, _, out| answer.encode(counter, out)) {
            let header = Header::new(Op::ReadRsp, len as u64);
            self.send_copied(core, id, &header, operands, false, true);
        }
        core.read_by_peer(ep, len as u64);
        true
    }
}
