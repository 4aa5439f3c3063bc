// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tagged messages that stay with their sender until they match a receive: docs/wire/tcp.md.

use crate::proto::{Frame, MAX_HEADER, Offer, ReadyToSend, RendezvousData};
use crate::session::offers::{Offered, RendezvousIn, Shared};
use crate::session::receive::Fault;
use crate::session::receive_state::Sink;
use crate::session::{Cx, Ending, Session};
use crate::shm_channel::{MIN_SHARED, ShmChannel, len_of};
use base::{Caps, Error};
use engine::domain_state::MessageInfo;
use engine::srx::{Bytes, Envelope, RecvOp};
use engine::transport::Address;
use object::ops::transfer::What;
use sync::stats::Count;

impl<A: Address> Session<A> {
    pub fn send_clear(&mut self, cx: &mut Cx<'_, A>, index: u8) {
        self.tx.out.answer(cx, &Frame::ClearToSend { index });
    }

    /// Handles the announcement of a message that its sender holds.
    pub fn ready_to_send(
        &mut self,
        cx: &mut Cx<'_, A>,
        ready: &ReadyToSend,
    ) -> core::result::Result<(), Fault> {
        if !self.rx.told.add(ready.index) {
            return Err(Fault::Rule("ready-to-send with a bad index"));
        }
        let info = MessageInfo {
            what: What::Tagged,
            len: ready.size,
            tag: ready.tag,
            data: ready.data,
        };
        let mut envelope = self.peer.envelope(cx.id, &info);
        envelope.note = rendezvous_note(ready.index, ready.ack);
        self.told_of(cx, envelope, ready.context)
    }

    /// Matches an announced message with a receive, or keeps its envelope without the bytes.
    fn told_of(
        &mut self,
        cx: &mut Cx<'_, A>,
        mut envelope: Envelope,
        context: u8,
    ) -> core::result::Result<(), Fault> {
        envelope.ep = self.context(cx, context)?;
        let state = cx.domain.ep(envelope.ep);
        if envelope.what == What::Tagged && !state.caps.contains(Caps::TAGGED) {
            return Err(Fault::Rule("a tagged message for an endpoint without tags"));
        }
        let srx = state.srx;
        match cx.domain.rx_queue_mut(srx).accept(&envelope) {
            Some(recv) => self.get(cx, Some(recv), envelope),
            None => {
                let bytes = match self.fetch_to_keep(cx, srx, &envelope)? {
                    Some(bytes) => {
                        envelope.note = 0;
                        Bytes::Here(bytes)
                    }
                    None => Bytes::There,
                };
                self.peer.keep(cx.domain, srx, envelope, bytes);
            }
        }
        Ok(())
    }

    /// Fetches an unexpected message within the limits, so that its sender completes as it does over a socket; not if
    /// `Limits::keeps_offers` is set. `None` leaves the message with its sender. It is a fault if the sender and its
    /// message are gone, because later messages must not take its place.
    #[cold]
    fn fetch_to_keep(
        &mut self,
        cx: &mut Cx<'_, A>,
        srx: usize,
        envelope: &Envelope,
    ) -> core::result::Result<Option<Vec<u8>>, Fault> {
        let room = cx.domain.rx_queue(srx).has_room(
            envelope.token,
            envelope.len,
            cx.common.limits.saved_bytes,
        );
        let (index, _) = rendezvous_of(envelope.note);
        let (Some(offers), Some(shm)) = (&mut self.rx.offers, cx.link.memory()) else {
            return Ok(None);
        };
        let Some(offered) = offers.waiting.get(&index) else {
            return Ok(None);
        };
        if cx.common.limits.keeps_offers
            || !room
            || envelope.len > cx.common.limits.saved_size as u64
        {
            return Ok(None);
        }
        let bytes = shm.fetch_bytes(&offered.places, envelope.len as usize, offered.epoch);
        if bytes.is_some() {
            offers.waiting.remove(&index);
            self.send_taken(cx, index);
        } else if shm.reaches() && !shm.is_alive() {
            return Err(Fault::Rule(
                "the sender of a message is gone, and with it the message",
            ));
        }
        Ok(bytes)
    }

    /// Fetches or requests a message that its sender holds, after a receive has matched or the message was discarded.
    pub fn get(&mut self, cx: &mut Cx<'_, A>, recv: Option<RecvOp>, envelope: Envelope) {
        let (index, ack) = rendezvous_of(envelope.note);
        let offers = self.rx.offers.as_ref();
        match offers.is_some_and(|offers| offers.waiting.contains_key(&index)) {
            true => self.fetch(cx, index, recv, envelope),
            false => self.clear(cx, index, ack, recv, envelope),
        }
    }

    /// Requests a message that its sender holds.
    fn clear(
        &mut self,
        cx: &mut Cx<'_, A>,
        index: u8,
        ack: bool,
        recv: Option<RecvOp>,
        envelope: Envelope,
    ) {
        cx.watch_waits();
        let waiting = RendezvousIn {
            since: cx.common.waits.now,
            recv,
            envelope,
            ack,
        };
        self.rx.told.clear(index, waiting);
        self.send_clear(cx, index);
    }

    /// Handles the offer of a message that can be fetched.
    pub fn offered(
        &mut self,
        cx: &mut Cx<'_, A>,
        offer: &Offer,
    ) -> core::result::Result<(), Fault> {
        if cx.link.memory().is_none() || !self.rx.told.add(offer.index) {
            return Err(Fault::Rule("an offer with a bad index, or not agreed on"));
        }
        let offers = self.rx.offers.get_or_insert_default();
        let offered = Offered {
            places: offer.places.all(),
            epoch: offer.epoch,
        };
        offers.waiting.insert(offer.index, offered);
        let info = MessageInfo {
            what: match offer.tagged {
                true => What::Tagged,
                false => What::Msg,
            },
            len: offer.places.total(),
            tag: offer.tag,
            data: offer.data,
        };
        let mut envelope = self.peer.envelope(cx.id, &info);
        envelope.note = rendezvous_note(offer.index, false);
        self.told_of(cx, envelope, offer.context)
    }

    /// Fetches a message from the sender's memory; if that fails, requests it from its sender.
    fn fetch(&mut self, cx: &mut Cx<'_, A>, index: u8, recv: Option<RecvOp>, envelope: Envelope) {
        self.end_shares(cx);
        let offers = self.rx.offers.as_mut();
        let Some(offered) = offers.and_then(|offers| offers.waiting.remove(&index)) else {
            return;
        };
        let (Some(recv), Some(shm)) = (recv, cx.link.memory_mut()) else {
            return self.fetched(cx, index, None, envelope, true);
        };
        let len = recv.iov.remaining().min(len_of(&offered.places));
        let idle = self.tx.out.is_empty() && shm.takes(MAX_HEADER);
        // A multi-receive buffer is filled in message order, also by messages that were there before the buffer.
        if len >= MIN_SHARED
            && recv.multi.is_none()
            && idle
            && let Some(job) = shm.begin_share(len)
        {
            let shared = Shared {
                index,
                recv: Some(recv),
                envelope,
                offered,
                job,
                copied: true,
            };
            return self.fetch_together(cx, shared, len);
        }
        let copied = shm.fetch(&offered.places, &recv.iov, offered.epoch);
        self.fetched(cx, index, Some(recv), envelope, copied);
    }

    /// Handles the result of a fetch of the message with this index.
    pub fn fetched(
        &mut self,
        cx: &mut Cx<'_, A>,
        index: u8,
        recv: Option<RecvOp>,
        envelope: Envelope,
        copied: bool,
    ) {
        if !copied {
            let gone = |shm: &ShmChannel| shm.reaches() && !shm.is_alive();
            let gone = cx.link.memory().is_some_and(gone);
            self.clear(cx, index, false, recv, envelope);
            if gone {
                // Later messages must not take the place of this one.
                self.end(cx, Ending::Lost(Error::CONNRESET));
            }
            return;
        }
        if let Some(recv) = recv {
            cx.domain.ep(envelope.ep).stats.count(Count::Fetched);
            cx.domain
                .received(envelope.ep, &recv, &envelope, &self.peer.sender());
        }
        self.send_taken(cx, index);
    }

    fn send_taken(&mut self, cx: &mut Cx<'_, A>, index: u8) {
        self.rx.told.remove(index);
        self.tx.out.answer(cx, &Frame::Taken { index });
    }

    /// Handles the header of the bytes of a requested message.
    pub fn rendezvous_data(
        &mut self,
        cx: &mut Cx<'_, A>,
        data: &RendezvousData,
    ) -> core::result::Result<(), Fault> {
        let Some(waiting) = self.rx.told.take_cleared(data.index) else {
            return Err(Fault::Rule("rendezvous data with an unknown index"));
        };
        if waiting.envelope.len != data.payload {
            self.rx.told.clear(data.index, waiting);
            return Err(Fault::Rule(
                "rendezvous data of another length than announced",
            ));
        }
        self.rx.told.remove(data.index);
        let sink = match waiting.recv {
            Some(recv) => Sink::Recv(recv, waiting.envelope),
            None => Sink::Drop,
        };
        self.expect(cx, sink, data.payload, waiting.ack);
        if data.payload == 0 {
            self.finish(cx);
        }
        Ok(())
    }
}

/// Returns the note of an envelope for a rendezvous; 0 means none.
fn rendezvous_note(index: u8, ack: bool) -> u64 {
    u64::from(index) | u64::from(ack) << 8
}

fn rendezvous_of(note: u64) -> (u8, bool) {
    (note as u8, note >> 8 & 1 != 0)
}
