// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages that stay with the peer until a receive has met them: which there are, and how far each has come.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use crate::engine::srx::{Envelope, RecvOp};
use crate::engine::stream::shm_channel::Places;
use crate::sync::split_copy::SplitCopy;

/// A message that the peer lets us fetch.
pub struct Offered {
    pub places: Places,
    /// The peer's word that they hold: see `ShmChannel::is_revoked`.
    pub epoch: u32,
}

/// Messages that can be fetched.
#[derive(Default)]
pub struct Offers {
    /// Those that wait at the peer for their receive, by index.
    pub waiting: HashMap<u8, Offered>,
    /// Those that are being fetched, in part by the peer.
    pub shared: Vec<Shared>,
}

/// A message of which its sender copies the last part.
pub struct Shared {
    pub index: u8,
    /// Without receive the bytes are of no use to anybody.
    pub recv: Option<RecvOp>,
    pub envelope: Envelope,
    pub offered: Offered,
    pub job: SplitCopy,
    /// All that was done here was done well.
    pub copied: bool,
}

pub struct RendezvousIn {
    /// When it was asked for.
    pub since: u16,
    /// Without receive the bytes are dropped.
    pub recv: Option<RecvOp>,
    pub envelope: Envelope,
    pub ack: bool,
}

/// Messages that a peer keeps, from its word of them until they are here. Few peers have any.
#[derive(Default)]
pub struct Told(Option<Box<Kept>>);

#[derive(Default)]
struct Kept {
    /// A bit for each index.
    indexes: [u64; 4],
    /// Those that have been asked for, by index.
    cleared: HashMap<u8, RendezvousIn>,
}

impl Told {
    /// False if there is one with this index.
    #[must_use]
    pub fn add(&mut self, index: u8) -> bool {
        let (word, bit) = Told::place(index);
        let word = &mut self.0.get_or_insert_default().indexes[word];
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// The message with this index is here.
    pub fn remove(&mut self, index: u8) {
        let (word, bit) = Told::place(index);
        if let Some(kept) = &mut self.0 {
            kept.indexes[word] &= !bit;
        }
    }

    /// The message with this index has been asked for.
    pub fn clear(&mut self, index: u8, message: RendezvousIn) {
        let kept = self.0.get_or_insert_default();
        kept.cleared.insert(index, message);
    }

    /// The message with this index, if it has been asked for.
    pub fn take_cleared(&mut self, index: u8) -> Option<RendezvousIn> {
        self.0.as_mut()?.cleared.remove(&index)
    }

    /// Those that have been asked for.
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
