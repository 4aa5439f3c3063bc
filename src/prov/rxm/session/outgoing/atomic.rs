// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic operations of this side (fi_atomic(3)): each is a message with an answer.

use super::{Outgoing, slot_for};
use crate::rxm::proto::{ATOMIC_HEADER, AtomicHead, AtomicResponse, HEADER};
use crate::rxm::session::flight::Asked;
use crate::rxm::session::link::Link;
use crate::rxm::session::{Cx, Wire};
use abi::*;
use base::{Error, Result};
use engine::domain_state::TxOp;
use object::ops::atomic::Atomic;

impl Outgoing {
    pub fn post_atomic<W: Wire>(
        &mut self,
        link: &mut Link,
        cx: &mut Cx<'_, W>,
        atomic: &mut Atomic<'_>,
        op: TxOp,
    ) -> Result {
        let head = AtomicHead {
            family: atomic.family,
            datatype: atomic.datatype,
            op: atomic.op,
        };
        let (operands, compare) = (atomic.operands.remaining(), atomic.compare.remaining());
        let serial = cx.common.next_message();
        let (msg, name) = (self.asked.next(serial), link.remote_name());
        let head = head.request(name, msg, atomic.target).ok_or(Error::INVAL)?;
        let mut slot = slot_for(cx.wire, HEADER + ATOMIC_HEADER + operands + compare)?;
        let bytes = slot.bytes_mut();
        let (start, rest) = bytes.split_at_mut(HEADER + ATOMIC_HEADER);
        start.copy_from_slice(&head);
        atomic.operands.copy_to(&mut rest[..operands]);
        atomic
            .compare
            .copy_to(&mut rest[operands..operands + compare]);
        let len = HEADER + ATOMIC_HEADER + operands + compare;
        cx.domain.eps[op.ep()].tx_pending += 1;
        let result = Some(atomic.result.take());
        self.asked.insert(serial, Asked { op, result });
        self.send_slot(link, cx, slot, len);
        Ok(())
    }

    /// Handles the target's answer. Returns false if no operation waits for it.
    pub fn answered<W>(
        &mut self,
        cx: &mut Cx<'_, W>,
        msg: u64,
        response: &AtomicResponse<'_>,
    ) -> bool {
        let Some(mut asked) = self.asked.remove(msg) else {
            return false;
        };
        if response.status == 0 {
            if let Some(mut result) = asked.result.take() {
                if result.remaining() != response.result.len() {
                    cx.domain.fail_tx(&asked.op, Error::IO);
                    return false;
                }
                result.copy_in(response.result);
                cx.domain.complete_into(&asked.op, &result);
                return true;
            }
            cx.domain.complete_tx(&asked.op);
        } else {
            let code = i32::try_from(response.status.unsigned_abs()).unwrap_or(FI_EOTHER);
            cx.domain.fail_tx(&asked.op, Error::new(code));
        }
        true
    }
}
