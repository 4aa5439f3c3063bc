// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages that stay with the peer until they match a receive, and the state of each.

use std::collections::HashMap;

use crate::shm_channel::Places;
use engine::srx::{Envelope, RecvOp};
use sync::split_copy::SplitCopy;

/// A message that can be fetched from the peer's memory.
pub struct Offered {
    pub places: Places,
    /// The peer's epoch when it offered them: see `ShmChannel::is_revoked`.
    pub epoch: u32,
}

/// Messages that can be fetched.
#[derive(Default)]
pub struct Offers {
    /// Messages at the peer that have not matched a receive, by index.
    pub waiting: HashMap<u8, Offered>,
    /// Messages that both sides are copying.
    pub shared: Vec<Shared>,
}

/// A message whose sender copies a part of it.
pub struct Shared {
    pub index: u8,
    /// `None` if the receive is gone: the bytes are discarded.
    pub recv: Option<RecvOp>,
    pub envelope: Envelope,
    pub offered: Offered,
    pub job: SplitCopy,
    /// Whether all parts that this side copied succeeded.
    pub copied: bool,
}

pub struct RendezvousIn {
    /// Tick at which the message was requested.
    pub since: u16,
    /// `None` drops the bytes.
    pub recv: Option<RecvOp>,
    pub envelope: Envelope,
    pub ack: bool,
}

/// Messages that stay with a peer, from their announcement until they arrive. Few peers have any.
#[derive(Default)]
pub struct Told(Option<Box<Kept>>);

#[derive(Default)]
struct Kept {
    /// A bit for each index.
    indexes: [u64; 4],
    /// Requested messages by index.
    cleared: HashMap<u8, RendezvousIn>,
}

impl Told {
    /// Adds an announced message. Returns false if its index is in use.
    #[must_use]
    pub fn add(&mut self, index: u8) -> bool {
        let (word, bit) = Told::place(index);
        let word = &mut self.0.get_or_insert_default().indexes[word];
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Removes a message that has arrived.
    pub fn remove(&mut self, index: u8) {
        let (word, bit) = Told::place(index);
        if let Some(kept) = &mut self.0 {
            kept.indexes[word] &= !bit;
        }
    }

    /// Records that the message with this index was requested.
    pub fn clear(&mut self, index: u8, message: RendezvousIn) {
        let kept = self.0.get_or_insert_default();
        kept.cleared.insert(index, message);
    }

    /// Removes the message with this index if it was requested.
    pub fn take_cleared(&mut self, index: u8) -> Option<RendezvousIn> {
        self.0.as_mut()?.cleared.remove(&index)
    }

    /// Returns the requested messages.
    pub fn cleared(&self) -> impl Iterator<Item = &RendezvousIn> {
        let kept = self.0.iter();
        kept.flat_map(|kept| kept.cleared.values())
    }

    pub fn cleared_mut(&mut self) -> impl Iterator<Item = &mut RendezvousIn> {
        let kept = self.0.as_mut().into_iter();
        kept.flat_map(|kept| kept.cleared.values_mut())
    }

    pub fn into_cleared(self) -> impl Iterator<Item = RendezvousIn> {
        let kept = self.0.into_iter();
        kept.flat_map(|kept| kept.cleared.into_values())
    }

    fn place(index: u8) -> (usize, u64) {
        (usize::from(index / 64), 1 << (index % 64))
    }
}
