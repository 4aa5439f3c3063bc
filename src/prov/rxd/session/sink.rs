// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What becomes of a packet whose turn has come, and where the bytes of its operation go, as data.
#![forbid(unsafe_code)]

use crate::abi::{fi_datatype, fi_op};
use crate::base::{Error, IoVec};
use crate::engine::srx::{Envelope, RecvOp, Slot};
use crate::engine::stream::session::receive_state::Regions;
use crate::ffi::ops::atomic::Family;
use crate::prov::rxd::proto::MAX_IOVS;

/// Where bytes go.
pub enum Sink {
    Receive(Box<(RecvOp, Envelope)>),
    /// They are kept, in this receive context.
    Slot(usize, Slot),
    Write(Box<Write>),
    Atomic(Box<Atomic>),
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

/// An operation of which more packets are to come.
pub struct Incoming {
    pub sink: Sink,
    pub total: u64,
    pub got: u64,
    /// Packets that are to come, and the number of the next.
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

/// Why a packet waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stall {
    /// The completion queue has run over.
    Queue,
    /// No memory for messages without a receive: matching knows of this one.
    Memory(Slot),
    /// The same for the next part of a message, in this receive context.
    Part(usize, Slot),
    /// Too many answers wait for acknowledgements of peers.
    Answers,
}

/// What has become of the packet that was to come.
pub enum Step {
    Taken,
    Stalled(Stall),
    Refused(Error),
    /// It is not what the peer may send here, or cannot be taken now: it may come again.
    Dropped,
}
