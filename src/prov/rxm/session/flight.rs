// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations in flight below: their purpose and their memory. Also operations of rxm that need several below.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::rxm::proto::{MAX_PLACES, Message, Places};
use abi::fi_rma_iov;
use base::{Error, IoVec};
use client::layer::{Lent, Loan};
use engine::domain_state::TxOp;
use engine::srx::{Envelope, RecvOp};
use object::ops::transfer::RemoteSeg;

/// An operation below, and its purpose.
pub struct Flight {
    /// Index of the session in the table.
    pub id: usize,
    pub kind: Kind,
}

pub enum Kind {
    /// A packet whose completion has no effect.
    Control,
    /// The operation that completes with it.
    Op(TxOp),
    /// Announces a message of `Outgoing::sends`, by its number there.
    Announce(u64),
    /// One of several operations, in `Outgoing::groups`.
    Part(usize),
    /// A part of a message that is read (`Incoming::fetches`) or written (`Outgoing::sends`).
    Fetched(usize),
    Written(u64),
}

/// An operation to post below.
pub struct Post {
    pub call: Call,
    pub loan: Loan,
    pub flight: Flight,
}

pub enum Call {
    Send {
        flags: u64,
    },
    Read {
        remote: Remotes,
        flags: u64,
    },
    Write {
        remote: Remotes,
        data: Option<u64>,
        flags: u64,
    },
}

impl Call {
    /// Returns the flags of the operation below.
    #[inline]
    pub fn flags(&self) -> u64 {
        match self {
            Call::Send { flags } | Call::Read { flags, .. } | Call::Write { flags, .. } => *flags,
        }
    }
}

/// Segments of the peer's memory, for one operation below.
#[derive(Clone, Copy)]
pub struct Remotes {
    list: [fi_rma_iov; MAX_PLACES],
    count: usize,
}

impl From<fi_rma_iov> for Remotes {
    fn from(only: fi_rma_iov) -> Remotes {
        Remotes {
            list: [only; MAX_PLACES],
            count: 1,
        }
    }
}

impl Remotes {
    /// Copies the segments that an application's operation names, `MAX_PLACES` at most.
    pub fn of(target: &[RemoteSeg]) -> Remotes {
        let mut all = Remotes::from(iov_of(&RemoteSeg::default()));
        for (place, seg) in all.list.iter_mut().zip(target) {
            *place = iov_of(seg);
        }
        all.count = target.len().min(MAX_PLACES);
        all
    }

    pub fn list(&self) -> &[fi_rma_iov] {
        &self.list[..self.count]
    }
}

pub fn iov_of(seg: &RemoteSeg) -> fi_rma_iov {
    let RemoteSeg { addr, len, key } = *seg;
    fi_rma_iov { addr, len, key }
}

/// An operation that needs several below.
pub struct Group {
    pub op: TxOp,
    pub left: usize,
    pub failed: Option<Error>,
}

/// A message that the receiver reads, or for which the receiver returns addresses to write to.
pub struct Send {
    pub op: TxOp,
    /// The memory of the message; gone after a failure.
    pub lent: Arc<Lent>,
    /// The announcement was posted below, so the receiver may answer.
    pub is_announced: bool,
    /// Writes in flight and writes not started.
    pub left: usize,
    pub is_writing: bool,
}

/// A message that this side reads from its sender, or that the sender writes.
pub struct Fetch {
    pub recv: Box<RecvOp>,
    pub envelope: Envelope,
    pub msg: u64,
    pub lent: Arc<Lent>,
    pub left: usize,
    /// Whether the sender writes it.
    pub is_written: bool,
    /// Tick, as in `TxOp::since`.
    pub since: u16,
}

/// An atomic operation that waits for its answer.
pub struct Asked {
    pub op: TxOp,
    /// `None` after a cancel: the answer is discarded.
    pub result: Option<IoVec>,
}

/// An announced message that has not matched a receive.
pub struct Parked {
    pub msg: u64,
    pub message: Message,
    pub places: Places,
}

/// Reads or writes of lent memory, cut into pieces that the provider below accepts.
pub struct Cuts {
    pub list: VecDeque<(core::ops::Range<usize>, fi_rma_iov)>,
}

impl Cuts {
    /// Pairs the first `len` bytes of the memory with these segments, which may be shorter. `pieces` and `longest`
    /// limit the pieces and bytes of one operation.
    pub fn of(
        lent: &Lent,
        len: usize,
        places: impl IntoIterator<Item = fi_rma_iov>,
        pieces: usize,
        longest: usize,
    ) -> Cuts {
        let mut ends = Vec::new();
        let mut end = 0;
        for span in lent.iov().spans() {
            end += span.len;
            ends.push(end);
        }
        // Within the limit the memory need not be cut at the borders of its pieces.
        if ends.len() <= pieces {
            ends = vec![end];
        }
        let mut list = VecDeque::new();
        let mut at = 0;
        for place in places {
            let mut done = 0;
            while done < place.len && at < len {
                let end = ends.iter().copied().find(|&end| end > at).unwrap_or(len);
                let here = (place.len - done).min(len.min(end) - at).min(longest);
                let remote = fi_rma_iov {
                    addr: place.addr.wrapping_add(done as u64),
                    len: here,
                    key: place.key,
                };
                list.push_back((at..at + here, remote));
                at += here;
                done += here;
            }
        }
        Cuts { list }
    }
}
