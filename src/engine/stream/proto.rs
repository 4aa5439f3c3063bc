// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The bytes of the tcp wire format: data headers here, connection messages in `connect`.
//! Pure: no sockets, no state, no allocation beyond the caller's vector. docs/wire/tcp.md is the same in prose.
//!
//! Everything a peer can get wrong inside one header is refused here. What needs state (a key, an index in use, an
//! acknowledgement nobody waits for) is refused by the connection.
#![forbid(unsafe_code)]

mod auth;
mod compact;
mod connect;
mod same_host;

pub use auth::{AuthOp, MAX_AUTH, PROOF, decode_auth, encode_auth, is_keyed, mark_keyed};
pub use compact::{Compact, CompactAtomic, compact_frame};
pub use connect::{
    CM_HEADER, CmHeader, CmKind, EXTENSIONS, MAX_PRIVATE, RdmPrivate, decode_cm, encode_cm,
};
pub use same_host::{Directions, LISTENER_FRAME, SHARES, STAY_FRAME, SameHostFrame, TOKEN, Token};

/// Fixed part of a data header.
pub const BASE_HEADER: usize = 16;
/// Largest data header: an offer with CQ data and four segments.
pub const MAX_HEADER: usize = 128;
/// Most segments of remote memory in one operation.
pub const MAX_SEGS: usize = 4;
/// Most bytes of memory that one atomic operation names.
pub const MAX_ATOMIC: usize = 16 * 1024;

/// Of connection messages and of data headers.
const VERSION: u8 = 3;
const FIELD: usize = 8;
const SEG: usize = 3 * FIELD;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Msg,
    /// On the wire a message with op data 2.
    Ack,
    Tagged,
    ReadReq,
    ReadRsp,
    Write,
    /// Tagged ready-to-send.
    Rts,
    /// Clear-to-send.
    Cts,
    /// Rendezvous data.
    Data,
    /// Extension: data of a collective; the index says which kind it is.
    Coll,
    /// Extension: the sender has no more for a collective.
    CollEnd,
    /// Atomic operation without a result.
    Atomic,
    /// Atomic operation with a result, which comes in a read response.
    AtomicFetch,
    /// The same; values to compare follow the operands.
    AtomicCompare,
    /// Between processes that share memory: a message that the peer may fetch from where it is.
    Offer,
    /// The same, with a tag.
    OfferTagged,
    /// The message has been fetched.
    Taken,
    /// Where a message goes that is being fetched: its sender may copy parts of it.
    Share,
    /// The sender has done the last part of a message.
    Done,
}

/// Remote memory: address (or offset), length, key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RmaSeg {
    pub addr: u64,
    pub len: u64,
    pub key: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub op: Op,
    /// The receiver acknowledges when it has the whole payload.
    pub ack: bool,
    /// The receiver makes a write durable, then acknowledges.
    pub commit: bool,
    /// Remote CQ data. In rendezvous data only the flag goes over the wire, so it decodes as `None`.
    pub data: Option<u64>,
    /// Rendezvous index, 1 to 254; of a collective, its kind and 1; of an atomic operation what it does.
    pub index: u8,
    /// In atomic operations the number of the type, as in `enum fi_datatype`.
    pub datatype: u8,
    /// Of a collective: the group.
    pub tag: u64,
    /// Ready-to-send: length of the payload that will follow a clear-to-send. Collectives: number and round, or error.
    pub msg_size: u64,
    pub segs: [RmaSeg; MAX_SEGS],
    pub seg_count: u8,
    /// Which receive context of the peer's endpoint a message or a ready-to-send is for.
    pub context: u8,
    /// Bytes that follow this header.
    pub payload: u64,
}

/// Why a header ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// Fewer bytes than the header has.
    Short,
    Version(u8),
    Op(u8),
    /// The header size is impossible, or contradicts op, flags and segment count.
    HeaderSize(u8),
    SegCount(u8),
    /// The total size is below the header size, or the op carries no payload.
    TotalSize(u64),
    Index(u8),
    /// A receive context that no endpoint has.
    Context(u8),
    /// Segment or message lengths that overflow, or a write of more bytes than its segments hold.
    Length,
}

const FLAG_DATA: u16 = 0x0001;
const FLAG_ACK: u16 = 0x0004;
const FLAG_COMMIT: u16 = 0x0008;
/// Op data of an acknowledgement.
const OP_DATA_ACK: u8 = 2;
const MAX_INDEX: u8 = 254;
/// Atomic operations have the number of segments in the low bits of its field, and the type in the others.
const SEG_COUNT_BITS: u32 = 3;
/// Receive contexts of an endpoint at most; the first is the one of frames that name none.
pub const MAX_CONTEXTS: usize = 64;
/// Ops of frames that name a receive context.
const MSG_TO: u8 = 24;
const TAGGED_TO: u8 = 25;
const RTS_TO: u8 = 26;

impl Op {
    pub const fn code(self) -> u8 {
        match self {
            Op::Msg | Op::Ack => 0,
            Op::Tagged => 1,
            Op::ReadReq => 2,
            Op::ReadRsp => 3,
            Op::Write => 4,
            Op::Rts => 5,
            Op::Cts => 6,
            Op::Data => 7,
            Op::Coll => 20,
            Op::CollEnd => 21,
            Op::Atomic => 16,
            Op::AtomicFetch => 17,
            Op::AtomicCompare => 18,
            Op::Offer => 32,
            Op::OfferTagged => 33,
            Op::Taken => 34,
            Op::Share => 35,
            Op::Done => 36,
        }
    }

    const fn from_wire(code: u8, op_data: u8) -> Option<Op> {
        Some(match code {
            0 if op_data == OP_DATA_ACK => Op::Ack,
            0 => Op::Msg,
            1 => Op::Tagged,
            2 => Op::ReadReq,
            3 => Op::ReadRsp,
            4 => Op::Write,
            5 => Op::Rts,
            6 => Op::Cts,
            7 => Op::Data,
            20 => Op::Coll,
            21 => Op::CollEnd,
            16 => Op::Atomic,
            17 => Op::AtomicFetch,
            18 => Op::AtomicCompare,
            32 => Op::Offer,
            33 => Op::OfferTagged,
            34 => Op::Taken,
            35 => Op::Share,
            36 => Op::Done,
            MSG_TO => Op::Msg,
            TAGGED_TO => Op::Tagged,
            RTS_TO => Op::Rts,
            _ => return None,
        })
    }

    const fn carries_data(self) -> bool {
        matches!(
            self,
            Op::Msg | Op::Tagged | Op::Rts | Op::Write | Op::Atomic
        ) || self.is_offer()
    }

    const fn carries_segs(self) -> bool {
        matches!(self, Op::ReadReq | Op::Write | Op::Share) || self.is_atomic() || self.is_offer()
    }

    pub const fn is_offer(self) -> bool {
        matches!(self, Op::Offer | Op::OfferTagged)
    }

    const fn carries_tag(self) -> bool {
        matches!(self, Op::Tagged | Op::OfferTagged) || self.carries_size()
    }

    pub const fn is_atomic(self) -> bool {
        matches!(self, Op::Atomic | Op::AtomicFetch | Op::AtomicCompare)
    }

    const fn carries_index(self) -> bool {
        let plain = matches!(self, Op::Rts | Op::Cts | Op::Data | Op::Coll);
        plain || matches!(self, Op::Taken | Op::Share | Op::Done) || self.is_offer()
    }

    const fn may_ask_ack(self) -> bool {
        matches!(
            self,
            Op::Msg | Op::Tagged | Op::Rts | Op::Data | Op::Write | Op::Atomic
        )
    }

    const fn may_ask_commit(self) -> bool {
        matches!(self, Op::Write | Op::Atomic)
    }

    const fn carries_payload(self) -> bool {
        matches!(
            self,
            Op::Msg | Op::Tagged | Op::ReadRsp | Op::Write | Op::Data | Op::Coll
        ) || self.is_atomic()
    }

    /// Whether a size or a number stands behind the tag.
    const fn carries_size(self) -> bool {
        matches!(self, Op::Rts | Op::Coll | Op::CollEnd)
    }

    /// Header size without CQ data and segments.
    const fn plain_size(self) -> usize {
        match self {
            Op::Tagged | Op::OfferTagged => BASE_HEADER + FIELD,
            Op::Rts | Op::Coll | Op::CollEnd => BASE_HEADER + 2 * FIELD,
            _ => BASE_HEADER,
        }
    }
}

impl Header {
    /// Whether the frame is to be answered by more than an acknowledgement.
    #[inline]
    pub fn asks(&self) -> bool {
        matches!(self.op, Op::ReadReq | Op::AtomicFetch | Op::AtomicCompare)
    }

    /// Whether the frame is to be answered.
    #[inline]
    pub fn is_answered(&self) -> bool {
        self.ack || self.commit || self.asks()
    }

    /// A header of `op` with nothing optional in it.
    pub const fn new(op: Op, payload: u64) -> Header {
        Header {
            op,
            ack: false,
            commit: false,
            data: None,
            index: 0,
            datatype: 0,
            tag: 0,
            msg_size: 0,
            segs: [RmaSeg {
                addr: 0,
                len: 0,
                key: 0,
            }; MAX_SEGS],
            seg_count: 0,
            context: 0,
            payload,
        }
    }

    pub fn segs(&self) -> &[RmaSeg] {
        &self.segs[..usize::from(self.seg_count).min(MAX_SEGS)]
    }

    /// Sum of the segment lengths. Cannot overflow in a header that `decode` returned.
    pub fn segs_len(&self) -> u64 {
        self.segs().iter().map(|seg| seg.len).sum()
    }

    /// Writes the header and returns its size. `counter` numbers the headers of this direction of the connection;
    /// `swap` says that the peer's host has the other byte order.
    #[inline]
    pub fn encode(&self, counter: u8, swap: bool, out: &mut [u8; MAX_HEADER]) -> usize {
        let mut flags = 0;
        let mut at = BASE_HEADER;
        if let Some(data) = self.data {
            flags |= FLAG_DATA;
            if self.op.carries_data() {
                at = put(out, at, data, swap);
            }
        }
        if self.ack {
            flags |= FLAG_ACK;
        }
        if self.commit {
            flags |= FLAG_COMMIT;
        }
        if self.op.carries_tag() {
            at = put(out, at, self.tag, swap);
        }
        let mut seg_count = 0;
        if !matches!(self.op, Op::Msg | Op::Tagged) {
            (at, seg_count) = self.encode_rare(at, swap, out);
        }

        out[0] = VERSION;
        out[1] = self.code();
        out[2..4].copy_from_slice(&if swap {
            flags.to_be_bytes()
        } else {
            flags.to_ne_bytes()
        });
        out[4] = match self.op {
            Op::Msg | Op::Tagged => 0,
            Op::Ack => OP_DATA_ACK,
            _ => self.index,
        };
        out[5] = match seg_count {
            0 => self.context,
            count => count,
        };
        out[6] = at as u8;
        out[7] = counter;
        put(out, 8, at as u64 + self.payload, swap);
        at
    }

    fn code(&self) -> u8 {
        match (self.context, self.op) {
            (0, op) => op.code(),
            (_, Op::Msg) => MSG_TO,
            (_, Op::Tagged) => TAGGED_TO,
            (_, Op::Rts) => RTS_TO,
            (_, op) => op.code(),
        }
    }

    /// What neither a message nor a tagged message has.
    #[inline(never)]
    fn encode_rare(&self, mut at: usize, swap: bool, out: &mut [u8; MAX_HEADER]) -> (usize, u8) {
        if self.op.carries_size() {
            at = put(out, at, self.msg_size, swap);
        }
        if !self.op.carries_segs() {
            return (at, 0);
        }
        for seg in self.segs() {
            at = put(out, at, seg.addr, swap);
            at = put(out, at, seg.len, swap);
            at = put(out, at, seg.key, swap);
        }
        (
            at,
            self.segs().len() as u8 | self.datatype << SEG_COUNT_BITS,
        )
    }
}

/// A message, tagged or not, as it mostly is: between hosts of one byte order, and whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message<'a> {
    pub head: MessageHead,
    pub payload: &'a [u8],
}

/// The header of such a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageHead {
    pub tagged: bool,
    /// The receiver answers when it has the payload.
    pub ack: bool,
    pub data: Option<u64>,
    pub tag: u64,
    /// Bytes of the header, and of header and payload.
    pub len: usize,
    pub frame: usize,
}

/// The header of a message that is not tagged, or is, without or with CQ data.
pub const MAX_MESSAGE_HEADER: usize = BASE_HEADER + 2 * FIELD;

/// The message at the start of `bytes`, if there is a whole one; anything else, also a malformed one, is for `decode`.
#[inline]
pub fn whole_message(bytes: &[u8]) -> Option<Message<'_>> {
    let head = message_head(bytes).filter(|head| head.frame <= bytes.len())?;
    Some(Message {
        head,
        payload: &bytes[head.len..head.frame],
    })
}

impl MessageHead {
    /// Bytes of the payload.
    #[inline]
    pub fn payload(&self) -> usize {
        self.frame - self.len
    }
}

/// As `whole_message`, where the payload may be elsewhere: `bytes` has the header at least.
#[inline(always)]
pub fn message_head(bytes: &[u8]) -> Option<MessageHead> {
    let base = bytes.first_chunk::<BASE_HEADER>()?;
    // The two that are sent most: without flags.
    if bytes.len() >= MAX_MESSAGE_HEADER {
        let start = word(base, 0) & !COUNTER;
        let frame = word(base, 8) as usize;
        let head = |tagged, tag, len| MessageHead {
            tagged,
            ack: false,
            data: None,
            tag,
            len,
            frame,
        };
        if start == plain_start(true) && frame >= PLAIN_TAGGED {
            return Some(head(true, word(bytes, BASE_HEADER), PLAIN_TAGGED));
        }
        if start == plain_start(false) && frame >= BASE_HEADER {
            return Some(head(false, 0, BASE_HEADER));
        }
    }
    let (op, flags) = (base[1], u16::from_ne_bytes([base[2], base[3]]));
    let has_data = flags & FLAG_DATA != 0;
    let len = BASE_HEADER + FIELD * (usize::from(op) + usize::from(has_data));
    let usual = base[0] == VERSION && op <= Op::Tagged.code() && base[4] == 0;
    let frame = usize::try_from(field(base, 8, false)).ok()?;
    if !usual || usize::from(base[6]) != len || frame < len || bytes.len() < len {
        return None;
    }
    let tagged = op == Op::Tagged.code();
    Some(MessageHead {
        tagged,
        ack: flags & FLAG_ACK != 0,
        data: has_data.then(|| field(bytes, BASE_HEADER, false)),
        tag: if tagged {
            field(bytes, len - FIELD, false)
        } else {
            0
        },
        len,
        frame,
    })
}

/// The header of a tagged message without flags.
const PLAIN_TAGGED: usize = BASE_HEADER + FIELD;
/// Where the first 8 bytes have the counter.
const COUNTER: u64 = u64::from_ne_bytes([0, 0, 0, 0, 0, 0, 0, 0xff]);

/// The first 8 bytes of the header of a message without flags, but for the counter.
const fn plain_start(tagged: bool) -> u64 {
    let (op, len) = match tagged {
        true => (Op::Tagged.code(), PLAIN_TAGGED),
        false => (Op::Msg.code(), BASE_HEADER),
    };
    u64::from_ne_bytes([VERSION, op, 0, 0, 0, 0, len as u8, 0])
}

/// Eight bytes, in this host's order.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; FIELD];
    word.copy_from_slice(&bytes[at..][..FIELD]);
    u64::from_ne_bytes(word)
}

/// As `encode_message`, without flags: for most messages.
#[inline(always)]
pub fn encode_usual(
    tagged: bool,
    tag: u64,
    payload: usize,
    counter: u8,
    out: &mut [u8; MAX_MESSAGE_HEADER],
) -> usize {
    let len = if tagged { PLAIN_TAGGED } else { BASE_HEADER };
    let counter = u64::from_ne_bytes([0, 0, 0, 0, 0, 0, 0, counter]);
    out[..FIELD].copy_from_slice(&(plain_start(tagged) | counter).to_ne_bytes());
    out[8..16].copy_from_slice(&((len + payload) as u64).to_ne_bytes());
    out[BASE_HEADER..PLAIN_TAGGED].copy_from_slice(&tag.to_ne_bytes());
    len
}

/// Writes the header of a message of `payload` bytes and returns its size; as `Header::encode` for the same byte order.
#[inline]
pub fn encode_message(
    tagged: bool,
    ack: bool,
    data: Option<u64>,
    tag: u64,
    payload: usize,
    counter: u8,
    out: &mut [u8; MAX_MESSAGE_HEADER],
) -> usize {
    let mut at = BASE_HEADER;
    let mut flags = if ack { FLAG_ACK } else { 0 };
    if let Some(data) = data {
        flags |= FLAG_DATA;
        out[at..at + FIELD].copy_from_slice(&data.to_ne_bytes());
        at += FIELD;
    }
    if tagged {
        out[at..at + FIELD].copy_from_slice(&tag.to_ne_bytes());
        at += FIELD;
    }
    let [low, high] = flags.to_ne_bytes();
    out[..8].copy_from_slice(&[
        VERSION,
        u8::from(tagged),
        low,
        high,
        0,
        0,
        at as u8,
        counter,
    ]);
    out[8..16].copy_from_slice(&((at + payload) as u64).to_ne_bytes());
    at
}

/// Writes the header of a write of `payload` bytes that nobody acknowledges and returns its size; as `Header::encode` for
/// the same byte order. At most [`MAX_SEGS`] segments.
#[inline]
pub fn encode_write(
    data: Option<u64>,
    segs: impl ExactSizeIterator<Item = RmaSeg>,
    payload: usize,
    counter: u8,
    out: &mut [u8; MAX_HEADER],
) -> usize {
    let mut at = BASE_HEADER;
    let count = segs.len() as u8;
    let mut flags = 0;
    if let Some(data) = data {
        flags |= FLAG_DATA;
        at = put(out, at, data, false);
    }
    for seg in segs {
        at = put(out, at, seg.addr, false);
        at = put(out, at, seg.len, false);
        at = put(out, at, seg.key, false);
    }
    let [low, high] = flags.to_ne_bytes();
    let code = Op::Write.code();
    out[..8].copy_from_slice(&[VERSION, code, low, high, 0, count, at as u8, counter]);
    put(out, 8, (at + payload) as u64, false);
    at
}

/// Size of the whole header, from its first [`BASE_HEADER`] bytes. All that can be checked without the byte order is:
/// version, op, segment count, and that the size is one that this op can have.
#[inline]
pub fn header_len(base: &[u8]) -> Result<usize, WireError> {
    let Some(base) = base.first_chunk::<BASE_HEADER>() else {
        return Err(WireError::Short);
    };
    if base[0] != VERSION {
        return Err(WireError::Version(base[0]));
    }
    let op = Op::from_wire(base[1], base[4]).ok_or(WireError::Op(base[1]))?;
    let plain = op.plain_size() + SEG * usize::from(seg_count(op, base)?);
    let len = usize::from(base[6]);
    if len == plain || (len == plain + FIELD && op.carries_data()) {
        Ok(len)
    } else {
        Err(WireError::HeaderSize(base[6]))
    }
}

/// Reads a whole header; bytes behind it are not looked at.
pub fn decode(bytes: &[u8], swap: bool) -> Result<Header, WireError> {
    let len = header_len(bytes)?;
    let bytes = bytes.get(..len).ok_or(WireError::Short)?;
    let op = Op::from_wire(bytes[1], bytes[4]).ok_or(WireError::Op(bytes[1]))?;
    let flags = [bytes[2], bytes[3]];
    let flags = if swap {
        u16::from_be_bytes(flags)
    } else {
        u16::from_ne_bytes(flags)
    };
    let total = field(bytes, 8, swap);
    let payload = total
        .checked_sub(len as u64)
        .ok_or(WireError::TotalSize(total))?;
    if payload > 0 && !op.carries_payload() {
        return Err(WireError::TotalSize(total));
    }

    let mut header = Header::new(op, payload);
    header.ack = flags & FLAG_ACK != 0 && op.may_ask_ack();
    header.commit = flags & FLAG_COMMIT != 0 && op.may_ask_commit();
    if (MSG_TO..=RTS_TO).contains(&bytes[1]) {
        header.context = context(bytes[5])?;
    }
    let mut at = BASE_HEADER;
    let has_data = flags & FLAG_DATA != 0 && op.carries_data();
    let size = op.plain_size()
        + SEG * usize::from(seg_count(op, bytes)?)
        + if has_data { FIELD } else { 0 };
    if size != len {
        return Err(WireError::HeaderSize(bytes[6]));
    }
    if has_data {
        header.data = Some(field(bytes, at, swap));
        at += FIELD;
    }
    if op.carries_tag() {
        header.tag = field(bytes, at, swap);
        at += FIELD;
    }
    if !matches!(op, Op::Msg | Op::Tagged) {
        decode_rare(&mut header, bytes, at, swap)?;
    }
    Ok(header)
}

/// What neither a message nor a tagged message has.
#[inline(never)]
fn decode_rare(
    header: &mut Header,
    bytes: &[u8],
    mut at: usize,
    swap: bool,
) -> Result<(), WireError> {
    let op = header.op;
    if op.carries_index() {
        header.index = bytes[4];
        if header.index == 0 || header.index > MAX_INDEX {
            return Err(WireError::Index(header.index));
        }
    }
    if op.carries_size() {
        header.msg_size = field(bytes, at, swap);
    }
    if op == Op::Rts {
        answer_fits(header.msg_size)?;
    }
    if op.carries_segs() {
        header.seg_count = seg_count(op, bytes)?;
        let mut sum = 0u64;
        for seg in &mut header.segs[..usize::from(header.seg_count)] {
            seg.addr = field(bytes, at, swap);
            seg.len = field(bytes, at + FIELD, swap);
            seg.key = field(bytes, at + 2 * FIELD, swap);
            at += SEG;
            sum = sum.checked_add(seg.len).ok_or(WireError::Length)?;
        }
        answer_fits(sum)?;
        if op.is_atomic() {
            header.index = bytes[4];
            header.datatype = bytes[5] >> SEG_COUNT_BITS;
        }
        let most = match op {
            Op::AtomicCompare => sum.saturating_mul(2),
            _ => sum,
        };
        if header.payload > most || op.is_atomic() && sum > MAX_ATOMIC as u64 {
            return Err(WireError::Length);
        }
    }
    Ok(())
}

/// Frames for the first receive context are ordinary ones.
#[cold]
fn context(index: u8) -> Result<u8, WireError> {
    match usize::from(index) {
        1..MAX_CONTEXTS => Ok(index),
        _ => Err(WireError::Context(index)),
    }
}

/// The length announced here comes back in a frame with its own header: the total must still fit its field.
fn answer_fits(len: u64) -> Result<(), WireError> {
    match len.checked_add(BASE_HEADER as u64) {
        Some(_) => Ok(()),
        None => Err(WireError::Length),
    }
}

/// Number of segments; other ops carry stale bytes in its place.
#[inline]
fn seg_count(op: Op, base: &[u8]) -> Result<u8, WireError> {
    let low = match op.is_atomic() {
        true => base[5] & ((1 << SEG_COUNT_BITS) - 1),
        false => base[5],
    };
    match low {
        _ if !op.carries_segs() => Ok(0),
        count if (1..=MAX_SEGS as u8).contains(&count) => Ok(count),
        count => Err(WireError::SegCount(count)),
    }
}

/// A frame of an op without flags, before the connection is up; `parts` are its payload.
fn encode_plain(code: u8, parts: &[&[u8]], counter: u8, swap: bool) -> Vec<u8> {
    let mut bytes = vec![0; BASE_HEADER];
    bytes[0] = VERSION;
    bytes[1] = code;
    bytes[6] = BASE_HEADER as u8;
    bytes[7] = counter;
    let payload: usize = parts.iter().map(|part| part.len()).sum();
    let total = (BASE_HEADER + payload) as u64;
    bytes[8..].copy_from_slice(&match swap {
        true => total.to_be_bytes(),
        false => total.to_ne_bytes(),
    });
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// Whether this is the header of such a frame, of `total` bytes.
fn is_plain(header: &[u8; BASE_HEADER], total: u64, swap: bool) -> bool {
    header[0] == VERSION
        && header[2..6] == [0; 4]
        && usize::from(header[6]) == BASE_HEADER
        && field(header, 8, swap) == total
}

/// Writes an eight-byte field and returns the offset behind it.
#[inline]
fn put(out: &mut [u8; MAX_HEADER], at: usize, value: u64, swap: bool) -> usize {
    let bytes = if swap {
        value.to_be_bytes()
    } else {
        value.to_ne_bytes()
    };
    out[at..at + FIELD].copy_from_slice(&bytes);
    at + FIELD
}

/// Reads an eight-byte field of a header whose size was checked.
#[inline]
fn field(bytes: &[u8], at: usize, swap: bool) -> u64 {
    let mut raw = [0; FIELD];
    raw.copy_from_slice(&bytes[at..at + FIELD]);
    if swap {
        u64::from_be_bytes(raw)
    } else {
        u64::from_ne_bytes(raw)
    }
}

#[cfg(all(test, target_endian = "little"))]
mod tests;
