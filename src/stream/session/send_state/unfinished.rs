// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations of the sending side that are not over: why they wait, and the end of those whose peer is lost, whose
//! context closes, or that the application cancels.

use super::{SendState, Waiting};
use crate::proto::Frame;
use base::{Error, IoVec};
use engine::domain_state::{DomainState, TxOp};
use engine::peer::handover::Handover;
use engine::report::Stage;
use engine::transport::Address;
use object::ops::transfer::What;

impl SendState {
    /// Whether an operation that was sent has not completed; a fence waits for those (fi_msg(3), FI_FENCE).
    pub(super) fn is_busy(&self) -> bool {
        self.reads.is_reading() || !self.announced.is_empty() || self.out.is_busy()
    }

    /// Whether a posted operation depends on the peer.
    pub fn has_work(&self) -> bool {
        !self.out.frames().is_empty()
            || self.has_waiting()
            || self.out.awaits_ack()
            || self.reads.first().is_some()
            || !self.announced.is_empty()
    }

    /// Whether no operation that was sent needs the peer any more.
    pub fn is_quiet(&self) -> bool {
        !self.is_busy() && !self.announced.is_helping()
    }

    /// Takes over the operations of another connection that wait for their turn.
    pub fn take_waiting(&mut self, last: SendState) {
        self.waiting = last.waiting;
    }

    /// Visits the operations that wait, each with its tag if that is still available.
    pub fn each_wait(&self, mut note: impl FnMut(&TxOp, Option<u64>, Stage)) {
        self.out.each_wait(|op, stage| note(op, None, stage));
        for read in self.reads.iter() {
            note(&read.op, None, Stage::Answer);
        }
        for waiting in self.announced.iter() {
            note(&waiting.op, Some(waiting.tag), Stage::Match);
        }
        for waiting in &self.waiting {
            let tag = match &waiting.frame {
                Frame::Message(message) => Some(message.tag),
                _ => None,
            };
            note(&waiting.op, tag, Stage::Turn);
        }
    }

    /// Removes an operation of which nothing has been sent.
    pub fn take_unsent(&mut self, is_meant: impl Fn(&TxOp) -> bool) -> Option<TxOp> {
        let waits = |waiting: &Waiting| !waiting.is_early && is_meant(&waiting.op);
        if let Some(at) = self.waiting.iter().position(waits) {
            return self.waiting.remove(at).map(|waiting| waiting.op);
        }
        self.out.take_unsent(is_meant)
    }

    /// Completes the operations posted to the peer in error.
    pub fn fail<A: Address>(&mut self, domain: &mut DomainState<A>, error: Error) {
        let mut failed = self.out.empty();
        failed.extend(self.reads.empty());
        failed.extend(self.announced.empty());
        let waiting = std::mem::take(&mut self.waiting);
        failed.extend(waiting.into_iter().map(|waiting| waiting.op));
        for op in failed {
            domain.fail_tx(&op, error);
        }
    }

    /// Returns the operations that have not left although the application may consider them sent.
    pub fn promised(&self) -> impl Iterator<Item = &TxOp> {
        let queued = self.out.frames().operations();
        let waiting = self.waiting.iter().map(|waiting| &waiting.op);
        let announced = self.announced.iter().map(|out| &out.op);
        let all = queued.chain(waiting).chain(announced);
        all.filter(|op| op.is_promised())
    }

    /// Stops using the application's memory for operations of a transmit context. Those that still wait for an answer
    /// move to the successor.
    pub fn transfer_to_successor(&mut self, handover: &mut Handover) {
        self.out.transfer_to_successor(handover);
        self.waiting.retain_mut(|waiting| {
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
        for read in self.reads.iter_mut() {
            if handover.transfer(&mut read.op) {
                read.iov = IoVec::empty();
            }
        }
        for out in self.announced.iter_mut() {
            if handover.transfer(&mut out.op) {
                out.payload.own(out.op.len);
            }
        }
    }
}
