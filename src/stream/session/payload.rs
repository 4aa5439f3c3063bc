// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The payload of an operation that waits.

use base::{IoVec, OpFlags};
use engine::domain_state::TxOp;
use object::ops::transfer::What;

pub enum Payload {
    /// The application's buffers.
    Buffers(IoVec),
    /// A copy of injected data.
    Copy(Vec<u8>),
    /// A copy of the data to send, and the buffers for the answer. Rare, and boxed to keep the other variants small.
    Exchange(Box<(Vec<u8>, IoVec)>),
}

impl Payload {
    /// Returns the payload that an operation keeps until its turn.
    pub fn of(op: &TxOp, iov: IoVec) -> Payload {
        // A read has buffers to fill, whatever its flags are.
        if !op.flags.contains(OpFlags::INJECT) || op.what == What::Read {
            return Payload::Buffers(iov);
        }
        let mut payload = Payload::Buffers(iov);
        payload.own(op.len);
        payload
    }

    /// Copies the `len` bytes to send, so that the application may reuse its memory.
    pub fn own(&mut self, len: usize) {
        if let Payload::Buffers(iov) = self {
            let mut copy = Vec::with_capacity(len);
            iov.copy_out(&mut copy);
            *self = Payload::Copy(copy);
        }
    }

    /// Discards the answer when it arrives.
    pub fn drop_answer(&mut self) {
        if let Payload::Exchange(both) = self {
            both.1 = IoVec::empty();
        }
    }
}
