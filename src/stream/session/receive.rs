// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Incoming data: a parser extracts the frames of the stream, and each is handled here.

use core::fmt;

use crate::proto::{Frame, Message, WireError};
use crate::session::exposed::{count_regions, device_failed};
use crate::session::groups::{data_of, end_of};
use crate::session::receive_state::{At, Sink};
use crate::session::{Cx, Session};
use base::{Caps, CompFlags, Error};
use engine::domain_state::MessageInfo;
use engine::srx::{Bytes, Unfilled};
use engine::transport::Address;
use object::ops::transfer::What;

/// Why the read side ends a connection.
pub enum Fault {
    Wire(WireError),
    Rule(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Wire(error) => error.fmt(f),
            Fault::Rule(why) => f.write_str(why),
        }
    }
}

impl<A: Address> Session<A> {
    /// Accounts for `n` bytes of the payload that were read straight into its buffer.
    pub(super) fn placed(&mut self, cx: &mut Cx<'_, A>, n: usize) {
        if let At::Payload(incoming) = &mut self.rx.at {
            if let Some(iov) = incoming.sink.memory() {
                iov.advance(n);
            }
            incoming.remaining -= n as u64;
            if incoming.remaining == 0 {
                self.finish(cx);
            }
        }
    }

    /// Handles bytes of the stream.
    #[inline(never)]
    pub fn take(
        &mut self,
        cx: &mut Cx<'_, A>,
        mut bytes: &[u8],
    ) -> core::result::Result<(), Fault> {
        while !bytes.is_empty() {
            match &mut self.rx.at {
                At::Header => {
                    if self.rx.parser.is_empty()
                        && !self.tx.out.swaps()
                        && let Some((message, payload, frame)) = Message::whole(bytes)
                        && self.whole(cx, &message, payload)
                    {
                        bytes = &bytes[frame..];
                        continue;
                    }
                    if let Some(frame) = self.take_whole(cx, bytes) {
                        bytes = &bytes[frame..];
                        // Sending the answer may have ended the session.
                        if self.is_over() {
                            return Ok(());
                        }
                        continue;
                    }
                    let Some((frame, used)) =
                        self.rx.parser.next_frame(bytes, self.tx.out.swaps())?
                    else {
                        return Ok(());
                    };
                    bytes = &bytes[used..];
                    let used = self.begin(cx, &frame, bytes)?;
                    bytes = &bytes[used..];
                    // The frame may have ended the session.
                    if self.is_over() {
                        return Ok(());
                    }
                }
                At::Payload(incoming) => {
                    let n = incoming.part(bytes.len());
                    let (part, rest) = bytes.split_at(n);
                    match &mut incoming.sink {
                        Sink::Slot(srx, slot) => {
                            let srx = &mut cx.domain.srxs[*srx];
                            if !srx.may_grow(*slot, n, cx.common.limits.saved_bytes) {
                                self.rx.stop(cx, bytes);
                                return Ok(());
                            }
                            srx.coming(*slot, part).map_err(no_memory)?;
                        }
                        Sink::Coll(coming) => coming.take(part).map_err(no_memory)?,
                        Sink::Atomic(request) => request.take(part).map_err(no_memory)?,
                        Sink::Gathered(gathered) => gathered.1.extend_from_slice(part),
                        sink => {
                            if let Some(iov) = sink.memory() {
                                match iov.is_device() {
                                    false => {
                                        iov.copy_in(part);
                                    }
                                    true => iov.land(part, &mut incoming.landing),
                                }
                            }
                        }
                    }
                    incoming.remaining -= n as u64;
                    bytes = rest;
                    if incoming.remaining == 0 {
                        self.finish(cx);
                        // Ending a refused access may have ended the session.
                        if self.is_over() {
                            return Ok(());
                        }
                    }
                }
                At::Stalled(_) | At::Stopped(_) | At::Held(_) => {
                    self.rx.leftover.extend_from_slice(bytes);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Delivers a complete message to its receive or keeps it. Returns false if the general path has to handle it.
    #[inline(always)]
    fn whole(&mut self, cx: &mut Cx<'_, A>, message: &Message, payload: &[u8]) -> bool {
        let Some(srx) = self.peer.taker(cx.domain, message.tagged) else {
            return false;
        };
        if message.ack && !self.tx.out.has_room_for_answers() {
            return false;
        }
        let info = message_info(message);
        let (ep, fi_addr) = (self.peer.ep, self.peer.fi_addr);
        if cx.domain.pass_on((ep, srx), &info, fi_addr, payload) {
            if message.ack {
                self.tx.out.send_ack(cx);
            }
            return true;
        }
        let srx = &mut cx.domain.srxs[srx];
        let unfilled = match srx.fill(&info, self.peer.source(), payload) {
            Ok(filled) => {
                cx.domain.filled_whole(
                    self.peer.ep,
                    &filled,
                    &info,
                    CompFlags::empty(),
                    self.peer.fi_addr,
                );
                if message.ack {
                    self.tx.out.send_ack(cx);
                }
                return true;
            }
            Err(unfilled) => unfilled,
        };
        let envelope = info.envelope(self.peer.source(), self.peer.ep, cx.id as u64);
        let recv = match unfilled {
            Unfilled::Special => {
                let filled = srx.fill_next(&info, envelope.source, payload);
                if let Some((filled, release)) = filled {
                    cx.domain.filled_whole(
                        self.peer.ep,
                        &filled,
                        &info,
                        release,
                        self.peer.fi_addr,
                    );
                    if message.ack {
                        self.tx.out.send_ack(cx);
                    }
                    return true;
                }
                srx.accept(&envelope)
            }
            Unfilled::Unexpected => None,
        };
        match recv {
            Some(mut recv) => {
                recv.iov.copy_in(payload);
                cx.domain
                    .received(envelope.ep, &recv, &envelope, &self.peer.sender());
            }
            None if !srx.has_room(envelope.token, envelope.len, cx.common.limits.saved_bytes) => {
                return false;
            }
            None => {
                srx.keep_whole(envelope, |bytes| bytes.extend_from_slice(payload));
            }
        }
        if message.ack {
            self.tx.out.send_ack(cx);
        }
        true
    }

    /// Handles bytes that are likely to be exactly one message, the usual case if messages arrive one by one.
    #[inline]
    pub fn take_one(
        &mut self,
        cx: &mut Cx<'_, A>,
        bytes: &[u8],
    ) -> core::result::Result<(), Fault> {
        if self.rx.is_between()
            && let Some((message, payload, frame)) = Message::whole(bytes)
            && frame == bytes.len()
            && self.whole(cx, &message, payload)
        {
            return Ok(());
        }
        self.take(cx, bytes)
    }

    /// Handles the header of a frame. `bytes` follow it; returns how many of them were consumed.
    #[inline(never)]
    pub(super) fn begin(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: &Frame,
        bytes: &[u8],
    ) -> core::result::Result<usize, Fault> {
        if self.tx.out.owes_enough(frame) {
            self.rx.hold_frame(cx, frame);
            return Ok(0);
        }
        let begun = match frame {
            Frame::Message(message) => self.message(cx, message, bytes.len()),
            Frame::Ack => match self.tx.out.acknowledged(cx) {
                Ok(()) => Ok(()),
                Err(_) => Err(Fault::Rule("an acknowledgement that nobody waits for")),
            },
            Frame::Write(write) => match self.exposed.write(cx.domain, &self.peer, write) {
                Ok(sink) => {
                    self.place(cx, sink, write.payload, write.ack || write.commit);
                    Ok(())
                }
                Err(refusal) => self.refuse(cx, refusal, write.payload),
            },
            Frame::ReadRequest(read) => match self.exposed.read(cx.domain, &self.peer, read) {
                Ok((target, regions)) => {
                    let len = read.segs.total();
                    self.tx.out.answer_read(cx, len, target, regions);
                    Ok(())
                }
                Err(refusal) => self.refuse(cx, refusal, 0),
            },
            Frame::ReadResponse(response) => {
                let read = self.tx.begin_answer(response)?;
                self.place(cx, Sink::Read(read), response.payload, false);
                Ok(())
            }
            Frame::ReadyToSend(ready) => {
                let announcement = self.rx.told.announced(ready)?;
                self.handle_announcement(cx, announcement)
            }
            &Frame::ClearToSend { index } => match self.tx.cleared(cx, index) {
                Ok(()) => Ok(()),
                Err(_) => Err(Fault::Rule("clear-to-send for an unknown index")),
            },
            Frame::RendezvousData(data) => {
                let message = self.rx.told.arrives(data)?;
                let sink = match message.recv {
                    Some(recv) => Sink::Recv(recv, message.envelope),
                    None => Sink::Drop,
                };
                self.place(cx, sink, data.payload, message.ack);
                Ok(())
            }
            Frame::Exported(exported) => {
                let shares = cx.link.memory().is_some();
                self.rx.told.exported(exported, shares)
            }
            Frame::Offer(offer) => {
                let announcement = self.rx.told.offered(offer, cx.link.memory().is_some())?;
                self.handle_announcement(cx, announcement)
            }
            &Frame::Taken { index } => match self.tx.taken(cx, index) {
                Ok(()) => Ok(()),
                Err(_) => Err(Fault::Rule("a message was taken that was not offered")),
            },
            Frame::Share(share) => self.tx.asked_to_share(cx, share),
            &Frame::Refused(answer) => self.tx.refused(cx, answer, self.agreed.extended),
            &Frame::Done { index } => {
                let (told, out) = (&mut self.rx.told, &mut self.tx.out);
                let got = told.sender_done(cx, &self.peer, out, index)?;
                self.end_if_lost(cx, got);
                Ok(())
            }
            &Frame::Close(close) => self.close_frame(cx, close),
            Frame::Collective(data) => self.collective_frame(cx, Ok(data_of(data)), data.payload),
            Frame::CollectiveEnd(end) => self.collective_frame(cx, end_of(end), 0),
            Frame::Atomic(atomic) => return self.atomic_request(cx, atomic, bytes),
        };
        begun.map(|()| 0)
    }

    /// Places a message in the receive that matches, or in a buffer, or leaves it in the stream, of which `here` bytes
    /// were read already.
    #[inline]
    fn message(
        &mut self,
        cx: &mut Cx<'_, A>,
        message: &Message,
        here: usize,
    ) -> core::result::Result<(), Fault> {
        let mut envelope = self.peer.envelope(cx.id, &message_info(message));
        envelope.ep = self.context(cx, message.context)?;
        let state = &cx.domain.eps[envelope.ep];
        let (srx, tagged) = (state.srx, state.caps.contains(Caps::TAGGED));
        if message.tagged && !tagged {
            return Err(Fault::Rule("a tagged message for an endpoint without tags"));
        }
        if self.peer.is_gathered(cx, message) {
            let gathered = Box::new((*message, Vec::new()));
            self.rx
                .expect(cx, Sink::Gathered(gathered), message.payload, message.ack);
            return Ok(());
        }
        match cx.domain.srxs[srx].accept(&envelope) {
            Some(recv) => {
                if message.payload == 0 {
                    cx.domain
                        .received(envelope.ep, &recv, &envelope, &self.peer.sender());
                    if message.ack {
                        self.tx.out.send_ack(cx);
                    }
                    return Ok(());
                }
                self.rx
                    .expect(cx, Sink::Recv(recv, envelope), message.payload, message.ack);
            }
            None => {
                let ack = message.ack;
                let complete = self.rx.unexpected(cx, &self.peer, srx, envelope, ack, here);
                if complete && ack {
                    self.tx.out.send_ack(cx);
                }
            }
        }
        Ok(())
    }

    /// Delivers a gathered message that is complete.
    fn gathered(&mut self, cx: &mut Cx<'_, A>, message: &Message, bytes: Vec<u8>) {
        if self.whole(cx, message, &bytes) {
            return;
        }
        let srx = cx.domain.eps[self.peer.ep].srx;
        let envelope = self.peer.envelope(cx.id, &message_info(message));
        self.peer.keep(cx.domain, srx, envelope, Bytes::Here(bytes));
        if message.ack {
            self.tx.out.send_ack(cx);
        }
    }

    /// Places the payload that follows, or handles its end if it is empty.
    pub(super) fn place(&mut self, cx: &mut Cx<'_, A>, sink: Sink, payload: u64, ack: bool) {
        self.rx.expect(cx, sink, payload, ack);
        if payload == 0 {
            self.finish(cx);
        }
    }

    /// Handles the end of a payload.
    #[inline]
    pub fn finish(&mut self, cx: &mut Cx<'_, A>) {
        let At::Payload(mut incoming) = std::mem::replace(&mut self.rx.at, At::Header) else {
            return;
        };
        incoming.landing = None;
        let (ep, sender) = (self.peer.ep, self.peer.sender());
        match incoming.sink {
            Sink::Recv(recv, envelope) => {
                cx.domain.received(envelope.ep, &recv, &envelope, &sender)
            }
            Sink::Slot(srx, slot) => {
                if let Some((recv, envelope)) = cx.domain.srxs[srx].arrived(slot) {
                    cx.domain.received(envelope.ep, &recv, &envelope, &sender);
                }
            }
            Sink::Write {
                data,
                regions,
                lens,
                durable,
                ..
            } => {
                if let Some(durable) = durable
                    && !durable.commit(cx, &self.peer)
                {
                    return;
                }
                if device_failed(cx, &self.peer, &regions) {
                    return;
                }
                count_regions(cx.domain, &regions, &lens);
                let len = lens.iter().sum();
                cx.domain.written(ep, CompFlags::RMA, len, data, &sender);
            }
            Sink::Read(read) => {
                self.tx.reads.end();
                cx.domain.complete_into(&read.op, &read.iov);
            }
            Sink::Coll(part) => return part.arrived(cx, &self.peer),
            Sink::Gathered(gathered) => {
                let (message, bytes) = *gathered;
                return self.gathered(cx, &message, bytes);
            }
            Sink::Atomic(request) => request.arrived(cx, &self.peer, &mut self.tx.out),
            Sink::Drop => {}
            Sink::Refused(answer) => return self.send_refusal(cx, answer),
        }
        if incoming.ack {
            self.tx.out.send_ack(cx);
        }
    }
}

#[cold]
fn no_memory(_: Error) -> Fault {
    Fault::Rule("there is no memory for what it sends")
}

/// Returns the message data for matching and completion.
#[inline(always)]
pub fn message_info(message: &Message) -> MessageInfo {
    MessageInfo {
        what: match message.tagged {
            true => What::Tagged,
            false => What::Msg,
        },
        len: message.payload,
        tag: message.tag,
        data: message.data,
    }
}

impl<A: Address> Session<A> {
    /// Returns the receive context that a frame names, as an index of `cx.domain.eps`.
    pub fn context(&self, cx: &Cx<'_, A>, context: u8) -> core::result::Result<usize, Fault> {
        if context != 0 && !self.agreed.extended {
            return Err(Fault::Rule(
                "a frame of an extension that was not agreed on",
            ));
        }
        self.peer.context(cx.domain, context)
    }
}
