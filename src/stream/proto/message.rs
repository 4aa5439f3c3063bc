// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages whose bytes follow their header, and the acknowledgement that some of them request.

use super::frame::{Frame, code};
use super::head::{
    BASE_HEADER, FIELD, FLAG_ACK, FLAG_DATA, Fields, Head, Shape, Writer, split, starts_with, total,
};

/// A message, tagged or not. Its payload follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub tagged: bool,
    /// The receiver acknowledges when it has the whole payload.
    pub ack: bool,
    /// Remote CQ data.
    pub data: Option<u64>,
    /// 0 if the message is not tagged.
    pub tag: u64,
    /// The receive context of the peer's endpoint.
    pub context: u8,
    /// Bytes that follow.
    pub payload: u64,
}

/// The header of a message that names no receive context.
pub const MAX_MESSAGE_HEADER: usize = BASE_HEADER + 2 * FIELD;

/// Headers without flags, which most messages have: the first word, and the size.
const PLAIN: (u64, usize) = plain(code::MSG, BASE_HEADER);
const PLAIN_TAGGED: (u64, usize) = plain(code::TAGGED, BASE_HEADER + FIELD);

const fn plain(code: u8, len: usize) -> (u64, usize) {
    let head = Head {
        len: len as u8,
        ..Head::new(code)
    };
    (head.word(), len)
}

impl Message {
    pub(super) const UNTAGGED: Shape = Shape {
        has_data: true,
        has_payload: true,
        ..Shape::bare(|fields| Ok(Frame::Message(Message::read(false, fields))))
    };
    pub(super) const TAGGED: Shape = Shape {
        fields: 1,
        read: |fields| Ok(Frame::Message(Message::read(true, fields))),
        ..Message::UNTAGGED
    };
    pub(super) const UNTAGGED_TO: Shape = Shape {
        names_context: true,
        read: |fields| {
            Ok(Frame::Message(
                Message::read(false, fields).to_context(fields),
            ))
        },
        ..Message::UNTAGGED
    };
    pub(super) const TAGGED_TO: Shape = Shape {
        names_context: true,
        read: |fields| {
            Ok(Frame::Message(
                Message::read(true, fields).to_context(fields),
            ))
        },
        ..Message::TAGGED
    };

    #[inline(always)]
    fn read(tagged: bool, fields: &mut Fields<'_>) -> Message {
        Message {
            tagged,
            ack: fields.has(FLAG_ACK),
            data: fields.data(),
            tag: if tagged { fields.next() } else { 0 },
            context: 0,
            payload: fields.payload,
        }
    }

    fn to_context(self, fields: &Fields<'_>) -> Message {
        Message {
            context: fields.head.count,
            ..self
        }
    }

    /// Writes the header and returns its size.
    #[inline(always)]
    pub fn encode<const LEN: usize>(&self, counter: u8, swap: bool, out: &mut [u8; LEN]) -> usize {
        let mut writer = Writer::new(out, swap);
        let mut flags = if self.ack { FLAG_ACK } else { 0 };
        if let Some(data) = self.data {
            flags |= FLAG_DATA;
            writer.put(data);
        }
        if self.tagged {
            writer.put(self.tag);
        }
        let code = match (self.tagged, self.context) {
            (false, 0) => code::MSG,
            (true, 0) => code::TAGGED,
            (false, _) => code::MSG_TO,
            (true, _) => code::TAGGED_TO,
        };
        let head = Head {
            flags,
            count: self.context,
            ..Head::new(code)
        };
        writer.finish(head, counter, self.payload)
    }

    /// Returns the message that starts here in its usual form, with the length of its header and of all of it; the byte
    /// order is that of this host, and the receive context is the first. Returns `None` for everything else, also
    /// malformed input; use `decode` then. The payload may be elsewhere.
    #[inline(always)]
    pub fn compact(bytes: &[u8]) -> Option<(Message, usize, usize)> {
        let base = bytes.first_chunk::<BASE_HEADER>()?;
        // The two most frequent forms: without flags.
        if let Some(bytes) = bytes.first_chunk::<MAX_MESSAGE_HEADER>() {
            let frame = total(base, false) as usize;
            let message = |tagged, tag, len: usize| Message {
                tagged,
                ack: false,
                data: None,
                tag,
                context: 0,
                payload: (frame - len) as u64,
            };
            let (start, len) = PLAIN_TAGGED;
            if starts_with(base, start) && frame >= len {
                return Some((message(true, Fields::first(bytes), len), len, frame));
            }
            let (start, len) = PLAIN;
            if starts_with(base, start) && frame >= len {
                return Some((message(false, 0, len), len, frame));
            }
        }
        match Message::flagged(bytes, code::TAGGED, &Message::TAGGED) {
            None => Message::flagged(bytes, code::MSG, &Message::UNTAGGED),
            tagged => tagged,
        }
    }

    /// Decodes a message of one op with flags. The caller passes constants for both, so nothing is looked up.
    #[inline(always)]
    fn flagged(bytes: &[u8], op: u8, its: &'static Shape) -> Option<(Message, usize, usize)> {
        let shape = |head: &Head| (head.code == op && head.number == 0).then_some(its);
        let (base, len, _) = split(bytes, shape).ok()??;
        let mut fields = Fields::of(bytes.get(..len)?, base, its, false).ok()?;
        let message = Message::read(op == code::TAGGED, &mut fields);
        Some((message, len, total(base, false) as usize))
    }

    /// Does the same as `compact`, but requires the whole payload; returns the payload and the total length.
    #[inline(always)]
    pub fn whole(bytes: &[u8]) -> Option<(Message, &[u8], usize)> {
        let (message, len, frame) = Message::compact(bytes)?;
        let payload = bytes.get(len..frame)?;
        Some((message, payload, frame))
    }
}

/// The peer has received all of the oldest operation that waits for an acknowledgement. On the wire this is a message
/// with op data.
pub(super) struct Ack;

impl Ack {
    pub const SHAPE: Shape = Shape::bare(|_| Ok(Frame::Ack));
    /// The op data that makes a message an acknowledgement.
    pub const NUMBER: u8 = 2;

    pub fn encode<const LEN: usize>(counter: u8, swap: bool, out: &mut [u8; LEN]) -> usize {
        let head = Head {
            number: Ack::NUMBER,
            ..Head::new(code::MSG)
        };
        Writer::new(out, swap).finish(head, counter, 0)
    }
}
