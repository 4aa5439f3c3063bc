// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The receiving side of a session: the frame that comes in, and where its payload goes.
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::base::{IoVec, Span};
use crate::engine::cntr::Counter;
use crate::engine::mr::{Region, Target};
use crate::engine::srx::{Envelope, RecvOp, Slot};
use crate::engine::stream::proto::{Frame, MAX_HEADER, MAX_SEGS, Message, Refused};
use crate::engine::stream::session::atomic::AtomicIn;
use crate::engine::stream::session::groups::Part;
use crate::engine::stream::session::offers::{Offers, Shared, Told};
use crate::engine::stream::session::queue::ReadOp;

/// The receiving side.
pub struct ReceiveState {
    pub at: At,
    /// When the payload that comes in began.
    pub since: u16,
    pub header: [u8; MAX_HEADER],
    pub header_have: usize,
    /// Bytes read from the socket that could not be dealt with yet.
    pub leftover: Vec<u8>,
    /// The peer has changed memory of ours by messages, and is to be told that they were taken.
    pub was_written: bool,
    pub told: Told,
    /// Few peers have any, and each has this place.
    pub offers: Option<Box<Offers>>,
}

/// Where in the stream the receiver is.
pub enum At {
    Header,
    Payload(Incoming),
    /// The payload of this message has no place yet; nothing is read.
    Stalled(Stalled),
    /// There is no room for the next bytes of this payload; nothing is read.
    Stopped(Incoming),
    /// So it is with this frame.
    Held(Box<Frame>),
}

/// A payload on its way.
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

/// Where a payload goes.
pub enum Sink {
    /// To a receive.
    Recv(RecvOp, Envelope),
    /// To the buffer of an unexpected message.
    Slot(usize, Slot),
    /// To memory of ours that the peer writes.
    Write {
        target: Target,
        data: Option<u64>,
        regions: Regions,
        /// The bytes of each segment.
        lens: [u64; MAX_SEGS],
        durable: Durable,
    },
    /// To the buffers of a read of ours.
    Read(ReadOp),
    /// To a collective.
    Coll(Box<Part>),
    /// To an atomic operation on memory of ours, which needs all of it.
    Atomic(Box<AtomicIn>),
    /// To memory of this connection, until all of the message is here: see `Session::is_gathered`.
    Gathered(Box<(Message, Vec<u8>)>),
    /// Nowhere.
    Drop,
    /// Nowhere: the access is refused when all of it has come.
    Refused(Refused),
}

/// The regions of a request's segments, in order.
pub type Regions = [Option<Arc<Region<Arc<Counter>>>>; MAX_SEGS];

/// Addresses and lengths of what a write has to make durable before it is acknowledged (FI_COMMIT_COMPLETE).
pub type Durable = Option<Box<[Span]>>;

impl At {
    /// Nothing is read until there is room.
    pub fn waits(&self) -> bool {
        matches!(self, At::Stalled(_) | At::Stopped(_) | At::Held(_))
    }

    /// The unexpected message whose payload has begun.
    pub fn slot(&self) -> Option<(usize, Slot)> {
        match self {
            At::Payload(incoming) | At::Stopped(incoming) => match incoming.sink {
                Sink::Slot(srx, slot) => Some((srx, slot)),
                _ => None,
            },
            At::Header | At::Stalled(_) | At::Held(_) => None,
        }
    }

    /// Bytes of an unexpected message that are still to be read, if it waits for room.
    pub fn unread(&self) -> Option<u64> {
        match self {
            At::Stalled(stalled) => Some(stalled.envelope.len),
            At::Stopped(incoming) => Some(incoming.remaining),
            At::Header | At::Payload(_) | At::Held(_) => None,
        }
    }
}

impl ReceiveState {
    /// Messages that the peer copies a part of.
    pub fn shared(&self) -> &[Shared] {
        self.offers.as_ref().map_or(&[], |offers| &offers.shared)
    }

    pub fn shared_mut(&mut self) -> &mut [Shared] {
        self.offers
            .as_mut()
            .map_or(&mut [], |offers| &mut offers.shared)
    }

    pub fn new() -> ReceiveState {
        ReceiveState {
            at: At::Header,
            since: 0,
            header: [0; MAX_HEADER],
            header_have: 0,
            leftover: Vec::new(),
            was_written: false,
            told: Told::default(),
            offers: None,
        }
    }
}

impl Incoming {
    /// How many of the next `len` bytes belong to the payload and go to one list of pieces.
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
    /// Takes the next bytes of the payload; what there is no room for is dropped.
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
