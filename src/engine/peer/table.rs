// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations that wait for an answer of the peer, which names an operation by a number.
//!
//! The lower bits of a number are a place in the table, the upper bits a serial number. A place is used again, so a
//! late or forged answer may name an earlier operation there; its serial number shows that.

use core::mem;

use slab::Slab;

pub struct Table<T, const PLACE_BITS: u32> {
    /// The operations, with their numbers.
    entries: Slab<(u64, T)>,
}

impl<T, const PLACE_BITS: u32> Default for Table<T, PLACE_BITS> {
    fn default() -> Self {
        Table {
            entries: Slab::new(),
        }
    }
}

impl<T, const PLACE_BITS: u32> Table<T, PLACE_BITS> {
    /// Whether one more operation may wait.
    pub fn has_room(&self) -> bool {
        self.entries.len() < 1 << PLACE_BITS
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number that `insert` would give to an operation.
    pub fn next(&self, serial: u64) -> u64 {
        serial << PLACE_BITS | self.entries.vacant_key() as u64
    }

    /// Inserts an operation, and returns its number. Operations that use the same place one after the other must have
    /// different serial numbers.
    pub fn insert(&mut self, serial: u64, operation: T) -> u64 {
        let number = self.next(serial);
        self.entries.insert((number, operation));
        number
    }

    /// Returns the operation with this number, which may come from the peer.
    pub fn get(&self, number: u64) -> Option<&T> {
        let (known, operation) = self.entries.get(place(number, PLACE_BITS))?;
        (*known == number).then_some(operation)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let (known, operation) = self.entries.get_mut(place(number, PLACE_BITS))?;
        (*known == number).then_some(operation)
    }

    pub fn remove(&mut self, number: u64) -> Option<T> {
        self.get(number)?;
        let entry = self.entries.try_remove(place(number, PLACE_BITS));
        entry.map(|(_, operation)| operation)
    }

    /// Removes all operations.
    pub fn take_all(&mut self) -> impl Iterator<Item = T> + use<T, PLACE_BITS> {
        let entries = mem::take(&mut self.entries);
        entries.into_iter().map(|(_, (_, operation))| operation)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|(_, (_, operation))| operation)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|(_, (_, operation))| operation)
    }
}

const fn place(number: u64, bits: u32) -> usize {
    (number & ((1 << bits) - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    type Small = Table<char, 2>;

    #[test]
    fn a_number_names_one_operation() {
        let mut table = Small::default();
        let expected = table.next(5);
        let first = table.insert(5, 'a');
        let second = table.insert(5, 'b');
        assert_eq!((expected, first, second), (5 << 2, 5 << 2, 5 << 2 | 1));
        assert_eq!(
            (table.get(first), table.get(second)),
            (Some(&'a'), Some(&'b'))
        );
        // Other serial numbers, also with more bits than any number has, and an empty place.
        for wrong in [4 << 2, 6 << 2 | 1, 1 << 63 | first, 5 << 2 | 3] {
            assert_eq!(table.get(wrong), None);
            assert_eq!(table.get_mut(wrong), None);
            assert_eq!(table.remove(wrong), None);
        }
        if let Some(operation) = table.get_mut(second) {
            *operation = 'c';
        }
        assert_eq!(
            (table.remove(second), table.remove(second)),
            (Some('c'), None)
        );
        assert_eq!(table.remove(first), Some('a'));
        assert!(table.is_empty());
    }

    #[test]
    fn a_late_answer_does_not_name_the_next_operation_at_its_place() {
        let mut table = Small::default();
        let before = table.insert(1, 'a');
        table.remove(before);
        let after = table.insert(2, 'b');
        assert_eq!((table.get(before), table.get(after)), (None, Some(&'b')));
    }

    #[test]
    fn all_places_can_be_used() {
        let mut table = Small::default();
        for place in 0..4 {
            assert!(table.has_room());
            assert_eq!(table.insert(3, 'x'), 3 << 2 | place);
        }
        assert!(!table.has_room());
        table.iter_mut().for_each(|operation| *operation = 'y');
        assert!(table.iter().all(|operation| *operation == 'y'));
        assert_eq!(table.take_all().count(), 4);
        assert!(table.is_empty());
    }
}
