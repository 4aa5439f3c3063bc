// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The receiving side of a session: the incoming frame and the place for its payload.

use std::sync::Arc;

use crate::proto::{Frame, MAX_SEGS, Message, Refused};
use crate::session::Cx;
use crate::session::common::Todo;
use crate::session::exposed::{AtomicIn, Durable};
use crate::session::grace::Grace;
use crate::session::groups::Part;
use crate::session::parser::Parser;
use crate::session::peer::Peer;
use crate::session::read::LARGE;
use crate::session::reads::ReadOp;
use crate::session::told::Told;
use base::IoVec;
use engine::cntr::Counter;
use engine::mr::{Region, Target};
use engine::srx::{Bytes, Envelope, RecvOp, Slot};
use engine::transport::Address;
use hmem::transit::Landing;

/// The receiving side.
pub struct ReceiveState {
    pub(super) at: At,
    /// Tick at which the incoming payload began.
    pub(super) since: u16,
    /// The last payload that did not arrive with its header was large, so the next one probably is, too.
    pub(super) expects_large: bool,
    pub(super) parser: Parser,
    /// Bytes read from the socket that could not be handled yet.
    pub(super) leftover: Vec<u8>,
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
    /// Bytes on their way to a device.
    pub landing: Option<Box<Landing>>,
    pub remaining: u64,
    pub ack: bool,
}

pub struct Stalled {
    pub srx: usize,
    pub slot: Slot,
    pub envelope: Envelope,
    pub ack: bool,
    /// There is room, but the receive may be posted in a moment.
    pub grace: Option<Grace>,
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
        durable: Option<Durable>,
    },
    /// The buffers of a local read.
    Read(ReadOp),
    /// A collective.
    Coll(Box<Part>),
    /// An atomic operation on local memory, which needs the complete payload.
    Atomic(Box<AtomicIn>),
    /// A buffer of this connection until the message is complete: see `Peer::is_gathered`.
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

impl At {
    /// Whether reading has stopped until there is room.
    fn waits(&self) -> bool {
        matches!(self, At::Stalled(_) | At::Stopped(_) | At::Held(_))
    }

    /// Returns the unexpected message whose payload has begun.
    fn slot(&self) -> Option<(usize, Slot)> {
        match self {
            At::Payload(incoming) | At::Stopped(incoming) => match incoming.sink {
                Sink::Slot(srx, slot) => Some((srx, slot)),
                _ => None,
            },
            At::Header | At::Stalled(_) | At::Held(_) => None,
        }
    }

    /// Returns the missing bytes of an unexpected message that waits for room.
    fn unread(&self) -> Option<u64> {
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
            expects_large: false,
            parser: Parser::new(),
            leftover: Vec::new(),
            told: Told::default(),
        }
    }

    /// Keeps the private data of a connection request until it is written. Nothing is read until then.
    pub fn keep_request_data(&mut self, data: Vec<u8>) {
        self.leftover = data;
    }

    /// Returns the private data of a connection request.
    pub fn request_data(&self) -> &[u8] {
        &self.leftover
    }

    /// Whether reading has stopped until there is room.
    #[inline(always)]
    pub fn waits(&self) -> bool {
        self.at.waits()
    }

    /// Whether a message is left in the socket for a moment. Sleeping threads have to wake for it.
    pub fn is_graced(&self) -> bool {
        matches!(&self.at, At::Stalled(stalled) if stalled.grace.is_some())
    }

    /// Describes why nothing is read.
    pub fn why_it_waits(&self) -> Option<&'static str> {
        match self.at {
            At::Stalled(Stalled { grace: Some(_), .. }) => None,
            At::Stalled(_) | At::Stopped(_) => {
                Some("is not read: there is no room for its unexpected message")
            }
            At::Held(_) => Some("is not read: it owes answers"),
            At::Header | At::Payload(_) => None,
        }
    }

    /// Whether what reading waits for cannot be completed after the end of the peer, whose link has `unread` bytes.
    pub fn is_hopeless(&self, unread: usize) -> bool {
        let there = (unread + self.leftover.len()) as u64;
        match &self.at {
            // The frame needs an answer, and the peer no longer accepts one.
            At::Held(frame) => frame.is_answered(),
            at => at.unread().is_some_and(|unread| unread > there),
        }
    }

    /// Returns the unexpected message whose payload has begun.
    pub fn slot(&self) -> Option<(usize, Slot)> {
        self.at.slot()
    }

    /// Whether the next byte of the stream begins a frame.
    #[inline(always)]
    pub fn is_between(&self) -> bool {
        matches!(self.at, At::Header) && self.parser.is_empty()
    }

    /// Whether all frames of the peer were handled, and no message of the peer has to be fetched or requested.
    pub fn is_at_rest(&self) -> bool {
        self.is_between() && self.leftover.is_empty() && self.told.is_empty()
    }

    /// Has the payload that follows placed.
    pub fn expect<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        sink: Sink,
        remaining: u64,
        ack: bool,
    ) {
        cx.watch_waits();
        self.since = cx.common.waits.stamp();
        self.expects_large = remaining >= LARGE;
        self.at = At::Payload(Incoming {
            sink,
            landing: None,
            remaining,
            ack,
        });
    }

    /// Keeps a message that matches no receive, within the limits. `here`: bytes of the stream behind its header that
    /// were read already. Returns whether all of it is here.
    pub fn unexpected<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        peer: &Peer<A>,
        srx: usize,
        envelope: Envelope,
        ack: bool,
        here: usize,
    ) -> bool {
        let len = envelope.len;
        let limit = cx.common.limits.saved_bytes;
        let has_room = cx.domain.srxs[srx].has_room(envelope.token, len, limit);
        let may_stay = len >= cx.common.grace_from && len > here as u64 && !cx.link.is_ring();
        let grace = match has_room && may_stay {
            true => Some(Grace::new(cx.common.polls)),
            false => None,
        };
        if !has_room || grace.is_some() {
            let slot = peer.keep(cx.domain, srx, envelope, Bytes::There);
            self.at = At::Stalled(Stalled {
                srx,
                slot,
                envelope,
                ack,
                grace,
            });
            if has_room {
                cx.common.stalled.insert(cx.id);
            } else {
                pause(cx);
            }
            return false;
        }
        if len == 0 {
            peer.keep(cx.domain, srx, envelope, Bytes::Here(Vec::new()));
            return true;
        }
        let slot = peer.keep(cx.domain, srx, envelope, Bytes::Coming(Vec::new()));
        self.expect(cx, Sink::Slot(srx, slot), len, ack);
        false
    }

    /// Stops in the payload of an unexpected message. The next bytes (`bytes`) wait for room.
    #[cold]
    pub fn stop<A: Address>(&mut self, cx: &mut Cx<'_, A>, bytes: &[u8]) {
        match std::mem::replace(&mut self.at, At::Header) {
            At::Payload(incoming) => self.at = At::Stopped(incoming),
            other => self.at = other,
        }
        self.leftover.extend_from_slice(bytes);
        pause(cx);
    }

    /// Leaves a frame and everything behind it in the stream.
    #[cold]
    pub fn hold_frame<A: Address>(&mut self, cx: &mut Cx<'_, A>, frame: &Frame) {
        self.at = At::Held(Box::new(*frame));
        pause(cx);
    }

    /// Returns the place for the rest of an unexpected message that was stopped, if there is room now or a receive has
    /// taken the message.
    pub fn place_for_rest<A: Address>(&mut self, cx: &mut Cx<'_, A>) -> Option<Incoming> {
        let At::Stopped(incoming) = &self.at else {
            return None;
        };
        let Sink::Slot(srx, slot) = incoming.sink else {
            return None;
        };
        let &Incoming { remaining, ack, .. } = incoming;
        let next = (self.leftover.len() as u64).min(remaining) as usize;
        let limit = cx.common.limits.saved_bytes;
        let queue = &mut cx.domain.srxs[srx];
        let sink = if queue.is_matched(slot) {
            // The rest goes straight to the receive without an extra copy.
            match queue.take_met(slot) {
                Some((recv, envelope)) => Sink::Recv(recv, envelope),
                None => Sink::Drop,
            }
        } else if queue.may_grow(slot, next, limit) {
            Sink::Slot(srx, slot)
        } else {
            return None;
        };
        Some(Incoming {
            sink,
            landing: None,
            remaining,
            ack,
        })
    }
}

/// Has the stream read nothing more until there is room.
fn pause<A>(cx: &mut Cx<'_, A>) {
    cx.common.stalled.insert(cx.id);
    cx.todo(Todo::PauseRead);
}

impl Incoming {
    /// Has the next bytes of the payload dropped. Its memory is not used any more.
    pub fn drop_rest(&mut self) {
        self.landing = None;
        self.sink = Sink::Drop;
    }

    /// Returns where the payload has gone, after all its bytes are there.
    pub fn into_sink(self) -> Sink {
        drop(self.landing);
        self.sink
    }

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
