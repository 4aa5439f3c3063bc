// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The first packet of an operation. An operation that fits into it is *inline*; otherwise the packet contains the
//! number of packets.

use super::{BASE, Decoded, Head, Malformed, Reader};
use abi::fi_rma_iov;
use base::iovec::IOV_LIMIT;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Message,
    Tagged,
    Read,
    Write,
    Atomic,
    Fetch,
    Compare,
}

/// A range of memory at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RmaIov {
    pub addr: u64,
    pub len: u64,
    pub key: u64,
}

const _: () = assert!(size_of::<RmaIov>() == size_of::<fi_rma_iov>());

/// A list of target ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Iovs {
    list: [RmaIov; MAX_IOVS],
    count: u8,
}

/// Sizes of an operation that is not inline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Bytes of the operation.
    pub total: u64,
    /// Number of packets. A read counts the packets of the answer; other operations count this packet and those after
    /// it.
    pub count: u64,
    /// The number by which the answer refers to the request.
    pub transaction: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    pub kind: Kind,
    /// Used if `kind` is `Tagged`.
    pub tag: u64,
    /// Remote completion data.
    pub data: Option<u64>,
    /// None if the operation is inline.
    pub segments: Option<Segments>,
    /// Target ranges; empty for messages.
    pub iovs: Iovs,
    /// Data type and operation of an atomic.
    pub atomic: [u32; 2],
}

impl Kind {
    const fn number(self) -> u8 {
        match self {
            Kind::Message => 0,
            Kind::Tagged => 1,
            Kind::Read => 2,
            Kind::Write => 4,
            Kind::Atomic => 6,
            Kind::Fetch => 7,
            Kind::Compare => 8,
        }
    }

    pub(super) const fn of(number: u8) -> Option<Kind> {
        Some(match number {
            0 => Kind::Message,
            1 => Kind::Tagged,
            2 => Kind::Read,
            4 => Kind::Write,
            6 => Kind::Atomic,
            7 => Kind::Fetch,
            8 => Kind::Compare,
            _ => return None,
        })
    }

    pub const fn is_message(self) -> bool {
        matches!(self, Kind::Message | Kind::Tagged)
    }

    pub const fn is_atomic(self) -> bool {
        matches!(self, Kind::Atomic | Kind::Fetch | Kind::Compare)
    }

    /// Whether the target sends an answer that refers to the request.
    pub const fn is_answered(self) -> bool {
        matches!(self, Kind::Read | Kind::Fetch | Kind::Compare)
    }
}

impl Iovs {
    /// Returns false if the list is full.
    pub fn push(&mut self, iov: RmaIov) -> bool {
        let place = self.list.get_mut(usize::from(self.count));
        place.map(|place| *place = iov).is_some_and(|()| {
            self.count += 1;
            true
        })
    }

    pub fn as_slice(&self) -> &[RmaIov] {
        &self.list[..usize::from(self.count)]
    }

    /// None if the sum overflows.
    pub fn total(&self) -> Option<u64> {
        let mut iovs = self.as_slice().iter();
        iovs.try_fold(0u64, |total, iov| total.checked_add(iov.len))
    }
}

impl Op {
    /// Encodes everything but the payload.
    pub fn encode(&self, head: Head, out: &mut [u8]) -> usize {
        let is_tagged = self.kind == Kind::Tagged;
        let mut flags = 0;
        for (is_set, flag) in [
            (self.data.is_some(), HAS_DATA),
            (is_tagged, HAS_TAG),
            (self.segments.is_none(), INLINE),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        let mut out = head.encode(self.kind.number(), flags, out);
        if is_tagged {
            out.u64(self.tag);
        }
        if let Some(data) = self.data {
            out.u64(data);
        }
        if let Some(segments) = &self.segments {
            out.u64(segments.total);
            out.u64(segments.count);
            out.u32(segments.transaction);
            out.bytes(&[self.iovs.count, 0, 0, 0]);
        }
        for iov in self.iovs.as_slice() {
            out.u64(iov.addr);
            out.u64(iov.len);
            out.u64(iov.key);
        }
        if self.kind.is_atomic() {
            out.u32(self.atomic[0]);
            out.u32(self.atomic[1]);
        }
        out.len()
    }

    /// Bytes of everything but the payload.
    pub fn len(&self) -> usize {
        let part = |is_there: bool, len: usize| if is_there { len } else { 0 };
        BASE + part(self.kind == Kind::Tagged, 8)
            + part(self.data.is_some(), 8)
            + part(self.segments.is_some(), 24)
            + part(self.kind.is_atomic(), 8)
            + usize::from(self.iovs.count) * size_of::<RmaIov>()
    }

    pub(super) fn decode<'a>(
        kind: Kind,
        flags: u16,
        mut bytes: Reader<'a>,
    ) -> Decoded<(Op, &'a [u8])> {
        let has = |flag: u16| flags & flag != 0;
        if has(HAS_TAG) != (kind == Kind::Tagged) {
            return Err(Malformed(
                "a tag where there is none, or none where there is one",
            ));
        }
        let mut op = Op {
            kind,
            tag: if has(HAS_TAG) { bytes.u64()? } else { 0 },
            data: if has(HAS_DATA) {
                Some(bytes.u64()?)
            } else {
                None
            },
            segments: None,
            iovs: Iovs::default(),
            atomic: [0; 2],
        };
        let mut count = u8::from(!kind.is_message());
        if has(INLINE) {
            if kind.is_answered() {
                return Err(Malformed("a request that its answer could not name"));
            }
        } else {
            op.segments = Some(Segments {
                total: bytes.u64()?,
                count: bytes.u64()?,
                transaction: bytes.u32()?,
            });
            let named = bytes.u32()?.to_ne_bytes()[0];
            match kind.is_message() {
                // The field is unused in messages.
                true => {}
                false => count = named,
            }
        }
        if count > MAX_IOVS as u8 || (count == 0 && !kind.is_message()) {
            return Err(Malformed("too many pieces at the target, or none"));
        }
        for _ in 0..count {
            op.iovs.push(RmaIov {
                addr: bytes.u64()?,
                len: bytes.u64()?,
                key: bytes.u64()?,
            });
        }
        if kind.is_atomic() {
            op.atomic = [bytes.u32()?, bytes.u32()?];
        }
        let payload = bytes.rest();
        op.check(payload.len() as u64)?;
        Ok((op, payload))
    }

    fn check(&self, payload: u64) -> Decoded<()> {
        let total = self.segments.map_or(payload, |segments| segments.total);
        if self.kind == Kind::Read && payload > 0 {
            return Err(Malformed("a read that brings bytes"));
        }
        if matches!(self.kind, Kind::Read | Kind::Write) && self.iovs.total() != Some(total) {
            return Err(Malformed("pieces at the target of another length"));
        }
        let Some(Segments { count, .. }) = self.segments.filter(|_| !self.kind.is_answered())
        else {
            return Ok(());
        };
        if self.kind.is_atomic() {
            return Ok(());
        }
        // Each packet after this one carries at least one byte.
        let left = total.checked_sub(payload);
        let fits = left.is_some_and(|left| match left {
            0 => count == 1,
            left => count >= 2 && count - 1 <= left,
        });
        match fits {
            true => Ok(()),
            false => Err(Malformed("more or fewer packets than its bytes need")),
        }
    }
}

/// Most target ranges of one operation.
pub const MAX_IOVS: usize = IOV_LIMIT;
/// Bytes of the longest first packet without its payload.
pub const MAX_OP_HEADER: usize = BASE + 8 + 8 + 24 + MAX_IOVS * size_of::<RmaIov>() + 8;

const HAS_DATA: u16 = 0x01;
const HAS_TAG: u16 = 0x10;
const INLINE: u16 = 0x20;
