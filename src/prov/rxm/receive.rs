// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Incoming packets.

use super::SOURCE;
use super::conn::{Coming, Lane, Sink, State};
use super::flight::Parked;
use super::proto::{Body, Fault, Message, Packet, Part, Segment, decode};
use super::state::{Rxm, StateOf};
use base::log::{Subsys, log_warn};
use base::{Caps, CompFlags, Error};
use engine::domain_state::{MessageInfo, Sender};
use engine::srx::{Bytes, Envelope, Slot as Kept, Srx, Unfilled};
use engine::transport::Address;

/// Result of handling a packet.
pub enum Taken {
    Yes,
    /// The receive queue has no room for it.
    Later,
}

impl Rxm {
    /// Handles a packet that came over the connection with this `Conn::arrival`, or keeps a copy for later. The packet
    /// is valid for that connection only, whichever it names.
    pub fn arrived(&mut self, domain: &mut StateOf, ep: usize, arrival: u64, bytes: &[u8]) {
        let Some(id) = self.arrived_over(ep, arrival) else {
            // The packet belongs to a connection that is gone.
            return;
        };
        let packet = match decode(bytes) {
            Ok(packet) if packet.conn == self.conns[id].name => packet,
            Ok(_) => return self.faulty(domain, id, Fault("a packet for another connection")),
            Err(fault) => return self.faulty(domain, id, fault),
        };
        let lane = lane_of(&packet.body);
        if self.has_to_wait(id, lane) {
            return self.postpone(id, lane, bytes);
        }
        match self.take(domain, id, &packet) {
            Ok(Taken::Yes) => {}
            Ok(Taken::Later) => self.postpone(id, lane, bytes),
            Err(fault) => self.faulty(domain, id, fault),
        }
    }

    /// Whether a packet must not overtake waiting ones.
    #[inline]
    fn has_to_wait(&self, id: usize, lane: Option<Lane>) -> bool {
        let conn = &self.conns[id];
        conn.state != State::Up || lane.is_some_and(|lane| !conn.inbox[lane as usize].is_empty())
    }

    /// Keeps a packet for later. The sender is paused if too many of its packets wait.
    #[cold]
    fn postpone(&mut self, id: usize, lane: Option<Lane>, bytes: &[u8]) {
        let lane = lane.unwrap_or(Lane::Messages);
        self.conns[id].inbox[lane as usize].push_back(bytes.into());
        self.charge(id, lane, bytes);
        self.pause_if_full(id);
        self.stall(id);
    }

    pub fn stall(&mut self, id: usize) {
        if !self.stalled.contains(&id) {
            self.stalled.push(id);
        }
    }

    /// Handles waiting packets in order, as far as there is room.
    pub fn take_waiting(&mut self, domain: &mut StateOf) {
        for id in core::mem::take(&mut self.stalled) {
            for lane in Lane::ALL {
                self.take_lane(domain, id, lane);
            }
            let Some(conn) = self.conns.get(id) else {
                continue;
            };
            if conn.has_waiting() {
                self.stall(id);
            }
            self.resume_if_empty(id);
        }
    }

    fn take_lane(&mut self, domain: &mut StateOf, id: usize, lane: Lane) {
        while let Some(conn) = self.conns.get_mut(id)
            && conn.state == State::Up
            && let Some(bytes) = conn.inbox[lane as usize].pop_front()
        {
            self.release(id, lane, &bytes);
            let taken = match decode(&bytes) {
                Ok(packet) => self.take(domain, id, &packet),
                Err(fault) => Err(fault),
            };
            match taken {
                Ok(Taken::Yes) => {}
                Ok(Taken::Later) => {
                    self.charge(id, lane, &bytes);
                    return self.conns[id].inbox[lane as usize].push_front(bytes);
                }
                Err(fault) => self.faulty(domain, id, fault),
            }
        }
    }

    /// Handles a packet of a connection that is gone: a message is kept without regard to the limit.
    pub fn take_last(&mut self, domain: &mut StateOf, id: usize, bytes: &[u8]) {
        if let Ok(packet) = decode(bytes)
            && let Body::Eager(..) | Body::Segment(..) = packet.body
        {
            self.is_forced = true;
            // The connection has ended already, so the result does not matter.
            let _ = self.take(domain, id, &packet);
            self.is_forced = false;
        }
    }

    /// Whether `len` bytes of an unexpected message may be kept; otherwise it waits in its packet. A message behind one
    /// that has matched a receive waits for the next poll, so that the program sees the matched one first. MPICH probes
    /// here before it checks messages of a process to itself, and receives in the other order; a message that arrives
    /// before its first check would confuse it.
    pub fn may_keep(&self, srx: &Srx, envelope: &Envelope, len: u64) -> bool {
        if self.is_forced {
            return true;
        }
        let waits = self.has_matched && !self.is_thorough;
        !waits && srx.has_room(envelope.token, len, self.lower.params.max_saved_bytes)
    }

    pub fn may_receive(&self, domain: &StateOf, ep: usize) -> bool {
        self.is_forced || domain.may_receive(ep)
    }

    /// Ends the connection of a peer that has violated a rule.
    #[cold]
    fn faulty(&mut self, domain: &mut StateOf, id: usize, Fault(why): Fault) {
        let Some(peer) = self.conns.get(id).map(|conn| conn.peer) else {
            return;
        };
        log_warn!(&SOURCE, Subsys::EpData, "{peer} breaks the protocol: {why}");
        self.lost(
            domain,
            id,
            Error::IO,
            &format_args!("has broken the protocol: {why}"),
        );
    }

    fn take(
        &mut self,
        domain: &mut StateOf,
        id: usize,
        packet: &Packet<'_>,
    ) -> core::result::Result<Taken, Fault> {
        let known = match packet.body {
            Body::Eager(ref message, bytes) => return self.eager(domain, id, message, bytes),
            Body::Segment(ref segment, ref message, bytes) => {
                return self.segment(domain, id, segment, message, bytes);
            }
            Body::Request {
                msg,
                message,
                places,
            } => {
                let parked = Parked {
                    conn: id,
                    msg,
                    message,
                    places,
                };
                return self.announced(domain, id, parked);
            }
            Body::ReadDone { msg } => self.was_fetched(domain, id, msg),
            Body::Addresses { msg, ref places } => self.write_to(domain, id, msg, places),
            Body::WriteDone { msg } => self.was_written(domain, id, msg),
            Body::Atomic { msg, ref request } => {
                return self.operate(domain, id, msg, request);
            }
            Body::AtomicResponse { msg, ref response } => self.answered(domain, id, msg, response),
            // Sent only by peers that count receives.
            Body::Credit => true,
        };
        match known {
            true => Ok(Taken::Yes),
            false => Err(Fault("an answer about a message that there is not")),
        }
    }

    /// Returns the envelope. `ep` is the target: the endpoint, or one of its receive contexts.
    pub fn envelope(&self, id: usize, ep: usize, message: &Message) -> Envelope {
        info_of(message).envelope(self.conns[id].source(), ep, id as u64)
    }

    /// Returns the target of a message: the endpoint, or one of its receive contexts.
    #[inline]
    pub fn target_of(
        &self,
        domain: &StateOf,
        id: usize,
        message: &Message,
    ) -> core::result::Result<usize, Fault> {
        let ep = self.conns[id].ep;
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
    fn eager(
        &mut self,
        domain: &mut StateOf,
        id: usize,
        message: &Message,
        payload: &[u8],
    ) -> core::result::Result<Taken, Fault> {
        let conn = &self.conns[id];
        let (ep, fi_addr, source) = (conn.ep, conn.fi_addr, conn.source());
        if !self.may_receive(domain, ep) {
            return Ok(Taken::Later);
        }
        Self::check_tags(domain, ep, message)?;
        let ep = self.target_of(domain, id, message)?;
        let info = info_of(message);
        let srx_id = domain.ep(ep).srx;
        // FI_SOURCE_ERR requires a check of each message.
        let unfilled = match domain.reports_origin(ep, fi_addr) {
            true => Unfilled::Special,
            false => {
                let srx = domain.rx_queue_mut(srx_id);
                match srx.fill(&info, source, |iov| iov.fill(payload)) {
                    Ok(filled) => {
                        self.has_matched = true;
                        domain.filled(ep, &filled, &info, CompFlags::empty(), fi_addr);
                        return Ok(Taken::Yes);
                    }
                    Err(unfilled) => unfilled,
                }
            }
        };
        let envelope = info.envelope(source, ep, id as u64);
        let srx = domain.rx_queue_mut(srx_id);
        let recv = match unfilled {
            Unfilled::Special => srx.accept(&envelope),
            Unfilled::Unexpected => None,
        };
        if let Some(mut recv) = recv {
            recv.iov.copy_in(payload);
            let peer = self.conns[id].peer;
            let sender = Sender {
                fi_addr,
                addr: Some(&peer),
            };
            domain.received(ep, &recv, &envelope, &sender);
            self.has_matched = true;
            return Ok(Taken::Yes);
        }
        if !self.may_keep(srx, &envelope, envelope.len) {
            return Ok(Taken::Later);
        }
        let slot = srx.keep_whole(envelope, |bytes| bytes.extend_from_slice(payload));
        self.note_origin(domain, id, srx_id, slot);
        Ok(Taken::Yes)
    }

    /// Records the address of a sender that has to be reported.
    pub fn note_origin(&self, domain: &mut StateOf, id: usize, srx: usize, slot: Kept) {
        let conn = &self.conns[id];
        if domain.reports_origin(conn.ep, conn.fi_addr) {
            let bytes = conn.peer.to_bytes();
            domain.rx_queue_mut(srx).note_origin(slot, bytes);
        }
    }

    /// Handles a segment of a message.
    fn segment(
        &mut self,
        domain: &mut StateOf,
        id: usize,
        segment: &Segment,
        message: &Message,
        payload: &[u8],
    ) -> core::result::Result<Taken, Fault> {
        if segment.part == Part::First {
            let ep = self.conns[id].ep;
            if !self.may_receive(domain, ep) {
                return Ok(Taken::Later);
            }
            Self::check_tags(domain, ep, message)?;
            if self.conns[id].coming.contains_key(&segment.msg) {
                return Err(Fault("two messages of one name"));
            }
            let ep = self.target_of(domain, id, message)?;
            let Some(sink) = self.sink_of(domain, id, ep, message) else {
                return Ok(Taken::Later);
            };
            let coming = Coming {
                sink,
                message: *message,
                number: 0,
                have: 0,
            };
            self.conns[id].coming.insert(segment.msg, coming);
        }
        let Some(coming) = self.conns[id].coming.get_mut(&segment.msg) else {
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
            && !self.is_forced
            && segment.part != Part::First
            && !domain.rx_queue_mut(srx).may_grow(
                slot,
                payload.len(),
                self.lower.params.max_saved_bytes,
            )
        {
            return Ok(Taken::Later);
        }
        (coming.number, coming.have) = (coming.number + 1, have);
        match &mut coming.sink {
            // Bytes beyond the receive buffer are dropped.
            Sink::Recv(recv, _) => drop(recv.iov.copy_in(payload)),
            Sink::Dropped => {}
            &mut Sink::Kept(srx, slot) => {
                let kept = domain.rx_queue_mut(srx).coming(slot, payload);
                kept.map_err(|_| Fault("no memory for an unexpected message"))?;
            }
        }
        if is_last && let Some(coming) = self.conns[id].coming.remove(&segment.msg) {
            self.whole(domain, id, coming.sink);
        }
        Ok(Taken::Yes)
    }

    /// Returns the place for the segments of a message, or `None` if there is no room.
    fn sink_of(
        &mut self,
        domain: &mut StateOf,
        id: usize,
        ep: usize,
        message: &Message,
    ) -> Option<Sink> {
        let envelope = self.envelope(id, ep, message);
        let srx_id = domain.ep(envelope.ep).srx;
        let srx = domain.rx_queue_mut(srx_id);
        if let Some(recv) = srx.accept(&envelope) {
            return Some(Sink::Recv(Box::new(recv), envelope));
        }
        if !self.may_keep(srx, &envelope, envelope.len) {
            return None;
        }
        let slot = srx.keep(envelope, Bytes::Coming(Vec::new()));
        self.note_origin(domain, id, srx_id, slot);
        Some(Sink::Kept(srx_id, slot))
    }

    /// Handles the end of a message in segments.
    fn whole(&mut self, domain: &mut StateOf, id: usize, sink: Sink) {
        let (recv, envelope) = match sink {
            Sink::Recv(recv, envelope) => (*recv, envelope),
            Sink::Dropped => return,
            Sink::Kept(srx, slot) => match domain.rx_queue_mut(srx).arrived(slot) {
                Some(taken) => taken,
                None => return,
            },
        };
        self.complete_receive(domain, id, &recv, &envelope);
    }

    pub fn complete_receive(
        &mut self,
        domain: &mut StateOf,
        id: usize,
        recv: &engine::srx::RecvOp,
        envelope: &Envelope,
    ) {
        let (fi_addr, peer) = (self.conns[id].fi_addr, self.conns[id].peer);
        let sender = Sender {
            fi_addr,
            addr: Some(&peer),
        };
        domain.received(envelope.ep, recv, envelope, &sender);
        self.has_matched = true;
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
