// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What is on its way to a peer: operations, and answers to the peer's. Each is a row of packets with numbers, any of
//! which can be made again as long as it is not acknowledged; so its bytes stay where they are.
#![forbid(unsafe_code)]

use crate::base::IoVec;
use crate::engine::domain_state::TxOp;
use crate::engine::stream::session::receive_state::Regions;
use crate::prov::rxd::proto::{DATA_HEADER, Data, Head, Kind, Op, Segments, Void};

/// Where the bytes are.
pub enum Body {
    /// Of the application, until the operation completes.
    Memory(IoVec),
    Bytes(Box<[u8]>),
    /// Of regions that a peer reads.
    Region(IoVec, Box<Regions>),
}

pub enum Begin {
    Op(Op),
    /// The first packet is like the others. It names the request.
    Answer(u32),
}

/// What comes when all packets are acknowledged.
pub enum End {
    Complete(TxOp),
    /// Nothing: the answer completes it, or it is one.
    Nothing,
}

pub struct Out {
    /// The number of its first packet, and how many there are.
    pub first: u64,
    pub count: u64,
    pub begin: Begin,
    pub body: Body,
    /// Bytes in all, and in the first packet.
    pub total: usize,
    pub head: usize,
    pub end: End,
    /// The packets that take the place of its own because the operation is refused.
    pub void: Option<Void>,
    /// Bytes that an answer takes until it is acknowledged; 0 for operations.
    pub cost: usize,
}

/// Bytes that an answer takes besides a copy of what was asked for.
pub const ANSWER_COST: usize = size_of::<Out>() + size_of::<Regions>() + size_of::<IoVec>();

impl Body {
    /// Copies bytes from `at` on.
    fn copy(&self, at: usize, out: &mut [u8]) {
        match self {
            Body::Memory(iov) | Body::Region(iov, _) => {
                let mut cursor = iov.cursor();
                cursor.advance(at);
                cursor.truncate(out.len());
                cursor.copy_to(out);
            }
            Body::Bytes(bytes) => out.copy_from_slice(&bytes[at..at + out.len()]),
        }
    }

    /// Its memory must not be read any more.
    pub fn is_gone(&self) -> bool {
        match self {
            Body::Region(_, regions) => regions.iter().flatten().any(|region| region.is_closed()),
            _ => false,
        }
    }

    fn len(&self) -> usize {
        match self {
            Body::Memory(iov) | Body::Region(iov, _) => iov.remaining(),
            Body::Bytes(bytes) => bytes.len(),
        }
    }

    pub fn copied(parts: &[&IoVec]) -> Body {
        let mut bytes = Vec::with_capacity(parts.iter().map(|iov| iov.remaining()).sum());
        parts.iter().for_each(|iov| iov.copy_out(&mut bytes));
        Body::Bytes(bytes.into_boxed_slice())
    }

    pub fn nothing() -> Body {
        Body::Bytes(Box::default())
    }
}

impl Out {
    /// An operation in packets of `mtu` bytes at most.
    pub fn op(mut op: Op, transaction: u32, body: Body, end: End, mtu: usize) -> Out {
        let total = body.len();
        let is_inline =
            !op.kind.is_answered() && op.iovs.as_slice().len() <= 1 && op.len() + total <= mtu;
        let (mut head, mut count) = (total, 1);
        if !is_inline {
            let segments = Segments {
                total: op.iovs.total().unwrap_or(0),
                count: 1,
                transaction,
            };
            op.segments = Some(segments);
            head = total.min(mtu - op.len());
            count = 1 + (total - head).div_ceil(mtu - DATA_HEADER) as u64;
            if let Some(segments) = &mut op.segments {
                // Of a long atomic operation its operands count, and not its target.
                if op.kind.is_message() || op.kind.is_atomic() && count > 1 {
                    segments.total = total as u64;
                }
                segments.count = match op.kind {
                    // Of the answer.
                    Kind::Read => segments.total.div_ceil((mtu - DATA_HEADER) as u64).max(1),
                    _ => count,
                };
            }
        }
        Out {
            first: 0,
            count,
            begin: Begin::Op(op),
            body,
            total,
            head,
            end,
            void: None,
            cost: 0,
        }
    }

    /// An answer to the peer's request.
    pub fn answer(transaction: u32, body: Body, mtu: usize) -> Out {
        let total = body.len();
        let chunk = mtu - DATA_HEADER;
        let copied = match &body {
            Body::Bytes(bytes) => bytes.len(),
            Body::Memory(_) | Body::Region(..) => 0,
        };
        Out {
            first: 0,
            count: (total.div_ceil(chunk) as u64).max(1),
            begin: Begin::Answer(transaction),
            body,
            total,
            head: 0,
            end: End::Nothing,
            void: None,
            cost: ANSWER_COST + copied,
        }
    }

    /// Packet `index` of it. There is room for `mtu` bytes.
    pub fn encode(&self, index: u64, head: Head, mtu: usize, out: &mut [u8]) -> usize {
        if let Some(void) = &self.void {
            return void.encode(head, out);
        }
        let chunk = mtu - DATA_HEADER;
        let (at, len, most) = match (&self.begin, index) {
            (Begin::Op(op), 0) => (0, op.encode(head, out), self.head),
            (Begin::Op(_), index) => {
                let segment = index - 1;
                let at = self.head + segment as usize * chunk;
                (at, Data::encode_head(head, false, 0, segment, out), chunk)
            }
            (&Begin::Answer(transaction), segment) => {
                let at = segment as usize * chunk;
                (
                    at,
                    Data::encode_head(head, true, transaction, segment, out),
                    chunk,
                )
            }
        };
        let part = most.min(self.total - at);
        self.body.copy(at, &mut out[len..len + part]);
        len + part
    }

    /// An atomic operation that only this library carries out.
    pub fn is_long_atomic(&self) -> bool {
        self.count > 1 && matches!(&self.begin, Begin::Op(op) if op.kind.is_atomic())
    }

    pub fn past(&self) -> u64 {
        self.first + self.count
    }
}
