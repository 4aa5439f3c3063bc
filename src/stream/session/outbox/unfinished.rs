// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations whose frames have not left or are not acknowledged.

use std::sync::Arc;

use super::{After, Out, Outbox};
use crate::session::receive_state::names;
use engine::cntr::Counter;
use engine::domain_state::TxOp;
use engine::mr::Region;
use engine::report::Stage;

impl Outbox {
    /// Whether an operation has not completed.
    pub fn is_busy(&self) -> bool {
        let completes =
            |out: &Out| matches!(out, Out::Frame(f) if matches!(f.after, After::Complete(_)));
        self.awaits_ack() || self.queue.iter().any(completes)
    }

    /// Whether a queued answer reads from this region.
    pub fn reads(&self, region: &Arc<Region<Arc<Counter>>>) -> bool {
        let reads = |out: &Out| match out {
            Out::Frame(frame) => match &frame.after {
                After::Answered(regions, _) => names(regions, region),
                After::Nothing | After::Complete(_) | After::Acknowledged(_) => false,
            },
            Out::Staged { .. } => false,
        };
        self.queue.iter().any(reads)
    }

    /// Returns the operations of frames that have not left, except of staged ones.
    pub fn queued(&self) -> impl Iterator<Item = &TxOp> {
        self.queue.iter().filter_map(|out| match out {
            Out::Frame(frame) => match &frame.after {
                After::Complete(op) | After::Acknowledged(op) => Some(op),
                _ => None,
            },
            Out::Staged { .. } => None,
        })
    }

    /// Visits the operations that wait for the peer.
    pub fn each_wait(&self, mut note: impl FnMut(&TxOp, Stage)) {
        for out in &self.queue {
            if let Out::Frame(frame) = out
                && let After::Complete(op) = &frame.after
            {
                note(op, Stage::Room);
            }
        }
        for op in &self.await_ack {
            note(op, Stage::Answer);
        }
    }

    /// Returns a number that changes while the bytes of a long message leave.
    pub fn transfer(&self) -> u64 {
        match self.queue.front() {
            Some(Out::Frame(frame)) => frame.payload.remaining() as u64,
            Some(Out::Staged { done, .. }) => *done as u64,
            None => 0,
        }
    }

    /// Removes an operation of which nothing has been sent. The header counter keeps its value; receivers ignore it.
    pub fn take_unsent(&mut self, is_meant: impl Fn(&TxOp) -> bool) -> Option<TxOp> {
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

    /// Forgets all frames, because the connection is over. Returns their operations that have not completed.
    pub fn empty(&mut self) -> Vec<TxOp> {
        let next = Outbox {
            swaps: self.swaps,
            cause: self.cause,
            ..Outbox::new(self.ep())
        };
        let last = std::mem::replace(self, next);
        let mut left: Vec<TxOp> = Vec::new();
        for out in last.queue {
            if let Out::Frame(frame) = out
                && let After::Complete(op) = frame.after
            {
                left.push(op);
            }
        }
        left.extend(last.await_ack);
        left
    }

    /// Copies the frames of a transmit context that closes, so that its memory is not used any more, and passes its
    /// operations that wait for an acknowledgement to `inherit`. Returns how many operations are over now.
    pub fn bequeath(&mut self, ep: usize, mut inherit: impl FnMut(&mut TxOp)) -> usize {
        let mut over = 0;
        for out in &mut self.queue {
            let Out::Frame(frame) = out else {
                continue;
            };
            match &frame.after {
                After::Complete(op) if op.ep() == ep => over += 1,
                After::Acknowledged(op) if op.ep() == ep => {}
                After::Nothing => {}
                _ => continue,
            }
            let header = usize::from(frame.header_done)..usize::from(frame.header_len);
            let mut bytes = frame.header[header].to_vec();
            frame.payload.copy_out(&mut bytes);
            self.staged += bytes.len();
            *out = Out::Staged {
                bytes,
                done: 0,
                owed: 0,
            };
        }
        for op in &mut self.await_ack {
            inherit(op);
        }
        over
    }
}
