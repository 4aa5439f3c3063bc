// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The sending side of a session: operations that wait for their turn, frames that wait for the link, and operations
//! that wait for the peer's answer.

use std::collections::{HashMap, VecDeque};

use crate::proto::{Frame, RendezvousData};
use crate::session::outbox::{OutFrame, Outbox};
use base::{IoVec, OpFlags};
use engine::domain_state::TxOp;
use object::ops::transfer::What;

/// The sending side.
pub struct SendQueue {
    /// Operations posted before the connection was up (the form of frames depends on the peer), or behind a fence.
    pub waiting: VecDeque<Waiting>,
    pub out: Outbox,
    /// Memory that the outstanding answers may cost the peer.
    pub asked: usize,
    /// Reads whose response is outstanding, in wire order.
    pub await_read: VecDeque<ReadOp>,
    /// Announced messages that were not requested yet, by index.
    pub rendezvous: HashMap<u8, RendezvousOut>,
    pub next_index: u8,
}

/// An operation that waits for the connection, or for earlier operations.
pub struct Waiting {
    pub frame: Frame,
    pub payload: Payload,
    pub op: TxOp,
}

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

pub struct ReadOp {
    pub op: TxOp,
    pub iov: IoVec,
}

impl ReadOp {
    /// Returns the memory that the answer costs the peer until it has sent it.
    #[inline]
    pub fn cost(&self) -> usize {
        match self.op.what {
            What::Read => size_of::<OutFrame>(),
            _ => size_of::<OutFrame>() + self.op.len,
        }
    }
}

pub struct RendezvousOut {
    pub tag: u64,
    pub op: TxOp,
    pub payload: Payload,
    /// Header for its bytes when the peer requests them.
    pub data: RendezvousData,
}

/// Maximum of messages that are announced to the peer at a time; their indexes start at 1.
pub const RENDEZVOUS_LIMIT: usize = 254;

impl SendQueue {
    pub fn new(ep: usize) -> SendQueue {
        SendQueue {
            waiting: VecDeque::new(),
            out: Outbox::new(ep),
            asked: 0,
            await_read: VecDeque::new(),
            rendezvous: HashMap::new(),
            next_index: 0,
        }
    }

    /// Records a request to the peer.
    #[inline]
    pub fn ask(&mut self, read: ReadOp) {
        self.asked += read.cost();
        self.await_read.push_back(read);
    }

    /// Removes the oldest operation that waits for an answer.
    #[inline]
    pub fn take_asked(&mut self) -> Option<ReadOp> {
        let read = self.await_read.pop_front()?;
        self.asked -= read.cost();
        Some(read)
    }

    /// Returns a free index for a rendezvous.
    pub fn free_index(&mut self) -> Option<u8> {
        for _ in 0..RENDEZVOUS_LIMIT {
            self.next_index = if usize::from(self.next_index) >= RENDEZVOUS_LIMIT {
                1
            } else {
                self.next_index + 1
            };
            if !self.rendezvous.contains_key(&self.next_index) {
                return Some(self.next_index);
            }
        }
        None
    }
}
