// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The virtual clock: events in the order of their times, and in the order of their registration at equal times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use slab::Slab;

/// Nanoseconds since the start.
pub type Time = u64;

pub const MICROSECOND: Time = 1_000;
pub const MILLISECOND: Time = 1_000_000;
pub const SECOND: Time = 1_000_000_000;

pub struct Events<T> {
    heap: BinaryHeap<Reverse<(Time, u64, usize)>>,
    waiting: Slab<T>,
    count: u64,
}

impl<T> Default for Events<T> {
    fn default() -> Events<T> {
        Events {
            heap: BinaryHeap::new(),
            waiting: Slab::new(),
            count: 0,
        }
    }
}

impl<T> Events<T> {
    pub fn push(&mut self, at: Time, event: T) {
        self.count += 1;
        let place = self.waiting.insert(event);
        self.heap.push(Reverse((at, self.count, place)));
    }

    pub fn pop(&mut self) -> Option<(Time, T)> {
        let Reverse((at, _, place)) = self.heap.pop()?;
        Some((at, self.waiting.remove(place)))
    }
}
