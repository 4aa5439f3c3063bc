// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Incoming packets.

use super::flight::Parked;
use super::inbox::Lane;
use super::link::info_of;
use super::{Common, Cx, Session, State, Wire};
use crate::rxm::SOURCE;
use crate::rxm::proto::{Body, Fault, Message, Packet, Part, Segment, decode};
use crate::rxm::state::StateOf;
use base::log::{Subsys, log_warn};
use base::{Caps, CompFlags, Error};
use engine::srx::{Bytes, Envelope, RecvOp, Slot as Kept, Srx, Unfilled};

/// A message that arrives in segments.
pub struct Coming {
    pub sink: Sink,
    message: Message,
    /// Number of the next segment, and bytes received so far.
    number: u32,
    have: u64,
}

/// Destination of a message that arrives in segments.
pub enum Sink {
    Recv(Box<RecvOp>, Envelope),
    /// Kept in the receive queue with this number.
    Kept(usize, Kept),
    /// The receive is gone.
    Dropped,
}

/// Result of handling a packet.
pub enum Taken {
    Yes,
    /// The receive queue has no room for it.
    Later,
}

impl Common {
    /// Whether `len` bytes of an unexpected message may be kept; otherwise it waits in its packet. A message behind one
    /// that has matched a receive waits for the next poll, so that the program sees the matched one first. MPICH probes
    /// here before it checks messages of a process to itself, and receives in the other order; a message that arrives
    /// before its first check would confuse it.
    pub(super) fn may_keep(&self, srx: &Srx, envelope: &Envelope, len: u64) -> bool {
        if self.is_forced {
            return true;
        }
        let waits = self.has_matched && !self.is_thorough;
        !waits && srx.has_room(envelope.token, len, self.settings.saved)
    }
}

impl<W> Cx<'_, W> {
    pub(super) fn may_receive(&self, ep: usize) -> bool {
        self.common.is_forced || self.domain.may_receive(ep)
    }
}

impl Session {
    /// Handles a packet that came over the connection below with this number, or keeps a copy for later. The packet is
    /// valid for that connection only, whichever it names.
    #[inline]
    pub fn arrived<W: Wire>(&mut self, cx: &mut Cx<'_, W>, arrival: u64, bytes: &[u8]) {
        if self.link.arrival() != arrival || self.state() == State::Over {
            // The packet belongs to a connection that is gone.
            return;
        }
        let packet = match decode(bytes) {
            Ok(packet) if packet.conn == self.link.name() => packet,
            Ok(_) => return self.faulty(cx, Fault("a packet for another connection")),
            Err(fault) => return self.faulty(cx, fault),
        };
        let lane = lane_of(&packet.body);
        if self.state() != State::Up || lane.is_some_and(|lane| self.inbox.has(lane)) {
            // The packet must not overtake waiting ones.
            return self.inbox.postpone(&mut self.link, cx, lane, bytes);
        }
        match self.take(cx, &packet) {
            Ok(Taken::Yes) => {}
            Ok(Taken::Later) => self.inbox.postpone(&mut self.link, cx, lane, bytes),
            Err(fault) => self.faulty(cx, fault),
        }
    }

    /// Handles waiting packets in order, as far as there is room.
    pub fn take_waiting<W: Wire>(&mut self, cx: &mut Cx<'_, W>) {
        for lane in Lane::ALL {
            self.take_lane(cx, lane);
        }
        self.inbox.settle(&mut self.link, cx);
    }

    fn take_lane<W: Wire>(&mut self, cx: &mut Cx<'_, W>, lane: Lane) {
        let ep = self.link.ep();
        while self.state() == State::Up
            && let Some(bytes) = self.inbox.take(cx.common, ep, lane)
        {
            let taken = match decode(&bytes) {
                Ok(packet) => self.take(cx, &packet),
                Err(fault) => Err(fault),
            };
            match taken {
                Ok(Taken::Yes) => {}
                Ok(Taken::Later) => return self.inbox.put_back(cx.common, ep, lane, bytes),
                Err(fault) => self.faulty(cx, fault),
            }
        }
    }

    /// Keeps packets that waited because the receive queue was full, without a limit: the peer sends no more.
    pub(super) fn deliver_rest<W: Wire>(&mut self, cx: &mut Cx<'_, W>) {
        let ep = self.link.ep();
        for lane in Lane::ALL {
            while let Some(bytes) = self.inbox.take(cx.common, ep, lane) {
                if cx.domain.find_ep(ep).is_some() {
                    self.take_last(cx, &bytes);
                }
            }
        }
    }

    /// Handles a packet of a connection that is gone: a message is kept without regard to the limit.
    fn take_last<W: Wire>(&mut self, cx: &mut Cx<'_, W>, bytes: &[u8]) {
        if let Ok(packet) = decode(bytes)
            && let Body::Eager(..) | Body::Segment(..) = packet.body
        {
            cx.common.is_forced = true;
            // The connection has ended already, so the result does not matter.
            let _ = self.take(cx, &packet);
            cx.common.is_forced = false;
        }
    }

    /// Ends the connection of a peer that has violated a rule.
    #[cold]
    fn faulty<W: Wire>(&mut self, cx: &mut Cx<'_, W>, Fault(why): Fault) {
        let peer = self.link.peer();
        log_warn!(&SOURCE, Subsys::EpData, "{peer} breaks the protocol: {why}");
        let what = format_args!("has broken the protocol: {why}");
        self.lost(cx, Error::IO, &what);
    }

    fn take<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        packet: &Packet<'_>,
    ) -> core::result::Result<Taken, Fault> {
        let known = match packet.body {
            Body::Eager(ref message, bytes) => return self.eager(cx, message, bytes),
            Body::Segment(ref segment, ref message, bytes) => {
                return self.segment(cx, segment, message, bytes);
            }
            Body::Request {
                msg,
                message,
                places,
            } => {
                let parked = Parked {
                    msg,
                    message,
                    places,
                };
                return self.announced(cx, parked);
            }
            Body::ReadDone { msg } => self.was_fetched(cx, msg),
            Body::Addresses { msg, ref places } => self.write_to(cx, msg, places),
            Body::WriteDone { msg } => self.was_written(cx, msg),
            Body::Atomic { msg, ref request } => return self.operate(cx, msg, request),
            Body::AtomicResponse { msg, ref response } => self.answered(cx, msg, response),
            // Sent only by peers that count receives.
            Body::Credit => true,
        };
        match known {
            true => Ok(Taken::Yes),
            false => Err(Fault("an answer about a message that there is not")),
        }
    }

    fn check_tags(
        domain: &StateOf,
        ep: usize,
        message: &Message,
    ) -> core::result::Result<(), Fault> {
        match message.tagged && !domain.ep(ep).caps.contains(Caps::TAGGED) {
            true => Err(Fault("a tagged message for an endpoint without tags")),
            false => Ok(()),
        }
    }

    /// Handles a complete message.
    #[inline]
    fn eager<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        message: &Message,
        payload: &[u8],
    ) -> core::result::Result<Taken, Fault> {
        let (ep, fi_addr, source) = (self.link.ep(), self.link.fi_addr(), self.link.source());
        if !cx.may_receive(ep) {
            return Ok(Taken::Later);
        }
        Self::check_tags(cx.domain, ep, message)?;
        let ep = self.link.target_of(cx.domain, message)?;
        let info = info_of(message);
        let srx_id = cx.domain.ep(ep).srx;
        // FI_SOURCE_ERR requires a check of each message.
        let unfilled = match cx.domain.reports_origin(ep, fi_addr) {
            true => Unfilled::Special,
            false => {
                let srx = cx.domain.rx_queue_mut(srx_id);
                match srx.fill(&info, source, |iov| iov.fill(payload)) {
                    Ok(filled) => {
                        cx.common.has_matched = true;
                        cx.domain
                            .filled(ep, &filled, &info, CompFlags::empty(), fi_addr);
                        return Ok(Taken::Yes);
                    }
                    Err(unfilled) => unfilled,
                }
            }
        };
        let envelope = info.envelope(source, ep, self.link.id() as u64);
        let srx = cx.domain.rx_queue_mut(srx_id);
        let recv = match unfilled {
            Unfilled::Special => srx.accept(&envelope),
            Unfilled::Unexpected => None,
        };
        if let Some(mut recv) = recv {
            recv.iov.copy_in(payload);
            cx.domain
                .received(ep, &recv, &envelope, &self.link.sender());
            cx.common.has_matched = true;
            return Ok(Taken::Yes);
        }
        if !cx.common.may_keep(srx, &envelope, envelope.len) {
            return Ok(Taken::Later);
        }
        let slot = srx.keep_whole(envelope, |bytes| bytes.extend_from_slice(payload));
        self.link.note_origin(cx.domain, srx_id, slot);
        Ok(Taken::Yes)
    }

    /// Handles a segment of a message.
    fn segment<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        segment: &Segment,
        message: &Message,
        payload: &[u8],
    ) -> core::result::Result<Taken, Fault> {
        if segment.part == Part::First {
            let ep = self.link.ep();
            if !cx.may_receive(ep) {
                return Ok(Taken::Later);
            }
            Self::check_tags(cx.domain, ep, message)?;
            if self.coming.contains_key(&segment.msg) {
                return Err(Fault("two messages of one name"));
            }
            let ep = self.link.target_of(cx.domain, message)?;
            let Some(sink) = self.sink_of(cx, ep, message) else {
                return Ok(Taken::Later);
            };
            let coming = Coming {
                sink,
                message: *message,
                number: 0,
                have: 0,
            };
            self.coming.insert(segment.msg, coming);
        }
        let Some(coming) = self.coming.get_mut(&segment.msg) else {
            return Err(Fault("a segment of no message"));
        };
        let have = coming.have + payload.len() as u64;
        let is_last = segment.part == Part::Last;
        if coming.number != segment.number || coming.message != *message {
            return Err(Fault("a segment that is not the next"));
        }
        if have > message.size || is_last != (have == message.size) {
            return Err(Fault("segments of another length than their message"));
        }
        if let Sink::Kept(srx, slot) = coming.sink
            && !cx.common.is_forced
            && segment.part != Part::First
            && !cx
                .domain
                .rx_queue_mut(srx)
                .may_grow(slot, payload.len(), cx.common.settings.saved)
        {
            return Ok(Taken::Later);
        }
        (coming.number, coming.have) = (coming.number + 1, have);
        match &mut coming.sink {
            // Bytes beyond the receive buffer are dropped.
            Sink::Recv(recv, _) => drop(recv.iov.copy_in(payload)),
            Sink::Dropped => {}
            &mut Sink::Kept(srx, slot) => {
                let kept = cx.domain.rx_queue_mut(srx).coming(slot, payload);
                kept.map_err(|_| Fault("no memory for an unexpected message"))?;
            }
        }
        if is_last && let Some(coming) = self.coming.remove(&segment.msg) {
            self.whole(cx, coming.sink);
        }
        Ok(Taken::Yes)
    }

    /// Returns the place for the segments of a message, or `None` if there is no room.
    fn sink_of<W>(&mut self, cx: &mut Cx<'_, W>, ep: usize, message: &Message) -> Option<Sink> {
        let envelope = self.link.envelope(ep, message);
        let srx_id = cx.domain.ep(envelope.ep).srx;
        let srx = cx.domain.rx_queue_mut(srx_id);
        if let Some(recv) = srx.accept(&envelope) {
            return Some(Sink::Recv(Box::new(recv), envelope));
        }
        if !cx.common.may_keep(srx, &envelope, envelope.len) {
            return None;
        }
        let slot = srx.keep(envelope, Bytes::Coming(Vec::new()));
        self.link.note_origin(cx.domain, srx_id, slot);
        Some(Sink::Kept(srx_id, slot))
    }

    /// Handles the end of a message in segments.
    fn whole<W>(&mut self, cx: &mut Cx<'_, W>, sink: Sink) {
        let (recv, envelope) = match sink {
            Sink::Recv(recv, envelope) => (*recv, envelope),
            Sink::Dropped => return,
            Sink::Kept(srx, slot) => match cx.domain.rx_queue_mut(srx).arrived(slot) {
                Some(taken) => taken,
                None => return,
            },
        };
        self.complete_receive(cx, &recv, &envelope);
    }

    pub(super) fn complete_receive<W>(
        &mut self,
        cx: &mut Cx<'_, W>,
        recv: &RecvOp,
        envelope: &Envelope,
    ) {
        cx.domain
            .received(envelope.ep, recv, envelope, &self.link.sender());
        cx.common.has_matched = true;
    }
}

/// Returns the lane of a packet, or `None` if its order does not matter.
#[inline]
fn lane_of(body: &Body<'_>) -> Option<Lane> {
    match body {
        Body::Eager(..) | Body::Segment(..) | Body::Request { .. } => Some(Lane::Messages),
        Body::Atomic { .. } => Some(Lane::Atomics),
        _ => None,
    }
}
