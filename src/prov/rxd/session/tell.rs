// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Snapshot of a peer for `engine::report`.

use core::time::Duration;
use std::time::Instant;

use super::Session;
use super::out::End;
use super::sink::Sink;
use abi::FI_ADDR_NOTAVAIL;
use engine::report::{Peer, Stage, Wait};
use engine::strangers::fi_addr_of;
use engine::transport::Address;

impl<A: Address> Session<A> {
    /// Makes the snapshot. `age` converts the time stamp of an operation.
    pub fn tell(&self, now: Instant, age: impl Fn(u16) -> Option<Duration>) -> Peer {
        let fi_addr = fi_addr_of(self.source);
        let is_up = self.is_up();
        let mut peer = Peer {
            address: self.addr.to_string(),
            fi_addr: (fi_addr != FI_ADDR_NOTAVAIL).then_some(fi_addr),
            state: match is_up {
                true => "connected",
                false if self.is_greeting() => "connecting",
                false => "not connected",
            },
            is_up,
            is_opening: !is_up && self.is_greeting(),
            link: "datagrams",
            moved: self.tx.window.acked().wrapping_add(self.rx.next),
            ..Peer::default()
        };
        if self.tx.is_blocked {
            peer.notes.push("no room for packets below");
        }
        if self.rx.stall.is_some() {
            peer.notes
                .push("is not read: there is no room for its messages");
        }
        if self.tx.window.timeouts() > 0 {
            peer.notes.push("acknowledges nothing new");
        }
        for out in &self.tx.outs {
            if let End::Complete(op) = &out.end {
                let stage = match is_up && !self.tx.is_unsent(out) {
                    true => Stage::Room,
                    false => Stage::Turn,
                };
                peer.add(Wait::of(op, None, stage, age(op.since)));
            }
        }
        for read in self.tx.reads.iter() {
            let op = &read.op;
            peer.add(Wait::of(op, None, Stage::Answer, age(op.since)));
        }
        if let Some(incoming) = &self.rx.incoming
            && let Sink::Message(claim) = &incoming.sink
            && let Some(envelope) = claim.envelope()
        {
            let heard = self.rx.heard.map(|at| now.saturating_duration_since(at));
            peer.add(Wait::receive(envelope, heard));
        }
        peer
    }
}
