// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The snapshot of a session for reports: see `engine::report`.

use core::time::Duration;

use super::flight::Kind;
use super::{Session, State};
use abi::FI_ADDR_NOTAVAIL;
use engine::domain_state::TxOp;
use engine::report::{Peer, Stage, Wait};
use object::ops::transfer::What;

impl Session {
    /// Describes the session. `below`: its operations in flight; `age` converts stamps of operations.
    pub fn snapshot<'a>(
        &'a self,
        below: impl Iterator<Item = &'a Kind>,
        age: impl Fn(u16) -> Option<Duration>,
    ) -> Peer {
        let mut peer = self.describe();
        for (_, send) in &self.sends {
            let stage = match send.is_writing {
                true => Stage::Room,
                false => Stage::Match,
            };
            peer.add(Wait::of(&send.op, None, stage, age(send.op.since)));
        }
        let asked = self
            .asked
            .iter()
            .filter(|(_, asked)| asked.result.is_some());
        for (_, asked) in asked {
            let (op, stage) = (&asked.op, Stage::Answer);
            peer.add(Wait::of(op, None, stage, age(op.since)));
        }
        for (_, fetch) in &self.fetches {
            peer.add(Wait::receive(&fetch.envelope, age(fetch.since)));
        }
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
        peer
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

    fn describe(&self) -> Peer {
        let known = self.link.fi_addr() != FI_ADDR_NOTAVAIL;
        let (attempts, last_error) = self.connection.failures();
        let mut peer = Peer {
            address: self.link.peer().to_string(),
            fi_addr: known.then_some(self.link.fi_addr()),
            state: match self.state() {
                State::Idle => "not connected",
                State::Connecting => "connecting",
                State::Accepted => "waits for the end of its own connection request",
                State::Up => "connected",
                State::Over => "over",
            },
            is_up: self.state() == State::Up,
            is_opening: self.state().is_opening(),
            link: "the provider below",
            attempts,
            last_error: (attempts > 0).then_some(last_error.code()),
            ..Peer::default()
        };
        if !self.held.is_empty() {
            peer.notes.push("takes no more operations below");
        }
        if !self.inbox.is_empty() {
            peer.notes
                .push("is not read: there is no room for its messages");
        }
        peer
    }
}
