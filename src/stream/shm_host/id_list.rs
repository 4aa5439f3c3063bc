// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Numbers of connections in no particular order, each at most once. Adding and removing one costs the same however
//! many there are.

/// Numbers, and the place of each.
#[derive(Default)]
pub(super) struct IdList {
    ids: Vec<usize>,
    /// By number: its index in `ids`, or `NONE`.
    places: Vec<usize>,
}

const NONE: usize = usize::MAX;

impl IdList {
    #[inline(always)]
    pub(super) fn ids(&self) -> &[usize] {
        &self.ids
    }

    pub(super) fn contains(&self, id: usize) -> bool {
        self.places.get(id).is_some_and(|&place| place != NONE)
    }

    /// Adds a number unless it is there.
    pub(super) fn insert(&mut self, id: usize) {
        if self.contains(id) {
            return;
        }
        if self.places.len() <= id {
            self.places.resize(id + 1, NONE);
        }
        self.places[id] = self.ids.len();
        self.ids.push(id);
    }

    /// Removes a number if it is there. The last one takes its place.
    pub(super) fn remove(&mut self, id: usize) {
        if !self.contains(id) {
            return;
        }
        let place = std::mem::replace(&mut self.places[id], NONE);
        self.ids.swap_remove(place);
        if let Some(&moved) = self.ids.get(place) {
            self.places[moved] = place;
        }
    }

    /// Removes all numbers.
    pub(super) fn take(&mut self) -> Vec<usize> {
        for &id in &self.ids {
            self.places[id] = NONE;
        }
        std::mem::take(&mut self.ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_there_once_until_it_is_removed() {
        let mut list = IdList::default();
        for id in [5, 2, 9, 2, 5] {
            list.insert(id);
        }
        assert_eq!(list.ids(), [5, 2, 9]);
        list.remove(5);
        list.remove(5);
        list.remove(100);
        assert_eq!(list.ids(), [9, 2]);
        list.remove(2);
        assert!(list.contains(9) && !list.contains(2) && !list.contains(100));
        list.insert(5);
        assert_eq!(list.take(), [9, 5]);
        assert!(list.ids().is_empty() && !list.contains(9) && !list.contains(5));
        list.insert(9);
        assert_eq!(list.ids(), [9]);
    }
}
