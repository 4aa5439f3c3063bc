// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages that stay with their senders until a receive takes them: long ones, and those whose completion means that
//! they were received (FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE).

use std::collections::BTreeMap;

use base::{IoVec, OpFlags};
use engine::domain_state::TxOp;
use object::ops::transfer::Tx;

/// The bytes of a message, and the operation that completes when they were copied.
pub struct Waiting {
    pub op: TxOp,
    pub payload: Payload,
    /// The endpoint to which the message was sent.
    pub to: usize,
}

pub enum Payload {
    /// The memory of the application.
    Here(IoVec),
    /// A copy: an injected message's memory belongs to the application again.
    Copied(Vec<u8>),
}

/// All waiting messages of a domain, by the `note` in their envelopes.
#[derive(Default)]
pub struct WaitingList {
    messages: BTreeMap<u64, Waiting>,
    last: u64,
}

impl WaitingList {
    /// Adds a message to this endpoint. Returns its number.
    pub fn add(&mut self, op: TxOp, tx: &mut Tx<'_>, to: usize) -> u64 {
        let payload = match tx.flags.contains(OpFlags::INJECT) {
            false => Payload::Here(tx.iov.take()),
            true => {
                let mut copy = Vec::new();
                tx.iov.copy_out(&mut copy);
                Payload::Copied(copy)
            }
        };
        self.last += 1;
        self.messages.insert(self.last, Waiting { op, payload, to });
        self.last
    }

    pub fn take(&mut self, number: u64) -> Option<Waiting> {
        self.messages.remove(&number)
    }

    /// Removes the messages from or to this endpoint.
    pub fn take_of(&mut self, ep: usize) -> Vec<Waiting> {
        let is_meant = |message: &Waiting| message.op.ep() == ep || message.to == ep;
        let all = self.messages.iter();
        let numbers = all.filter_map(|(number, message)| is_meant(message).then_some(*number));
        let numbers: Vec<u64> = numbers.collect();
        let taken = numbers.iter().filter_map(|number| self.take(*number));
        taken.collect()
    }
}
