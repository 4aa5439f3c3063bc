// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Requests that the peer answers with bytes: reads, and atomic operations with a result.

use std::collections::VecDeque;

use crate::session::outbox::{ANSWERS, OutFrame};
use base::IoVec;
use engine::domain_state::TxOp;
use object::ops::transfer::What;

/// Maximum of memory that outstanding requests cost the peer. Together with staged operations of the peer
/// (`STAGE_HIGH_WATER`) and small answers this is less than `ANSWERS`, so two peers that read from each other at full
/// rate do not block each other.
const ASKED: usize = ANSWERS / 4;

pub struct ReadOp {
    pub op: TxOp,
    pub iov: IoVec,
}

impl ReadOp {
    /// Returns the memory that the answer costs the peer until it has sent it.
    #[inline]
    fn cost(&self) -> usize {
        match self.op.what {
            What::Read => READ_COST,
            _ => READ_COST + self.op.len,
        }
    }
}

/// Memory that the answer to a read costs the peer. That of another request has its bytes in addition.
pub const READ_COST: usize = size_of::<OutFrame>();

/// Requests whose answer has not arrived.
#[derive(Default)]
pub struct Reads {
    /// In wire order.
    waiting: VecDeque<ReadOp>,
    /// Memory that their answers may cost the peer, in bytes.
    cost: u32,
    /// Whether the bytes of the answer before those are arriving.
    arrives: bool,
}

impl Reads {
    /// Records a request to the peer.
    #[inline]
    pub fn ask(&mut self, read: ReadOp) {
        self.cost += read.cost() as u32;
        self.waiting.push_back(read);
    }

    /// Removes the oldest request.
    #[inline]
    pub fn take(&mut self) -> Option<ReadOp> {
        let read = self.waiting.pop_front()?;
        self.cost -= read.cost() as u32;
        Some(read)
    }

    /// Removes the oldest request, because its bytes arrive from now on.
    pub fn begin(&mut self) -> Option<ReadOp> {
        let read = self.take();
        self.arrives = read.is_some();
        read
    }

    /// Records that the bytes of an answer have arrived, or have lost their place.
    #[inline]
    pub fn end(&mut self) {
        self.arrives = false;
    }

    /// Returns the oldest request.
    #[inline]
    pub fn first(&self) -> Option<&ReadOp> {
        self.waiting.front()
    }

    /// Whether a request has not completed.
    #[inline(always)]
    pub fn is_reading(&self) -> bool {
        self.arrives || !self.waiting.is_empty()
    }

    /// Whether the peer has to answer before it gets another request.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.cost as usize > ASKED
    }

    /// Returns how many further requests of this cost are accepted.
    pub fn room(&self, cost: usize) -> usize {
        match ASKED.checked_sub(self.cost as usize) {
            None => 0,
            Some(left) => 1 + left / cost,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &ReadOp> {
        self.waiting.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut ReadOp> {
        self.waiting.iter_mut()
    }

    /// Removes all requests, because the peer sends no further answer.
    pub fn empty(&mut self) -> impl Iterator<Item = TxOp> {
        self.cost = 0;
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().map(|read| read.op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::OpFlags;

    fn read(what: What, len: usize) -> ReadOp {
        ReadOp {
            op: TxOp {
                since: 0,
                what,
                ep: 0,
                flags: OpFlags::empty(),
                context: 0,
                len,
            },
            iov: IoVec::empty(),
        }
    }

    #[test]
    fn a_request_is_read_until_its_bytes_have_arrived() {
        let mut reads = Reads::default();
        assert!(!reads.is_reading() && reads.begin().is_none() && !reads.is_reading());
        reads.ask(read(What::Read, 10));
        assert!(reads.is_reading());
        assert_eq!(reads.begin().map(|read| read.op.len), Some(10));
        assert!(reads.is_reading());
        reads.end();
        assert!(!reads.is_reading());
    }

    #[test]
    fn room_is_what_the_requests_leave() {
        let mut reads = Reads::default();
        let most = reads.room(READ_COST);
        for left in (0..most).rev() {
            assert!(!reads.is_full());
            reads.ask(read(What::Read, 1 << 30));
            assert_eq!(reads.room(READ_COST), left);
        }
        assert!(reads.is_full());
        assert!(reads.take().is_some() && !reads.is_full());
        reads.ask(read(What::AtomicFetch, ASKED));
        assert!(reads.is_full());
        assert_eq!(reads.empty().count(), most);
        assert_eq!(reads.room(READ_COST), most);
    }
}
