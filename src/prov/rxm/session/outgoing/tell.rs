// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations of this side in reports: see `engine::report`.

use core::time::Duration;

use super::Outgoing;
use crate::rxm::session::flight::Kind;
use engine::domain_state::TxOp;
use engine::report::{Peer, Stage, Wait};
use object::ops::transfer::What;

impl Outgoing {
    /// Adds the operations that wait for the peer.
    pub fn add_sent(&self, peer: &mut Peer, age: &impl Fn(u16) -> Option<Duration>) {
        for send in self.sends.iter() {
            let stage = match send.is_writing {
                true => Stage::Room,
                false => Stage::Match,
            };
            peer.add(Wait::of(&send.op, None, stage, age(send.op.since)));
        }
        for deferred in &self.deferred {
            let op = &deferred.op;
            peer.add(Wait::of(op, None, Stage::Turn, age(op.since)));
        }
        let asked = self.asked.iter().filter(|asked| asked.result.is_some());
        for asked in asked {
            let (op, stage) = (&asked.op, Stage::Answer);
            peer.add(Wait::of(op, None, stage, age(op.since)));
        }
    }

    /// Adds the operations that are in flight below, or wait for room there.
    pub fn add_posted<'a>(
        &'a self,
        peer: &mut Peer,
        below: impl Iterator<Item = &'a Kind>,
        age: &impl Fn(u16) -> Option<Duration>,
    ) {
        let below = below.map(|kind| (kind, false));
        let held = self.held.iter().map(|post| (&post.flight.kind, true));
        let mut groups = Vec::new();
        for (kind, is_held) in below.chain(held) {
            if let Some(op) = self.op_of(kind, &mut groups) {
                let stage = match op.what {
                    _ if is_held => Stage::Turn,
                    What::Read => Stage::Answer,
                    _ => Stage::Room,
                };
                peer.add(Wait::of(op, None, stage, age(op.since)));
            }
        }
    }

    /// Returns the operation that an operation below belongs to, unless it belongs to one of these groups.
    fn op_of<'a>(&'a self, kind: &'a Kind, groups: &mut Vec<usize>) -> Option<&'a TxOp> {
        match kind {
            Kind::Op(op) => Some(op),
            Kind::Part(group) if !groups.contains(group) => {
                groups.push(*group);
                Some(&self.groups[*group].op)
            }
            _ => None,
        }
    }
}
