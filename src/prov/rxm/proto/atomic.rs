// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic operations and their answers.

use super::fault::Fault;
use super::header::{self, HEADER, OP_AT, SIZE_AT, TAG_AT};
use super::rendezvous::Places;
use super::{MAX_PLACES, take, u64_at};
use abi::{FI_ATOMIC_READ, fi_datatype, fi_op};
use engine::atomic::element_size;
use object::ops::atomic::Family;
use object::ops::transfer::RemoteSeg;

/// Bytes of the target list, before the operands.
pub const ATOMIC_HEADER: usize = MAX_PLACES * PLACE;
/// Bytes of an answer in front of the result.
const RESPONSE_HEADER: usize = 8;
const PLACE: usize = 24;

const BASE: u8 = 6;
const FETCH: u8 = 7;
const COMPARE: u8 = 8;

/// Operation and datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicHead {
    pub family: Family,
    pub datatype: fi_datatype,
    pub op: fi_op,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtomicRequest<'a> {
    pub head: AtomicHead,
    /// In bytes here; the packet counts elements.
    pub target: Places,
    /// Bytes of the target.
    pub len: usize,
    /// Operands, then values to compare.
    pub operands: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicResponse<'a> {
    /// Zero or a negative error number.
    pub status: i32,
    /// The previous values.
    pub result: &'a [u8],
}

impl AtomicHead {
    fn op(self) -> u8 {
        match self.family {
            Family::Base => BASE,
            Family::Fetch => FETCH,
            Family::Compare => COMPARE,
        }
    }

    /// Returns the bytes sent to the target for an operation on `len` of its bytes.
    pub fn payload(self, len: usize) -> usize {
        match self.family {
            _ if self.op == FI_ATOMIC_READ => 0,
            Family::Compare => 2 * len,
            _ => len,
        }
    }

    fn size(self) -> Option<usize> {
        element_size(self.family, self.datatype, self.op)
    }

    /// Returns header and target of a request; the operands follow. `None` if a packet cannot name the target.
    pub fn request(
        self,
        conn: u32,
        msg: u64,
        target: &[RemoteSeg],
    ) -> Option<[u8; HEADER + ATOMIC_HEADER]> {
        let size = self.size()?;
        let len: usize = target.iter().map(|place| place.len).sum();
        let what = [self.datatype.0 as u8, self.op.0 as u8, target.len() as u8];
        let total = (ATOMIC_HEADER + self.payload(len)) as u64;
        let head = header::atomic(header::ATOMIC, conn, msg, self.op(), what, total);
        let mut out = [0; HEADER + ATOMIC_HEADER];
        out[..HEADER].copy_from_slice(&head);
        let places = out[HEADER..].as_chunks_mut::<PLACE>().0;
        if target.is_empty() || target.len() > places.len() {
            return None;
        }
        for (place, out) in target.iter().zip(places) {
            out[..8].copy_from_slice(&place.addr.to_ne_bytes());
            out[8..16].copy_from_slice(&((place.len / size) as u64).to_ne_bytes());
            out[16..].copy_from_slice(&place.key.to_ne_bytes());
        }
        Some(out)
    }

    /// Returns an answer without its result, which follows.
    pub fn response(
        self,
        conn: u32,
        msg: u64,
        status: i32,
        result: usize,
    ) -> [u8; HEADER + RESPONSE_HEADER] {
        let what = [self.datatype.0 as u8, self.op.0 as u8, 0];
        let total = (RESPONSE_HEADER + result) as u64;
        let head = header::atomic(header::ATOMIC_RESPONSE, conn, msg, self.op(), what, total);
        let mut out = [0; HEADER + RESPONSE_HEADER];
        out[..HEADER].copy_from_slice(&head);
        out[HEADER..HEADER + 4].copy_from_slice(&status.to_be_bytes());
        out[HEADER + 4..].copy_from_slice(&(result as u32).to_be_bytes());
        out
    }
}

impl<'a> AtomicRequest<'a> {
    pub(super) fn decode(head: &[u8; HEADER], rest: &'a [u8]) -> Result<AtomicRequest<'a>, Fault> {
        let family = match head[OP_AT] {
            BASE => Family::Base,
            FETCH => Family::Fetch,
            COMPARE => Family::Compare,
            _ => return Err(Fault("an atomic operation that is none")),
        };
        let [datatype, op, count] = take(head, TAG_AT).map(u32::from);
        let head_of = AtomicHead {
            family,
            datatype: fi_datatype(datatype),
            op: fi_op(op),
        };
        let Some(size) = head_of.size() else {
            return Err(Fault("an atomic operation that there is not"));
        };
        let Some((places, operands)) = rest.split_at_checked(ATOMIC_HEADER) else {
            return Err(Fault("an atomic operation without its target"));
        };
        if u64_at(head, SIZE_AT) != rest.len() as u64 {
            return Err(Fault("an atomic operation of another length than it says"));
        }
        let count = count as usize;
        if !(1..=MAX_PLACES).contains(&count) {
            return Err(Fault(
                "an atomic operation on no memory, or on too many places",
            ));
        }
        let place = |at: usize| {
            let elements = usize::try_from(u64_at(places, at + 8)).ok()?;
            Some(RemoteSeg {
                addr: u64_at(places, at),
                len: elements.checked_mul(size)?,
                key: u64_at(places, at + 16),
            })
        };
        let list: Option<Vec<RemoteSeg>> = (0..count).map(|i| place(i * PLACE)).collect();
        let target = list.and_then(Places::of);
        let Some((target, total)) = target.and_then(|target| Some((target, target.total()?)))
        else {
            return Err(Fault("an atomic operation on more bytes than memory has"));
        };
        let len = usize::try_from(total).unwrap_or(usize::MAX);
        // FI_ATOMIC_READ has no operands, so the length of its target is limited here.
        if len == 0 || len > MAX_TARGET || operands.len() != head_of.payload(len) {
            return Err(Fault(
                "an atomic operation of another length than its target",
            ));
        }
        Ok(AtomicRequest {
            head: head_of,
            target,
            len,
            operands,
        })
    }
}

/// Limit on the target of an operation, larger than any that this library posts.
const MAX_TARGET: usize = 1 << 20;

impl<'a> AtomicResponse<'a> {
    pub(super) fn decode(head: &[u8; HEADER], rest: &'a [u8]) -> Result<AtomicResponse<'a>, Fault> {
        let Some((fixed, result)) = rest.split_first_chunk::<RESPONSE_HEADER>() else {
            return Err(Fault("an answer to an atomic operation that is cut"));
        };
        let len = u32::from_be_bytes(take(fixed, 4)) as usize;
        if len != result.len() || u64_at(head, SIZE_AT) != rest.len() as u64 {
            return Err(Fault(
                "an answer to an atomic operation of another length than it says",
            ));
        }
        Ok(AtomicResponse {
            status: i32::from_be_bytes(take(fixed, 0)),
            result,
        })
    }
}
