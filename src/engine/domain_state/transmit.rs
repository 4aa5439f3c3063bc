// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Completions of operations at the initiator: fi_cq(3), fi_cntr(3).

use std::ffi::CStr;
use std::sync::Arc;

use super::DomainState;
use crate::av::without_context;
use crate::ep_state::Event;
use crate::transport::Address;
use abi::*;
use base::flags::flags;
use base::{CompFlags, Error, OpFlags, Result};
use object::ops::atomic::{Atomic, Family};
use object::ops::cq::CqErr;
use object::ops::transfer::{OneTx, OneWrite, Tx, What};
use sync::stats::Count;

/// An operation of the initiator that has not completed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TxOp {
    pub what: What,
    /// Time at which it began to wait, in the transport's units.
    pub since: u16,
    /// The endpoint, or its transmit context, to which the operation was posted: index in `DomainState::eps`.
    pub ep: u32,
    /// FI_COMPLETION is set if success must be reported.
    pub flags: OpFlags,
    pub context: usize,
    pub len: usize,
}

impl TxOp {
    /// The record of an operation of `len` bytes that is posted. The transport sets `since` later.
    #[inline]
    pub fn of(ep: usize, tx: &Tx<'_>, len: usize) -> TxOp {
        TxOp {
            what: tx.what,
            since: 0,
            ep: ep as u32,
            flags: tx.flags,
            context: tx.context.number(),
            len,
        }
    }

    /// The record of a message of one buffer.
    #[inline(always)]
    pub fn of_one(ep: usize, tx: &OneTx) -> TxOp {
        TxOp {
            what: tx.what,
            since: 0,
            ep: ep as u32,
            flags: tx.flags,
            context: tx.context.number(),
            len: tx.piece.len(),
        }
    }

    /// The record of a write of one buffer.
    #[inline(always)]
    pub fn of_write(ep: usize, write: &OneWrite) -> TxOp {
        TxOp {
            what: What::Write,
            since: 0,
            ep: ep as u32,
            flags: write.flags,
            context: write.context.number(),
            len: write.piece.len(),
        }
    }

    /// The record of an atomic operation. Its length is that of the target.
    pub fn of_atomic(ep: usize, atomic: &Atomic<'_>) -> TxOp {
        let (what, len) = match atomic.family {
            Family::Base => (What::Atomic, atomic.operands.remaining()),
            Family::Fetch | Family::Compare => (What::AtomicFetch, atomic.result.remaining()),
        };
        TxOp {
            what,
            since: 0,
            ep: ep as u32,
            flags: atomic.flags,
            context: atomic.context.number(),
            len,
        }
    }

    #[inline]
    pub const fn ep(&self) -> usize {
        self.ep as usize
    }

    /// Whether the application names the operation by this context at this endpoint: fi_cancel(3).
    pub const fn is_named(&self, ep: usize, context: usize) -> bool {
        self.ep() == ep && self.context == context
    }

    /// Whether no completion is reported.
    pub fn is_unreported(&self) -> bool {
        !self.flags.contains(OpFlags::COMPLETION)
    }

    /// Whether the application may consider the operation sent as soon as it is posted.
    pub fn is_promised(&self) -> bool {
        self.is_unreported() || self.flags.contains(OpFlags::INJECT)
    }
}

/// Completion flags at the initiator, and the counter.
const fn sent(what: What) -> (CompFlags, Event) {
    match what {
        What::Msg => (flags!(CompFlags: MSG | SEND), Event::Send),
        What::Tagged => (flags!(CompFlags: TAGGED | SEND), Event::Send),
        What::Write => (flags!(CompFlags: RMA | WRITE), Event::Write),
        What::Read => (flags!(CompFlags: RMA | READ), Event::Read),
        What::Atomic => (flags!(CompFlags: ATOMIC | WRITE), Event::Write),
        What::AtomicFetch => (flags!(CompFlags: ATOMIC | READ), Event::Read),
    }
}

impl<A: Address> DomainState<A> {
    /// Whether the application is notified of the operation's result, or the progress thread handles it.
    pub fn reports_completion(&self, op: &TxOp) -> bool {
        let (_, event) = sent(op.what);
        self.auto
            || op.flags.contains(OpFlags::COMPLETION)
            || self.eps[op.ep()].bound(event).is_some()
    }

    /// Completes an operation in flight.
    #[inline(always)]
    pub fn complete_tx(&mut self, op: &TxOp) {
        self.eps[op.ep()].tx_pending -= 1;
        self.sent(op.ep(), op);
    }

    /// Fails an operation in flight.
    #[cold]
    pub fn fail_tx(&mut self, op: &TxOp, error: Error) {
        self.eps[op.ep()].tx_pending -= 1;
        self.send_failed(op.ep(), op, error);
    }

    /// Reports the success of an initiated operation.
    #[inline(always)]
    pub fn sent(&mut self, id: usize, op: &TxOp) {
        let (flags, event) = sent(op.what);
        let ep = &self.eps[id];
        let cq = ep.tx_cq;
        ep.stats.add(op.what.tally(), op.len);
        // The counter comes first, so that fewer values stay alive. No thread sees the queue before the lock is
        // released.
        if let Some(cntr) = ep.cntr(event)
            && !cntr.count(op.len)
        {
            self.count_watched(id, event, op.flags, op.len);
        }
        if op.flags.contains(OpFlags::COMPLETION)
            && let Some(cq) = cq
        {
            self.cqs[cq].push(
                &[op.context as u64, flags.bits(), 0, 0, 0, 0],
                FI_ADDR_NOTAVAIL,
            );
        }
    }

    /// Reports the failure of an initiated operation.
    #[cold]
    pub fn send_failed(&mut self, id: usize, op: &TxOp, error: Error) {
        let why = self.losses.count();
        self.send_failed_because(id, op, error, error.code(), why);
    }

    /// Like `fail_tx`, with an error number of the provider and its explanation.
    #[cold]
    pub fn fail_tx_because(&mut self, op: &TxOp, error: Error, number: i32, why: Arc<CStr>) {
        self.eps[op.ep()].tx_pending -= 1;
        self.send_failed_because(op.ep(), op, error, number, Some(why));
    }

    pub(super) fn send_failed_because(
        &mut self,
        id: usize,
        op: &TxOp,
        error: Error,
        number: i32,
        why: Option<Arc<CStr>>,
    ) {
        let ep = &self.eps[id];
        ep.stats.count(Count::Failed);
        let (flags, event) = sent(op.what);
        if let Some(cq) = ep.tx_cq {
            self.cqs[cq].push_error(CqErr {
                context: op.context,
                flags,
                err: error.code(),
                prov_errno: number,
                src_addr: FI_ADDR_NOTAVAIL,
                why,
                ..CqErr::default()
            });
        }
        self.count_failed(id, event, op.flags);
    }

    /// Splits a destination into the address in the vector and the receive context that fi_rx_addr(3) has put into the
    /// upper bits. The context must be below `most`.
    pub fn destination(&self, port: usize, dest: u64, most: usize) -> Result<(u64, u8)> {
        // Connected endpoints have no address vector.
        let Some(av) = self.eps[port].av else {
            return Ok((dest, 0));
        };
        match self.avs[av].context_bits {
            0 => Ok((dest, 0)),
            bits => {
                let context = dest >> (u64::BITS - bits);
                let address = without_context(dest, bits);
                match context < most as u64 {
                    true => Ok((address, context as u8)),
                    false => Err(Error::INVAL),
                }
            }
        }
    }

    /// Whether an operation with a completion may be posted: there must be room in the queue and among the operations
    /// in flight.
    #[inline(always)]
    pub fn may_post(&self, ep: usize) -> Result {
        let ep = &self.eps[ep];
        if ep.tx_pending >= ep.tx_size {
            return Err(ep.again());
        }
        match ep.tx_cq {
            Some(cq) if self.cqs[cq].is_over() => Err(ep.again()),
            _ => Ok(()),
        }
    }
}
