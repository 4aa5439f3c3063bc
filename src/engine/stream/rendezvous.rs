// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tagged messages that stay with their sender until a receive has met them: docs/wire/tcp.md.
#![forbid(unsafe_code)]

use crate::abi::*;
use crate::base::{Error, IoVec, Result};
use crate::engine::core::TxOp;
use crate::engine::srx::{Bytes, Envelope, RecvOp};
use crate::engine::stream::conn::{Offered, Payload, RendezvousIn, RendezvousOut, Shared, Sink};
use crate::engine::stream::duct::{Duct, Places, len_of};
use crate::engine::stream::net::Net;
use crate::engine::stream::proto::{Header, MAX_HEADER, Op};
use crate::engine::stream::rx::Fault;
use crate::engine::stream::share::SHARE;
use crate::engine::stream::transport::{Core, Stream};
use crate::ffi::ops::transfer::What;

impl<N: Net> Stream<N> {
    /// Tells the peer of a message and keeps it until the peer has a place for it.
    pub(super) fn announce(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        mut header: Header,
        payload: Payload,
        mut op: TxOp,
    ) {
        self.begin_waiting(core, &mut op);
        let conn = &mut self.conns[id];
        // There is one: `Stream::way` has looked.
        let Some(index) = conn.tx.free_index() else {
            return;
        };
        header.op = Op::Rts;
        header.index = index;
        header.msg_size = op.len as u64;
        header.payload = 0;
        let waiting = RendezvousOut {
            op,
            payload,
            header: header.clone(),
        };
        conn.tx.rendezvous.insert(index, waiting);
        self.send_bare(core, id, &header);
    }

    /// The peer has a place for a message that it was told of.
    pub(super) fn cleared(&mut self, core: &mut Core<N>, id: usize, index: u8) -> Result {
        let conn = &mut self.conns[id];
        let waiting = conn.tx.rendezvous.remove(&index).ok_or(Error::IO)?;
        core.eps[waiting.op.ep()].tx_pending -= 1;
        let mut header = waiting.header;
        header.op = Op::Data;
        header.context = 0;
        header.payload = header.msg_size;
        self.send_payload(core, id, &header, waiting.payload, waiting.op);
        Ok(())
    }

    pub(super) fn send_clear(&mut self, core: &mut Core<N>, id: usize, index: u8) {
        let mut header = Header::new(Op::Cts, 0);
        header.index = index;
        self.send_always(core, id, &header, IoVec::empty(), None);
    }

    /// A message that the sender holds until there is a receive.
    pub(super) fn ready_to_send(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
    ) -> core::result::Result<(), Fault> {
        if header.index == 0 || !self.conns[id].rx.told.add(header.index) {
            return Err(Fault::Rule("ready-to-send with a bad index"));
        }
        let mut envelope = self.envelope(id, What::Tagged, header);
        envelope.len = header.msg_size;
        envelope.note = rendezvous_note(header.index, header.ack);
        self.told_of(core, id, envelope, header)
    }

    /// A message that its sender holds: to the receive that takes it, or kept without its bytes. `to` may name a receive
    /// context.
    fn told_of(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        mut envelope: Envelope,
        to: &Header,
    ) -> core::result::Result<(), Fault> {
        if to.context != 0 {
            envelope.ep = self.named_context(core, id, to)?;
        }
        let state = &core.eps[envelope.ep];
        if envelope.what == What::Tagged && state.caps & FI_TAGGED == 0 {
            return Err(Fault::Rule("a tagged message for an endpoint without tags"));
        }
        let srx = state.srx;
        match core.srxs[srx].accept(&envelope) {
            Some(recv) => self.get(core, id, Some(recv), envelope),
            None => {
                let bytes = match self.fetch_to_keep(core, id, srx, &envelope)? {
                    Some(bytes) => {
                        envelope.note = 0;
                        Bytes::Here(bytes)
                    }
                    None => Bytes::There,
                };
                self.keep(core, id, srx, envelope, bytes);
            }
        }
        Ok(())
    }

    /// Who has a socket under it keeps what nobody has asked for, as far as the limits allow, so that its sender is done:
    /// where the peers are makes no difference. Nothing: the message stays where it is. It is a fault if that is gone, for what
    /// was sent behind it must not take its place.
    #[cold]
    fn fetch_to_keep(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        srx: usize,
        envelope: &Envelope,
    ) -> core::result::Result<Option<Vec<u8>>, Fault> {
        let room = core.srxs[srx].has_room(envelope.token, envelope.len, self.limits.saved_bytes);
        let (index, _) = rendezvous_of(envelope.note);
        let conn = &mut self.conns[id];
        let (Some(offers), Some(duct)) = (&mut conn.rx.offers, &conn.duct) else {
            return Ok(None);
        };
        let Some(offered) = offers.waiting.get(&index) else {
            return Ok(None);
        };
        if N::DUCTS || !room || envelope.len > self.limits.saved_size as u64 {
            return Ok(None);
        }
        let bytes = duct.fetch_bytes(&offered.places, envelope.len as usize, offered.epoch);
        if bytes.is_some() {
            offers.waiting.remove(&index);
            self.send_taken(core, id, index);
        } else if duct.reaches() && !duct.is_alive() {
            return Err(Fault::Rule(
                "the sender of a message is gone, and with it the message",
            ));
        }
        Ok(bytes)
    }

    /// There is a place for a message that its sender holds, or nobody wants it: it is fetched, or asked for.
    pub(super) fn get(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        recv: Option<RecvOp>,
        envelope: Envelope,
    ) {
        let (index, ack) = rendezvous_of(envelope.note);
        let offers = self.conns.get(id).and_then(|conn| conn.rx.offers.as_ref());
        match offers.is_some_and(|offers| offers.waiting.contains_key(&index)) {
            true => self.fetch(core, id, index, recv, envelope),
            false => self.clear(core, id, index, ack, recv, envelope),
        }
    }

    /// There is a place for a message that the sender holds.
    fn clear(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        index: u8,
        ack: bool,
        recv: Option<RecvOp>,
        envelope: Envelope,
    ) {
        self.watch_waits();
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        let waiting = RendezvousIn {
            since: self.waits.now,
            recv,
            envelope,
            ack,
        };
        conn.rx.told.clear(index, waiting);
        self.send_clear(core, id, index);
    }

    /// Tells the peer where a message is, and leaves it there until the peer has fetched it.
    pub(super) fn offer(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: Header,
        iov: IoVec,
        mut op: TxOp,
    ) {
        self.begin_waiting(core, &mut op);
        let conn = &mut self.conns[id];
        // There is one: `Stream::way` has looked.
        let (Some(index), Some(duct)) = (conn.tx.free_index(), &conn.duct) else {
            return;
        };
        let tagged = header.op == Op::Tagged;
        let mut offer = Header::new(if tagged { Op::OfferTagged } else { Op::Offer }, 0);
        offer.index = index;
        offer.tag = header.tag;
        offer.data = header.data;
        name_places(&mut offer, &iov, usize::MAX);
        // Keys have no meaning here.
        offer.segs[0].key = u64::from(header.context) << 32 | u64::from(duct.epoch());
        let waiting = RendezvousOut {
            op,
            payload: Payload::Buffers(iov),
            header: Header {
                msg_size: op.len as u64,
                index,
                ..header
            },
        };
        conn.tx.rendezvous.insert(index, waiting);
        self.send_bare(core, id, &offer);
    }

    /// The peer has fetched a message.
    pub(super) fn taken(&mut self, core: &mut Core<N>, id: usize, index: u8) -> Result {
        let conn = &mut self.conns[id];
        let done = conn.tx.rendezvous.remove(&index).ok_or(Error::IO)?;
        core.eps[done.op.ep()].tx_pending -= 1;
        core.sent(done.op.ep(), &done.op);
        Ok(())
    }

    /// A message that can be fetched.
    pub(super) fn offered(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
    ) -> core::result::Result<(), Fault> {
        let conn = &mut self.conns[id];
        if conn.duct.is_none() || !conn.rx.told.add(header.index) {
            return Err(Fault::Rule("an offer with a bad index, or not agreed on"));
        }
        let offers = conn.rx.offers.get_or_insert_default();
        let what = match header.op {
            Op::OfferTagged => What::Tagged,
            _ => What::Msg,
        };
        let key = header.segs[0].key;
        let offered = Offered {
            places: places_of(header),
            epoch: key as u32,
        };
        offers.waiting.insert(header.index, offered);
        let mut envelope = self.envelope(id, what, header);
        let to = Header {
            context: (key >> 32) as u8,
            ..Header::new(Op::Rts, 0)
        };
        envelope.len = header.segs_len();
        envelope.note = rendezvous_note(header.index, false);
        self.told_of(core, id, envelope, &to)
    }

    /// There is a place for a message that can be fetched. If it cannot after all, its sender is asked for it.
    fn fetch(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        index: u8,
        recv: Option<RecvOp>,
        envelope: Envelope,
    ) {
        self.end_shares(core, id);
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        let offers = conn.rx.offers.as_mut();
        let Some(offered) = offers.and_then(|offers| offers.waiting.remove(&index)) else {
            return;
        };
        let (Some(recv), Some(duct)) = (recv, &mut conn.duct) else {
            return self.fetched(core, id, index, None, envelope, true);
        };
        let len = recv.iov.remaining().min(len_of(&offered.places));
        let idle = conn.tx.queue.is_empty() && duct.takes(MAX_HEADER);
        // A buffer of several messages is filled in their order, also by those that were there before it.
        if len >= SHARE
            && recv.multi.is_none()
            && idle
            && let Some(job) = duct.begin_share(len)
        {
            let shared = Shared {
                index,
                recv: Some(recv),
                envelope,
                offered,
                job,
                copied: true,
            };
            return self.fetch_together(core, id, shared, len);
        }
        let copied = duct.fetch(&offered.places, &recv.iov, offered.epoch);
        self.fetched(core, id, index, Some(recv), envelope, copied);
    }

    /// The message that has this index is here, or could not be fetched.
    pub(super) fn fetched(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        index: u8,
        recv: Option<RecvOp>,
        envelope: Envelope,
        copied: bool,
    ) {
        if !copied {
            let gone = |duct: &Duct| duct.reaches() && !duct.is_alive();
            let conn = self.conns.get(id);
            let gone = conn.and_then(|conn| conn.duct.as_deref()).is_some_and(gone);
            self.clear(core, id, index, false, recv, envelope);
            if gone && self.conns.contains(id) {
                // What was sent behind this message must not take its place.
                self.lose(core, id, Error::CONNRESET);
            }
            return;
        }
        if let Some(recv) = recv {
            core.received(envelope.ep, &recv, &envelope, &self.conns[id].sender());
        }
        self.send_taken(core, id, index);
    }

    fn send_taken(&mut self, core: &mut Core<N>, id: usize, index: u8) {
        self.conns[id].rx.told.remove(index);
        let mut taken = Header::new(Op::Taken, 0);
        taken.index = index;
        self.send_always(core, id, &taken, IoVec::empty(), None);
    }

    /// The bytes of a message that was held.
    pub(super) fn rendezvous_data(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
    ) -> core::result::Result<(), Fault> {
        let conn = &mut self.conns[id];
        let Some(waiting) = conn.rx.told.take_cleared(header.index) else {
            return Err(Fault::Rule("rendezvous data with an unknown index"));
        };
        if waiting.envelope.len != header.payload {
            conn.rx.told.clear(header.index, waiting);
            return Err(Fault::Rule(
                "rendezvous data of another length than announced",
            ));
        }
        conn.rx.told.remove(header.index);
        let sink = match waiting.recv {
            Some(recv) => Sink::Recv(recv, waiting.envelope),
            None => Sink::Drop,
        };
        self.expect(id, sink, header.payload, waiting.ack);
        if header.payload == 0 {
            self.finish(core, id);
        }
        Ok(())
    }
}

/// The note that an envelope carries for a rendezvous; 0 is none.
fn rendezvous_note(index: u8, ack: bool) -> u64 {
    u64::from(index) | u64::from(ack) << 8
}

/// Where the memory is that a header names without keys.
pub(super) fn places_of(header: &Header) -> Places {
    let mut places = Places::default();
    for (place, seg) in places.iter_mut().zip(header.segs()) {
        *place = (seg.addr as usize, seg.len as usize);
    }
    places
}

/// Names the first `most` bytes of memory of ours in a header.
pub(super) fn name_places(header: &mut Header, iov: &IoVec, most: usize) {
    let mut left = most;
    for (place, span) in header.segs.iter_mut().zip(iov.spans()) {
        let len = span.len.min(left);
        (place.addr, place.len) = (span.start as u64, len as u64);
        header.seg_count += 1;
        left -= len;
    }
}

fn rendezvous_of(note: u64) -> (u8, bool) {
    (note as u8, note >> 8 & 1 != 0)
}
