// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! All frames of an established connection: one enum, one encoder, one decoder. Each kind of frame is described at its
//! struct.
//!
//! The decoder refuses every error inside one header. The connection refuses errors that depend on state (a key, an
//! index in use, an acknowledgement that no operation waits for).

use super::atomic::Atomic;
use super::collective::{Collective, CollectiveEnd};
use super::export::Exported;
use super::head::{Fields, Head, MAX_HEADER, Shape, WireError, split};
use super::message::{Ack, Message};
use super::rendezvous::{Offer, ReadyToSend, RendezvousData, Share, Word};
use super::rma::{ReadRequest, ReadResponse, Write};

/// A frame without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    Message(Message),
    /// The peer has received all of the oldest operation that waits for an acknowledgement.
    Ack,
    ReadRequest(ReadRequest),
    ReadResponse(ReadResponse),
    Write(Write),
    ReadyToSend(ReadyToSend),
    /// The receiver has a place for the message with this index.
    ClearToSend {
        index: u8,
    },
    RendezvousData(RendezvousData),
    Collective(Collective),
    CollectiveEnd(CollectiveEnd),
    Atomic(Atomic),
    Offer(Offer),
    Exported(Exported),
    /// The offered message with this index has been fetched.
    Taken {
        index: u8,
    },
    Share(Share),
    /// The oldest operation that waits for an answer was refused, because its access to memory is not allowed.
    Refused(Refused),
    /// The sender has finished its last part of the message with this index.
    Done {
        index: u8,
    },
    Close(Close),
}

/// The agreement of both sides to close an idle connection: docs/wire/tcp.md, "Idle connections".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// The sender has nothing to send and would like to close the connection.
    Request,
    /// The answer: the sender agrees, and sends nothing until the peer closes the connection or withdraws its request.
    Ready,
    /// The answer: the connection stays.
    Refused,
    /// The sender has something to send after all: its last request is void.
    Withdrawn,
}

/// The answer that the refused operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A write: an acknowledgement.
    Ack,
    /// A read, or an atomic operation with a result: a read response.
    Response,
}

/// The op byte of each frame. Numbers from 16 on are extensions. Numbers 28 to 31, 37 and 38 come before the connection
/// is up: see `auth` and `same_host`.
pub(super) mod code {
    pub const MSG: u8 = 0;
    pub const TAGGED: u8 = 1;
    pub const READ_REQUEST: u8 = 2;
    pub const READ_RESPONSE: u8 = 3;
    pub const WRITE: u8 = 4;
    pub const READY_TO_SEND: u8 = 5;
    pub const CLEAR_TO_SEND: u8 = 6;
    pub const RENDEZVOUS_DATA: u8 = 7;
    pub const ATOMIC: u8 = 16;
    pub const ATOMIC_FETCH: u8 = 17;
    pub const ATOMIC_COMPARE: u8 = 18;
    pub const COLLECTIVE: u8 = 20;
    pub const COLLECTIVE_END: u8 = 21;
    pub const REFUSED: u8 = 22;
    pub const CLOSE: u8 = 23;
    /// The next three name a receive context.
    pub const MSG_TO: u8 = 24;
    pub const TAGGED_TO: u8 = 25;
    pub const READY_TO_SEND_TO: u8 = 26;
    /// The others are for processes that share memory.
    pub const OFFER: u8 = 32;
    pub const OFFER_TAGGED: u8 = 33;
    pub const TAKEN: u8 = 34;
    pub const SHARE: u8 = 35;
    pub const DONE: u8 = 36;
    pub const EXPORTED: u8 = 39;
}

fn shape(head: &Head) -> Option<&'static Shape> {
    Some(match head.code {
        code::MSG if head.number == Ack::NUMBER => &Ack::SHAPE,
        code::MSG => &Message::UNTAGGED,
        code::TAGGED => &Message::TAGGED,
        code::READ_REQUEST => &ReadRequest::SHAPE,
        code::READ_RESPONSE => &ReadResponse::SHAPE,
        code::WRITE => &Write::SHAPE,
        code::READY_TO_SEND => &ReadyToSend::SHAPE,
        code::CLEAR_TO_SEND => &Word::CLEAR,
        code::RENDEZVOUS_DATA => &RendezvousData::SHAPE,
        code::ATOMIC => &Atomic::BASE,
        code::ATOMIC_FETCH => &Atomic::FETCH,
        code::ATOMIC_COMPARE => &Atomic::COMPARE,
        code::COLLECTIVE => &Collective::SHAPE,
        code::COLLECTIVE_END => &CollectiveEnd::SHAPE,
        code::REFUSED => &Word::REFUSED,
        code::CLOSE => &Word::CLOSE,
        code::MSG_TO => &Message::UNTAGGED_TO,
        code::TAGGED_TO => &Message::TAGGED_TO,
        code::READY_TO_SEND_TO => &ReadyToSend::SHAPE_TO,
        code::OFFER => &Offer::UNTAGGED,
        code::OFFER_TAGGED => &Offer::TAGGED,
        code::TAKEN => &Word::TAKEN,
        code::SHARE => &Share::SHAPE,
        code::DONE => &Word::DONE,
        code::EXPORTED => &Exported::SHAPE,
        _ => return None,
    })
}

/// The result of decoding the first bytes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A frame, and the size of its header.
    Frame(Frame, usize),
    /// An incomplete header; at least this many bytes are needed.
    Needs(usize),
}

/// Reads a header and ignores the bytes behind it. `swap`: the peer's host has the other byte order.
pub fn decode(bytes: &[u8], swap: bool) -> Result<Decoded, WireError> {
    let Some((base, len, shape)) = split(bytes, shape)? else {
        return Ok(Decoded::Needs(super::BASE_HEADER));
    };
    let Some(bytes) = bytes.get(..len) else {
        return Ok(Decoded::Needs(len));
    };
    let mut fields = Fields::of(bytes, base, shape, swap)?;
    Ok(Decoded::Frame((shape.read)(&mut fields)?, len))
}

/// Whether this is the header of the data of a message that the peer has requested.
pub fn is_rendezvous_data(header: &[u8; MAX_HEADER]) -> bool {
    Head::at(header).code == code::RENDEZVOUS_DATA
}

impl Refused {
    const fn number(self) -> u8 {
        match self {
            Refused::Ack => 1,
            Refused::Response => 2,
        }
    }

    pub(super) const fn of(number: u8) -> Option<Refused> {
        match number {
            1 => Some(Refused::Ack),
            2 => Some(Refused::Response),
            _ => None,
        }
    }
}

impl Close {
    pub(super) const ALL: [Close; 4] = [
        Close::Request,
        Close::Ready,
        Close::Refused,
        Close::Withdrawn,
    ];

    const fn number(self) -> u8 {
        self as u8 + 1
    }

    pub(super) fn of(number: u8) -> Option<Close> {
        let index = usize::from(number).checked_sub(1)?;
        Close::ALL.get(index).copied()
    }
}

impl Frame {
    /// Writes the header and returns its size. `counter` numbers the headers of this direction of the connection.
    /// `swap`: the peer's host has the other byte order.
    #[inline]
    pub fn encode(&self, counter: u8, swap: bool, out: &mut [u8; MAX_HEADER]) -> usize {
        let word = |code, index, out| Word::encode(code, index, counter, swap, out);
        match *self {
            Frame::Message(ref message) => message.encode(counter, swap, out),
            Frame::Ack => Ack::encode(counter, swap, out),
            Frame::ReadRequest(ref read) => read.encode(counter, swap, out),
            Frame::ReadResponse(ref response) => response.encode(counter, swap, out),
            Frame::Write(ref write) => write.encode(counter, swap, out),
            Frame::ReadyToSend(ref ready) => ready.encode(counter, swap, out),
            Frame::ClearToSend { index } => word(code::CLEAR_TO_SEND, index, out),
            Frame::RendezvousData(ref data) => data.encode(counter, swap, out),
            Frame::Collective(ref part) => part.encode(counter, swap, out),
            Frame::CollectiveEnd(ref end) => end.encode(counter, swap, out),
            Frame::Atomic(ref atomic) => atomic.encode(counter, swap, out),
            Frame::Offer(ref offer) => offer.encode(counter, swap, out),
            Frame::Exported(ref exported) => exported.encode(counter, swap, out),
            Frame::Taken { index } => word(code::TAKEN, index, out),
            Frame::Share(ref share) => share.encode(counter, swap, out),
            Frame::Refused(refused) => word(code::REFUSED, refused.number(), out),
            Frame::Done { index } => word(code::DONE, index, out),
            Frame::Close(close) => word(code::CLOSE, close.number(), out),
        }
    }

    /// Whether the receiver acknowledges the frame.
    #[inline]
    pub fn is_acknowledged(&self) -> bool {
        match self {
            Frame::Message(message) => message.ack,
            Frame::Write(write) => write.ack || write.commit,
            Frame::ReadyToSend(ready) => ready.ack,
            Frame::RendezvousData(data) => data.ack,
            Frame::Atomic(atomic) => atomic.ack || atomic.commit,
            _ => false,
        }
    }

    /// Whether the receiver answers the frame with data, not only with an acknowledgement.
    #[inline]
    pub fn asks(&self) -> bool {
        match self {
            Frame::ReadRequest(_) => true,
            Frame::Atomic(atomic) => atomic.asks(),
            _ => false,
        }
    }

    /// Whether the receiver answers the frame at all.
    #[inline]
    pub fn is_answered(&self) -> bool {
        self.is_acknowledged() || self.asks()
    }
}
