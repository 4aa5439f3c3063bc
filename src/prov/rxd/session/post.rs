// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Turns posted operations into packets.

use super::out::{Body, End, Out};
use super::{Cx, Session, Wire};
use crate::rxd::proto::{Iovs, Kind, Op, RmaIov};
use base::flags::flags;
use base::{Error, OpFlags, Result};
use engine::domain_state::TxOp;
use engine::transport::Address;
use object::ops::atomic::{Atomic, Family};
use object::ops::transfer::{RemoteSeg, Tx, What};

impl<A: Address> Session<A> {
    /// Posts a message, a write or a read. Takes over `tx`'s memory only on success.
    pub fn post<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, tx: &mut Tx<'_>, op: TxOp) -> Result {
        let kind = match tx.what {
            What::Msg => Kind::Message,
            What::Tagged => Kind::Tagged,
            What::Write => Kind::Write,
            What::Read => Kind::Read,
            What::Atomic | What::AtomicFetch => return Err(Error::INVAL),
        };
        let mut begin = beginning(kind, tx.target)?;
        begin.tag = tx.tag;
        let has_data = tx.flags.contains(OpFlags::REMOTE_CQ_DATA) && kind != Kind::Read;
        begin.data = has_data.then_some(tx.data);
        let (transaction, body, end) = match kind {
            Kind::Read => {
                self.may_expect()?;
                let (iov, total) = (tx.iov.take(), op.len as u64);
                let transaction = self.tx.expect(op, iov, total);
                (transaction, Body::nothing(), End::Nothing)
            }
            _ => {
                let copied = flags!(OpFlags: INJECT | DEVICE);
                let body = match tx.flags.intersects(copied) {
                    true => Body::copied(&[&tx.iov]),
                    false => Body::Memory(tx.iov.take()),
                };
                if let Some(fault) = tx.iov.take_fault() {
                    cx.domain.refuse_copy(&op, fault);
                    return Ok(());
                }
                (0, body, End::Complete(op))
            }
        };
        let out = Out::op(begin, transaction, body, end, cx.wire.mtu());
        self.submit(cx, out, &op);
        Ok(())
    }

    pub fn post_atomic<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, A, W>,
        atomic: &mut Atomic<'_>,
        op: TxOp,
    ) -> Result {
        let kind = match atomic.family {
            Family::Base => Kind::Atomic,
            Family::Fetch => Kind::Fetch,
            Family::Compare => Kind::Compare,
        };
        let mut begin = beginning(kind, atomic.target)?;
        begin.atomic = [atomic.datatype.0, atomic.op.0];
        let has_data = atomic.flags.contains(OpFlags::REMOTE_CQ_DATA) && kind == Kind::Atomic;
        begin.data = has_data.then_some(atomic.data);
        let body = Body::copied(&[&atomic.operands, &atomic.compare]);
        let (transaction, end) = match kind {
            Kind::Atomic => (0, End::Complete(op)),
            _ => {
                self.may_expect()?;
                let (iov, total) = (atomic.result.take(), op.len as u64);
                (self.tx.expect(op, iov, total), End::Nothing)
            }
        };
        let out = Out::op(begin, transaction, body, end, cx.wire.mtu());
        if self.is_foreign() && out.is_long_atomic() {
            if kind.is_answered() {
                self.tx.reads.remove(transaction.into());
            }
            return Err(Error::MSGSIZE);
        }
        self.submit(cx, out, &op);
        Ok(())
    }

    fn may_expect(&self) -> Result {
        self.tx.reads.has_room().then_some(()).ok_or(Error::AGAIN)
    }

    fn submit<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, out: Out, op: &TxOp) {
        cx.domain.eps[op.ep()].tx_pending += 1;
        self.push(cx, out);
        if !self.tx.is_blocked {
            self.pump(cx);
        }
        self.arm(cx);
    }
}

/// The first packet of an operation.
fn beginning(kind: Kind, target: &[RemoteSeg]) -> Result<Op> {
    let mut iovs = Iovs::default();
    for seg in target {
        let iov = RmaIov {
            addr: seg.addr,
            len: seg.len as u64,
            key: seg.key,
        };
        iovs.push(iov).then_some(()).ok_or(Error::INVAL)?;
    }
    Ok(Op {
        kind,
        tag: 0,
        data: None,
        segments: None,
        iovs,
        atomic: [0; 2],
    })
}
