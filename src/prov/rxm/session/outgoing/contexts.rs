// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Transmit contexts of a scalable endpoint that are closed (fi_endpoint(3)). All contexts share the connections of
//! their endpoint. An operation names its context for the completion.

use super::{Outgoing, put_slots};
use crate::rxm::session::flight::Kind;
use crate::rxm::session::{Cx, Wire};
use engine::domain_state::TxOp;

/// A transmit context that is closed, and the one that gets its operations.
#[derive(Clone, Copy)]
pub struct Handover {
    pub from: usize,
    pub to: usize,
}

/// Number of operations of a closed context that were dropped, and that have another context now.
#[derive(Clone, Copy, Default)]
pub struct HandedOver {
    pub dropped: usize,
    pub left: usize,
    /// The connection has to end, because it may still use memory of the context.
    pub is_over: bool,
}

impl Handover {
    pub fn is_its(self, op: &TxOp) -> bool {
        op.ep() == self.from
    }

    /// Moves an operation of the closed context to the other one. Returns whether it is one.
    pub fn transfer(self, op: &mut TxOp, left: &mut usize) -> bool {
        let is_its = self.is_its(op);
        if is_its {
            op.ep = self.to as u32;
            *left += 1;
        }
        is_its
    }
}

impl Outgoing {
    /// Drops the operations of a transmit context that have not started; the others get another context.
    pub fn leave_transmits<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        handover: Handover,
    ) -> HandedOver {
        let mut done = HandedOver::default();
        for post in core::mem::take(&mut self.held) {
            let dropped = match post.flight.kind {
                Kind::Op(ref op) => handover.is_its(op),
                Kind::Announce(at) if handover.is_its(&self.sends[at].op) => {
                    drop(self.sends.remove(at));
                    true
                }
                _ => false,
            };
            match dropped {
                true => {
                    drop(put_slots(cx.wire, post.loan));
                    done.dropped += 1;
                }
                false => self.held.push_back(post),
            }
        }
        done.is_over = self.held.iter().any(|post| match post.flight.kind {
            Kind::Part(group) => post.loan.is_lent() && handover.is_its(&self.groups[group].op),
            _ => false,
        });
        for (_, send) in &mut self.sends {
            done.is_over |= handover.transfer(&mut send.op, &mut done.left);
        }
        for (_, asked) in &mut self.asked {
            if handover.transfer(&mut asked.op, &mut done.left) {
                asked.result = None;
            }
        }
        done
    }

    /// Whether an operation in flight below belongs to a group of the context.
    pub fn is_part_of(&self, kind: &Kind, handover: Handover) -> bool {
        match kind {
            Kind::Part(group) => handover.is_its(&self.groups[*group].op),
            _ => false,
        }
    }

    /// Moves the groups of a closed context to the other one. Returns their number.
    pub fn transfer_groups(&mut self, handover: Handover) -> usize {
        let mut left = 0;
        for (_, group) in &mut self.groups {
            handover.transfer(&mut group.op, &mut left);
        }
        left
    }
}
