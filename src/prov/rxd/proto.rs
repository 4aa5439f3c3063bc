// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The packets of rxd, byte for byte: docs/wire/rxd.md. Each kind is a struct with its encoder and its decoder. Numbers
//! are in the byte order of the host, so peers of different byte order do not understand each other.
//!
//! Input is untrusted. The decoders check everything that can be checked without the state of the session.

mod bytes;
mod greet;
mod op;
#[cfg(test)]
mod tests;

use bytes::{Reader, Writer};
#[cfg(test)]
pub use greet::GREETING;
pub use greet::{Cts, MAX_NAME, Rts};
pub use op::{Iovs, Kind, MAX_IOVS, MAX_OP_HEADER, Op, RmaIov, Segments};

use base::Error;

/// The header of every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Head {
    /// The number that the receiver has given the sender.
    pub peer: u32,
    pub seq: u64,
}

/// A part of a message, a write or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// The request, in an answer. Unused in other packets.
    pub transaction: u32,
    /// Index of the part, from 0.
    pub segment: u64,
    pub bytes: &'a [u8],
}

/// Acknowledges all packets before `next`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    pub peer: u32,
    pub next: u64,
    /// Packets that the sender may have in flight; 0 stops it.
    pub window: u32,
    /// Between peers of this library: the error with which packet `next` is refused; 0 if it is not refused.
    pub refused: u32,
    /// Between peers of this library: bit n is set if packet `next` + 1 + n has arrived.
    pub beyond: u64,
}

/// Replaces a packet that will not come. Used between peers of this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Void {
    /// The request whose answer this packet replaces.
    pub transaction: u32,
    /// The error that ends the request; 0 if there was none to answer.
    pub error: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    Rts(Rts<'a>),
    Cts(Cts),
    Ack(Ack),
    Op(Head, Op, &'a [u8]),
    Data(Head, Data<'a>),
    Answer(Head, Data<'a>),
    Void(Head, Void),
}

/// Why bytes are not a valid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

pub type Decoded<T> = core::result::Result<T, Malformed>;

impl<'a> Packet<'a> {
    pub fn decode(packet: &'a [u8]) -> Decoded<Packet<'a>> {
        let mut bytes = Reader(packet);
        let (version, kind, flags) = (bytes.u8()?, bytes.u8()?, bytes.u16()?);
        let head = Head {
            peer: bytes.u32()?,
            seq: bytes.u64()?,
        };
        if matches!(kind, RTS | CTS) && version != VERSION {
            return Err(Malformed("another version"));
        }
        match kind {
            RTS => Rts::decode(head, bytes).map(Packet::Rts),
            CTS => Cts::decode(head, bytes).map(Packet::Cts),
            ACK => Ack::decode(head, bytes).map(Packet::Ack),
            DATA => Data::decode(bytes).map(|data| Packet::Data(head, data)),
            ANSWER => Data::decode(bytes).map(|data| Packet::Answer(head, data)),
            VOID => Void::decode(bytes).map(|void| Packet::Void(head, void)),
            kind => {
                let kind = Kind::of(kind).ok_or(Malformed("an unknown type"))?;
                let (op, payload) = Op::decode(kind, flags, bytes)?;
                Ok(Packet::Op(head, op, payload))
            }
        }
    }
}

impl Head {
    fn encode(self, kind: u8, flags: u16, out: &mut [u8]) -> Writer<'_> {
        let mut out = Writer::new(out);
        out.u8(VERSION);
        out.u8(kind);
        out.u16(flags);
        out.u32(self.peer);
        out.u64(self.seq);
        out
    }
}

impl Data<'_> {
    /// Encodes everything but the bytes.
    pub fn encode_head(
        head: Head,
        is_answer: bool,
        transaction: u32,
        segment: u64,
        out: &mut [u8],
    ) -> usize {
        let mut out = head.encode([DATA, ANSWER][usize::from(is_answer)], 0, out);
        out.u32(transaction);
        out.u32(0);
        out.u64(segment);
        out.len()
    }

    fn decode(mut bytes: Reader<'_>) -> Decoded<Data<'_>> {
        let transaction = bytes.u32()?;
        bytes.u32()?;
        Ok(Data {
            transaction,
            segment: bytes.u64()?,
            bytes: bytes.rest(),
        })
    }
}

impl Ack {
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let head = Head {
            peer: self.peer,
            seq: self.next,
        };
        let mut out = head.encode(ACK, 0, out);
        out.u32(self.refused);
        out.u32(self.window);
        out.u64(self.beyond);
        out.len()
    }

    fn decode(head: Head, mut bytes: Reader<'_>) -> Decoded<Ack> {
        let ack = Ack {
            peer: head.peer,
            next: head.seq,
            refused: bytes.u32()?,
            window: bytes.u32()?,
            beyond: bytes.u64()?,
        };
        bytes.end(ack)
    }
}

impl Void {
    pub fn encode(&self, head: Head, out: &mut [u8]) -> usize {
        let mut out = head.encode(VOID, 0, out);
        out.u32(self.transaction);
        out.u32(self.error);
        out.len()
    }

    fn decode(mut bytes: Reader<'_>) -> Decoded<Void> {
        // Peers of other libraries may send it without our fields.
        if bytes.0.is_empty() {
            return Ok(Void {
                transaction: 0,
                error: 0,
            });
        }
        let void = Void {
            transaction: bytes.u32()?,
            error: bytes.u32()?,
        };
        bytes.end(void)
    }
}

/// Converts an error code of fi_errno(3) that a peer sent.
pub fn error_of(code: u32) -> Error {
    let named = i32::try_from(code)
        .ok()
        .filter(|code| (1..1024).contains(code));
    named.map_or(Error::OTHER, Error::new)
}

/// Bytes of the base header.
pub const BASE: usize = 16;
/// Bytes of a data packet before its payload.
pub const DATA_HEADER: usize = BASE + 16;
/// Bytes of an acknowledgement.
#[cfg(test)]
pub const ACK_LEN: usize = BASE + 16;

const VERSION: u8 = 2;
const RTS: u8 = 9;
const CTS: u8 = 10;
const ACK: u8 = 11;
const DATA: u8 = 12;
const ANSWER: u8 = 13;
const VOID: u8 = 14;
