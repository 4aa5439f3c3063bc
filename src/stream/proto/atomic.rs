// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic operations: an extension, between hosts of the same byte order.

use super::frame::{Frame, code};
use super::head::{
    FLAG_ACK, FLAG_COMMIT, FLAG_DATA, Fields, Head, SEG_COUNT_BITS, SegCount, Shape, WireError,
    Writer, split, total,
};
use super::segments::{RmaSeg, Segs};
use object::ops::atomic::Family;

/// Maximum of bytes of memory that one atomic operation names.
pub const MAX_ATOMIC: usize = 16 * 1024;

/// An atomic operation. The operands follow, then the values to compare; a result comes in a read response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    pub what: AtomicOp,
    pub segs: Segs,
    /// Remote CQ data. Only operations without a result have this field and the next two.
    pub data: Option<u64>,
    /// The receiver sends an acknowledgement after it has carried out the operation.
    pub ack: bool,
    /// The receiver makes the result durable before it acknowledges.
    pub commit: bool,
    pub payload: u64,
}

/// Operation and operand type, with the numbers of fi_atomic(3) as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicOp {
    pub family: Family,
    /// A number of `enum fi_op`.
    pub op: u8,
    /// A number of `enum fi_datatype`, below 32.
    pub datatype: u8,
}

impl AtomicOp {
    /// Writes the header of an operation without flags on one segment, with `payload` bytes behind it; returns its
    /// size.
    #[inline(always)]
    pub fn encode_one<const LEN: usize>(
        self,
        seg: RmaSeg,
        payload: usize,
        counter: u8,
        out: &mut [u8; LEN],
    ) -> usize {
        let mut writer = Writer::new(out, false);
        writer.put_seg(seg);
        writer.finish(self.head(0, 1), counter, payload as u64)
    }

    /// Returns an operation on one segment, without flags, that starts here together with its whole payload, and the
    /// length of both; the byte order is that of this host. Returns `None` for everything else, also malformed input;
    /// use `decode` then. Only the lengths are left for the caller to check.
    #[inline(always)]
    pub fn whole(bytes: &[u8]) -> Option<(AtomicOp, RmaSeg, &[u8], usize)> {
        let shape = |head: &Head| match head.code {
            code::ATOMIC if head.flags == 0 => Some(&Atomic::BASE),
            code::ATOMIC_FETCH if head.flags == 0 => Some(&Atomic::FETCH),
            code::ATOMIC_COMPARE if head.flags == 0 => Some(&Atomic::COMPARE),
            _ => None,
        };
        let (base, len, shape) = split(bytes, shape).ok()??;
        let mut fields = Fields::of(bytes.get(..len)?, base, shape, false).ok()?;
        let family = match fields.head.code {
            code::ATOMIC => Family::Base,
            code::ATOMIC_FETCH => Family::Fetch,
            _ => Family::Compare,
        };
        let is_one = fields.head.count & ((1 << SEG_COUNT_BITS) - 1) == 1;
        let seg = fields.seg();
        let frame = usize::try_from(total(base, false)).ok()?;
        let payload = bytes.get(len..frame)?;
        is_one.then_some((AtomicOp::of(family, &fields), seg, payload, frame))
    }

    #[inline(always)]
    fn of(family: Family, fields: &Fields<'_>) -> AtomicOp {
        AtomicOp {
            family,
            op: fields.head.number,
            datatype: fields.head.count >> SEG_COUNT_BITS,
        }
    }

    #[inline(always)]
    fn head(self, flags: u16, segs: u8) -> Head {
        Head {
            flags,
            number: self.op,
            count: segs | self.datatype << SEG_COUNT_BITS,
            ..Head::new(match self.family {
                Family::Base => code::ATOMIC,
                Family::Fetch => code::ATOMIC_FETCH,
                Family::Compare => code::ATOMIC_COMPARE,
            })
        }
    }
}

impl Atomic {
    pub(super) const BASE: Shape = Shape {
        segs: SegCount::LowBits,
        has_data: true,
        has_payload: true,
        ..Shape::bare(|fields| {
            let (data, ack) = (fields.data(), fields.has(FLAG_ACK));
            let commit = fields.has(FLAG_COMMIT);
            Ok(Frame::Atomic(Atomic {
                data,
                ack,
                commit,
                ..Atomic::read(Family::Base, 1, fields)?
            }))
        })
    };
    pub(super) const FETCH: Shape = Shape {
        has_data: false,
        read: |fields| Ok(Frame::Atomic(Atomic::read(Family::Fetch, 1, fields)?)),
        ..Atomic::BASE
    };
    pub(super) const COMPARE: Shape = Shape {
        read: |fields| Ok(Frame::Atomic(Atomic::read(Family::Compare, 2, fields)?)),
        ..Atomic::FETCH
    };

    /// Reads the fields. The payload holds the bytes of the segments at most `times` times.
    fn read(family: Family, times: u64, fields: &mut Fields<'_>) -> Result<Atomic, WireError> {
        let segs = fields.segs(SegCount::LowBits, times)?;
        if segs.total() > MAX_ATOMIC as u64 {
            return Err(WireError::Length);
        }
        Ok(Atomic {
            what: AtomicOp::of(family, fields),
            segs,
            data: None,
            ack: false,
            commit: false,
            payload: fields.payload,
        })
    }

    /// Whether the receiver returns a result.
    pub fn asks(&self) -> bool {
        self.what.family != Family::Base
    }

    pub(super) fn encode<const LEN: usize>(
        &self,
        counter: u8,
        swap: bool,
        out: &mut [u8; LEN],
    ) -> usize {
        let mut writer = Writer::new(out, swap);
        let mut flags = 0;
        if let Some(data) = self.data {
            flags |= FLAG_DATA;
            writer.put(data);
        }
        if self.ack {
            flags |= FLAG_ACK;
        }
        if self.commit {
            flags |= FLAG_COMMIT;
        }
        self.segs.iter().for_each(|&seg| writer.put_seg(seg));
        let head = self.what.head(flags, self.segs.len() as u8);
        writer.finish(head, counter, self.payload)
    }
}
