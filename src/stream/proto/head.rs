// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The fixed part of all data headers, and the encoding of the 8-byte fields that follow it. This is the only place
//! that depends on byte positions in a data header: frames are written with a `Writer` and read from `Fields`.

use core::fmt;

use super::frame::Frame;
use super::segments::{MAX_SEGS, RmaSeg, Segs};

/// Fixed part of a data header.
pub const BASE_HEADER: usize = 16;
/// Largest data header: an offer with CQ data and four segments.
pub const MAX_HEADER: usize = 128;
/// Maximum of receive contexts of an endpoint. Frames that name no context are for the first one.
pub const MAX_CONTEXTS: usize = 64;

/// Version in connection messages and in data headers.
pub(super) const VERSION: u8 = 3;
pub(super) const FIELD: usize = 8;

pub(super) const FLAG_DATA: u16 = 0x0001;
pub(super) const FLAG_ACK: u16 = 0x0004;
pub(super) const FLAG_COMMIT: u16 = 0x0008;

pub(super) const SEG: usize = 3 * FIELD;
const COUNTER_AT: usize = 7;
const TOTAL_AT: usize = 8;
const MAX_INDEX: u8 = 254;
/// Atomic operations store the number of segments in the low bits of the count field, and the data type in the others.
pub(super) const SEG_COUNT_BITS: u32 = 3;

/// Why a header ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
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
    /// A kind of memory that no device has.
    Memory(u8),
    /// Segment or message lengths that overflow, or a write of more bytes than its segments hold.
    Length,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Version(version) => write!(f, "unknown version {version}"),
            WireError::Op(op) => write!(f, "unknown operation {op}"),
            WireError::HeaderSize(size) => write!(f, "impossible header size {size}"),
            WireError::SegCount(count) => write!(f, "impossible number of segments: {count}"),
            WireError::TotalSize(size) => write!(f, "impossible total size {size}"),
            WireError::Index(index) => write!(f, "unknown message index {index}"),
            WireError::Context(context) => write!(f, "no endpoint has a receive context {context}"),
            WireError::Memory(kind) => write!(f, "no device has memory of kind {kind}"),
            WireError::Length => f.write_str("segments and message differ in length"),
        }
    }
}

/// The fixed part without the total size.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub code: u8,
    pub flags: u16,
    /// Op data (byte 4): marks an acknowledgement, or is a message index or the number of an atomic operation.
    pub number: u8,
    /// Number of segments, or a receive context. Frames that have neither carry stale bytes here.
    pub count: u8,
    /// Bytes of the header.
    pub len: u8,
    /// Sequence number of headers in one direction of a connection; no receiver checks it.
    pub counter: u8,
}

impl Head {
    /// Returns a head of `code`; the `Writer` fills in the rest.
    pub const fn new(code: u8) -> Head {
        Head {
            code,
            flags: 0,
            number: 0,
            count: 0,
            len: 0,
            counter: 0,
        }
    }

    #[inline(always)]
    const fn to_bytes(self, swap: bool) -> [u8; FIELD] {
        let [first, second] = match swap {
            true => self.flags.to_be_bytes(),
            false => self.flags.to_ne_bytes(),
        };
        let Head { code, number, .. } = self;
        [
            VERSION,
            code,
            first,
            second,
            number,
            self.count,
            self.len,
            self.counter,
        ]
    }

    #[inline(always)]
    const fn from_bytes(bytes: &[u8; BASE_HEADER], swap: bool) -> Head {
        let flags = [bytes[2], bytes[3]];
        Head {
            code: bytes[1],
            flags: match swap {
                true => u16::from_be_bytes(flags),
                false => u16::from_ne_bytes(flags),
            },
            number: bytes[4],
            count: bytes[5],
            len: bytes[6],
            counter: bytes[7],
        }
    }

    /// Reads the head of a header in this host's byte order.
    pub fn at(header: &[u8; MAX_HEADER]) -> Head {
        header
            .first_chunk()
            .map_or(Head::new(0), |base| Head::from_bytes(base, false))
    }

    /// The first eight bytes of a header in this host's byte order as one number, for comparisons; see `starts_with`.
    pub const fn word(self) -> u64 {
        u64::from_ne_bytes(self.to_bytes(false))
    }
}

/// Mask with the bits of the counter.
const COUNTER: u64 = Head {
    counter: 0xff,
    ..Head::new(0)
}
.word()
    ^ Head::new(0).word();

/// Whether a header in this host's byte order starts with this word, apart from its counter.
#[inline(always)]
pub(super) fn starts_with(base: &[u8; BASE_HEADER], start: u64) -> bool {
    field(base, 0, false) & !COUNTER == start
}

/// Returns the total of header and payload bytes.
#[inline(always)]
pub(super) fn total(base: &[u8; BASE_HEADER], swap: bool) -> u64 {
    field(base, TOTAL_AT, swap)
}

#[inline(always)]
fn field(bytes: &[u8], at: usize, swap: bool) -> u64 {
    let mut raw = [0; FIELD];
    raw.copy_from_slice(&bytes[at..][..FIELD]);
    match swap {
        true => u64::from_be_bytes(raw),
        false => u64::from_ne_bytes(raw),
    }
}

/// Replaces the counter of an encoded header by that of the next frame.
#[inline(always)]
pub fn renumber<const LEN: usize>(header: &mut [u8; LEN], counter: u8) {
    const { assert!(LEN > COUNTER_AT) }
    header[COUNTER_AT] = counter;
}

/// Writes one header. If the compiler knows the fields of a frame, encoding costs no more than the stores.
pub(super) struct Writer<'a, const LEN: usize> {
    out: &'a mut [u8; LEN],
    at: usize,
    swap: bool,
}

impl<'a, const LEN: usize> Writer<'a, LEN> {
    /// `swap`: the peer's host has the other byte order.
    #[inline(always)]
    pub fn new(out: &'a mut [u8; LEN], swap: bool) -> Self {
        Writer {
            out,
            at: BASE_HEADER,
            swap,
        }
    }

    /// Appends a field.
    #[inline(always)]
    pub fn put(&mut self, value: u64) {
        self.set(self.at, value);
        self.at += FIELD;
    }

    /// Appends bytes that have no order.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.out[self.at..][..bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    #[inline(always)]
    pub fn put_seg(&mut self, seg: RmaSeg) {
        self.put(seg.addr);
        self.put(seg.len);
        self.put(seg.key);
    }

    /// Writes the fixed part and returns the size of the header. `payload` is the number of bytes that follow it in the
    /// frame.
    #[inline(always)]
    pub fn finish(self, head: Head, counter: u8, payload: u64) -> usize {
        let (at, swap) = (self.at, self.swap);
        let len = at as u8;
        let head = Head {
            len,
            counter,
            ..head
        };
        self.out[..FIELD].copy_from_slice(&head.to_bytes(swap));
        let total = at as u64 + payload;
        let total = match swap {
            true => total.to_be_bytes(),
            false => total.to_ne_bytes(),
        };
        self.out[TOTAL_AT..BASE_HEADER].copy_from_slice(&total);
        at
    }

    #[inline(always)]
    fn set(&mut self, at: usize, value: u64) {
        self.out[at..at + FIELD].copy_from_slice(&match self.swap {
            true => value.to_be_bytes(),
            false => value.to_ne_bytes(),
        });
    }
}

/// Format of the headers of one op, and the function that decodes them.
pub(super) struct Shape {
    /// Number of fields that are always present, not counting segments.
    pub fields: usize,
    pub segs: SegCount,
    /// Whether CQ data may precede the other fields.
    pub has_data: bool,
    pub has_payload: bool,
    /// Whether the count is a receive context other than the first.
    pub names_context: bool,
    pub read: fn(&mut Fields<'_>) -> Result<Frame, WireError>,
}

/// Where a header has its number of segments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SegCount {
    None,
    /// In the count.
    Count,
    /// In the low bits of the count.
    LowBits,
}

impl Shape {
    /// A header that consists of the fixed part.
    pub const fn bare(read: fn(&mut Fields<'_>) -> Result<Frame, WireError>) -> Shape {
        Shape {
            fields: 0,
            segs: SegCount::None,
            has_data: false,
            has_payload: false,
            names_context: false,
            read,
        }
    }

    /// Size of the header without CQ data.
    #[inline(always)]
    fn plain_len(&self, head: &Head) -> Result<usize, WireError> {
        let segs = match self.segs {
            SegCount::None => 0,
            how => usize::from(seg_count(head.count, how)?),
        };
        Ok(BASE_HEADER + FIELD * self.fields + SEG * segs)
    }

    /// Size of the whole header. Checks what does not depend on the byte order: the segment count, and whether this op
    /// can have a header of this size.
    #[inline(always)]
    pub fn len(&self, head: &Head) -> Result<usize, WireError> {
        let (plain, len) = (self.plain_len(head)?, usize::from(head.len));
        match len == plain || len == plain + FIELD && self.has_data {
            true => Ok(len),
            false => Err(WireError::HeaderSize(head.len)),
        }
    }
}

fn seg_count(count: u8, how: SegCount) -> Result<u8, WireError> {
    let count = match how {
        SegCount::LowBits => count & ((1 << SEG_COUNT_BITS) - 1),
        _ => count,
    };
    match usize::from(count) {
        1..=MAX_SEGS => Ok(count),
        _ => Err(WireError::SegCount(count)),
    }
}

/// A complete header that is being decoded.
pub(super) struct Fields<'a> {
    pub head: Head,
    /// Bytes that follow the header.
    pub payload: u64,
    bytes: &'a [u8],
    at: usize,
    swap: bool,
}

impl<'a> Fields<'a> {
    /// `bytes` is exactly the header, with the length that `Shape::len` returned.
    #[inline(always)]
    pub fn of(
        bytes: &'a [u8],
        base: &[u8; BASE_HEADER],
        shape: &Shape,
        swap: bool,
    ) -> Result<Self, WireError> {
        let head = Head::from_bytes(base, swap);
        let total = total(base, swap);
        let payload = total
            .checked_sub(bytes.len() as u64)
            .filter(|&payload| payload == 0 || shape.has_payload)
            .ok_or(WireError::TotalSize(total))?;
        if shape.names_context && !(1..MAX_CONTEXTS).contains(&usize::from(head.count)) {
            return Err(WireError::Context(head.count));
        }
        let fields = Fields {
            head,
            payload,
            bytes,
            at: BASE_HEADER,
            swap,
        };
        let data = match shape.has_data && fields.has(FLAG_DATA) {
            true => FIELD,
            false => 0,
        };
        match shape.plain_len(&head)? + data == bytes.len() {
            true => Ok(fields),
            false => Err(WireError::HeaderSize(head.len)),
        }
    }

    /// Reads the first field of a header in this host's byte order.
    #[inline(always)]
    pub fn first<const LEN: usize>(bytes: &[u8; LEN]) -> u64 {
        field(bytes, BASE_HEADER, false)
    }

    #[inline(always)]
    pub fn has(&self, flag: u16) -> bool {
        self.head.flags & flag != 0
    }

    /// Reads the next field.
    #[inline(always)]
    pub fn next(&mut self) -> u64 {
        let value = field(self.bytes, self.at, self.swap);
        self.at += FIELD;
        value
    }

    /// Reads bytes that have no order.
    pub fn bytes(&mut self, to: &mut [u8]) {
        to.copy_from_slice(&self.bytes[self.at..][..to.len()]);
        self.at += to.len();
    }

    /// Reads the CQ data if the frame has some.
    #[inline(always)]
    pub fn data(&mut self) -> Option<u64> {
        self.has(FLAG_DATA).then(|| self.next())
    }

    /// The number of an announced message or of one part of it.
    pub fn index(&self) -> Result<u8, WireError> {
        match self.head.number {
            index @ 1..=MAX_INDEX => Ok(index),
            other => Err(WireError::Index(other)),
        }
    }

    #[inline(always)]
    pub fn seg(&mut self) -> RmaSeg {
        RmaSeg {
            addr: self.next(),
            len: self.next(),
            key: self.next(),
        }
    }

    /// Reads the segments. Checks that their lengths do not overflow and that `times` times their sum is enough for the
    /// payload.
    pub fn segs(&mut self, how: SegCount, times: u64) -> Result<Segs, WireError> {
        let count = seg_count(self.head.count, how)?;
        let mut segs = Segs::default();
        let mut sum = 0u64;
        for _ in 0..count {
            let seg = self.seg();
            sum = sum.checked_add(seg.len).ok_or(WireError::Length)?;
            segs.push(seg);
        }
        answer_fits(sum)?;
        match self.payload > sum.saturating_mul(times) {
            true => Err(WireError::Length),
            false => Ok(segs),
        }
    }
}

/// Checks that a length announced here still fits the total field of the answer, which has a header of its own.
pub(super) fn answer_fits(len: u64) -> Result<(), WireError> {
    match len.checked_add(BASE_HEADER as u64) {
        Some(_) => Ok(()),
        None => Err(WireError::Length),
    }
}

/// The fixed part of a header, the length of the whole header, and the format of its op.
pub(super) type Start<'a> = (&'a [u8; BASE_HEADER], usize, &'static Shape);

/// Splits off the start of `bytes`; `None` if it is incomplete.
#[inline(always)]
pub(super) fn split(
    bytes: &[u8],
    shape: impl FnOnce(&Head) -> Option<&'static Shape>,
) -> Result<Option<Start<'_>>, WireError> {
    let Some(base) = bytes.first_chunk::<BASE_HEADER>() else {
        return Ok(None);
    };
    if base[0] != VERSION {
        return Err(WireError::Version(base[0]));
    }
    // The following checks do not depend on the byte order.
    let head = Head::from_bytes(base, false);
    let shape = shape(&head).ok_or(WireError::Op(head.code))?;
    Ok(Some((base, shape.len(&head)?, shape)))
}

/// Encodes a frame of an op without flags, for use before the connection is up; `parts` are its payload.
pub(super) fn encode_plain(code: u8, parts: &[&[u8]], counter: u8, swap: bool) -> Vec<u8> {
    let mut base = [0; BASE_HEADER];
    let payload: usize = parts.iter().map(|part| part.len()).sum();
    Writer::new(&mut base, swap).finish(Head::new(code), counter, payload as u64);
    let mut bytes = base.to_vec();
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// Decodes the header of such a frame into its op and the length of its payload.
pub(super) fn decode_plain(base: &[u8; BASE_HEADER], swap: bool) -> Option<(u8, u64)> {
    let head = Head::from_bytes(base, swap);
    let plain = Head {
        len: BASE_HEADER as u8,
        ..Head::new(head.code)
    };
    let payload = total(base, swap).checked_sub(BASE_HEADER as u64)?;
    starts_with(base, plain.word()).then_some((head.code, payload))
}
