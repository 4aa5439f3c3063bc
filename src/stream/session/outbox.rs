// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The outbox of a session: frames that leave for the peer in the order of the calls, and the operations whose
//! acknowledgement is outstanding.
//!
//! A frame is written at once, staged together with others, or queued behind bytes that the link has not taken yet:
//! `send` decides that, and `small` does so for small frames. `flush` writes the queue. `unfinished` has the operations
//! of frames that have not left.
//!
//! The first few messages in a row are written with a system call each. If the application posts more before it polls
//! its queue, small frames gather in a staging buffer and leave together: at the next poll, when the buffer is full,
//! before a sleep, at close, or from `engine::flusher` if the application does none of these. `pace` decides which
//! frames gather.
//!
//! An operation without an answer is complete when its bytes are in the kernel or in the staging buffer. Payloads above
//! 16 KiB are never copied. Once 256 KiB are staged for a peer, only injected payloads are copied.

mod flush;
mod send;
mod small;
mod unfinished;

pub use small::FEW;

use std::collections::VecDeque;

use crate::proto::{self, Frame, MAX_HEADER};
use crate::session::Cx;
use crate::session::receive_state::Regions;
use base::{Error, IoVec, Result};
use engine::domain_state::TxOp;
use engine::pace::Pace;
use engine::transport::Address;

/// Frames up to this size are staged when they cannot be written at once.
pub const STAGE_LIMIT: usize = 16 * 1024;
/// A staging buffer that holds this many bytes is written.
pub const STAGE_FULL: usize = 64 * 1024;
/// If this many bytes are staged for one connection, payloads that can be sent from their own buffers are not copied.
pub const STAGE_HIGH_WATER: usize = 256 * 1024;
/// Frames up to this size are copied into one buffer before they are written, which is faster than two pieces.
pub const TOGETHER: usize = 512;

/// Maximum of queued bytes that answer requests of a peer. Above it, frames that need an answer are not read until half
/// of the bytes are gone. Frames that need only an acknowledgement have their own limit.
pub const ANSWERS: usize = 1 << 20;
const ACKS: usize = 2 * ANSWERS;

/// Answers to reads up to this size are copied at once instead of being sent without a copy, while the peer takes them.
const SMALL_ANSWER: u64 = 8192;

/// Frames for the peer.
pub struct Outbox {
    /// The endpoint's number in `domain.eps`.
    ep: u32,
    /// The peer has the other byte order.
    swaps: bool,
    /// Frames in order; the first may be partly written.
    queue: VecDeque<Out>,
    /// Bytes in staging buffers of `queue`.
    staged: usize,
    /// Answers to reads in `queue` that are sent without a copy.
    answers: usize,
    /// Bytes in staging buffers that answer requests of the peer.
    owed: usize,
    /// Counts headers, for the debugging field of the header.
    counter: u8,
    /// Decides which small frames are written at once.
    pace: Pace,
    /// Set while on the list of connections to flush.
    dirty: bool,
    /// The kernel's buffer is full.
    blocked: bool,
    /// Operations whose acknowledgement is outstanding, in wire order.
    await_ack: VecDeque<TxOp>,
    /// Why the established connection is at its end, if a write found out before the read side did.
    cause: Option<Error>,
}

enum Out {
    /// Frames copied together.
    Staged {
        bytes: Vec<u8>,
        done: usize,
        /// Bytes of `Outbox::owed` among them.
        owed: usize,
    },
    /// A frame whose payload is sent without a copy.
    Frame(Box<OutFrame>),
}

pub struct OutFrame {
    header: [u8; MAX_HEADER],
    header_len: u8,
    header_done: u8,
    payload: IoVec,
    after: After,
}

impl OutFrame {
    /// Whether the frame carries the bytes of a message that the peer requested.
    fn is_data(&self) -> bool {
        proto::is_rendezvous_data(&self.header)
    }

    /// Returns the bytes of the frame, if none has been written.
    #[inline]
    fn whole(&self) -> Option<usize> {
        let len = usize::from(self.header_len) + self.payload.remaining();
        (self.header_done == 0).then_some(len)
    }
}

/// Action when the kernel has taken a frame.
enum After {
    Nothing,
    /// The operation has succeeded.
    Complete(TxOp),
    /// The operation, which is in `Outbox::await_ack`, succeeds when the peer answers.
    Acknowledged(TxOp),
    /// The frame is a read response of these regions: the peer's read is counted.
    Answered(Regions, u64),
}

impl Outbox {
    pub fn new(ep: usize) -> Outbox {
        Outbox {
            ep: ep as u32,
            swaps: false,
            queue: VecDeque::new(),
            staged: 0,
            answers: 0,
            owed: 0,
            counter: 0,
            pace: Pace::default(),
            dirty: false,
            blocked: false,
            await_ack: VecDeque::new(),
            cause: None,
        }
    }

    fn ep(&self) -> usize {
        self.ep as usize
    }

    /// Whether frames have the other byte order, in both directions.
    #[inline(always)]
    pub fn swaps(&self) -> bool {
        self.swaps
    }

    pub fn set_swaps(&mut self, swaps: bool) {
        self.swaps = swaps;
    }

    /// Whether no frame waits for the link.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the number of bytes in staging buffers.
    #[inline]
    pub fn staged(&self) -> usize {
        self.staged
    }

    /// Whether so many bytes are staged that no further payload should be copied.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.staged > STAGE_HIGH_WATER
    }

    /// Whether the link has no room.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Returns the header counter of the next frame.
    pub fn next_counter(&mut self) -> u8 {
        let counter = self.counter;
        self.counter = counter.wrapping_add(1);
        counter
    }

    /// Sets the number of frames that were sent while the connection was made.
    pub fn set_counter(&mut self, sent: u8) {
        self.counter = sent;
    }

    /// Returns why a write has found the connection at its end.
    pub fn take_cause(&mut self) -> Option<Error> {
        self.cause.take()
    }

    /// Returns the queued bytes that answer requests of the peer. An answer that is sent without a copy counts with the
    /// size of its frame. Operations of this side do not count: two peers that wait for each other to take those would
    /// both stop reading.
    #[inline]
    pub(super) fn answers(&self) -> usize {
        self.owed + self.answers * size_of::<OutFrame>()
    }

    /// Whether so many answers are queued for the peer that a frame which needs an answer stays in the stream.
    #[inline]
    pub fn owes_enough(&self, frame: &Frame) -> bool {
        let answers = self.answers();
        answers > ANSWERS && (frame.asks() || answers > ACKS && frame.is_answered())
    }

    /// Whether few enough answers are queued that a frame is answered at once.
    #[inline]
    pub fn has_room_for_answers(&self) -> bool {
        self.answers() <= ANSWERS
    }

    /// Whether a frame that stayed in the stream is handled now: the peer has taken half of the queued answers.
    pub fn may_answer(&self) -> bool {
        self.answers() <= ANSWERS / 2
    }

    /// Whether the answer to a read of `len` bytes is copied at once.
    #[inline]
    pub fn copies_answer(&self, len: u64) -> bool {
        len <= SMALL_ANSWER && !self.is_crowded()
    }

    /// Whether the peer has not acknowledged all operations that request it.
    pub fn awaits_ack(&self) -> bool {
        !self.await_ack.is_empty()
    }

    /// Removes the oldest operation that waits for an acknowledgement.
    pub fn take_acknowledged(&mut self) -> Option<TxOp> {
        self.await_ack.pop_front()
    }

    /// Completes the oldest operation that waits for an acknowledgement.
    pub fn acknowledged<A: Address>(&mut self, cx: &mut Cx<'_, A>) -> Result {
        let op = self.take_acknowledged().ok_or(Error::IO)?;
        cx.domain.complete_tx(&op);
        Ok(())
    }
}

// The limits on answers assume this size of a queued frame.
const _: () = assert!(size_of::<OutFrame>() <= 320);
