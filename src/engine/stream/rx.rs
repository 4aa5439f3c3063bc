// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What comes in: one large read feeds a parser that hands out many frames; the payload of a large one is read straight
//! into its place.
#![forbid(unsafe_code)]

use core::fmt;

use crate::abi::*;
use crate::base::log::{Subsys, log_warn};
use crate::base::{Error, IoList};
use crate::engine::domain_state::MessageInfo;
use crate::engine::srx::{Bytes, Claimed, Envelope, RecvOp, Slot};
use crate::engine::stream::conn::{At, Conn, Incoming, Sink, Stalled, State, is_silence};
use crate::engine::stream::net::Net;
use crate::engine::stream::proto::{Decoded, Frame, Message, WireError, decode};
use crate::engine::stream::rma::{ANSWERS, count_regions};
use crate::engine::stream::transport::{DomainOf, Stream};
use crate::engine::transport::Address;
use crate::ffi::ops::transfer::What;
use crate::sys::memory;
use crate::sys::socket::Moved;

/// A payload of which at least this much is missing is read to its place, not through the scratch buffer.
const DIRECT: u64 = 4096;
/// Bytes behind such a payload that are read along: the start of the next frame.
const ALONG: usize = 4096;
/// Reads of one connection in a row before the others have their turn.
const TURNS: usize = 8;

/// Why a connection is ended by its reader.
pub(super) enum Fault {
    Wire(WireError),
    Rule(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Wire(error) => write!(f, "{error:?}"),
            Fault::Rule(why) => f.write_str(why),
        }
    }
}

impl<N: Net> Stream<N> {
    /// Reads what a connection has; whether there was anything.
    pub(super) fn read_conn(&mut self, domain: &mut DomainOf<N>, id: usize) -> bool {
        debug_assert!(self.conns[id].shm.is_none());
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut any = false;
        for _ in 0..TURNS {
            let Some(conn) = self.conns.get_mut(id) else {
                break;
            };
            if conn.state != State::Up || conn.rx.at.waits() {
                break;
            }
            if !domain.may_receive(conn.ep) {
                self.hold(id);
                break;
            }
            let Some(socket) = &conn.socket else {
                break;
            };
            let (moved, asked, direct) = match &mut conn.rx.at {
                At::Payload(incoming) if incoming.remaining >= DIRECT => {
                    let mut list = IoList::new();
                    let wanted = usize::try_from(incoming.remaining).unwrap_or(usize::MAX);
                    let placed = match incoming.sink.memory() {
                        Some(iov) => iov.append_to(&mut list, wanted),
                        None => 0,
                    };
                    if placed == 0 {
                        (socket.read(&mut scratch), scratch.len(), 0)
                    } else {
                        if placed == wanted {
                            list.push_room(&mut scratch[..ALONG]);
                        }
                        (socket.read_list(&list), list.bytes(), placed)
                    }
                }
                _ => (socket.read(&mut scratch), scratch.len(), 0),
            };
            let n = match moved {
                Ok(Moved::Bytes(n)) => n,
                Ok(Moved::Later) => break,
                Ok(Moved::End) => {
                    self.disconnect(domain, id, Error::CONNRESET);
                    any = true;
                    break;
                }
                Err(error) => {
                    let error = match is_silence(&error) {
                        true => Error::TIMEDOUT,
                        false => error.into(),
                    };
                    self.disconnect(domain, id, error);
                    any = true;
                    break;
                }
            };
            any = true;
            let result = match direct {
                0 => self.take(domain, id, &scratch[..n]),
                placed => {
                    let own = n.min(placed);
                    let taken = self.placed(domain, id, own);
                    taken.and_then(|()| self.take(domain, id, &scratch[..n - own]))
                }
            };
            if let Err(fault) = result {
                self.fault(domain, id, &fault);
                break;
            }
            if n < asked {
                break;
            }
        }
        self.scratch = scratch;
        any
    }

    /// The peer does not keep to the protocol, or names memory that it may not touch: the connection ends.
    #[cold]
    pub(super) fn fault(&mut self, domain: &mut DomainOf<N>, id: usize, fault: &Fault) {
        let conn = &mut self.conns[id];
        let peer = &conn.peer;
        log_warn!(
            N::SOURCE,
            Subsys::EpData,
            "{peer}: connection ended: {fault}"
        );
        conn.is_reported = true;
        if let Some(socket) = &conn.socket {
            socket.shutdown();
        }
        let why = format_args!("was disconnected: {fault}");
        self.disconnect_because(domain, id, Error::CONNABORTED, &why);
    }

    /// `n` bytes of the payload were read straight to their place.
    pub(super) fn placed(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        n: usize,
    ) -> core::result::Result<(), Fault> {
        if let At::Payload(incoming) = &mut self.conns[id].rx.at {
            if let Some(iov) = incoming.sink.memory() {
                iov.advance(n);
            }
            incoming.remaining -= n as u64;
            if incoming.remaining == 0 {
                self.finish(domain, id);
            }
        }
        Ok(())
    }

    /// Deals with bytes of the stream.
    #[inline(never)]
    pub(super) fn take(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        mut bytes: &[u8],
    ) -> core::result::Result<(), Fault> {
        while !bytes.is_empty() {
            let conn = &mut self.conns[id];
            match &mut conn.rx.at {
                At::Header => {
                    if conn.rx.header_have == 0
                        && !conn.swap
                        && let Some((message, payload, frame)) = Message::whole(bytes)
                        && self.whole(domain, id, &message, payload)
                    {
                        bytes = &bytes[frame..];
                        continue;
                    }
                    let conn = &mut self.conns[id];
                    let Some((frame, used)) = next_frame(conn, bytes)? else {
                        return Ok(());
                    };
                    bytes = &bytes[used..];
                    let used = self.begin(domain, id, &frame, bytes)?;
                    bytes = &bytes[used..];
                    // The frame may have ended the connection.
                    if !self
                        .conns
                        .get(id)
                        .is_some_and(|conn| conn.state == State::Up)
                    {
                        return Ok(());
                    }
                }
                At::Payload(incoming) => {
                    let n = usize::try_from(incoming.remaining)
                        .unwrap_or(usize::MAX)
                        .min(bytes.len());
                    let (part, rest) = bytes.split_at(n);
                    match &mut incoming.sink {
                        Sink::Slot(srx, slot) => {
                            domain.srxs[*srx].coming(*slot, part).map_err(no_memory)?;
                        }
                        Sink::Coll(coming) => coming.take(part).map_err(no_memory)?,
                        Sink::Atomic(request) => request.take(part).map_err(no_memory)?,
                        sink => {
                            if let Some(iov) = sink.memory() {
                                iov.copy_in(part);
                            }
                        }
                    }
                    incoming.remaining -= n as u64;
                    bytes = rest;
                    if incoming.remaining == 0 {
                        self.finish(domain, id);
                    }
                }
                At::Stalled(_) | At::Held(_) => {
                    conn.rx.leftover.extend_from_slice(bytes);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// A whole message: straight to its receive, or kept. False leaves it to the general way.
    #[inline(always)]
    fn whole(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        message: &Message,
        payload: &[u8],
    ) -> bool {
        let conn = &self.conns[id];
        let Some(srx) = taker(domain, conn, message.tagged) else {
            return false;
        };
        if message.ack && conn.answers() > ANSWERS {
            return false;
        }
        let info = message_info(message);
        let srx = &mut domain.srxs[srx];
        if let Ok(filled) = srx.fill(&info, conn.source(), |iov| iov.fill(payload)) {
            domain.filled(conn.ep, &filled, &info, 0, conn.fi_addr);
            if message.ack {
                self.send_ack(domain, id);
            }
            return true;
        }
        let envelope = info.envelope(conn.source(), conn.ep, id as u64);
        match srx.accept(&envelope) {
            Some(mut recv) => {
                recv.iov.copy_in(payload);
                domain.received(envelope.ep, &recv, &envelope, &conn.sender());
            }
            None if !srx.has_room(envelope.token, envelope.len, self.limits.saved_bytes) => {
                return false;
            }
            None => {
                srx.keep_whole(envelope, |bytes| bytes.extend_from_slice(payload));
            }
        }
        if message.ack {
            self.send_ack(domain, id);
        }
        true
    }

    /// Bytes that may be a whole message and nothing else, as they mostly are where each comes by itself.
    #[inline]
    pub(super) fn take_one(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        bytes: &[u8],
    ) -> core::result::Result<(), Fault> {
        let conn = &self.conns[id];
        let between = matches!(conn.rx.at, At::Header) && conn.rx.header_have == 0;
        if between
            && let Some((message, payload, frame)) = Message::whole(bytes)
            && frame == bytes.len()
            && self.whole(domain, id, &message, payload)
        {
            return Ok(());
        }
        self.take(domain, id, bytes)
    }

    /// A frame begins. `bytes` is what has come behind its header; gives how many of them were dealt with.
    #[inline(never)]
    fn begin(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        frame: &Frame,
        bytes: &[u8],
    ) -> core::result::Result<usize, Fault> {
        if self.owes_enough(id, frame) {
            self.hold_frame(id, frame);
            return Ok(0);
        }
        let begun = match frame {
            Frame::Message(message) => self.message(domain, id, message),
            Frame::Ack => match self.acknowledged(domain, id) {
                Ok(()) => Ok(()),
                Err(_) => Err(Fault::Rule("an acknowledgement that nobody waits for")),
            },
            Frame::Write(write) => self.write_request(domain, id, write),
            Frame::ReadRequest(read) => self.read_request(domain, id, read),
            Frame::ReadResponse(response) => self.read_response(domain, id, response),
            Frame::ReadyToSend(ready) => self.ready_to_send(domain, id, ready),
            &Frame::ClearToSend { index } => match self.cleared(domain, id, index) {
                Ok(()) => Ok(()),
                Err(_) => Err(Fault::Rule("clear-to-send for an unknown index")),
            },
            Frame::RendezvousData(data) => self.rendezvous_data(domain, id, data),
            Frame::Offer(offer) => self.offered(domain, id, offer),
            &Frame::Taken { index } => match self.taken(domain, id, index) {
                Ok(()) => Ok(()),
                Err(_) => Err(Fault::Rule("a message was taken that was not offered")),
            },
            Frame::Share(share) => self.asked_to_share(domain, id, share),
            &Frame::Done { index } => self.sender_done(domain, id, index),
            Frame::Collective(data) => self.collective_data(domain, id, data),
            Frame::CollectiveEnd(end) => self.collective_end(domain, id, end),
            Frame::Atomic(atomic) => return self.atomic_request(domain, id, atomic, bytes),
        };
        begun.map(|()| 0)
    }

    #[inline]
    pub(super) fn envelope(&self, id: usize, info: &MessageInfo) -> Envelope {
        let conn = &self.conns[id];
        info.envelope(conn.source(), conn.ep, id as u64)
    }

    /// A message: to the receive that takes it, or to a buffer of ours, or it stays where it is.
    #[inline]
    fn message(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        message: &Message,
    ) -> core::result::Result<(), Fault> {
        let mut envelope = self.envelope(id, &message_info(message));
        if message.context != 0 {
            envelope.ep = self.named_context(domain, id, message.context)?;
        }
        let state = &domain.eps[envelope.ep];
        let (srx, tagged) = (state.srx, state.caps & FI_TAGGED != 0);
        if message.tagged && !tagged {
            return Err(Fault::Rule("a tagged message for an endpoint without tags"));
        }
        match domain.srxs[srx].accept(&envelope) {
            Some(recv) => {
                if message.payload == 0 {
                    self.received(domain, id, &recv, &envelope);
                    if message.ack {
                        self.send_ack(domain, id);
                    }
                    return Ok(());
                }
                self.expect(id, Sink::Recv(recv, envelope), message.payload, message.ack);
            }
            None => self.unexpected(domain, id, srx, envelope, message.ack),
        }
        Ok(())
    }

    pub(super) fn expect(&mut self, id: usize, sink: Sink, remaining: u64, ack: bool) {
        self.watch_waits();
        let rx = &mut self.conns[id].rx;
        rx.since = self.waits.now;
        rx.at = At::Payload(Incoming {
            sink,
            remaining,
            ack,
        });
    }

    /// No receive takes the message: it is kept, as long as the limits allow.
    fn unexpected(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        srx: usize,
        envelope: Envelope,
        ack: bool,
    ) {
        let len = envelope.len;
        if !domain.srxs[srx].has_room(envelope.token, len, self.limits.saved_bytes) {
            let slot = self.keep(domain, id, srx, envelope, Bytes::There);
            self.conns[id].rx.at = At::Stalled(Stalled {
                srx,
                slot,
                envelope,
                ack,
            });
            self.stalled.push(id);
            return self.pause_read(id);
        }
        if len == 0 {
            self.keep(domain, id, srx, envelope, Bytes::Here(Vec::new()));
            if ack {
                self.send_ack(domain, id);
            }
            return;
        }
        let slot = self.keep(domain, id, srx, envelope, Bytes::Coming(Vec::new()));
        self.expect(id, Sink::Slot(srx, slot), len, ack);
    }

    /// Keeps a message for a later receive, with its sender's address where that is to be reported.
    pub(super) fn keep(
        &self,
        domain: &mut DomainOf<N>,
        id: usize,
        srx: usize,
        envelope: Envelope,
        bytes: Bytes,
    ) -> Slot {
        let slot = domain.srxs[srx].keep(envelope, bytes);
        let conn = &self.conns[id];
        if domain.reports_origin(conn.ep, conn.fi_addr) {
            domain.srxs[srx].note_origin(slot, conn.peer.to_bytes());
        }
        slot
    }

    /// A receive has met a message whose bytes are not here.
    pub(super) fn bring(&mut self, domain: &mut DomainOf<N>, claimed: Claimed) {
        let id = claimed.envelope.token as usize;
        if claimed.envelope.note != 0 {
            return self.get(domain, id, claimed.recv, claimed.envelope);
        }
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        let At::Stalled(stalled) = &conn.rx.at else {
            return;
        };
        let (ack, len) = (stalled.ack, stalled.envelope.len);
        let sink = match claimed.recv {
            Some(recv) => Sink::Recv(recv, claimed.envelope),
            None => Sink::Drop,
        };
        self.resume(domain, id, sink, len, ack);
    }

    /// A message that stood in the stream has a place now.
    fn resume(&mut self, domain: &mut DomainOf<N>, id: usize, sink: Sink, len: u64, ack: bool) {
        self.stalled.retain(|&stalled| stalled != id);
        self.expect(id, sink, len, ack);
        if len == 0 {
            self.finish(domain, id);
        }
        self.go_on(domain, id);
    }

    /// A frame stays in the stream, and all that follows it.
    #[cold]
    pub(super) fn hold_frame(&mut self, id: usize, frame: &Frame) {
        self.conns[id].rx.at = At::Held(Box::new(*frame));
        self.stalled.push(id);
        self.pause_read(id);
    }

    /// The frame that stands in the stream is tried again.
    pub(super) fn retry_frame(&mut self, domain: &mut DomainOf<N>, id: usize) {
        match self.conns.get(id).map(|conn| &conn.rx.at) {
            Some(At::Held(frame)) if !frame.is_answered() || self.may_answer(id) => {}
            _ => return,
        }
        let At::Held(frame) = std::mem::replace(&mut self.conns[id].rx.at, At::Header) else {
            return;
        };
        self.stalled.retain(|&stalled| stalled != id);
        match self.begin(domain, id, &frame, &[]) {
            Err(fault) => self.fault(domain, id, &fault),
            Ok(_) if self.conns.get(id).is_some_and(|conn| !conn.rx.at.waits()) => {
                self.go_on(domain, id);
            }
            Ok(_) => {}
        }
    }

    /// Nothing stands in the way of the stream any more.
    pub(super) fn go_on(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let leftover = std::mem::take(&mut self.conns[id].rx.leftover);
        if let Err(fault) = self.take(domain, id, &leftover) {
            return self.fault(domain, id, &fault);
        }
        if self.conns.get(id).is_some_and(|conn| !conn.rx.at.waits()) {
            self.rewatch(id, true, self.conns[id].watch.write);
            self.promote(id);
        }
    }

    /// There is room for unexpected messages, or in a queue, again.
    #[cold]
    pub(super) fn retry_stalled(&mut self, domain: &mut DomainOf<N>) {
        let waiting = self.stalled.clone();
        for id in waiting {
            let Some(conn) = self.conns.get(id) else {
                continue;
            };
            let limit = self.limits.saved_bytes;
            if matches!(conn.rx.at, At::Held(_)) {
                self.retry_frame(domain, id);
                continue;
            }
            let At::Stalled(stalled) = &conn.rx.at else {
                // It was held because of a full queue.
                if domain.may_receive(conn.ep) {
                    self.stalled.retain(|&s| s != id);
                    self.rewatch(id, true, self.conns[id].watch.write);
                    self.promote(id);
                }
                continue;
            };
            let (srx, slot, len, ack) =
                (stalled.srx, stalled.slot, stalled.envelope.len, stalled.ack);
            // Its place is paid for.
            if domain.srxs[srx].has_room(id as u64, len, limit) {
                domain.srxs[srx].begin_coming(slot);
                self.resume(domain, id, Sink::Slot(srx, slot), len, ack);
            }
        }
    }

    /// The endpoint's queue has run over: nothing is read until it is emptied.
    #[cold]
    pub(super) fn hold(&mut self, id: usize) {
        if !self.stalled.contains(&id) {
            self.stalled.push(id);
        }
        self.pause_read(id);
    }

    fn received(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        recv: &RecvOp,
        envelope: &Envelope,
    ) {
        let conn = &self.conns[id];
        domain.received(envelope.ep, recv, envelope, &conn.sender());
    }

    /// The payload of a frame is complete.
    #[inline]
    pub(super) fn finish(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = &mut self.conns[id];
        let At::Payload(incoming) = std::mem::replace(&mut conn.rx.at, At::Header) else {
            return;
        };
        let (ep, sender) = (conn.ep, conn.sender());
        match incoming.sink {
            Sink::Recv(recv, envelope) => domain.received(envelope.ep, &recv, &envelope, &sender),
            Sink::Slot(srx, slot) => {
                if let Some((recv, envelope)) = domain.srxs[srx].arrived(slot) {
                    domain.received(envelope.ep, &recv, &envelope, &sender);
                }
            }
            Sink::Write {
                len,
                data,
                regions,
                lens,
                durable,
                ..
            } => {
                if let Some(info) = durable
                    && !commit(conn, &info)
                {
                    return;
                }
                count_regions(domain, &regions, &lens);
                domain.written(ep, FI_RMA, len, data, &sender);
            }
            Sink::Read(read) => {
                domain.eps[read.op.ep()].tx_pending -= 1;
                domain.sent(read.op.ep(), &read.op);
            }
            Sink::Coll(part) => return self.part_arrived(domain, id, *part),
            Sink::Atomic(request) => self.arrived(domain, id, *request),
            Sink::Drop => {}
        }
        if incoming.ack {
            self.send_ack(domain, id);
        }
    }
}

#[cold]
fn no_memory(_: Error) -> Fault {
    Fault::Rule("there is no memory for what it sends")
}

/// What the completion of a message says.
#[inline(always)]
pub(super) fn message_info(message: &Message) -> MessageInfo {
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

/// The receive context that a message can go to at once; none if it is for the general way.
#[inline(always)]
fn taker<N: Net>(domain: &DomainOf<N>, conn: &Conn<N>, tagged: bool) -> Option<usize> {
    let ep = domain.eps.get(conn.ep)?;
    let refused = tagged && ep.caps & FI_TAGGED == 0;
    (!refused && !domain.reports_origin(conn.ep, conn.fi_addr)).then_some(ep.srx)
}

/// Makes what was written durable. If that cannot be done the peer hears no more, and takes its operation for failed.
#[cold]
pub(super) fn commit<N: Net>(conn: &Conn<N>, info: &[(usize, usize)]) -> bool {
    let mut info = info.iter();
    let result = info.try_for_each(|&(address, len)| memory::make_durable(address, len));
    if let Err(error) = &result {
        log_warn!(
            N::SOURCE,
            Subsys::EpData,
            "{}: connection ended: a write could not be made durable: {error}",
            conn.peer
        );
        if let Some(socket) = &conn.socket {
            socket.shutdown();
        }
    }
    result.is_ok()
}

/// The next frame of the stream, its header from `bytes` and what was there before; and how many of `bytes` that took.
#[inline]
fn next_frame<N: Net>(
    conn: &mut Conn<N>,
    bytes: &[u8],
) -> core::result::Result<Option<(Frame, usize)>, Fault> {
    let rx = &mut conn.rx;
    if rx.header_have == 0
        && let Decoded::Frame(frame, len) = decode(bytes, conn.swap).map_err(Fault::Wire)?
    {
        return Ok(Some((frame, len)));
    }
    let mut used = 0;
    loop {
        let have = &rx.header[..rx.header_have];
        let want = match decode(have, conn.swap).map_err(Fault::Wire)? {
            Decoded::Frame(frame, _) => {
                rx.header_have = 0;
                return Ok(Some((frame, used)));
            }
            Decoded::Needs(want) => want,
        };
        let n = (want - rx.header_have).min(bytes.len() - used);
        if n == 0 {
            return Ok(None);
        }
        rx.header[rx.header_have..][..n].copy_from_slice(&bytes[used..][..n]);
        rx.header_have += n;
        used += n;
    }
}
