// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A set of small numbers, such as indexes of a `Slab`: sessions that need another visit. A call costs the same however
//! many members there are, and an empty set costs nothing to visit.

/// A number that is not in the set.
const ABSENT: u32 = u32::MAX;

/// A sparse set: the members in a row, and the place of each member in that row.
#[derive(Default)]
pub struct IdSet {
    members: Vec<usize>,
    /// By number. Grows to the largest number that was ever a member.
    places: Vec<u32>,
}

impl IdSet {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    #[inline]
    pub fn contains(&self, id: usize) -> bool {
        self.places.get(id).is_some_and(|&place| place != ABSENT)
    }

    /// Adds a number. Returns whether it is new.
    pub fn insert(&mut self, id: usize) -> bool {
        if self.contains(id) {
            return false;
        }
        if self.places.len() <= id {
            self.places.resize(id + 1, ABSENT);
        }
        self.places[id] = self.members.len() as u32;
        self.members.push(id);
        true
    }

    /// Removes a number. Returns whether it was a member. The last member takes its place in the order.
    pub fn remove(&mut self, id: usize) -> bool {
        if !self.contains(id) {
            return false;
        }
        let place = std::mem::replace(&mut self.places[id], ABSENT);
        self.members.swap_remove(place as usize);
        if let Some(&moved) = self.members.get(place as usize) {
            self.places[moved] = place;
        }
        true
    }

    /// Removes the members that `keeps` returns false for. The others keep their order.
    pub fn retain(&mut self, mut keeps: impl FnMut(usize) -> bool) {
        let places = &mut self.places;
        let mut kept = 0;
        self.members.retain(|&id| {
            let stays = keeps(id);
            places[id] = match stays {
                true => kept,
                false => ABSENT,
            };
            kept += u32::from(stays);
            stays
        });
    }

    /// Returns the members, in the order of `iter`.
    #[inline(always)]
    pub fn ids(&self) -> &[usize] {
        &self.members
    }

    /// Iterates over the members, in the order in which they were added if none was removed.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.members.iter().copied()
    }

    /// Returns all members in a list of its own, for visits that change the set.
    pub fn to_vec(&self) -> Vec<usize> {
        self.iter().collect()
    }

    /// Removes and returns all members.
    pub fn take(&mut self) -> Vec<usize> {
        let all = self.to_vec();
        for &id in &all {
            self.places[id] = ABSENT;
        }
        self.members.clear();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn random_calls_agree_with_a_plain_set() {
        let mut random = fastrand::Rng::with_seed(41);
        let (mut set, mut plain) = (IdSet::default(), BTreeSet::new());
        for _ in 0..10_000 {
            let id = random.usize(0..50);
            match random.u8(0..100) {
                0 => {
                    let taken: BTreeSet<_> = set.take().into_iter().collect();
                    assert_eq!(taken, std::mem::take(&mut plain));
                }
                1 => {
                    set.retain(|id| id % 3 > 0);
                    plain.retain(|id| id % 3 > 0);
                }
                2..60 => assert_eq!(set.insert(id), plain.insert(id)),
                _ => assert_eq!(set.remove(id), plain.remove(&id)),
            }
            assert_eq!(set.contains(id), plain.contains(&id));
            assert_eq!((set.len(), set.is_empty()), (plain.len(), plain.is_empty()));
            assert_eq!(set.iter().collect::<BTreeSet<_>>(), plain);
        }
    }

    #[test]
    fn members_keep_the_order_of_their_insertion() {
        let mut set = IdSet::default();
        assert!(set.insert(7) && set.insert(3) && !set.insert(7) && set.insert(900));
        assert_eq!(set.to_vec(), [7, 3, 900]);
        assert!(set.remove(7) && !set.remove(7));
        assert_eq!(set.take(), [900, 3]);
        assert!(set.is_empty() && !set.contains(3));
    }
}
