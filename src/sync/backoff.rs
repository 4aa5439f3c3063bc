// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Backoff for polling: yields the processor to another thread after a run of empty polls.
//!
//! If there are more threads than processors, each spinning thread keeps the others waiting until its time slice ends.
//! sched_yield(2) costs a system call and gains nothing if no other thread is runnable. So a poller yields after many
//! empty polls, and after few once a yield has shown that another thread used the processor.
//!
//! crossbeam's `Backoff` is meant for loops that wait for one event: it belongs to one thread, lives as long as the
//! loop, and yields after some dozens of rounds. Here the application owns the loop, and each poll is a separate call,
//! possibly from another thread. So the polled object holds the count, and the duration of a yield shows whether
//! yielding pays.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

/// State of one polled object. The counts are a hint: threads that share the object may overwrite each other's counts.
pub struct Backoff {
    empty: AtomicU32,
    limit: AtomicU32,
}

/// Empty polls before a yield, normally. About 100 us: longer than the round trip to a peer that has a processor.
const MANY: u32 = 4096;
/// Empty polls between two yields while other threads want the processor.
const FEW: u32 = 8;
/// A yield that takes longer than this let another thread run; the system call alone takes less.
const TAKEN: Duration = Duration::from_micros(1);

impl Backoff {
    pub const fn new() -> Self {
        Backoff {
            empty: AtomicU32::new(0),
            limit: AtomicU32::new(MANY),
        }
    }

    /// Records a poll that found something.
    #[inline]
    pub fn reset(&self) {
        self.empty.store(0, Ordering::Relaxed);
    }

    /// Records a poll that found nothing.
    #[inline]
    pub fn count_empty(&self) {
        let n = self.empty.load(Ordering::Relaxed);
        self.empty.store(n.wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns true if the caller should call `snooze`.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.empty.load(Ordering::Relaxed) % FEW == FEW - 1
    }

    /// Yields the processor if there were enough empty polls. The caller must not hold a lock. Returns true if other
    /// threads used the processor meanwhile.
    #[cold]
    pub fn snooze(&self) -> bool {
        if self.empty.load(Ordering::Relaxed) < self.limit.load(Ordering::Relaxed) {
            return false;
        }
        let start = Instant::now();
        thread::yield_now();
        // Another thread ran in between, so the next yield comes early.
        let crowded = start.elapsed() > TAKEN;
        self.limit
            .store(if crowded { 0 } else { MANY }, Ordering::Relaxed);
        self.empty.store(0, Ordering::Relaxed);
        crowded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(backoff: &Backoff, times: u32) -> u32 {
        let mut rests = 0;
        for _ in 0..times {
            if backoff.is_due() {
                backoff.snooze();
                rests += 1;
            }
            backoff.count_empty();
        }
        rests
    }

    #[test]
    fn it_is_due_after_every_few_empty_polls() {
        let backoff = Backoff::new();
        assert_eq!(poll(&backoff, FEW - 1), 0);
        assert!(backoff.is_due());
        assert_eq!(poll(&backoff, 10 * FEW), 10);
        backoff.reset();
        assert!(!backoff.is_due());
        assert_eq!(poll(&backoff, FEW - 1), 0);
    }

    /// Lets two threads wait for each other in turns.
    #[test]
    fn threads_wait_for_each_other() {
        use core::sync::atomic::AtomicBool;
        let turn = AtomicBool::new(false);
        let play = |mine: bool| {
            let backoff = Backoff::new();
            for _ in 0..200 {
                while turn.load(Ordering::Acquire) != mine {
                    if backoff.is_due() {
                        backoff.snooze();
                    }
                    backoff.count_empty();
                }
                backoff.reset();
                turn.store(!mine, Ordering::Release);
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| play(true));
            play(false);
        });
        assert!(!turn.load(Ordering::Relaxed));
    }
}
