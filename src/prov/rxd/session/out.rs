// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations, and answers to the peer's operations, that are in flight. Each is a series of numbered packets. A packet
//! can be encoded again until it is acknowledged, so its bytes must stay in place.

use crate::rxd::proto::{DATA_HEADER, Data, Head, Kind, Op, Segments, Void};
use base::{Error, IoVec};
use engine::domain_state::TxOp;
use stream::session::receive_state::Regions;

/// Location of the payload.
pub enum Body {
    /// Memory of the application, which stays valid until the operation completes.
    Memory(IoVec),
    Bytes(Box<[u8]>),
    /// Memory of regions that a peer reads.
    Region(IoVec, Box<Regions>),
}

pub enum Begin {
    Op(Op),
    /// An answer to this request; its first packet has the form of the others.
    Answer(u32),
}

/// The action when all packets are acknowledged.
pub enum End {
    Complete(TxOp),
    /// Nothing: an answer completes the operation, or this is an answer itself.
    Nothing,
}

impl End {
    /// Whether the application may consider the operation done.
    pub fn is_promised(&self) -> bool {
        matches!(self, End::Complete(op) if op.is_promised())
    }
}

pub struct Out {
    /// Number of the first packet, and the count of packets.
    pub first: u64,
    pub count: u64,
    pub begin: Begin,
    pub body: Body,
    /// Bytes of the payload, and those in the first packet.
    pub total: usize,
    pub head: usize,
    pub end: End,
    /// Sent in place of all packets because the operation is refused.
    pub void: Option<Void>,
    /// Bytes of memory that an answer uses until it is acknowledged; 0 for operations.
    pub cost: usize,
}

/// Bytes of memory that an answer uses besides a copy of the data.
pub const ANSWER_COST: usize = size_of::<Out>() + size_of::<Regions>() + size_of::<IoVec>();

impl Body {
    /// Copies bytes that start at offset `at`.
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

    /// Whether the memory must not be read any more.
    pub fn is_gone(&self) -> bool {
        match self {
            Body::Region(_, regions) => regions.iter().flatten().any(|region| region.is_closed()),
            _ => false,
        }
    }

    /// Whether a device has failed to give bytes of it, since the last call.
    #[inline]
    pub fn take_fault(&self) -> bool {
        match self {
            Body::Memory(iov) | Body::Region(iov, _) => iov.take_fault().is_some(),
            Body::Bytes(_) => false,
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
    /// Builds an operation in packets of at most `mtu` bytes.
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
                // `total` of a long atomic counts the operands, not the target.
                if op.kind.is_message() || op.kind.is_atomic() && count > 1 {
                    segments.total = total as u64;
                }
                segments.count = match op.kind {
                    // Packets of the answer.
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

    /// Builds an answer to a request of the peer.
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

    /// Encodes packet `index` into a buffer of `mtu` bytes.
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

    /// Returns the packet that replaces those of this operation.
    #[cold]
    pub fn void_of(&self, error: Error) -> Void {
        let transaction = match self.begin {
            Begin::Answer(transaction) => transaction,
            Begin::Op(_) => 0,
        };
        let error = error.code() as u32;
        Void { transaction, error }
    }

    /// Whether this is an atomic of several packets, which only this library implements.
    pub fn is_long_atomic(&self) -> bool {
        self.count > 1 && matches!(&self.begin, Begin::Op(op) if op.kind.is_atomic())
    }

    pub fn past(&self) -> u64 {
        self.first + self.count
    }
}
