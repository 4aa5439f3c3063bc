// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The table of an address vector: fi_av(3). Addresses by index, indexes by address, and the user's own name for each.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::hash_map::{Entry, HashMap};
use std::hash::Hash;

use rustc_hash::FxBuildHasher;

use crate::base::{Error, Result};
use crate::engine::auth_av::KeyTable;
use crate::engine::named_av::NamedAv;

/// `A` is the address in the provider's form. An index is what the application sees as fi_addr_t.
pub struct AvTable<A> {
    slots: Vec<Slot<A>>,
    indexes: HashMap<A, u32, FxBuildHasher>,
    /// Unused locations below the end, the lowest first: fi_av(3) promises the lowest index.
    free: BinaryHeap<Reverse<u32>>,
    /// The index itself, or none until the application sets one.
    named_by_user: bool,
    /// Upper bits of a fi_addr_t that name a receive context: fi_rx_addr(3).
    pub context_bits: u32,
    /// Some address has a name that is not its index.
    has_user_ids: bool,
    /// FI_AV_AUTH_KEY.
    pub keys: KeyTable<A>,
    /// Processes share it.
    pub named: Option<NamedAv>,
}

enum Slot<A> {
    Used {
        addr: A,
        user_id: u64,
        /// How often the address was inserted: so often it must be removed.
        inserted: u32,
    },
    /// Removed; operations may still name it.
    Removed,
    Free,
}

impl<A> Slot<A> {
    fn first(addr: A, index: u32, named_by_user: bool) -> Self {
        Slot::Used {
            addr,
            user_id: if named_by_user { UNNAMED } else { index.into() },
            inserted: 1,
        }
    }
}

impl<A: Clone + Eq + Hash> AvTable<A> {
    /// The user's name of an address is its index until another is set (FI_AV_USER_ID given at insertion).
    pub fn new() -> Self {
        AvTable {
            slots: Vec::new(),
            indexes: HashMap::default(),
            free: BinaryHeap::new(),
            named_by_user: false,
            context_bits: 0,
            has_user_ids: false,
            keys: KeyTable::new(),
            named: None,
        }
    }

    /// For a vector opened with FI_AV_USER_ID: an address has no name until one is set.
    pub fn with_user_ids() -> Self {
        AvTable {
            named_by_user: true,
            has_user_ids: true,
            ..Self::new()
        }
    }

    /// The lowest index that is not used, and true; for an address that is there already its index, and false.
    pub fn insert(&mut self, addr: A) -> (u64, bool) {
        match self.indexes.entry(addr) {
            Entry::Occupied(known) => {
                let index = *known.get();
                if let Slot::Used { inserted, .. } = &mut self.slots[index as usize] {
                    *inserted += 1;
                }
                (index.into(), false)
            }
            Entry::Vacant(place) => {
                let index = match self.free.pop() {
                    Some(Reverse(index)) => index,
                    None => {
                        self.slots.push(Slot::Free);
                        u32::try_from(self.slots.len() - 1).expect("memory ends before")
                    }
                };
                self.slots[index as usize] =
                    Slot::first(place.key().clone(), index, self.named_by_user);
                place.insert(index);
                (index.into(), true)
            }
        }
    }

    /// At the end: an address that is not in the table, or a hole that stays one.
    pub fn append(&mut self, addr: Option<A>) {
        let index = u32::try_from(self.slots.len()).expect("memory ends before");
        self.slots.push(match addr {
            None => Slot::Removed,
            Some(addr) => {
                self.indexes.insert(addr.clone(), index);
                Slot::first(addr, index, self.named_by_user)
            }
        });
    }

    #[inline]
    pub fn get(&self, index: u64) -> Option<&A> {
        match self.slot(index)? {
            Slot::Used { addr, .. } => Some(addr),
            _ => None,
        }
    }

    #[inline]
    pub fn find(&self, addr: &A) -> Option<u64> {
        self.indexes.get(addr).copied().map(u64::from)
    }

    /// Takes back one insertion; the address if that was the last of it. Its index then stays a hole until `retire`.
    ///
    /// `INVAL`: nothing is at this index.
    pub fn remove(&mut self, index: u64) -> Result<Option<A>> {
        let slot = self.slot_mut(index).ok_or(Error::INVAL)?;
        match slot {
            Slot::Used { inserted, .. } if *inserted > 1 => {
                *inserted -= 1;
                return Ok(None);
            }
            Slot::Used { .. } => {}
            _ => return Err(Error::INVAL),
        }
        let Slot::Used { addr, .. } = std::mem::replace(slot, Slot::Removed) else {
            unreachable!("seen two lines up");
        };
        self.indexes.remove(&addr);
        Ok(Some(addr))
    }

    /// No operation names the removed index any more: it may be given to another address.
    pub fn retire(&mut self, index: u64) {
        if let Some(slot) = self.slot_mut(index)
            && matches!(slot, Slot::Removed)
        {
            *slot = Slot::Free;
            self.free.push(Reverse(index as u32));
        }
    }

    /// `INVAL`: nothing is at this index.
    pub fn set_user_id(&mut self, index: u64, id: u64) -> Result {
        match self.slot_mut(index) {
            Some(Slot::Used { user_id, .. }) => {
                *user_id = id;
                self.has_user_ids = true;
                Ok(())
            }
            _ => Err(Error::INVAL),
        }
    }

    /// Addresses, not indexes.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.indexes.len()
    }

    /// By index.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (u64, &A)> {
        (0..)
            .zip(&self.slots)
            .filter_map(|(index, slot)| match slot {
                Slot::Used { addr, .. } => Some((index, addr)),
                _ => None,
            })
    }

    fn slot_mut(&mut self, index: u64) -> Option<&mut Slot<A>> {
        self.slots.get_mut(usize::try_from(index).ok()?)
    }
}

impl<A> AvTable<A> {
    /// What completions call this address; `UNNAMED` (FI_ADDR_NOTAVAIL) if it has no name.
    pub fn user_id(&self, index: u64) -> u64 {
        match self.slot(index) {
            Some(Slot::Used { user_id, .. }) => *user_id,
            _ => UNNAMED,
        }
    }

    /// No address has this index or a higher one.
    pub fn end(&self) -> u64 {
        self.slots.len() as u64
    }

    /// With FI_AV_AUTH_KEY: what completions call the key that a peer has proved which is not in the vector.
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

/// The user id of an address that has none (FI_ADDR_NOTAVAIL).
pub const UNNAMED: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;

    fn table(addrs: &[&'static str]) -> AvTable<&'static str> {
        let mut table = AvTable::new();
        for (n, &addr) in addrs.iter().enumerate() {
            assert_eq!(table.insert(addr), (n as u64, true));
        }
        table
    }

    #[test]
    fn indexes_count_from_zero_in_order_of_insertion() {
        let table = table(&["a", "b", "c"]);
        assert_eq!(table.get(1), Some(&"b"));
        assert_eq!(table.find(&"c"), Some(2));
        assert_eq!(table.find(&"d"), None);
        assert_eq!(
            Vec::from_iter(table.iter()),
            [(0, &"a"), (1, &"b"), (2, &"c")]
        );
        for outside in [3, 1 << 32, u64::MAX] {
            assert_eq!(table.get(outside), None);
        }
    }

    #[test]
    fn an_address_inserted_twice_keeps_its_index_and_is_removed_twice() {
        let mut table = table(&["a", "b"]);
        assert_eq!(table.insert("a"), (0, false));
        assert_eq!(table.len(), 2);
        assert_eq!(table.remove(0).unwrap(), None);
        assert_eq!(table.get(0), Some(&"a"));
        assert_eq!(table.remove(0).unwrap(), Some("a"));
        assert_eq!(table.get(0), None);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn removing_what_is_not_there_is_fi_einval() {
        let mut table = table(&["a"]);
        table.remove(0).unwrap();
        for index in [0, 1, u64::MAX] {
            assert_eq!(table.remove(index).err(), Some(Error::INVAL));
            assert_eq!(table.set_user_id(index, 1).err(), Some(Error::INVAL));
        }
        table.retire(0);
        assert_eq!(table.remove(0).err(), Some(Error::INVAL));
    }

    #[test]
    fn a_removed_address_can_be_inserted_again() {
        let mut table = table(&["a"]);
        table.remove(0).unwrap();
        assert_eq!(table.insert("a"), (1, true));
        assert_eq!(table.find(&"a"), Some(1));
    }

    #[test]
    fn the_lowest_unused_index_comes_next() {
        let mut table = table(&["a", "b", "c", "d", "e"]);
        for index in [3, 1, 2] {
            table.remove(index).unwrap();
            table.retire(index);
        }
        assert_eq!(table.insert("f"), (1, true));
        assert_eq!(table.insert("g"), (2, true));
        assert_eq!(table.insert("h"), (3, true));
        assert_eq!(table.insert("i"), (5, true));
    }

    #[test]
    fn a_hole_is_not_reused_while_operations_name_it() {
        let mut table = table(&["a", "b", "c"]);
        table.remove(0).unwrap();
        table.remove(1).unwrap();
        table.retire(1);
        table.retire(1);
        table.retire(2);
        table.retire(9);
        assert_eq!(table.insert("d"), (1, true));
        assert_eq!(table.insert("e"), (3, true));
        table.retire(0);
        assert_eq!(table.insert("f"), (0, true));
        assert_eq!(table.get(2), Some(&"c"));
    }

    #[test]
    fn a_user_id_defaults_to_the_index() {
        let mut table = table(&["a", "b"]);
        table.set_user_id(1, 77).unwrap();
        assert_eq!(
            [table.user_id(0), table.user_id(1), table.user_id(2)],
            [0, 77, UNNAMED]
        );
        table.remove(1).unwrap();
        assert_eq!(table.user_id(1), UNNAMED);
        table.retire(1);
        table.insert("c");
        assert_eq!(table.user_id(1), 1);
    }

    #[test]
    fn with_fi_av_user_id_an_address_has_no_name_until_one_is_set() {
        let mut table = AvTable::with_user_ids();
        table.insert("a");
        assert_eq!(table.user_id(0), UNNAMED);
        table.set_user_id(0, 5).unwrap();
        assert_eq!(table.user_id(0), 5);
    }

    /// Random calls against a plain list of addresses.
    #[test]
    fn random_calls_agree_with_a_plain_list() {
        let mut state = 1u64;
        let mut random = move |limit: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % limit
        };
        let mut table = AvTable::new();
        // Address and count; None is a hole that was not retired, count 0 one that was.
        let mut model: Vec<Option<(u64, u32)>> = Vec::new();
        for _ in 0..50_000 {
            let (addr, index) = (random(60), random(70));
            let slot = model.get_mut(index as usize);
            match random(4) {
                0 | 1 => {
                    let known = model.iter_mut().position(
                        |slot| matches!(slot, Some((a, count)) if *a == addr && *count > 0),
                    );
                    let unused = || model.iter().position(|slot| matches!(slot, Some((_, 0))));
                    let at = known.or_else(unused).unwrap_or(model.len());
                    assert_eq!(table.insert(addr), (at as u64, known.is_none()));
                    model.resize(model.len().max(at + 1), None);
                    let count = known.and_then(|at| model[at]).map_or(0, |slot| slot.1);
                    model[at] = Some((addr, count + 1));
                }
                2 => {
                    let expected = match slot {
                        Some(slot @ Some((_, 1))) => Ok(slot.take().map(|slot| slot.0)),
                        Some(Some((_, count))) if *count > 1 => {
                            *count -= 1;
                            Ok(None)
                        }
                        _ => Err(Error::INVAL),
                    };
                    assert_eq!(table.remove(index), expected);
                }
                _ => {
                    table.retire(index);
                    if let Some(slot @ None) = slot {
                        *slot = Some((0, 0));
                    }
                }
            }
            let used = model.iter().flatten().filter(|slot| slot.1 > 0);
            assert_eq!(table.len(), used.count());
            let expected = model.get(index as usize).copied().flatten();
            let expected = expected.filter(|slot| slot.1 > 0).map(|slot| slot.0);
            assert_eq!(table.get(index).copied(), expected);
            if let Some(addr) = expected {
                assert_eq!(table.find(&addr), Some(index));
            }
        }
    }

    #[test]
    fn a_hundred_thousand_addresses_are_found_both_ways() {
        let mut table = AvTable::new();
        let addr =
            |n: u32| SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + n / 16), (n % 16) as u16));
        for n in 0..100_000 {
            assert_eq!(table.insert(addr(n)), (n.into(), true));
        }
        for n in 0..100_000 {
            assert_eq!(table.find(&addr(n)), Some(n.into()));
            assert_eq!(table.get(n.into()), Some(&addr(n)));
        }
    }
}
