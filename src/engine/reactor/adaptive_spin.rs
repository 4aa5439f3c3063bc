// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Whether a look that finds nothing waits a moment for what is likely to come at once. Programs that talk to each other in
//! turn look in vain a few times for each answer, and many of them give the processor away in between (MPI does), which takes
//! as long as the answer itself. Programs that do something else between two looks lose what such a moment takes; so only a
//! look that follows one which brought something waits, and only while that mostly pays.
//!
//! It is not done where the lock may be waited for (FI_THREAD_SAFE, a progress thread), nor where somebody may sleep.
//! A moment that paid is one credit, one in vain costs four, and one poll in 64 tries where it does not pay.
#![forbid(unsafe_code)]

/// Counts whether it pays.
pub struct AdaptiveSpin {
    /// Something has come since a poll waited.
    due: bool,
    /// Above zero it pays.
    credit: u8,
    /// Turns that were let go by since it does not.
    skipped: u8,
}

/// What comes in time is one credit, up to this many.
const MOST: u8 = 8;
/// What does not come costs so many.
const LOSS: u8 = 4;
/// One turn in so many is taken although it does not pay, to find out whether that has changed.
const AGAIN: u8 = 64;

impl AdaptiveSpin {
    pub const fn new() -> AdaptiveSpin {
        AdaptiveSpin {
            due: false,
            credit: MOST,
            skipped: 0,
        }
    }

    /// A poll has brought something.
    #[inline(always)]
    pub fn found(&mut self) {
        self.due = true;
    }

    /// Whether the last poll that did something brought something.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// Whether to wait now; `note` is to be told what came of it.
    pub fn take_turn(&mut self) -> bool {
        self.due = false;
        if self.credit == 0 {
            self.skipped = (self.skipped + 1) % AGAIN;
            return self.skipped == 0;
        }
        true
    }

    pub fn note(&mut self, came: bool) {
        self.due = came;
        self.credit = match came {
            true => (self.credit + 1).min(MOST),
            false => self.credit.saturating_sub(LOSS),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_looks_after_one_that_brought_something_wait() {
        let mut spin = AdaptiveSpin::new();
        assert!(!spin.is_due());
        spin.found();
        assert!(spin.is_due() && spin.take_turn());
        spin.note(false);
        assert!(!spin.is_due());
        spin.found();
        assert!(spin.take_turn());
        spin.note(true);
        assert!(spin.is_due());
    }

    #[test]
    fn where_it_does_not_pay_it_is_hardly_tried() {
        let mut spin = AdaptiveSpin::new();
        let mut turns = |answers: &dyn Fn(u32) -> bool| {
            let waits = |i: &u32| {
                let waits = spin.take_turn();
                if waits {
                    spin.note(answers(*i));
                }
                waits
            };
            (0..6400).filter(waits).count()
        };
        assert!((100..=110).contains(&turns(&|_| false)));
        // Now and then one answer is not enough.
        assert!(turns(&|i| i % 5 == 0) < 400);
        // It pays again.
        assert!(turns(&|_| true) > 6200);
        assert_eq!(turns(&|i| i % 8 != 0), 6400);
    }
}
