// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The contexts of scalable endpoints (fi_endpoint(3)). All contexts share the connections of their endpoint, the port.
//! An operation names its context for the completion; a packet names its receive context.

use super::conn::Sink;
use super::flight::Kind;
use super::state::{Rxm, StateOf};
use base::Error;
use engine::domain_state::TxOp;

impl Rxm {
    /// Closes a transmit context. Operations that have not started are dropped; copied data is sent and completes at
    /// `successor`. Memory that the provider below is using comes back only at the end of its connection, as when an
    /// endpoint is closed.
    pub fn leave_transmits(
        &mut self,
        domain: &mut StateOf,
        port: usize,
        ep: usize,
        successor: usize,
    ) {
        // Handle completions first, so that no connection has to end for an operation that is complete.
        self.drive(domain);
        let is_its = |op: &TxOp| op.ep() == ep;
        let conns = self.conns_through(port);
        let mut gone = 0;
        for &id in &conns {
            let held = core::mem::take(&mut self.conns[id].held);
            for post in held {
                let dropped = match post.flight.kind {
                    Kind::Op(ref op) => is_its(op),
                    Kind::Announce(at) if is_its(&self.sends[at].op) => {
                        drop(self.sends.remove(at));
                        true
                    }
                    _ => false,
                };
                match dropped {
                    true => {
                        drop(self.put_slots(post.loan));
                        gone += 1;
                    }
                    false => self.conns[id].held.push_back(post),
                }
            }
        }
        let mut left = 0;
        let mut bequeath = |op: &mut TxOp| {
            let is_its = is_its(op);
            if is_its {
                op.ep = successor as u32;
                left += 1;
            }
            is_its
        };
        let mut over = Vec::new();
        for (flight, is_lent) in self.ops.each() {
            let of_it = match &mut flight.kind {
                Kind::Op(op) => bequeath(op),
                Kind::Part(group) => is_its(&self.groups[*group].op),
                _ => false,
            };
            if of_it && is_lent {
                over.push(flight.conn);
            }
        }
        for &id in &conns {
            let mut held = self.conns[id].held.iter();
            if held.any(|post| match post.flight.kind {
                Kind::Part(group) => post.loan.is_lent() && is_its(&self.groups[group].op),
                _ => false,
            }) {
                over.push(id);
            }
        }
        for (_, group) in &mut self.groups {
            bequeath(&mut group.op);
        }
        for (_, send) in &mut self.sends {
            if bequeath(&mut send.op) {
                over.push(send.conn);
            }
        }
        for (_, asked) in &mut self.asked {
            if bequeath(&mut asked.op) {
                asked.result = None;
            }
        }
        domain.ep_mut(ep).tx_pending -= gone + left;
        domain.ep_mut(successor).tx_pending += left;
        self.end_conns(domain, over);
    }

    /// Closes a receive context: from now on nothing is written to its buffers.
    pub fn leave_receives(&mut self, domain: &mut StateOf, port: usize, ep: usize) {
        self.drive(domain);
        for id in self.conns_through(port) {
            for coming in self.conns[id].coming.values_mut() {
                if matches!(&coming.sink, Sink::Recv(_, envelope) if envelope.ep == ep) {
                    coming.sink = Sink::Dropped;
                }
            }
        }
        let mut over = Vec::new();
        self.fetches.retain(|_, fetch| {
            let is_its = fetch.envelope.ep == ep;
            if is_its {
                over.push(fetch.conn);
            }
            !is_its
        });
        self.end_conns(domain, over);
    }

    fn end_conns(&mut self, domain: &mut StateOf, over: Vec<usize>) {
        for id in over {
            if self.conns.contains(id) {
                let what = &"was about to use memory of a context that is closed";
                self.lost(domain, id, Error::CONNRESET, what);
            }
        }
    }

    fn conns_through(&self, port: usize) -> Vec<usize> {
        let ours = self.conns.iter().filter(|(_, conn)| conn.ep == port);
        ours.map(|(id, _)| id).collect()
    }
}
