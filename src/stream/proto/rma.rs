// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Frames of remote memory access.

use super::frame::{Frame, code};
use super::head::{
    BASE_HEADER, FIELD, FLAG_ACK, FLAG_COMMIT, FLAG_DATA, Fields, Head, SEG, SegCount, Shape,
    WireError, Writer, answer_fits, split, starts_with, total,
};
use super::segments::{RmaSeg, Segs};

/// Requests bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    pub segs: Segs,
}

impl ReadRequest {
    pub(super) const SHAPE: Shape = Shape {
        segs: SegCount::Count,
        ..Shape::bare(|fields| {
            let segs = fields.segs(SegCount::Count, 1)?;
            Ok(Frame::ReadRequest(ReadRequest { segs }))
        })
    };

    pub(super) fn encode<const LEN: usize>(
        &self,
        counter: u8,
        swap: bool,
        out: &mut [u8; LEN],
    ) -> usize {
        let mut writer = Writer::new(out, swap);
        for &seg in self.segs.iter() {
            writer.put_seg(seg);
        }
        let head = Head {
            count: self.segs.len() as u8,
            ..Head::new(code::READ_REQUEST)
        };
        writer.finish(head, counter, 0)
    }
}

impl ReadRequest {
    /// Returns the request for one segment that starts here, and its length; the byte order is that of this host.
    /// Returns `None` for everything else, also malformed input; use `decode` then.
    #[inline(always)]
    pub fn whole(bytes: &[u8]) -> Option<(RmaSeg, usize)> {
        let its = |head: &Head| {
            let one = head.code == code::READ_REQUEST && head.count == 1;
            one.then_some(&ReadRequest::SHAPE)
        };
        let (base, len, shape) = split(bytes, its).ok()??;
        let seg = Fields::of(bytes.get(..len)?, base, shape, false)
            .ok()?
            .seg();
        answer_fits(seg.len).ok()?;
        Some((seg, len))
    }
}

/// The answer to the oldest read, or atomic operation with a result, that waits for one. The bytes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadResponse {
    pub payload: u64,
}

impl ReadResponse {
    pub(super) const SHAPE: Shape = Shape {
        has_payload: true,
        ..Shape::bare(|fields| {
            let payload = fields.payload;
            Ok(Frame::ReadResponse(ReadResponse { payload }))
        })
    };

    /// Writes the header and returns its size.
    #[inline(always)]
    pub fn encode<const LEN: usize>(&self, counter: u8, swap: bool, out: &mut [u8; LEN]) -> usize {
        let head = Head::new(code::READ_RESPONSE);
        Writer::new(out, swap).finish(head, counter, self.payload)
    }

    /// Returns the payload of the response that starts here if it is complete, and the length of both; the byte order
    /// is that of this host, without flags. Returns `None` for everything else; use `decode` then.
    #[inline(always)]
    pub fn whole(bytes: &[u8]) -> Option<(&[u8], usize)> {
        const START: u64 = Head {
            len: BASE_HEADER as u8,
            ..Head::new(code::READ_RESPONSE)
        }
        .word();
        let base = bytes.first_chunk()?;
        if !starts_with(base, START) {
            return None;
        }
        let frame = usize::try_from(total(base, false)).ok()?;
        Some((bytes.get(BASE_HEADER..frame)?, frame))
    }
}

/// The longest header of a write to one segment.
pub const MAX_ONE_WRITE: usize = BASE_HEADER + SEG + FIELD;

/// Writes to remote memory. The bytes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<S = Segs> {
    pub segs: S,
    /// Remote CQ data.
    pub data: Option<u64>,
    /// The receiver acknowledges when it has the whole payload.
    pub ack: bool,
    /// The receiver makes the written bytes durable before it acknowledges.
    pub commit: bool,
    pub payload: u64,
}

impl Write {
    pub(super) const SHAPE: Shape = Shape {
        segs: SegCount::Count,
        has_data: true,
        has_payload: true,
        ..Shape::bare(|fields| Ok(Frame::Write(Write::read(fields)?)))
    };

    fn read(fields: &mut Fields<'_>) -> Result<Write, WireError> {
        Ok(Write {
            data: fields.data(),
            ack: fields.has(FLAG_ACK),
            commit: fields.has(FLAG_COMMIT),
            segs: fields.segs(SegCount::Count, 1)?,
            payload: fields.payload,
        })
    }

    pub(super) fn encode<const LEN: usize>(
        &self,
        counter: u8,
        swap: bool,
        out: &mut [u8; LEN],
    ) -> usize {
        self.over(self.segs.iter().copied())
            .encode_iter(counter, swap, out)
    }
}

impl Write<RmaSeg> {
    /// Returns the write to one segment that starts here with its whole payload, and the length of both; the byte order
    /// is that of this host, and nothing has to be made durable. Returns `None` for everything else, also malformed
    /// input; use `decode` then.
    #[inline(always)]
    pub fn whole(bytes: &[u8]) -> Option<(Self, &[u8], usize)> {
        let (write, len, frame) = Self::compact(bytes)?;
        Some((write, bytes.get(len..frame)?, frame))
    }

    /// Does the same as `whole`, but the payload may be elsewhere; returns the write and the length of header and of
    /// the whole.
    #[inline(always)]
    pub fn compact(bytes: &[u8]) -> Option<(Self, usize, usize)> {
        let its = |head: &Head| {
            let one = head.code == code::WRITE && head.count == 1;
            (one && head.flags & FLAG_COMMIT == 0).then_some(&Write::<Segs>::SHAPE)
        };
        let (base, len, shape) = split(bytes, its).ok()??;
        let mut fields = Fields::of(bytes.get(..len)?, base, shape, false).ok()?;
        let write = Write {
            data: fields.data(),
            ack: fields.has(FLAG_ACK),
            commit: false,
            segs: fields.seg(),
            payload: fields.payload,
        };
        let frame = usize::try_from(total(base, false)).ok()?;
        (write.segs.len == write.payload).then_some((write, len, frame))
    }
}

impl<S> Write<S> {
    /// Returns the same write for other segments.
    fn over<T>(&self, segs: T) -> Write<T> {
        Write {
            segs,
            data: self.data,
            ack: self.ack,
            commit: self.commit,
            payload: self.payload,
        }
    }
}

impl<S: ExactSizeIterator<Item = RmaSeg>> Write<S> {
    /// Writes the header of at most [`MAX_SEGS`](super::MAX_SEGS) segments, which need not be in a list. Returns its
    /// size.
    #[inline(always)]
    pub fn encode_iter<const LEN: usize>(
        self,
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
        let count = self.segs.len() as u8;
        for seg in self.segs {
            writer.put_seg(seg);
        }
        let head = Head {
            flags,
            count,
            ..Head::new(code::WRITE)
        };
        writer.finish(head, counter, self.payload)
    }
}
