// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Incoming packets: each is handled at once, or waits in the inbox.

use super::flight::Parked;
use super::inbox::Lane;
use super::incoming::{Taken, eager};
use super::{Cx, Session, State, Wire};
use crate::rxm::SOURCE;
use crate::rxm::proto::{Body, Fault, Packet, decode};
use base::Error;
use base::log::{Subsys, log_warn};
use engine::srx::{Bytes, Claimed, Envelope, RecvOp};

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
        if !self.inbox.unstall() {
            return;
        }
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
                if cx.domain.eps.get(ep).is_some() {
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
            Body::Eager(ref message, bytes) => return eager(&self.link, cx, message, bytes),
            Body::Segment(ref segment, ref message, bytes) => {
                return self
                    .incoming
                    .segment(&self.link, cx, segment, message, bytes);
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
            Body::ReadDone { msg } => self.outgoing.was_fetched(cx, msg),
            Body::Addresses { msg, ref places } => {
                let written = self.outgoing.write_to(&mut self.link, cx, msg, places);
                written.is_some_and(|sent| {
                    self.end_if_unsent(cx, sent);
                    true
                })
            }
            Body::WriteDone { msg } => self.incoming.was_written(&self.link, cx, msg),
            Body::Atomic { msg, ref request } => return self.operate(cx, msg, request),
            Body::AtomicResponse { msg, ref response } => self.outgoing.answered(cx, msg, response),
            Body::Credit { count } => {
                if self.link.has_credits() {
                    cx.wire.add_credits(self.link.id(), count);
                }
                true
            }
        };
        match known {
            true => Ok(Taken::Yes),
            false => Err(Fault("an answer about a message that there is not")),
        }
    }

    /// Handles the peer's announcement of a message.
    fn announced<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        parked: Parked,
    ) -> core::result::Result<Taken, Fault> {
        if !cx.may_receive(self.link.ep()) {
            return Ok(Taken::Later);
        }
        let ep = self.link.target_of(cx.domain, &parked.message)?;
        let mut envelope = self.link.envelope(ep, &parked.message);
        let srx_id = cx.domain.eps[ep].srx;
        let srx = &mut cx.domain.srxs[srx_id];
        if let Some(recv) = srx.accept(&envelope) {
            self.fetch(cx, parked, recv, envelope);
            return Ok(Taken::Yes);
        }
        // Only the announcement is kept, without bytes.
        if !cx.common.may_keep(srx, &envelope, 0) {
            return Ok(Taken::Later);
        }
        envelope.note = self.incoming.park(parked);
        let slot = srx.keep(envelope, Bytes::There);
        self.link.record_origin(cx.domain, srx_id, slot);
        Ok(Taken::Yes)
    }

    /// Handles an announced message that has matched a receive or was discarded.
    pub fn claimed<W: Wire>(&mut self, cx: &mut Cx<'_, W>, claimed: Claimed) {
        let Some(parked) = self.incoming.unpark(claimed.envelope.note) else {
            return;
        };
        match claimed.recv {
            Some(recv) => self.fetch(cx, parked, recv, claimed.envelope),
            None => {
                let (link, out) = (&mut self.link, &mut self.outgoing);
                let sent = out.send_short(link, cx, parked.msg, true);
                self.end_if_unsent(cx, sent);
            }
        }
    }

    /// Transfers an announced message that has matched a receive.
    fn fetch<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        parked: Parked,
        recv: RecvOp,
        envelope: Envelope,
    ) {
        let (link, out) = (&mut self.link, &mut self.outgoing);
        let sent = self.incoming.fetch(link, out, cx, parked, (recv, envelope));
        self.end_if_unsent(cx, sent);
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
