// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations that were posted before the connection was up. They are kept as the application posted them, because each
//! packet contains the number of the connection at the peer. So a program that sends to many new peers connects to all
//! of them at once.

use super::loss::end_transmit;
use super::{Outgoing, Sent};
use crate::rxm::session::link::Link;
use crate::rxm::session::{Common, Cx, Wire};
use crate::rxm::state::StateOf;
use base::{Error, IoVec, OpFlags, Result};
use engine::domain_state::TxOp;
use engine::peer::handover::Handover;
use object::ops::transfer::{Context, RemoteSeg, Tx, What};

pub struct Deferred {
    pub op: TxOp,
    /// Receive context of the peer.
    receive_context: u8,
    what: What,
    iov: IoVec,
    flags: OpFlags,
    dest: u64,
    data: u64,
    tag: u64,
    target: Box<[RemoteSeg]>,
}

impl Outgoing {
    /// Whether operations wait for the connection.
    #[inline]
    pub fn is_deferring(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Keeps an operation for the time when the connection is up. FI_EAGAIN: an operation without a completion is not
    /// kept, because the application might stop to poll before it has left, and would get no error.
    pub fn defer<W>(
        &mut self,
        cx: &mut Cx<'_, W>,
        tx: &mut Tx<'_>,
        op: TxOp,
        receive_context: u8,
    ) -> Result {
        if tx.flags.contains(OpFlags::INJECT) || !cx.domain.reports_completion(&op) {
            return Err(Error::AGAIN);
        }
        cx.domain.eps[op.ep()].tx_pending += 1;
        cx.common.deferred += 1;
        self.deferred.push_back(Deferred {
            op,
            receive_context,
            what: tx.what,
            iov: tx.iov.take(),
            flags: tx.flags,
            dest: tx.dest,
            data: tx.data,
            tag: tx.tag,
            target: tx.target.into(),
        });
        Ok(())
    }

    /// Posts the operations that waited for the connection, as far as there is memory.
    pub fn send_deferred<W: Wire>(&mut self, link: &mut Link, cx: &mut Cx<'_, W>) -> Sent {
        while let Some(mut first) = self.deferred.pop_front() {
            let (op, receive_context) = (first.op, first.receive_context);
            let mut tx = Tx {
                what: first.what,
                iov: first.iov.take(),
                flags: first.flags,
                dest: first.dest,
                // `op` has the context of the completion.
                context: Context::default(),
                data: first.data,
                tag: first.tag,
                target: &first.target,
            };
            cx.domain.eps[op.ep()].tx_pending -= 1;
            let posted = self.post(link, cx, &mut tx, op, receive_context);
            if let Err(error) = posted {
                cx.domain.eps[op.ep()].tx_pending += 1;
                if error == Error::AGAIN {
                    first.iov = tx.iov.take();
                    self.deferred.push_front(first);
                    self.list(link, cx.common);
                    return Ok(());
                }
                cx.domain.fail_tx(&op, error);
            }
            cx.common.deferred -= 1;
            posted.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    /// Ends the operations that wait for the connection.
    pub(super) fn fail_deferred(
        &mut self,
        common: &mut Common,
        domain: &mut StateOf,
        error: Option<Error>,
    ) {
        common.deferred -= self.deferred.len();
        for deferred in core::mem::take(&mut self.deferred) {
            end_transmit(domain, &deferred.op, error);
        }
    }

    /// Drops the operations of a closed transmit context that wait for the connection.
    pub(super) fn leave_deferred(&mut self, common: &mut Common, handover: &mut Handover) {
        let before = self.deferred.len();
        self.deferred.retain(|deferred| {
            let is_its = handover.is_its(&deferred.op);
            if is_its {
                handover.drop_one();
            }
            !is_its
        });
        common.deferred -= before - self.deferred.len();
    }

    /// Removes an operation that waits for the connection.
    pub(super) fn take_deferred(
        &mut self,
        common: &mut Common,
        ep: usize,
        context: usize,
    ) -> Option<TxOp> {
        let is_meant = |deferred: &Deferred| deferred.op.is_named(ep, context);
        let at = self.deferred.iter().position(is_meant)?;
        common.deferred -= 1;
        self.deferred.remove(at).map(|deferred| deferred.op)
    }
}
