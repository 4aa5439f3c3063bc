// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What comes in: one large read feeds a parser that hands out many frames; the payload of a large one is read straight
//! into its place.
#![forbid(unsafe_code)]

use core::fmt;

use crate::abi::*;
use crate::base::log::{Subsys, log_warn};
use crate::base::{Error, IoList, Span};
use crate::engine::core::Parts;
use crate::engine::srx::{Bytes, Claimed, Envelope, RecvOp, Slot};
use crate::engine::stream::conn::{At, Conn, Incoming, Sink, Stalled, State, is_silence};
use crate::engine::stream::net::Net;
use crate::engine::stream::proto::{
    BASE_HEADER, Header, Message, MessageHead, Op, WireError, decode, header_len, whole_message,
};
use crate::engine::stream::rma::{ANSWERS, count_regions};
use crate::engine::stream::transport::{Core, Stream};
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
    pub(super) fn read_conn(&mut self, core: &mut Core<N>, id: usize) -> bool {
        debug_assert!(self.conns[id].duct.is_none());
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut any = false;
        for _ in 0..TURNS {
            let Some(conn) = self.conns.get_mut(id) else {
                break;
            };
            if conn.state != State::Up || conn.rx.at.waits() {
                break;
            }
            if !core.may_receive(conn.ep) {
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
                    self.lose(core, id, Error::CONNRESET);
                    any = true;
                    break;
                }
                Err(error) => {
                    let error = match is_silence(&error) {
                        true => Error::TIMEDOUT,
                        false => error.into(),
                    };
                    self.lose(core, id, error);
                    any = true;
                    break;
                }
            };
            any = true;
            let result = match direct {
                0 => self.take(core, id, &scratch[..n]),
                placed => {
                    let own = n.min(placed);
                    let taken = self.placed(core, id, own);
                    taken.and_then(|()| self.take(core, id, &scratch[..n - own]))
                }
            };
            if let Err(fault) = result {
                self.fault(core, id, &fault);
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
    pub(super) fn fault(&mut self, core: &mut Core<N>, id: usize, fault: &Fault) {
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
        self.lose_because(core, id, Error::CONNABORTED, &why);
    }

    /// `n` bytes of the payload were read straight to their place.
    pub(super) fn placed(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        n: usize,
    ) -> core::result::Result<(), Fault> {
        if let At::Payload(incoming) = &mut self.conns[id].rx.at {
            if let Some(iov) = incoming.sink.memory() {
                iov.advance(n);
            }
            incoming.remaining -= n as u64;
            if incoming.remaining == 0 {
                self.finish(core, id);
            }
        }
        Ok(())
    }

    /// Deals with bytes of the stream.
    #[inline(never)]
    pub(super) fn take(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        mut bytes: &[u8],
    ) -> core::result::Result<(), Fault> {
        while !bytes.is_empty() {
            let conn = &mut self.conns[id];
            match &mut conn.rx.at {
                At::Header => {
                    if conn.rx.header_have == 0
                        && !conn.swap
                        && let Some(message) = whole_message(bytes)
                        && self.whole(core, id, &message)
                    {
                        bytes = &bytes[message.head.frame..];
                        continue;
                    }
                    let conn = &mut self.conns[id];
                    let Some((header, used)) = next_header(conn, bytes)? else {
                        return Ok(());
                    };
                    bytes = &bytes[used..];
                    let used = self.begin(core, id, &header, bytes)?;
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
                            core.srxs[*srx].coming(*slot, part).map_err(no_memory)?;
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
                        self.finish(core, id);
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
    fn whole(&mut self, core: &mut Core<N>, id: usize, message: &Message<'_>) -> bool {
        let conn = &self.conns[id];
        let Some(srx) = taker(core, conn, message.head.tagged) else {
            return false;
        };
        if message.head.ack && conn.answers() > ANSWERS {
            return false;
        }
        let parts = parts_of(&message.head);
        let srx = &mut core.srxs[srx];
        if let Ok(filled) = srx.fill(&parts, conn.source(), |iov| iov.fill(message.payload)) {
            core.filled(conn.ep, &filled, &parts, 0, conn.fi_addr);
            if message.head.ack {
                self.send_ack(core, id);
            }
            return true;
        }
        let envelope = parts.envelope(conn.source(), conn.ep, id as u64);
        match srx.accept(&envelope) {
            Some(mut recv) => {
                recv.iov.copy_in(message.payload);
                core.received(envelope.ep, &recv, &envelope, &conn.sender());
            }
            None if !srx.has_room(envelope.token, envelope.len, self.limits.saved_bytes) => {
                return false;
            }
            None => {
                srx.keep_whole(envelope, |bytes| bytes.extend_from_slice(message.payload));
            }
        }
        if message.head.ack {
            self.send_ack(core, id);
        }
        true
    }

    /// Bytes that may be a whole message and nothing else, as they mostly are where each comes by itself.
    #[inline]
    pub(super) fn take_one(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        bytes: &[u8],
    ) -> core::result::Result<(), Fault> {
        let conn = &self.conns[id];
        let between = matches!(conn.rx.at, At::Header) && conn.rx.header_have == 0;
        if between
            && let Some(message) = whole_message(bytes)
            && message.head.frame == bytes.len()
            && self.whole(core, id, &message)
        {
            return Ok(());
        }
        self.take(core, id, bytes)
    }

    /// A frame begins. `bytes` is what has come behind its header; gives how many of them were dealt with.
    #[inline(never)]
    fn begin(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
        bytes: &[u8],
    ) -> core::result::Result<usize, Fault> {
        if self.owes_enough(id, header) {
            self.hold_frame(id, header);
            return Ok(0);
        }
        let begun = match header.op {
            Op::Msg | Op::Tagged => self.message(core, id, header),
            Op::Ack => match self.acknowledged(core, id) {
                Ok(()) => Ok(()),
                Err(_) => Err(Fault::Rule("an acknowledgement that nobody waits for")),
            },
            Op::Write => self.write_request(core, id, header),
            Op::ReadReq => self.read_request(core, id, header),
            Op::ReadRsp => self.read_response(core, id, header),
            Op::Rts => self.ready_to_send(core, id, header),
            Op::Cts => match self.cleared(core, id, header.index) {
                Ok(()) => Ok(()),
                Err(_) => Err(Fault::Rule("clear-to-send for an unknown index")),
            },
            Op::Data => self.rendezvous_data(core, id, header),
            Op::Offer | Op::OfferTagged => self.offered(core, id, header),
            Op::Taken => match self.taken(core, id, header.index) {
                Ok(()) => Ok(()),
                Err(_) => Err(Fault::Rule("a message was taken that was not offered")),
            },
            Op::Share => self.asked_to_share(core, id, header),
            Op::Done => self.sender_done(core, id, header.index),
            Op::Coll | Op::CollEnd => self.collective_frame(core, id, header),
            Op::Atomic | Op::AtomicFetch | Op::AtomicCompare => {
                return self.atomic_request(core, id, header, bytes);
            }
        };
        begun.map(|()| 0)
    }

    #[inline]
    pub(super) fn envelope(&self, id: usize, what: What, header: &Header) -> Envelope {
        let parts = Parts {
            what,
            len: header.payload,
            tag: header.tag,
            data: header.data,
        };
        let conn = &self.conns[id];
        parts.envelope(conn.source(), conn.ep, id as u64)
    }

    /// A message: to the receive that takes it, or to a buffer of ours, or it stays where it is.
    #[inline]
    fn message(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
    ) -> core::result::Result<(), Fault> {
        let what = match header.op {
            Op::Tagged => What::Tagged,
            _ => What::Msg,
        };
        let mut envelope = self.envelope(id, what, header);
        if header.context != 0 {
            envelope.ep = self.named_context(core, id, header)?;
        }
        let state = &core.eps[envelope.ep];
        let (srx, tagged) = (state.srx, state.caps & FI_TAGGED != 0);
        if what == What::Tagged && !tagged {
            return Err(Fault::Rule("a tagged message for an endpoint without tags"));
        }
        match core.srxs[srx].accept(&envelope) {
            Some(recv) => {
                if header.payload == 0 {
                    self.received(core, id, &recv, &envelope);
                    if header.ack {
                        self.send_ack(core, id);
                    }
                    return Ok(());
                }
                self.expect(id, Sink::Recv(recv, envelope), header.payload, header.ack);
            }
            None => self.unexpected(core, id, srx, envelope, header.ack),
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
        core: &mut Core<N>,
        id: usize,
        srx: usize,
        envelope: Envelope,
        ack: bool,
    ) {
        let len = envelope.len;
        if !core.srxs[srx].has_room(envelope.token, len, self.limits.saved_bytes) {
            let slot = self.keep(core, id, srx, envelope, Bytes::There);
            self.conns[id].rx.at = At::Stalled(Stalled {
                srx,
                slot,
                envelope,
                ack,
            });
            self.stalled.push(id);
            return self.quiet(id);
        }
        if len == 0 {
            self.keep(core, id, srx, envelope, Bytes::Here(Vec::new()));
            if ack {
                self.send_ack(core, id);
            }
            return;
        }
        let slot = self.keep(core, id, srx, envelope, Bytes::Coming(Vec::new()));
        self.expect(id, Sink::Slot(srx, slot), len, ack);
    }

    /// Keeps a message for a later receive, with its sender's address where that is to be reported.
    pub(super) fn keep(
        &self,
        core: &mut Core<N>,
        id: usize,
        srx: usize,
        envelope: Envelope,
        bytes: Bytes,
    ) -> Slot {
        let slot = core.srxs[srx].keep(envelope, bytes);
        let conn = &self.conns[id];
        if core.reports_origin(conn.ep, conn.fi_addr) {
            core.srxs[srx].note_origin(slot, conn.peer.to_bytes());
        }
        slot
    }

    /// A receive has met a message whose bytes are not here.
    pub(super) fn bring(&mut self, core: &mut Core<N>, claimed: Claimed) {
        let id = claimed.envelope.token as usize;
        if claimed.envelope.note != 0 {
            return self.get(core, id, claimed.recv, claimed.envelope);
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
        self.resume(core, id, sink, len, ack);
    }

    /// A message that stood in the stream has a place now.
    fn resume(&mut self, core: &mut Core<N>, id: usize, sink: Sink, len: u64, ack: bool) {
        self.stalled.retain(|&stalled| stalled != id);
        self.expect(id, sink, len, ack);
        if len == 0 {
            self.finish(core, id);
        }
        self.go_on(core, id);
    }

    /// A frame stays in the stream, and all that follows it.
    #[cold]
    pub(super) fn hold_frame(&mut self, id: usize, header: &Header) {
        self.conns[id].rx.at = At::Held(Box::new(header.clone()));
        self.stalled.push(id);
        self.quiet(id);
    }

    /// The frame that stands in the stream is tried again.
    pub(super) fn retry_frame(&mut self, core: &mut Core<N>, id: usize) {
        match self.conns.get(id).map(|conn| &conn.rx.at) {
            Some(At::Held(header)) if !header.is_answered() || self.may_answer(id) => {}
            _ => return,
        }
        let At::Held(header) = std::mem::replace(&mut self.conns[id].rx.at, At::Header) else {
            return;
        };
        self.stalled.retain(|&stalled| stalled != id);
        match self.begin(core, id, &header, &[]) {
            Err(fault) => self.fault(core, id, &fault),
            Ok(_) if self.conns.get(id).is_some_and(|conn| !conn.rx.at.waits()) => {
                self.go_on(core, id);
            }
            Ok(_) => {}
        }
    }

    /// Nothing stands in the way of the stream any more.
    pub(super) fn go_on(&mut self, core: &mut Core<N>, id: usize) {
        let leftover = std::mem::take(&mut self.conns[id].rx.leftover);
        if let Err(fault) = self.take(core, id, &leftover) {
            return self.fault(core, id, &fault);
        }
        if self.conns.get(id).is_some_and(|conn| !conn.rx.at.waits()) {
            self.rewatch(id, true, self.conns[id].watch.write);
            self.warm(id);
        }
    }

    /// There is room for unexpected messages, or in a queue, again.
    #[cold]
    pub(super) fn retry_stalled(&mut self, core: &mut Core<N>) {
        let waiting = self.stalled.clone();
        for id in waiting {
            let Some(conn) = self.conns.get(id) else {
                continue;
            };
            let limit = self.limits.saved_bytes;
            if matches!(conn.rx.at, At::Held(_)) {
                self.retry_frame(core, id);
                continue;
            }
            let At::Stalled(stalled) = &conn.rx.at else {
                // It was held because of a full queue.
                if core.may_receive(conn.ep) {
                    self.stalled.retain(|&s| s != id);
                    self.rewatch(id, true, self.conns[id].watch.write);
                    self.warm(id);
                }
                continue;
            };
            let (srx, slot, len, ack) =
                (stalled.srx, stalled.slot, stalled.envelope.len, stalled.ack);
            // Its place is paid for.
            if core.srxs[srx].has_room(id as u64, len, limit) {
                core.srxs[srx].begin_coming(slot);
                self.resume(core, id, Sink::Slot(srx, slot), len, ack);
            }
        }
    }

    /// The endpoint's queue has run over: nothing is read until it is emptied.
    #[cold]
    pub(super) fn hold(&mut self, id: usize) {
        if !self.stalled.contains(&id) {
            self.stalled.push(id);
        }
        self.quiet(id);
    }

    fn received(&mut self, core: &mut Core<N>, id: usize, recv: &RecvOp, envelope: &Envelope) {
        let conn = &self.conns[id];
        core.received(envelope.ep, recv, envelope, &conn.sender());
    }

    /// The payload of a frame is complete.
    #[inline]
    pub(super) fn finish(&mut self, core: &mut Core<N>, id: usize) {
        let conn = &mut self.conns[id];
        let At::Payload(incoming) = std::mem::replace(&mut conn.rx.at, At::Header) else {
            return;
        };
        let (ep, sender) = (conn.ep, conn.sender());
        match incoming.sink {
            Sink::Recv(recv, envelope) => core.received(envelope.ep, &recv, &envelope, &sender),
            Sink::Slot(srx, slot) => {
                if let Some((recv, envelope)) = core.srxs[srx].arrived(slot) {
                    core.received(envelope.ep, &recv, &envelope, &sender);
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
                if let Some(parts) = durable
                    && !commit(conn, &parts)
                {
                    return;
                }
                count_regions(core, &regions, &lens);
                core.written(ep, FI_RMA, len, data, &sender);
            }
            Sink::Read(read) => {
                core.eps[read.op.ep()].tx_pending -= 1;
                core.sent(read.op.ep(), &read.op);
            }
            Sink::Coll(part) => return self.part_arrived(core, id, *part),
            Sink::Atomic(request) => self.arrived(core, id, *request),
            Sink::Drop => {}
        }
        if incoming.ack {
            self.send_ack(core, id);
        }
    }
}

#[cold]
fn no_memory(_: Error) -> Fault {
    Fault::Rule("there is no memory for what it sends")
}

/// What the completion of a message says.
#[inline(always)]
pub(super) fn parts_of(head: &MessageHead) -> Parts {
    Parts {
        what: if head.tagged { What::Tagged } else { What::Msg },
        len: head.payload() as u64,
        tag: head.tag,
        data: head.data,
    }
}

/// The receive context that a message can go to at once; none if it is for the general way.
#[inline(always)]
fn taker<N: Net>(core: &Core<N>, conn: &Conn<N>, tagged: bool) -> Option<usize> {
    let ep = core.eps.get(conn.ep)?;
    let refused = tagged && ep.caps & FI_TAGGED == 0;
    (!refused && !core.reports_origin(conn.ep, conn.fi_addr)).then_some(ep.srx)
}

/// Makes what was written durable. If that cannot be done the peer hears no more, and takes its operation for failed.
#[cold]
pub(super) fn commit<N: Net>(conn: &Conn<N>, parts: &[Span]) -> bool {
    let mut parts = parts.iter();
    let result = parts.try_for_each(|part| memory::make_durable(part.start, part.len));
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

/// The next header of the stream, from `bytes` and what was there before; and how many of `bytes` it took.
#[inline]
fn next_header<N: Net>(
    conn: &mut Conn<N>,
    bytes: &[u8],
) -> core::result::Result<Option<(Header, usize)>, Fault> {
    let rx = &mut conn.rx;
    if rx.header_have == 0 && bytes.len() >= BASE_HEADER {
        let len = header_len(&bytes[..BASE_HEADER]).map_err(Fault::Wire)?;
        if bytes.len() >= len {
            let header = decode(&bytes[..len], conn.swap).map_err(Fault::Wire)?;
            return Ok(Some((header, len)));
        }
    }
    let mut used = 0;
    loop {
        let want = match rx.header_have < BASE_HEADER {
            true => BASE_HEADER,
            false => header_len(&rx.header[..BASE_HEADER]).map_err(Fault::Wire)?,
        };
        let n = (want - rx.header_have).min(bytes.len() - used);
        rx.header[rx.header_have..][..n].copy_from_slice(&bytes[used..][..n]);
        rx.header_have += n;
        used += n;
        if rx.header_have < want {
            return Ok(None);
        }
        if want > BASE_HEADER || header_len(&rx.header[..BASE_HEADER]).map_err(Fault::Wire)? == want
        {
            let header = decode(&rx.header[..want], conn.swap).map_err(Fault::Wire)?;
            rx.header_have = 0;
            return Ok(Some((header, used)));
        }
    }
}
