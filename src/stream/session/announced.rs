// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages of this side that were announced to the peer and stay here until the peer requests or fetches them:
//! docs/wire/tcp.md.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use crate::proto::{Message, PlaceList, RendezvousData};
use crate::session::payload::Payload;
use crate::shm_channel::Places;
use base::{IoVec, Span};
use engine::domain_state::TxOp;
use hmem::Kind;
use sync::split_copy::SplitCopy;

/// Maximum of messages that are announced to the peer at a time; their indexes start at 1.
pub const LIMIT: usize = 254;

/// A message that is announced.
pub struct RendezvousOut {
    pub tag: u64,
    pub op: TxOp,
    pub payload: Payload,
    /// The kind of the device memory that the peer can map to fetch it.
    pub exported: Option<Kind>,
    /// Header for its bytes when the peer requests them.
    pub data: RendezvousData,
}

/// A message that the peer fetches, and the target address for the parts that this side copies.
pub struct Helping {
    pub index: u8,
    pub job: SplitCopy,
    pub to: Places,
}

/// Announced messages that were not requested yet, by index.
#[derive(Default)]
pub struct Announced {
    messages: HashMap<u8, RendezvousOut, FxBuildHasher>,
    last_index: u8,
    /// The message of which this side copies a part. Few peers have one, so it is boxed.
    helping: Option<Box<Helping>>,
}

impl Announced {
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns how many further messages can be announced.
    pub fn room(&self) -> usize {
        LIMIT.saturating_sub(self.messages.len())
    }

    /// Returns a free index.
    pub fn free_index(&mut self) -> Option<u8> {
        for _ in 0..LIMIT {
            self.last_index = if usize::from(self.last_index) >= LIMIT {
                1
            } else {
                self.last_index + 1
            };
            if !self.messages.contains_key(&self.last_index) {
                return Some(self.last_index);
            }
        }
        None
    }

    /// Keeps a message with a free index until the peer names it.
    pub fn insert(
        &mut self,
        index: u8,
        message: &Message,
        payload: Payload,
        op: TxOp,
        exported: Option<Kind>,
    ) {
        let kept = RendezvousOut {
            tag: message.tag,
            op,
            payload,
            exported,
            data: RendezvousData {
                index,
                has_data: message.data.is_some(),
                ack: message.ack,
                payload: op.len as u64,
            },
        };
        self.messages.insert(index, kept);
    }

    pub fn get(&self, index: u8) -> Option<&RendezvousOut> {
        self.messages.get(&index)
    }

    pub fn remove(&mut self, index: u8) -> Option<RendezvousOut> {
        self.messages.remove(&index)
    }

    pub fn iter(&self) -> impl Iterator<Item = &RendezvousOut> {
        self.messages.values()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut RendezvousOut> {
        self.messages.values_mut()
    }

    /// Records that the peer fetches a message and this side copies parts of it.
    pub fn help(&mut self, helping: Box<Helping>) {
        self.helping = Some(helping);
    }

    /// Whether this side copies a part of a message.
    #[inline]
    pub fn is_helping(&self) -> bool {
        self.helping.is_some()
    }

    /// Ends to copy parts of a message. Returns that message, if its bytes are here, and the target.
    pub fn end_help(&mut self) -> Option<(&IoVec, Box<Helping>)> {
        let helping = self.helping.take()?;
        match self.messages.get(&helping.index).map(|out| &out.payload) {
            Some(Payload::Buffers(from)) => Some((from, helping)),
            _ => None,
        }
    }

    /// Removes all messages.
    pub fn empty(&mut self) -> impl Iterator<Item = TxOp> {
        let last = std::mem::take(self);
        last.messages.into_values().map(|out| out.op)
    }
}

/// Returns the addresses of the first `most` bytes of local memory.
pub fn places_of(iov: &IoVec, most: usize) -> PlaceList {
    let mut left = most;
    let place = |span: Span| {
        let len = span.len.min(left);
        left -= len;
        (span.start, len)
    };
    iov.spans().map(place).collect()
}
