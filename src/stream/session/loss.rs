// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Handles operations when the peer is lost, the endpoint or one of its contexts closes, or the application cancels
//! them; and finds out which of them have to leave before that.

use crate::session::queue::{After, Out, SendQueue, Waiting};
use crate::session::receive_state::{At, ReceiveState, Sink};
use crate::session::{Cx, Session};
use base::{Error, IoVec};
use engine::domain_state::{DomainState, TxOp};
use engine::peer::handover::Handover;
use engine::transport::Address;
use object::ops::transfer::What;

impl SendQueue {
    /// Removes an operation of which nothing has been sent. The header counter keeps its value; receivers ignore it.
    pub fn take_unsent(&mut self, is_meant: impl Fn(&TxOp) -> bool) -> Option<TxOp> {
        let waits = |waiting: &Waiting| is_meant(&waiting.op);
        if let Some(at) = self.waiting.iter().position(waits) {
            return self.waiting.remove(at).map(|waiting| waiting.op);
        }
        let unsent = |out: &Out| match out {
            // The peer has requested this message and waits for its bytes.
            Out::Frame(frame) if frame.header_done == 0 && !frame.is_data() => match frame.after {
                After::Complete(op) | After::Acknowledged(op) => is_meant(&op),
                _ => false,
            },
            _ => false,
        };
        // If several operations are equal, take the last one, as in `await_ack`.
        let at = self.queue.iter().rposition(unsent)?;
        let Some(Out::Frame(frame)) = self.queue.remove(at) else {
            return None;
        };
        match frame.after {
            After::Complete(op) => Some(op),
            After::Acknowledged(op) => {
                // Operations that are equal in every field need not be distinguished.
                let at = self.await_ack.iter().rposition(|other| *other == op)?;
                self.await_ack.remove(at)
            }
            _ => None,
        }
    }
}

impl<A: Address> Session<A> {
    /// Completes the operations posted to the peer in error.
    pub fn fail_transmits(&mut self, domain: &mut DomainState<A>, error: Error) {
        let tx = std::mem::take(&mut self.tx);
        let mut failed: Vec<TxOp> = Vec::new();
        for out in tx.queue {
            if let Out::Frame(frame) = out
                && let After::Complete(op) = frame.after
            {
                failed.push(op);
            }
        }
        failed.extend(tx.await_ack);
        failed.extend(tx.await_read.into_iter().map(|read| read.op));
        failed.extend(tx.rendezvous.into_values().map(|out| out.op));
        failed.extend(tx.waiting.iter().map(|waiting| waiting.op));
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
        domain.forget_claims(ep, id);
        common.dirty.retain(|&dirty| dirty != id);
        common.stalled.retain(|&stalled| stalled != id);
    }

    /// Returns the operations that have not left although the application may consider them sent.
    pub fn promised(&self) -> impl Iterator<Item = &TxOp> {
        let queued = self.tx.queue.iter().filter_map(|out| match out {
            Out::Frame(frame) => match &frame.after {
                After::Complete(op) | After::Acknowledged(op) => Some(op),
                _ => None,
            },
            Out::Staged { .. } => None,
        });
        let waiting = self.tx.waiting.iter().map(|waiting| &waiting.op);
        let announced = self.tx.rendezvous.values().map(|out| &out.op);
        let all = queued.chain(waiting).chain(announced);
        all.filter(|op| op.is_promised())
    }

    /// Whether accepted data has not left.
    pub fn owes(&self) -> bool {
        let collects = self.coll.as_ref().is_some_and(|frames| !frames.is_empty());
        self.tx.staged > 0 || collects || self.promised().next().is_some()
    }

    /// Stops using the application's memory for operations of a transmit context. Operations that still wait for an
    /// answer move to the successor.
    pub fn transfer_to_successor(&mut self, handover: &mut Handover) {
        for out in &mut self.tx.queue {
            let Out::Frame(frame) = out else {
                continue;
            };
            match &frame.after {
                After::Complete(op) if handover.is_its(op) => handover.drop_one(),
                After::Acknowledged(op) if handover.is_its(op) => {}
                After::Nothing => {}
                _ => continue,
            }
            let header = usize::from(frame.header_done)..usize::from(frame.header_len);
            let mut bytes = frame.header[header].to_vec();
            frame.payload.copy_out(&mut bytes);
            self.tx.staged += bytes.len();
            *out = Out::Staged {
                bytes,
                done: 0,
                owed: 0,
            };
        }
        self.tx.waiting.retain_mut(|waiting| {
            let delivers = waiting.op.is_promised() && waiting.op.what != What::Read;
            if handover.is_its(&waiting.op) && !delivers {
                handover.drop_one();
                return false;
            }
            if handover.transfer(&mut waiting.op) {
                waiting.payload.own(waiting.op.len);
                waiting.payload.drop_answer();
            }
            true
        });
        for op in &mut self.tx.await_ack {
            handover.transfer(op);
        }
        for read in &mut self.tx.await_read {
            if handover.transfer(&mut read.op) {
                read.iov = IoVec::empty();
            }
        }
        if let At::Payload(incoming) = &mut self.rx.at
            && let Sink::Read(read) = &mut incoming.sink
            && handover.transfer(&mut read.op)
        {
            read.iov = IoVec::empty();
        }
        for out in self.tx.rendezvous.values_mut() {
            if handover.transfer(&mut out.op) {
                out.payload.own(out.op.len);
            }
        }
    }
}
