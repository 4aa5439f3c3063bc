// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Handles operations when the peer is lost, the endpoint or one of its contexts closes, or the application cancels
//! them; and finds out which of them have to leave before that.

use crate::session::queue::{SendQueue, Waiting};
use crate::session::receive_state::{At, ReceiveState, Sink};
use crate::session::{Cx, Session};
use base::{Error, IoVec, OpFlags};
use engine::domain_state::{DomainState, TxOp};
use engine::transport::Address;
use object::ops::transfer::What;

impl SendQueue {
    /// Removes an operation of which nothing has been sent. The header counter keeps its value; receivers ignore it.
    pub fn take_unsent(&mut self, is_meant: impl Fn(&TxOp) -> bool) -> Option<TxOp> {
        let waits = |waiting: &Waiting| is_meant(&waiting.op);
        if let Some(at) = self.waiting.iter().position(waits) {
            return self.waiting.remove(at).map(|waiting| waiting.op);
        }
        self.out.take_unsent(is_meant)
    }
}

impl<A: Address> Session<A> {
    /// Completes the operations posted to the peer in error.
    pub fn fail_transmits(&mut self, domain: &mut DomainState<A>, error: Error) {
        let tx = &mut self.tx;
        let mut failed = tx.out.empty();
        let reads = std::mem::take(&mut tx.await_read);
        tx.asked = 0;
        failed.extend(reads.into_iter().map(|read| read.op));
        failed.extend(
            std::mem::take(&mut tx.rendezvous)
                .into_values()
                .map(|out| out.op),
        );
        failed.extend(
            std::mem::take(&mut tx.waiting)
                .into_iter()
                .map(|waiting| waiting.op),
        );
        for op in failed {
            domain.fail_tx(&op, error);
        }
    }

    /// Completes the operations posted to the peer, and those that the peer has started, in error.
    pub fn fail_operations(&mut self, cx: &mut Cx<'_, A>, error: Error) {
        let (ep, id) = (self.ep, cx.id);
        self.fail_transmits(cx.domain, error);
        let Cx { domain, common, .. } = cx;
        let rx = std::mem::replace(&mut self.rx, ReceiveState::new());
        match rx.at {
            At::Payload(incoming) | At::Stopped(incoming) => match incoming.sink {
                Sink::Recv(recv, envelope) => {
                    domain.receive_failed(envelope.ep, &recv, envelope.what, error);
                }
                Sink::Slot(srx, slot) => {
                    if let Some((recv, envelope)) = domain.rx_queue_mut(srx).lost(slot) {
                        domain.receive_failed(envelope.ep, &recv, envelope.what, error);
                    }
                }
                Sink::Read(read) => {
                    domain.fail_tx(&read.op, error);
                }
                Sink::Coll(part) => common.groups.part_lost(ep, &part),
                Sink::Write { .. }
                | Sink::Atomic(_)
                | Sink::Gathered(_)
                | Sink::Drop
                | Sink::Refused(_) => {}
            },
            At::Header | At::Stalled(_) | At::Held(_) => {}
        }
        for incoming in rx.told.into_cleared() {
            if let Some(recv) = incoming.recv {
                let envelope = incoming.envelope;
                domain.receive_failed(envelope.ep, &recv, envelope.what, error);
            }
        }
        for shared in rx.offers.into_iter().flat_map(|offers| offers.shared) {
            if let Some(recv) = shared.recv {
                let envelope = shared.envelope;
                domain.receive_failed(envelope.ep, &recv, envelope.what, error);
            }
        }
        domain.each_srx(ep, |srx| srx.forget(id as u64));
        common.dirty.retain(|&dirty| dirty != id);
        common.stalled.retain(|&stalled| stalled != id);
    }

    /// Returns the operations that have not left although the application may consider them sent.
    pub fn promised(&self) -> impl Iterator<Item = &TxOp> {
        let queued = self.tx.out.queued();
        let waiting = self.tx.waiting.iter().map(|waiting| &waiting.op);
        let announced = self.tx.rendezvous.values().map(|out| &out.op);
        let all = queued.chain(waiting).chain(announced);
        all.filter(|op| is_promised(op))
    }

    /// Whether accepted data has not left.
    pub fn owes(&self) -> bool {
        let collects = self.coll.as_ref().is_some_and(|frames| !frames.is_empty());
        self.tx.out.staged() > 0 || collects || self.promised().next().is_some()
    }

    /// Stops using the application's memory for operations of a transmit context. Returns how many of them are over
    /// now, and how many still wait for an answer and move to the successor.
    pub fn bequeath(&mut self, ep: usize, successor: usize) -> (usize, usize) {
        let (mut over, mut left) = (0, 0);
        let mut inherit = |op: &mut TxOp| {
            let ours = op.ep() == ep;
            if ours {
                op.ep = successor as u32;
                left += 1;
            }
            ours
        };
        over += self.tx.out.bequeath(ep, |op| {
            inherit(op);
        });
        self.tx.waiting.retain_mut(|waiting| {
            let delivers = is_promised(&waiting.op) && waiting.op.what != What::Read;
            if waiting.op.ep() == ep && !delivers {
                over += 1;
                return false;
            }
            if inherit(&mut waiting.op) {
                waiting.payload.own(waiting.op.len);
                waiting.payload.drop_answer();
            }
            true
        });
        for read in &mut self.tx.await_read {
            if inherit(&mut read.op) {
                read.iov = IoVec::empty();
            }
        }
        if let At::Payload(incoming) = &mut self.rx.at
            && let Sink::Read(read) = &mut incoming.sink
            && inherit(&mut read.op)
        {
            read.iov = IoVec::empty();
        }
        for out in self.tx.rendezvous.values_mut() {
            if inherit(&mut out.op) {
                out.payload.own(out.op.len);
            }
        }
        (over, left)
    }
}

/// Whether the application may consider the operation sent as soon as it is posted.
pub fn is_promised(op: &TxOp) -> bool {
    !op.flags.contains(OpFlags::COMPLETION) || op.flags.contains(OpFlags::INJECT)
}
