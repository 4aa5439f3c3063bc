// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The receiving side of a session: the incoming frame and the place for its payload.

use std::sync::Arc;

use crate::proto::{Frame, MAX_HEADER, MAX_SEGS, Message, Refused};
use crate::session::atomic::AtomicIn;
use crate::session::groups::Part;
use crate::session::reads::ReadOp;
use crate::session::told::Told;
use base::{IoVec, Span};
use engine::cntr::Counter;
use engine::mr::{Region, Target};
use engine::srx::{Envelope, RecvOp, Slot};

/// The receiving side.
pub struct ReceiveState {
    pub at: At,
    /// Tick at which the incoming payload began.
    pub since: u16,
    pub header: [u8; MAX_HEADER],
    pub header_have: usize,
    /// Bytes read from the socket that could not be handled yet.
    pub leftover: Vec<u8>,
    /// The peer has changed local memory by messages, so their room in the ring must be returned to it soon.
    pub was_written: bool,
    pub told: Told,
}

/// State of the receiver in the stream.
pub enum At {
    Header,
    Payload(Incoming),
    /// The payload of this message has no place yet; nothing is read.
    Stalled(Stalled),
    /// There is no room for the next bytes of this payload; nothing is read.
    Stopped(Incoming),
    /// This frame has to wait; nothing is read.
    Held(Box<Frame>),
}

/// A payload that is arriving.
pub struct Incoming {
    pub sink: Sink,
    pub remaining: u64,
    pub ack: bool,
}

pub struct Stalled {
    pub srx: usize,
    pub slot: Slot,
    pub envelope: Envelope,
    pub ack: bool,
}

/// The place for a payload.
pub enum Sink {
    /// A posted receive.
    Recv(RecvOp, Envelope),
    /// The buffer of an unexpected message.
    Slot(usize, Slot),
    /// Local memory that the peer writes.
    Write {
        target: Target,
        data: Option<u64>,
        regions: Regions,
        /// Bytes of each segment.
        lens: [u64; MAX_SEGS],
        durable: Durable,
    },
    /// The buffers of a local read.
    Read(ReadOp),
    /// A collective.
    Coll(Box<Part>),
    /// An atomic operation on local memory, which needs the complete payload.
    Atomic(Box<AtomicIn>),
    /// A buffer of this connection until the message is complete: see `Session::is_gathered`.
    Gathered(Box<(Message, Vec<u8>)>),
    /// None: the bytes are dropped.
    Drop,
    /// None: the access is refused after all of it has arrived.
    Refused(Refused),
}

/// The regions of a request's segments, in order.
pub type Regions = [Option<Arc<Region<Arc<Counter>>>>; MAX_SEGS];

/// Whether the list contains the region.
pub fn names(regions: &Regions, region: &Arc<Region<Arc<Counter>>>) -> bool {
    let mut regions = regions.iter().flatten();
    regions.any(|other| Arc::ptr_eq(other, region))
}

/// Addresses and lengths that a write has to make durable before the acknowledgement (FI_COMMIT_COMPLETE).
pub type Durable = Option<Box<[Span]>>;

impl At {
    /// Whether reading has stopped until there is room.
    pub fn waits(&self) -> bool {
        matches!(self, At::Stalled(_) | At::Stopped(_) | At::Held(_))
    }

    /// Returns the unexpected message whose payload has begun.
    pub fn slot(&self) -> Option<(usize, Slot)> {
        match self {
            At::Payload(incoming) | At::Stopped(incoming) => match incoming.sink {
                Sink::Slot(srx, slot) => Some((srx, slot)),
                _ => None,
            },
            At::Header | At::Stalled(_) | At::Held(_) => None,
        }
    }

    /// Returns the missing bytes of an unexpected message that waits for room.
    pub fn unread(&self) -> Option<u64> {
        match self {
            At::Stalled(stalled) => Some(stalled.envelope.len),
            At::Stopped(incoming) => Some(incoming.remaining),
            At::Header | At::Payload(_) | At::Held(_) => None,
        }
    }
}

impl ReceiveState {
    pub fn new() -> ReceiveState {
        ReceiveState {
            at: At::Header,
            since: 0,
            header: [0; MAX_HEADER],
            header_have: 0,
            leftover: Vec::new(),
            was_written: false,
            told: Told::default(),
        }
    }
}

impl Incoming {
    /// Returns how many of the next `len` bytes belong to the payload and to one list of pieces.
    #[inline]
    pub fn part(&mut self, len: usize) -> usize {
        let wanted = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        match &mut self.sink {
            Sink::Write { target, .. } => target.room(wanted.min(len)),
            _ => wanted.min(len),
        }
    }
}

impl Sink {
    /// Returns the buffers for the next bytes of the payload; bytes without room are dropped.
    #[inline]
    pub fn memory(&mut self) -> Option<&mut IoVec> {
        match self {
            Sink::Recv(recv, _) => Some(&mut recv.iov),
            Sink::Write { target, .. } => Some(target.current()),
            Sink::Read(read) => Some(&mut read.iov),
            Sink::Slot(..)
            | Sink::Coll(_)
            | Sink::Atomic(_)
            | Sink::Gathered(_)
            | Sink::Drop
            | Sink::Refused(_) => None,
        }
    }
}
