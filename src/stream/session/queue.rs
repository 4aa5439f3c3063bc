// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The sending side of a session: operations that wait for their turn, frames that wait for the link, and operations
//! that wait for the peer's answer.

use std::collections::{HashMap, VecDeque};

use crate::proto::{self, Frame, MAX_HEADER, RendezvousData};
use crate::session::receive_state::Regions;
use base::{IoVec, OpFlags};
use engine::domain_state::TxOp;
use engine::pace::Pace;
use object::ops::transfer::What;

/// The sending side.
#[derive(Default)]
pub struct SendQueue {
    /// Operations posted before the connection was up (the form of frames depends on the peer), or behind a fence.
    pub waiting: VecDeque<Waiting>,
    /// Frames in order; the first may be partly written.
    pub queue: VecDeque<Out>,
    /// Bytes in staging buffers of `queue`.
    pub staged: usize,
    /// Answers to reads in `queue` that are sent without a copy.
    pub answers: usize,
    /// Bytes in staging buffers that answer requests of the peer.
    pub owed: usize,
    /// Memory that the outstanding answers may cost the peer.
    pub asked: usize,
    /// Counts headers, for the debugging field of the header.
    pub counter: u8,
    /// Decides which small frames are written at once.
    pub pace: Pace,
    /// Set while on the list of connections to flush.
    pub dirty: bool,
    /// The kernel's buffer is full.
    pub blocked: bool,
    /// Operations whose acknowledgement is outstanding, in wire order.
    pub await_ack: VecDeque<TxOp>,
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

pub enum Out {
    /// Frames copied together.
    Staged {
        bytes: Vec<u8>,
        done: usize,
        /// Bytes of `SendQueue::owed` among them.
        owed: usize,
    },
    /// A frame whose payload is sent without a copy.
    Frame(Box<OutFrame>),
}

pub struct OutFrame {
    pub header: [u8; MAX_HEADER],
    pub header_len: u8,
    pub header_done: u8,
    pub payload: IoVec,
    pub after: After,
}

impl OutFrame {
    /// Whether the frame carries the bytes of a message that the peer requested.
    pub fn is_data(&self) -> bool {
        proto::is_rendezvous_data(&self.header)
    }

    /// Returns the bytes of the frame, if none has been written.
    #[inline]
    pub fn whole(&self) -> Option<usize> {
        let len = usize::from(self.header_len) + self.payload.remaining();
        (self.header_done == 0).then_some(len)
    }
}

/// Action when the kernel has taken a frame.
pub enum After {
    Nothing,
    /// The operation has succeeded.
    Complete(TxOp),
    /// The operation, which is in `SendQueue::await_ack`, succeeds when the peer answers.
    Acknowledged(TxOp),
    /// The frame is a read response of these regions: the peer's read is counted.
    Answered(Regions, u64),
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

    /// Counts the last staged bytes as an answer to a request of the peer.
    pub fn owe(&mut self, len: usize) {
        if let Some(Out::Staged { owed, .. }) = self.queue.back_mut() {
            *owed += len;
            self.owed += len;
        }
    }

    pub fn next_counter(&mut self) -> u8 {
        let counter = self.counter;
        self.counter = counter.wrapping_add(1);
        counter
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

// The limits on answers assume this size of a queued frame.
const _: () = assert!(size_of::<OutFrame>() <= 320);
