// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The sending side of a session: operations that wait for their turn, frames that wait for the link, operations that
//! wait for the peer's answer.
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};

use crate::base::{IoVec, OpFlags};
use crate::engine::domain_state::TxOp;
use crate::engine::pace::Pace;
use crate::engine::stream::proto::{self, Frame, MAX_HEADER, RendezvousData};
use crate::engine::stream::session::receive_state::Regions;
use crate::ffi::ops::transfer::What;

/// The sending side.
#[derive(Default)]
pub struct SendQueue {
    /// Operations posted before the connection was up (how frames look depends on the peer), or behind a fence.
    pub waiting: VecDeque<Waiting>,
    /// Frames in order; the first may have been written in part.
    pub queue: VecDeque<Out>,
    /// Bytes in staging buffers of `queue`.
    pub staged: usize,
    /// Answers to reads in `queue` that are sent from where they are.
    pub answers: usize,
    /// Bytes of frames in staging buffers that the peer has caused.
    pub owed: usize,
    /// What the answers that the peer owes may cost it.
    pub asked: usize,
    /// Counts headers, for the debugging field of the header.
    pub counter: u8,
    /// Which small frames are written at once.
    pub pace: Pace,
    /// On the list of connections to be flushed.
    pub dirty: bool,
    /// The kernel's buffer is full.
    pub blocked: bool,
    /// Operations whose acknowledgement has not come, in wire order.
    pub await_ack: VecDeque<TxOp>,
    /// Reads whose response has not come, in wire order.
    pub await_read: VecDeque<ReadOp>,
    /// Ready-to-send frames that have not been cleared, by index.
    pub rendezvous: HashMap<u8, RendezvousOut>,
    pub next_index: u8,
}

/// An operation that waits for the connection, or for those before it.
pub struct Waiting {
    pub frame: Frame,
    pub payload: Payload,
    pub op: TxOp,
}

pub enum Payload {
    /// Where the application keeps it.
    Buffers(IoVec),
    /// A copy of what was injected.
    Copy(Vec<u8>),
    /// A copy of what is sent, and where the answer goes. Rare, and boxed so that it does not make the others larger.
    Exchange(Box<(Vec<u8>, IoVec)>),
}

impl Payload {
    /// What an operation keeps until its turn comes.
    pub fn of(op: &TxOp, iov: IoVec) -> Payload {
        // A read has buffers to fill, whatever its flags say.
        if !op.flags.contains(OpFlags::INJECT) || op.what == What::Read {
            return Payload::Buffers(iov);
        }
        let mut payload = Payload::Buffers(iov);
        payload.own(op.len);
        payload
    }

    /// Copies the `len` bytes that are sent from the application's memory, which may go then.
    pub fn own(&mut self, len: usize) {
        if let Payload::Buffers(iov) = self {
            let mut copy = Vec::with_capacity(len);
            iov.copy_out(&mut copy);
            *self = Payload::Copy(copy);
        }
    }

    /// Nobody wants an answer any more: what comes goes nowhere.
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
    /// A frame whose payload is sent from where it is.
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
    /// It has the bytes of a message that the peer has asked for.
    pub fn is_data(&self) -> bool {
        proto::is_rendezvous_data(&self.header)
    }

    /// Its bytes, if none has been written.
    #[inline]
    pub fn whole(&self) -> Option<usize> {
        let len = usize::from(self.header_len) + self.payload.remaining();
        (self.header_done == 0).then_some(len)
    }
}

/// What happens when a frame is with the kernel.
pub enum After {
    Nothing,
    /// The operation has succeeded.
    Complete(TxOp),
    /// The operation, which is in `SendQueue::await_ack`, succeeds with the peer's answer.
    Acknowledged(TxOp),
    /// A read response of these regions: the peer's read is counted.
    Answered(Regions, u64),
}

pub struct ReadOp {
    pub op: TxOp,
    pub iov: IoVec,
}

impl ReadOp {
    /// What the answer costs the peer until it has sent it.
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
    /// What comes in front of its bytes if the peer asks for them.
    pub data: RendezvousData,
}

/// Messages that the peer can be told of at a time; their indexes are 1 to this.
pub const RENDEZVOUS_LIMIT: usize = 254;

impl SendQueue {
    /// The peer is asked for something.
    #[inline]
    pub fn ask(&mut self, read: ReadOp) {
        self.asked += read.cost();
        self.await_read.push_back(read);
    }

    /// The operation that waits for an answer the longest.
    #[inline]
    pub fn take_asked(&mut self) -> Option<ReadOp> {
        let read = self.await_read.pop_front()?;
        self.asked -= read.cost();
        Some(read)
    }

    /// The last bytes that were staged are caused by the peer.
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

    /// An index for a rendezvous, if one is free.
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

// What a queued frame costs.
const _: () = assert!(size_of::<OutFrame>() <= 320);
