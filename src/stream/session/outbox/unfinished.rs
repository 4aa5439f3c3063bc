// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations whose frames have not left or are not acknowledged.

use super::Outbox;
use super::queue::After;
use engine::domain_state::TxOp;
use engine::peer::handover::Handover;
use engine::report::Stage;

impl Outbox {
    /// Whether an operation has not completed.
    pub fn is_busy(&self) -> bool {
        self.awaits_ack() || self.frames.completing().next().is_some()
    }

    /// Visits the operations that wait for the peer.
    pub fn each_wait(&self, mut note: impl FnMut(&TxOp, Stage)) {
        for op in self.frames.completing() {
            note(op, Stage::Room);
        }
        for op in &self.await_ack {
            note(op, Stage::Answer);
        }
    }

    /// Removes an operation of which nothing has been sent. The header counter keeps its value; receivers ignore it.
    pub fn take_unsent(&mut self, is_meant: impl Fn(&TxOp) -> bool) -> Option<TxOp> {
        match self.frames.take_unsent(is_meant)? {
            After::Complete(op) => Some(op),
            After::Acknowledged(op) => {
                // If several operations are equal, this takes the last one, as for the frame. Operations that are equal
                // in every field need not be distinguished.
                let at = self.await_ack.iter().rposition(|other| *other == op)?;
                self.await_ack.remove(at)
            }
            After::Nothing | After::Answered(..) => None,
        }
    }

    /// Forgets all frames, because the connection is over. Returns their operations that have not completed.
    pub fn empty(&mut self) -> Vec<TxOp> {
        let next = Outbox {
            swaps: self.swaps,
            cause: self.cause,
            ..Outbox::new(self.ep())
        };
        let last = std::mem::replace(self, next);
        let mut left: Vec<TxOp> = last.frames.completing().copied().collect();
        left.extend(last.await_ack);
        left
    }

    /// Copies the frames of a transmit context that closes, so that its memory is not used any more. Operations that
    /// wait for an acknowledgement move to the successor.
    pub fn transfer_to_successor(&mut self, handover: &mut Handover) {
        for op in &mut self.await_ack {
            handover.transfer(op);
        }
        self.frames.copy_frames_of(handover);
    }
}
