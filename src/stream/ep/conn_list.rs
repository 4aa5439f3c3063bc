// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The connections of one endpoint in a row, with the places where searches begin. A domain may have many thousand
//! connections of other endpoints, and a program that closes or cancels asks about all of its own again and again.

use core::cell::Cell;

/// The numbers of all connections of an endpoint. Each connection knows its place.
#[derive(Default)]
pub(super) struct ConnList {
    ids: Vec<u32>,
    /// Places at which the last search of each kind has ended. The next one begins there, because the connections
    /// before it are done in most cases.
    cancelled_at: usize,
    owed_at: Cell<usize>,
}

impl ConnList {
    /// Adds a connection. Returns its place.
    pub(super) fn push(&mut self, id: usize) -> u32 {
        self.ids.push(id as u32);
        self.ids.len() as u32 - 1
    }

    /// Removes the connection at a place. Returns the connection that is there now.
    pub(super) fn remove(&mut self, place: u32) -> Option<usize> {
        self.ids.swap_remove(place as usize);
        self.ids.get(place as usize).map(|&id| id as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.ids.iter().map(|&id| id as usize)
    }

    /// Returns the first result for a connection. The search begins at the connection that had the last result.
    pub(super) fn cancel<R>(&mut self, mut cancel: impl FnMut(usize) -> Option<R>) -> Option<R> {
        let from = self.cancelled_at.min(self.ids.len());
        let mut found = rotated(&self.ids, from).enumerate();
        let (passed, result) = found.find_map(|(passed, id)| Some((passed, cancel(id)?)))?;
        self.cancelled_at = (from + passed) % self.ids.len();
        Some(result)
    }

    /// Returns whether a connection owes data. The search begins at the connection that owed data last time.
    pub(super) fn owes(&self, owes: impl FnMut(usize) -> bool) -> bool {
        let from = self.owed_at.get().min(self.ids.len());
        let Some(passed) = rotated(&self.ids, from).position(owes) else {
            return false;
        };
        self.owed_at.set((from + passed) % self.ids.len());
        true
    }
}

/// Returns the numbers from this place on, then those before.
fn rotated(ids: &[u32], from: usize) -> impl Iterator<Item = usize> + '_ {
    let (before, behind) = ids.split_at(from);
    behind.iter().chain(before).map(|&id| id as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 1000;

    fn list() -> ConnList {
        let mut list = ConnList::default();
        for id in 0..COUNT {
            assert_eq!(list.push(id) as usize, id);
        }
        list
    }

    #[test]
    fn polls_that_wait_for_all_peers_look_at_each_of_them_twice_at_most() {
        let list = list();
        let mut owed = [true; COUNT];
        let looks = Cell::new(0);
        let owes = |owed: &[bool; COUNT]| {
            list.owes(|id| {
                looks.set(looks.get() + 1);
                owed[id]
            })
        };
        // Each peer takes its data after ten more polls, in any order.
        for step in 0..COUNT {
            for _ in 0..10 {
                assert!(owes(&owed));
            }
            owed[(step * 7) % COUNT] = false;
        }
        assert!(!owes(&owed));
        assert!(looks.get() <= 10 * COUNT + 2 * COUNT, "{}", looks.get());
    }

    #[test]
    fn operations_are_cancelled_in_their_order_without_a_search() {
        let mut list = list();
        let mut looks = 0;
        for posted in 0..COUNT {
            let cancelled = list.cancel(|id| {
                looks += 1;
                (id == posted).then_some(id)
            });
            assert_eq!(cancelled, Some(posted));
        }
        assert!(looks <= 2 * COUNT, "{looks}");
        assert_eq!(list.cancel(|_| None::<()>), None);
        // An earlier one is found, too.
        assert_eq!(list.cancel(|id| (id == 3).then_some(id)), Some(3));
    }

    #[test]
    fn a_removed_connection_leaves_its_place_to_another() {
        let mut list = list();
        assert_eq!(list.remove(3), Some(COUNT - 1));
        assert_eq!(list.remove(COUNT as u32 - 2), None);
        assert_eq!(list.iter().count(), COUNT - 2);
        // The search may have ended behind the end.
        assert!(list.owes(|id| id == COUNT - 3));
        for _ in 0..COUNT - 2 {
            list.remove(0);
        }
        assert!(!list.owes(|_| true));
        assert_eq!(list.cancel(Some), None);
    }
}
