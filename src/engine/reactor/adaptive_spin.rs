// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Decides whether a poll that finds nothing spins for a moment, because an event is likely to arrive at once. Programs
//! that alternate messages poll a few times without success for each answer, and many of them yield the processor in
//! between (MPI does), which takes as long as the answer itself. Programs that do other work between two polls lose the
//! time of such a moment. So only a poll that follows a successful one spins, and only while spinning mostly pays.
//!
//! No poll spins while another thread waits for the lock (FI_THREAD_SAFE, a progress thread), or if a thread may sleep.
//! A spin that found an event earns one credit, and a spin without one costs four. Without credit one poll in 64 still
//! spins, to find out whether it pays again.

/// Credit for spinning.
pub struct AdaptiveSpin {
    /// An event has arrived since the last spin.
    due: bool,
    /// Spinning pays while this is above zero.
    credit: u8,
    /// Number of spins that were skipped for lack of credit, modulo `AGAIN`.
    skipped: u8,
}

/// Limit on the credit. Each spin that finds an event adds one.
const MOST: u8 = 8;
/// Credit that a spin without an event costs.
const LOSS: u8 = 4;
/// Without credit one spin in this many is made anyway.
const AGAIN: u8 = 64;

impl AdaptiveSpin {
    pub const fn new() -> AdaptiveSpin {
        AdaptiveSpin {
            due: false,
            credit: MOST,
            skipped: 0,
        }
    }

    /// Records a poll that found an event.
    #[inline(always)]
    pub fn found(&mut self) {
        self.due = true;
    }

    /// Returns true if the last relevant poll or spin found an event.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// Returns true if the caller should spin now; it must then report the result with `note`.
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
        // An event now and then does not pay for spinning.
        assert!(turns(&|i| i % 5 == 0) < 400);
        // Spinning pays again.
        assert!(turns(&|_| true) > 6200);
        assert_eq!(turns(&|i| i % 8 != 0), 6400);
    }
}
