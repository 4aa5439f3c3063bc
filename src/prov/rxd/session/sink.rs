// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Data types: the result of processing a packet, and the destination of an operation's bytes.

use crate::rxd::proto::MAX_IOVS;
use abi::{fi_datatype, fi_op};
use base::{Error, IoVec};
use engine::peer::claim::Claim;
use engine::srx::Slot;
use object::ops::atomic::Family;
use stream::session::receive_state::Regions;

/// Destination of received bytes.
pub enum Sink {
    Message(Claim),
    Write(Box<Write>),
    Atomic(Box<Atomic>),
    /// The memory of the operation is gone.
    Nothing,
}

/// A peer's write.
pub struct Write {
    pub iov: IoVec,
    pub regions: Regions,
    pub lens: [u64; MAX_IOVS],
    pub len: u64,
    pub data: Option<u64>,
}

/// An operation whose remaining packets have not arrived.
pub struct Incoming {
    pub sink: Sink,
    pub total: u64,
    pub got: u64,
    /// Number of missing packets, and the index of the next one.
    pub left: u64,
    pub segment: u64,
}

/// A peer's atomic operation.
pub struct Atomic {
    pub family: Family,
    pub datatype: fi_datatype,
    pub op: fi_op,
    pub iov: IoVec,
    pub regions: Regions,
    pub lens: [u64; MAX_IOVS],
    /// Bytes of the target.
    pub len: usize,
    pub data: Option<u64>,
    pub transaction: u32,
    /// Operands, then values to compare.
    pub bytes: Vec<u8>,
}

/// Why a packet has to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stall {
    /// The completion queue is overrun.
    Queue,
    /// The limit on unexpected messages is reached. Matching has an entry for this message.
    Memory(Slot),
    /// The same for the next part of a message in this receive context.
    Part(usize, Slot),
    /// Too many answers are unacknowledged.
    Answers,
}

/// Result of processing the expected packet.
pub enum Step {
    Taken,
    Stalled(Stall),
    Refused(Error),
    /// The packet is not valid here, or cannot be taken now; the peer may send it again.
    Dropped,
}
