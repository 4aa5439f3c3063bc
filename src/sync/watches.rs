// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Ranges of addresses that are watched for changes. One thread marks those that have changed. It takes no lock and
//! allocates nothing, because the threads that change memory wait for it, possibly with the lock of the heap.
#![forbid(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};

/// A table of ranges. Its user hands out the places.
pub struct Watches {
    slots: Box<[Slot]>,
    /// No place from here on was ever used.
    used: AtomicUsize,
    /// The thread that marks may have taken an event and not marked everything yet.
    is_marking: AtomicBool,
    /// Number of ranges that were marked.
    marked: AtomicUsize,
}

#[derive(Default)]
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    state: AtomicU8,
}

const FREE: u8 = 0;
const WATCHED: u8 = 1;
const CHANGED: u8 = 2;

impl Watches {
    pub fn new(size: usize) -> Watches {
        Watches {
            slots: (0..size).map(|_| Slot::default()).collect(),
            used: AtomicUsize::new(0),
            is_marking: AtomicBool::new(false),
            marked: AtomicUsize::new(0),
        }
    }

    /// Enters a range at a place that is not in use. The caller then makes the kernel watch it: a call that changes the
    /// memory after that sees the entry, because the kernel's lock of the address space is between them.
    pub fn enter(&self, at: usize, range: Range<usize>) {
        let Some(slot) = self.slots.get(at) else {
            return;
        };
        // Relaxed: `state` publishes them.
        slot.start.store(range.start, Ordering::Relaxed);
        slot.end.store(range.end, Ordering::Relaxed);
        // Pairs with the loads in `mark`.
        slot.state.store(WATCHED, Ordering::Release);
        self.used.fetch_max(at + 1, Ordering::Release);
    }

    pub fn remove(&self, at: usize) {
        if let Some(slot) = self.slots.get(at) {
            slot.state.store(FREE, Ordering::Release);
        }
    }

    /// Whether a range is unchanged. It may have changed nevertheless unless `is_settled` returned true, after the call
    /// that could have changed it.
    pub fn is_unchanged(&self, at: usize) -> bool {
        let slot = self.slots.get(at);
        // Pairs with the exchange in `mark`, by which the caller sees other effects of the change.
        slot.is_some_and(|slot| slot.state.load(Ordering::Acquire) == WATCHED)
    }

    /// Whether a range overlaps another one than that at the place `but`.
    pub fn overlaps(&self, range: &Range<usize>, but: usize) -> bool {
        let used = self.used.load(Ordering::Acquire);
        let mut slots = self.slots.iter().take(used).enumerate();
        slots.any(|(at, slot)| at != but && slot.is_in(range))
    }

    /// Called by the thread that marks, before it takes events.
    pub fn begin_to_mark(&self) {
        self.is_marking.store(true, Ordering::SeqCst);
    }

    /// Marks the ranges that this one overlaps.
    pub fn mark(&self, changed: &Range<usize>) {
        let used = self.used.load(Ordering::Acquire);
        for slot in self.slots.iter().take(used) {
            if !slot.is_in(changed) {
                continue;
            }
            let (yes, no) = (Ordering::AcqRel, Ordering::Relaxed);
            if slot
                .state
                .compare_exchange(WATCHED, CHANGED, yes, no)
                .is_ok()
            {
                self.marked.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Called by the thread that marks, when it has marked the ranges of all events that it took.
    pub fn end_to_mark(&self) {
        // Pairs with the load in `is_settled`.
        self.is_marking.store(false, Ordering::Release);
    }

    /// Whether the ranges of all events that were taken are marked. `has_events` asks the kernel whether there are
    /// events that were not taken.
    pub fn is_settled(&self, has_events: impl FnOnce() -> bool) -> bool {
        if has_events() {
            return false;
        }
        // An event that is gone was taken after `begin_to_mark`. The kernel's locks order the two, and the fence keeps
        // the load below behind the question to the kernel.
        fence(Ordering::SeqCst);
        !self.is_marking.load(Ordering::Acquire)
    }

    /// Number of ranges that were marked since the start: a hint that there are some to clean up.
    pub fn marked(&self) -> usize {
        self.marked.load(Ordering::Relaxed)
    }
}

impl Slot {
    /// Whether it has a range that overlaps this one.
    fn is_in(&self, range: &Range<usize>) -> bool {
        // Pairs with the store in `enter`. A place that is used again meanwhile may have either range: its new range
        // is not affected by a change before it was entered.
        self.state.load(Ordering::Acquire) == WATCHED
            && self.start.load(Ordering::Relaxed) < range.end
            && range.start < self.end.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overlap_a_change_are_marked() {
        let watches = Watches::new(4);
        for (at, range) in [10..20, 20..30, 25..40].into_iter().enumerate() {
            watches.enter(at, range);
        }
        assert!(watches.overlaps(&(20..30), 1) && !watches.overlaps(&(10..20), 0));
        watches.mark(&(5..10));
        watches.mark(&(40..50));
        assert_eq!(watches.marked(), 0);
        watches.mark(&(29..30));
        let unchanged = |at| watches.is_unchanged(at);
        assert!(unchanged(0) && !unchanged(1) && !unchanged(2) && !unchanged(3));
        assert_eq!(watches.marked(), 2);
        watches.remove(1);
        watches.enter(1, 20..30);
        assert!(unchanged(1));
        watches.enter(4, 0..100);
        assert!(!unchanged(4), "there is no such place");
    }

    #[test]
    fn it_is_settled_between_events() {
        let watches = Watches::new(1);
        assert!(watches.is_settled(|| false) && !watches.is_settled(|| true));
        watches.begin_to_mark();
        assert!(!watches.is_settled(|| false));
        watches.end_to_mark();
        assert!(watches.is_settled(|| false));
    }
}
