// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Packets: a header of 64 bytes, and the bytes behind it. The first half of the header has the kind of packet, the
//! second half has the operation.
//!
//! Fields that a kind of packet does not use may hold anything; the decoder ignores them.

use super::atomic::{AtomicRequest, AtomicResponse};
use super::fault::Fault;
use super::header::*;
use super::rendezvous::{Places, RENDEZVOUS_SIZE};
use super::{u16_at, u32_at, u64_at};
use object::ops::transfer::What;

/// Limit on the credits of one packet. No queue of an adapter is that long, and no number of packets makes a sum of 64
/// bits overflow.
pub const MOST_CREDITS: u64 = 1 << 20;

/// A message, independent of how its bytes are transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub tagged: bool,
    /// Total bytes of the message.
    pub size: u64,
    pub data: Option<u64>,
    /// 0 if the message has no tag.
    pub tag: u64,
    /// The receive context at the peer.
    pub context: u8,
}

impl Message {
    pub fn what(&self) -> What {
        match self.tagged {
            true => What::Tagged,
            false => What::Msg,
        }
    }
}

/// Position of a segment in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    First,
    Middle,
    Last,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Number that the sender gave the message.
    pub msg: u64,
    /// Number of the segment, from 0.
    pub number: u32,
    /// Bytes in this segment.
    pub len: u16,
    pub part: Part,
}

/// A packet: the connection and the content.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packet<'a> {
    /// Index that the receiver gave the connection.
    pub conn: u32,
    pub body: Body<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Body<'a> {
    /// A complete message.
    Eager(Message, &'a [u8]),
    Segment(Segment, Message, &'a [u8]),
    /// Announces a message, whose bytes the receiver reads unless the keys are missing.
    Request {
        msg: u64,
        message: Message,
        places: Places,
    },
    /// The receiver has read them.
    ReadDone {
        msg: u64,
    },
    /// The receiver's memory for a message that the sender writes.
    Addresses {
        msg: u64,
        places: Places,
    },
    /// The sender has written them.
    WriteDone {
        msg: u64,
    },
    Atomic {
        msg: u64,
        request: AtomicRequest<'a>,
    },
    AtomicResponse {
        msg: u64,
        response: AtomicResponse<'a>,
    },
    /// The sender has posted this many more receives.
    Credit {
        count: u64,
    },
}

#[inline]
fn with_message(kind: u8, conn: u32, msg: u64, message: &Message) -> [u8; HEADER] {
    let mut out = control(kind, conn, msg);
    out[CONTEXT_AT] = message.context;
    out[OP_AT] = if message.tagged { OP_TAGGED } else { OP_MSG };
    put_u64(&mut out, SIZE_AT, message.size);
    put_u64(&mut out, TAG_AT, message.tag);
    if let Some(data) = message.data {
        out[FLAGS_AT..FLAGS_AT + 4].copy_from_slice(&REMOTE_CQ_DATA.to_ne_bytes());
        put_u64(&mut out, DATA_AT, data);
    }
    out
}

impl Message {
    /// Returns the header of a packet with the complete message.
    #[inline]
    pub fn eager(&self, conn: u32) -> [u8; HEADER] {
        with_message(EAGER, conn, 0, self)
    }

    pub fn segment(&self, conn: u32, segment: &Segment) -> [u8; HEADER] {
        let mut out = with_message(SEGMENT, conn, segment.msg, self);
        out[SEGMENT_SIZE_AT..SEGMENT_SIZE_AT + 2].copy_from_slice(&segment.len.to_ne_bytes());
        out[SEGMENT_NUMBER_AT..SEGMENT_NUMBER_AT + 4]
            .copy_from_slice(&segment.number.to_ne_bytes());
        let part = match segment.part {
            Part::First => 1,
            Part::Middle => 2,
            Part::Last => 3,
        };
        put_u64(&mut out, CONTROL_DATA_AT, part);
        out
    }

    /// Returns the packet that announces the message.
    pub fn request(&self, conn: u32, msg: u64, places: &Places) -> [u8; HEADER + RENDEZVOUS_SIZE] {
        with_places(with_message(REQUEST, conn, msg, self), places)
    }
}

impl Places {
    /// Returns the packet with the addresses to write to.
    pub fn addresses(&self, conn: u32, msg: u64) -> [u8; HEADER + RENDEZVOUS_SIZE] {
        with_places(control(ADDRESSES, conn, msg), self)
    }
}

fn with_places(head: [u8; HEADER], places: &Places) -> [u8; HEADER + RENDEZVOUS_SIZE] {
    let mut out = [0; HEADER + RENDEZVOUS_SIZE];
    out[..HEADER].copy_from_slice(&head);
    if let Some(list) = out.last_chunk_mut() {
        places.encode(list);
    }
    out
}

/// Returns a packet without a body: the bytes of a message were read, or written.
pub fn short(conn: u32, msg: u64, read: bool) -> [u8; HEADER] {
    control(if read { READ_DONE } else { WRITE_DONE }, conn, msg)
}

/// Returns a packet that gives credits for posted receives, at most `MOST_CREDITS`.
pub fn credit(conn: u32, count: u64) -> [u8; HEADER] {
    let mut out = control(CREDIT, conn, 0);
    put_u64(&mut out, CONTROL_DATA_AT, count);
    out
}

/// Decodes a complete packet.
#[inline]
pub fn decode(bytes: &[u8]) -> Result<Packet<'_>, Fault> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(Fault("a packet that is shorter than its header"));
    };
    if head[0] != VERSION {
        return Err(Fault("a packet of another version"));
    }
    let conn = u32::try_from(u64_at(head, CONN_AT));
    let conn = conn.map_err(|_| Fault("a packet for no connection"))?;
    let body = match head[TYPE_AT] {
        EAGER => {
            let message = message(head)?;
            match message.size == rest.len() as u64 {
                true => Body::Eager(message, rest),
                false => return Err(Fault("a message of another length than it says")),
            }
        }
        kind => other(kind, head, rest)?,
    };
    Ok(Packet { conn, body })
}

/// Decodes what is not a complete message.
#[inline(never)]
fn other<'a>(kind: u8, head: &[u8; HEADER], rest: &'a [u8]) -> Result<Body<'a>, Fault> {
    let msg = u64_at(head, MSG_AT);
    Ok(match kind {
        SEGMENT => segment(head, rest, msg)?,
        REQUEST => {
            let (message, places) = (message(head)?, Places::decode(rest)?);
            match places.total() {
                Some(total) if total >= message.size => Body::Request {
                    msg,
                    message,
                    places,
                },
                _ => return Err(Fault("a message that is longer than its places")),
            }
        }
        READ_DONE => Body::ReadDone { msg },
        ATOMIC => {
            op_version(head)?;
            let request = AtomicRequest::decode(head, rest)?;
            Body::Atomic { msg, request }
        }
        ATOMIC_RESPONSE => {
            op_version(head)?;
            let response = AtomicResponse::decode(head, rest)?;
            Body::AtomicResponse { msg, response }
        }
        CREDIT => match u64_at(head, CONTROL_DATA_AT) {
            count @ ..=MOST_CREDITS => Body::Credit { count },
            _ => return Err(Fault("more credits than a queue has receives")),
        },
        ADDRESSES => Body::Addresses {
            msg,
            places: Places::decode(rest)?,
        },
        WRITE_DONE => Body::WriteDone { msg },
        _ => return Err(Fault("a packet of an unknown kind")),
    })
}

#[inline]
fn op_version(head: &[u8; HEADER]) -> Result<(), Fault> {
    match head[OP_VERSION_AT] {
        OP_VERSION => Ok(()),
        _ => Err(Fault("an operation of another version")),
    }
}

#[inline]
fn message(head: &[u8; HEADER]) -> Result<Message, Fault> {
    op_version(head)?;
    let tagged = match head[OP_AT] {
        OP_MSG => false,
        OP_TAGGED => true,
        _ => return Err(Fault("a message that is none")),
    };
    let has_data = u32_at(head, FLAGS_AT) & REMOTE_CQ_DATA != 0;
    Ok(Message {
        tagged,
        size: u64_at(head, SIZE_AT),
        data: has_data.then(|| u64_at(head, DATA_AT)),
        tag: if tagged { u64_at(head, TAG_AT) } else { 0 },
        context: head[CONTEXT_AT],
    })
}

fn segment<'a>(head: &[u8; HEADER], rest: &'a [u8], msg: u64) -> Result<Body<'a>, Fault> {
    let message = message(head)?;
    let segment = Segment {
        msg,
        number: u32_at(head, SEGMENT_NUMBER_AT),
        len: u16_at(head, SEGMENT_SIZE_AT),
        part: match u64_at(head, CONTROL_DATA_AT) & 3 {
            1 => Part::First,
            2 => Part::Middle,
            3 => Part::Last,
            _ => return Err(Fault("a segment without a place")),
        },
    };
    let is_first = segment.part == Part::First;
    if usize::from(segment.len) != rest.len() || message.size < rest.len() as u64 {
        return Err(Fault("a segment of another length than it says"));
    }
    if is_first != (segment.number == 0) {
        return Err(Fault("a segment whose number is not that of its place"));
    }
    Ok(Body::Segment(segment, message, rest))
}
