// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The table of an address vector: fi_av(3). Addresses by index, indexes by address, and identifiers set by the
//! application.
//!
//! Most addresses of a large vector are never used. Each costs its own bytes and an index of 4 bytes for the reverse
//! lookup. Rare attributes are kept in separate tables.

use core::hash::BuildHasher;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::Hash;

use hashbrown::hash_table::HashTable;
use rustc_hash::FxBuildHasher;

use crate::auth_av::KeyTable;
use crate::named_av::NamedAv;
use base::{Error, Result};

/// `A` is the address in the provider's form. An index is what the application sees as fi_addr_t.
pub struct AvTable<A> {
    slots: Slots<A>,
    /// Hashed by the address in the slot, which is not stored again here.
    indexes: HashTable<u32>,
    /// Unused indexes below the end, lowest first: fi_av(3) promises the lowest index.
    free: BinaryHeap<Reverse<u32>>,
    /// Number of repeated insertions of an address, by index: it must be removed as many more times. Few addresses have
    /// any.
    repeats: HashMap<u32, u32, FxBuildHasher>,
    /// Number of addresses that were removed from an index, for indexes from which any was.
    generations: HashMap<u32, u32, FxBuildHasher>,
    /// Identifiers that completions report, by index. Empty until an identifier differs from its index; it then ends
    /// with the last such identifier.
    user_ids: Vec<u64>,
    /// FI_AV_USER_ID: an address has no identifier until the application sets one. Otherwise its identifier is its
    /// index.
    named_by_user: bool,
    /// Number of upper bits of a fi_addr_t that name a receive context: fi_rx_addr(3).
    pub context_bits: u32,
    /// Whether an identifier may differ from its index.
    has_user_ids: bool,
    /// FI_AV_AUTH_KEY.
    pub keys: KeyTable<A>,
    /// Set if processes share the vector.
    pub named: Option<NamedAv>,
}

enum Slot<A> {
    Used(A),
    /// Removed, but operations in flight may still use the index.
    Removed,
    Free,
}

/// Slots in blocks that never move: a growing vector would leave holes in the heap, together as large as itself.
struct Slots<A>(Vec<Vec<Slot<A>>>);

/// Slots of a block.
const BLOCK: usize = 512;

impl<A> Slots<A> {
    #[inline]
    fn get(&self, at: usize) -> Option<&Slot<A>> {
        self.0.get(at / BLOCK)?.get(at % BLOCK)
    }

    fn get_mut(&mut self, at: usize) -> Option<&mut Slot<A>> {
        self.0.get_mut(at / BLOCK)?.get_mut(at % BLOCK)
    }

    /// Appends a slot. Returns its index.
    fn push(&mut self, slot: Slot<A>) -> u32 {
        let at = self.len();
        match self.0.last_mut() {
            Some(last) if last.len() < BLOCK => last.push(slot),
            // The first block grows step by step, because most vectors are small.
            None => self.0.push(vec![slot]),
            Some(_) => {
                let mut block = Vec::with_capacity(BLOCK);
                block.push(slot);
                self.0.push(block);
            }
        }
        u32::try_from(at).expect("memory ends before")
    }

    fn len(&self) -> usize {
        let full = self.0.len().saturating_sub(1) * BLOCK;
        full + self.0.last().map_or(0, Vec::len)
    }

    #[cfg(test)]
    fn iter(&self) -> impl Iterator<Item = &Slot<A>> {
        self.0.iter().flatten()
    }
}

/// The hash of an address.
fn hash_of<A: Hash>(addr: &A) -> u64 {
    FxBuildHasher.hash_one(addr)
}

/// The hash of the address at this index.
fn hash_at<A: Hash>(slots: &Slots<A>) -> impl Fn(&u32) -> u64 + '_ {
    |&index| match slots.get(index as usize) {
        Some(Slot::Used(addr)) => hash_of(addr),
        _ => 0,
    }
}

/// Whether the address at an index is this one.
fn is_at<'a, A: Eq>(slots: &'a Slots<A>, addr: &'a A) -> impl Fn(&u32) -> bool + 'a {
    move |&index| matches!(slots.get(index as usize), Some(Slot::Used(at)) if at == addr)
}

impl<A: Clone + Eq + Hash> AvTable<A> {
    /// Makes a table in which the identifier of an address is its index until another one is set (FI_AV_USER_ID at
    /// insertion).
    pub fn new() -> Self {
        AvTable {
            slots: Slots(Vec::new()),
            indexes: HashTable::new(),
            free: BinaryHeap::new(),
            repeats: HashMap::default(),
            generations: HashMap::default(),
            user_ids: Vec::new(),
            named_by_user: false,
            context_bits: 0,
            has_user_ids: false,
            keys: KeyTable::new(),
            named: None,
        }
    }

    /// Makes a table for a vector opened with FI_AV_USER_ID: an address has no identifier until one is set.
    pub fn with_user_ids() -> Self {
        AvTable {
            named_by_user: true,
            has_user_ids: true,
            ..Self::new()
        }
    }

    /// Inserts at the lowest free index and returns it with true. A known address returns its index with false.
    pub fn insert(&mut self, addr: A) -> (u64, bool) {
        if let Some(index) = self.find(&addr) {
            *self.repeats.entry(index as u32).or_default() += 1;
            return (index, false);
        }
        let index = match self.free.pop() {
            Some(Reverse(index)) => index,
            None => self.slots.push(Slot::Free),
        };
        self.fill(index, addr);
        (index.into(), true)
    }

    /// Appends an address that is not in the table, or a hole that is never filled.
    pub fn append(&mut self, addr: Option<A>) {
        let index = self.slots.push(Slot::Removed);
        if let Some(addr) = addr {
            self.fill(index, addr);
        }
    }

    fn fill(&mut self, index: u32, addr: A) {
        let hash = hash_of(&addr);
        if let Some(slot) = self.slots.get_mut(index as usize) {
            *slot = Slot::Used(addr);
        }
        let rehash = hash_at(&self.slots);
        self.indexes.insert_unique(hash, index, rehash);
        let name = self.first_name(index.into());
        if let Some(user_id) = self.user_ids.get_mut(index as usize) {
            *user_id = name;
        }
    }

    #[inline]
    pub fn get(&self, index: u64) -> Option<&A> {
        match self.slot(index)? {
            Slot::Used(addr) => Some(addr),
            _ => None,
        }
    }

    #[inline]
    pub fn find(&self, addr: &A) -> Option<u64> {
        let found = self.indexes.find(hash_of(addr), is_at(&self.slots, addr));
        found.copied().map(u64::from)
    }

    /// Reverts one insertion. Returns the address if it was the last one. The index stays unused until `retire`.
    ///
    /// `INVAL`: there is no address at this index.
    pub fn remove(&mut self, index: u64) -> Result<Option<A>> {
        let hash = hash_of(self.get(index).ok_or(Error::INVAL)?);
        let index = index as u32;
        match self.repeats.get_mut(&index) {
            Some(1) => drop(self.repeats.remove(&index)),
            Some(more) => *more -= 1,
            None => {
                if let Ok(known) = self.indexes.find_entry(hash, |&at| at == index) {
                    known.remove();
                }
                let slot = self.slots.get_mut(index as usize).ok_or(Error::INVAL)?;
                let generation = self.generations.entry(index).or_default();
                *generation = generation.wrapping_add(1);
                if let Slot::Used(addr) = std::mem::replace(slot, Slot::Removed) {
                    return Ok(Some(addr));
                }
            }
        }
        Ok(None)
    }

    /// Makes a removed index available again. No operation may use it any more.
    pub fn retire(&mut self, index: u64) {
        if let Some(slot) = self.slot_mut(index)
            && matches!(slot, Slot::Removed)
        {
            *slot = Slot::Free;
            self.free.push(Reverse(index as u32));
        }
    }

    /// `INVAL`: there is no address at this index.
    pub fn set_user_id(&mut self, index: u64, id: u64) -> Result {
        self.get(index).ok_or(Error::INVAL)?;
        let at = index as usize;
        while self.user_ids.len() <= at {
            let name = self.first_name(self.user_ids.len() as u64);
            self.user_ids.push(name);
        }
        self.user_ids[at] = id;
        self.has_user_ids = true;
        Ok(())
    }

    /// Number of addresses, not of indexes.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.indexes.len()
    }

    /// Addresses in the order of their indexes.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (u64, &A)> {
        (0..)
            .zip(self.slots.iter())
            .filter_map(|(index, slot)| match slot {
                Slot::Used(addr) => Some((index, addr)),
                _ => None,
            })
    }

    fn slot_mut(&mut self, index: u64) -> Option<&mut Slot<A>> {
        self.slots.get_mut(usize::try_from(index).ok()?)
    }
}

impl<A> AvTable<A> {
    /// The identifier that completions report for this address; `UNNAMED` (FI_ADDR_NOTAVAIL) if there is none.
    pub fn user_id(&self, index: u64) -> u64 {
        match self.slot(index) {
            Some(Slot::Used(_)) => {
                let given = self.user_ids.get(index as usize).copied();
                given.unwrap_or(self.first_name(index))
            }
            _ => UNNAMED,
        }
    }

    /// The identifier of an address before one is set.
    fn first_name(&self, index: u64) -> u64 {
        match self.named_by_user {
            true => UNNAMED,
            false => index,
        }
    }

    /// Returns a number that changes each time an address is removed from this index. A prepared work request is for
    /// one address only, not for the next one that gets the same index.
    pub fn generation(&self, index: u64) -> u32 {
        self.generations.get(&(index as u32)).copied().unwrap_or(0)
    }

    /// One more than the highest index in use.
    pub fn end(&self) -> u64 {
        self.slots.len() as u64
    }

    /// With FI_AV_AUTH_KEY: the identifier of the key that was proved by a peer outside the vector.
    pub fn key_of_stranger(&self, addr: &A) -> Option<u64>
    where
        A: Eq + Hash,
    {
        let handle = self.keys.of_stranger(addr)?;
        match self.named_by_user {
            true => self.keys.user_id(handle),
            false => Some(handle),
        }
    }

    pub fn has_user_ids(&self) -> bool {
        self.has_user_ids
    }

    #[inline]
    fn slot(&self, index: u64) -> Option<&Slot<A>> {
        self.slots.get(usize::try_from(index).ok()?)
    }
}

/// The address in a fi_addr_t whose upper `bits`, at least one, are a receive context: fi_rx_addr(3).
#[inline]
pub fn without_context(addr: u64, bits: u32) -> u64 {
    addr & (u64::MAX >> bits)
}

/// The identifier of an address that has none (FI_ADDR_NOTAVAIL).
pub const UNNAMED: u64 = u64::MAX;

#[cfg(test)]
mod tests;
