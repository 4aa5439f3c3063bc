// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The outbox of a session: frames that leave for the peer in the order of the calls, and the operations whose
//! acknowledgement is outstanding.
//!
//! A frame is written at once, staged together with others, or queued behind bytes that the link has not taken yet:
//! `send` decides that, and `small` does so for small frames. `flush` writes the `queue`. `unfinished` has the
//! operations of frames that have not left.
//!
//! The first few messages in a row are written with a system call each. If the application posts more before it polls
//! its queue, small frames gather in a staging buffer and leave together: at the next poll, when the buffer is full,
//! before a sleep, at close, or from `engine::flusher` if the application does none of these. `pace` decides which
//! frames gather.
//!
//! An operation without an answer is complete when its bytes are in the kernel or in the staging buffer. Payloads above
//! 16 KiB are never copied. Once 256 KiB are staged for a peer, only injected payloads are copied.

mod flush;
mod queue;
mod send;
mod small;
mod unfinished;

pub use queue::{FrameQueue, OutFrame};
pub use small::FEW;

use std::collections::VecDeque;

use crate::proto::Frame;
use crate::session::Cx;
use base::{Error, Result};
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
pub const TOGETHER: usize = 8192;

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
    frames: FrameQueue,
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

impl Outbox {
    pub fn new(ep: usize) -> Outbox {
        Outbox {
            ep: ep as u32,
            swaps: false,
            frames: FrameQueue::default(),
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

    /// Returns the frames that wait for the link.
    #[inline(always)]
    pub fn frames(&self) -> &FrameQueue {
        &self.frames
    }

    /// Whether so many bytes are staged that no further payload should be copied.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.frames.staged() > STAGE_HIGH_WATER
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

    /// Whether so many answers are queued for the peer that a frame which needs an answer stays in the stream.
    #[inline]
    pub fn owes_enough(&self, frame: &Frame) -> bool {
        let answers = self.frames.answers();
        answers > ANSWERS && (frame.asks() || answers > ACKS && frame.is_answered())
    }

    /// Whether few enough answers are queued that a frame is answered at once.
    #[inline]
    pub fn has_room_for_answers(&self) -> bool {
        self.frames.answers() <= ANSWERS
    }

    /// Whether a frame that stayed in the stream is handled now: the peer has taken half of the queued answers.
    pub fn may_answer(&self) -> bool {
        self.frames.answers() <= ANSWERS / 2
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
