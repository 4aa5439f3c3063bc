// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Incoming packets.

use super::flight::Parked;
use super::inbox::Lane;
use super::{Common, Cx, Session, State, Wire};
use crate::rxm::SOURCE;
use crate::rxm::proto::{Body, Fault, Message, Packet, Part, Segment, decode};
use crate::rxm::state::StateOf;
use base::log::{Subsys, log_warn};
use base::{Caps, CompFlags, Error};
use engine::domain_state::MessageInfo;
use engine::peer::claim::Claim;
use engine::srx::{Bytes, Envelope, RecvOp, Slot as Kept, Srx, Unfilled};
use engine::transport::Address;

/// A message that arrives in segments.
pub struct Coming {
    pub claim: Claim,
    message: Message,
    /// Number of the next segment, and bytes received so far.
    number: u32,
    have: u64,
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
        if self.arrival != arrival || self.state() == State::Over {
            // The packet belongs to a connection that is gone.
            return;
        }
        let packet = match decode(bytes) {
            Ok(packet) if packet.conn == self.name => packet,
            Ok(_) => return self.faulty(cx, Fault("a packet for another connection")),
            Err(fault) => return self.faulty(cx, fault),
        };
        let lane = lane_of(&packet.body);
        if self.has_to_wait(lane) {
            return self.postpone(cx, lane, bytes);
        }
        match self.take(cx, &packet) {
            Ok(Taken::Yes) => {}
            Ok(Taken::Later) => self.postpone(cx, lane, bytes),
            Err(fault) => self.faulty(cx, fault),
        }
    }

    /// Handles a packet of a connection that is gone: a message is kept without regard to the limit.
    pub(super) fn take_last<W: Wire>(&mut self, cx: &mut Cx<'_, W>, bytes: &[u8]) {
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
    pub(super) fn faulty<W: Wire>(&mut self, cx: &mut Cx<'_, W>, Fault(why): Fault) {
        let peer = self.peer;
        log_warn!(&SOURCE, Subsys::EpData, "{peer} breaks the protocol: {why}");
        let what = format_args!("has broken the protocol: {why}");
        self.lost(cx, Error::IO, &what);
    }

    pub(super) fn take<W: Wire>(
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

    /// Returns the envelope. `ep` is the target: the endpoint, or one of its receive contexts.
    pub(super) fn envelope(&self, ep: usize, message: &Message) -> Envelope {
        info_of(message).envelope(self.source(), ep, self.id as u64)
    }

    /// Returns the target of a message: the endpoint, or one of its receive contexts.
    #[inline]
    pub(super) fn target_of(
        &self,
        domain: &StateOf,
        message: &Message,
    ) -> core::result::Result<usize, Fault> {
        let ep = self.ep;
        match usize::from(message.context).checked_sub(1) {
            None => Ok(ep),
            Some(beyond_first) => {
                let context = domain.ep(ep).contexts.get(beyond_first).copied();
                context.ok_or(Fault("a message for a receive context that there is not"))
            }
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
        let (ep, fi_addr, source) = (self.ep, self.fi_addr, self.source());
        if !cx.may_receive(ep) {
            return Ok(Taken::Later);
        }
        Self::check_tags(cx.domain, ep, message)?;
        let ep = self.target_of(cx.domain, message)?;
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
        let envelope = info.envelope(source, ep, self.id as u64);
        let srx = cx.domain.rx_queue_mut(srx_id);
        let recv = match unfilled {
            Unfilled::Special => srx.accept(&envelope),
            Unfilled::Unexpected => None,
        };
        if let Some(mut recv) = recv {
            recv.iov.copy_in(payload);
            cx.domain.received(ep, &recv, &envelope, &self.sender());
            cx.common.has_matched = true;
            return Ok(Taken::Yes);
        }
        if !cx.common.may_keep(srx, &envelope, envelope.len) {
            return Ok(Taken::Later);
        }
        let slot = srx.keep_whole(envelope, |bytes| bytes.extend_from_slice(payload));
        self.note_origin(cx.domain, srx_id, slot);
        Ok(Taken::Yes)
    }

    /// Records the address of a sender that has to be reported.
    pub(super) fn note_origin(&self, domain: &mut StateOf, srx: usize, slot: Kept) {
        if domain.reports_origin(self.ep, self.fi_addr) {
            let bytes = self.peer.to_bytes();
            domain.rx_queue_mut(srx).note_origin(slot, bytes);
        }
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
            let ep = self.ep;
            if !cx.may_receive(ep) {
                return Ok(Taken::Later);
            }
            Self::check_tags(cx.domain, ep, message)?;
            if self.coming.contains_key(&segment.msg) {
                return Err(Fault("two messages of one name"));
            }
            let ep = self.target_of(cx.domain, message)?;
            let Some(claim) = self.claim_of(cx, ep, message) else {
                return Ok(Taken::Later);
            };
            let coming = Coming {
                claim,
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
        if segment.part != Part::First && !cx.common.is_forced {
            let saved = cx.common.settings.saved;
            if !coming.claim.has_room(cx.domain, payload.len(), saved) {
                return Ok(Taken::Later);
            }
        }
        (coming.number, coming.have) = (coming.number + 1, have);
        let stored = coming.claim.put(cx.domain, payload);
        stored.map_err(|_| Fault("no memory for an unexpected message"))?;
        if is_last && let Some(coming) = self.coming.remove(&segment.msg) {
            cx.common.has_matched |= coming.claim.finish(cx.domain, &self.sender());
        }
        Ok(Taken::Yes)
    }

    /// Returns the claim on a message in segments, or `None` if there is no room.
    fn claim_of<W>(&mut self, cx: &mut Cx<'_, W>, ep: usize, message: &Message) -> Option<Claim> {
        let envelope = self.envelope(ep, message);
        let srx_id = cx.domain.ep(envelope.ep).srx;
        let srx = cx.domain.rx_queue_mut(srx_id);
        if let Some(recv) = srx.accept(&envelope) {
            return Some(Claim::of(Some(recv), envelope));
        }
        if !cx.common.may_keep(srx, &envelope, envelope.len) {
            return None;
        }
        let slot = srx.keep(envelope, Bytes::Coming(Vec::new()));
        self.note_origin(cx.domain, srx_id, slot);
        Some(Claim::Kept(srx_id, slot))
    }

    pub(super) fn complete_receive<W>(
        &mut self,
        cx: &mut Cx<'_, W>,
        recv: &RecvOp,
        envelope: &Envelope,
    ) {
        cx.domain
            .received(envelope.ep, recv, envelope, &self.sender());
        cx.common.has_matched = true;
    }
}

fn info_of(message: &Message) -> MessageInfo {
    MessageInfo {
        what: message.what(),
        len: message.size,
        tag: message.tag,
        data: message.data,
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
