// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Transmit contexts of a scalable endpoint that are closed (fi_endpoint(3)). All contexts share the connections of
//! their endpoint. An operation names its context for the completion.

use super::{Outgoing, put_slots};
use crate::rxm::session::flight::Kind;
use crate::rxm::session::{Cx, Wire};
use engine::peer::handover::Handover;

impl Outgoing {
    /// Drops the operations of a transmit context that have not started; the others get another context. Returns
    /// whether the connection has to end, because it may still use memory of the context.
    pub fn leave_transmits<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        handover: &mut Handover,
    ) -> bool {
        self.leave_deferred(cx.common, handover);
        for post in core::mem::take(&mut self.held) {
            let dropped = match post.flight.kind {
                Kind::Op(ref op) => handover.is_its(op),
                Kind::Announce(msg) => {
                    let send = self.sends.get(msg);
                    let is_its = send.is_some_and(|send| handover.is_its(&send.op));
                    is_its && self.sends.remove(msg).is_some()
                }
                _ => false,
            };
            match dropped {
                true => {
                    drop(put_slots(cx.wire, post.loan));
                    handover.drop_one();
                }
                false => self.held.push_back(post),
            }
        }
        let mut is_over = self.held.iter().any(|post| match post.flight.kind {
            Kind::Part(group) => post.loan.is_lent() && handover.is_its(&self.groups[group].op),
            _ => false,
        });
        for send in self.sends.iter_mut() {
            is_over |= handover.transfer(&mut send.op);
        }
        for asked in self.asked.iter_mut() {
            if handover.transfer(&mut asked.op) {
                asked.result = None;
            }
        }
        is_over
    }

    /// Whether an operation in flight below belongs to a group of the context.
    pub fn is_part_of(&self, kind: &Kind, handover: &Handover) -> bool {
        match kind {
            Kind::Part(group) => handover.is_its(&self.groups[*group].op),
            _ => false,
        }
    }

    /// Moves the groups of a closed context to the other one.
    pub fn transfer_groups(&mut self, handover: &mut Handover) {
        for (_, group) in &mut self.groups {
            handover.transfer(&mut group.op);
        }
    }
}
