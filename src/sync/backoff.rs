// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Polling for what another thread brings, without keeping the processor from that thread.
//!
//! Where there are more threads than processors, each thread that spins makes the others wait for the end of its time
//! slice. Giving the processor away costs a system call, and nothing else where nobody wants it. So it is done after
//! many empty polls, and after few once it has turned out that somebody wants the processor.
//!
//! crossbeam's `Backoff` serves loops that wait for one event: it belongs to one thread, lives as long as the loop, and
//! yields after some dozens of rounds. Here the loop is the application's and each poll is a call, maybe of another
//! thread. So the count lives with the polled object, and whether a yield pays is measured.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

/// Belongs to one polled object. It is a hint: threads that share it may lose each other's counts.
pub struct Backoff {
    empty: AtomicU32,
    limit: AtomicU32,
}

/// About 100 us: longer than a peer takes to answer that need not wait for a processor.
const MANY: u32 = 4096;
/// Between one chance for others and the next, where they want it.
const FEW: u32 = 8;
/// A thread that got the processor, and gave it back, took longer than that; the system call alone does not.
const TAKEN: Duration = Duration::from_micros(1);

impl Backoff {
    pub const fn new() -> Self {
        Backoff {
            empty: AtomicU32::new(0),
            limit: AtomicU32::new(MANY),
        }
    }

    /// A poll has found something.
    #[inline]
    pub fn reset(&self) {
        self.empty.store(0, Ordering::Relaxed);
    }

    /// A poll has found nothing.
    #[inline]
    pub fn count_empty(&self) {
        let n = self.empty.load(Ordering::Relaxed);
        self.empty.store(n.wrapping_add(1), Ordering::Relaxed);
    }

    /// Whether `snooze` is to be called.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.empty.load(Ordering::Relaxed) % FEW == FEW - 1
    }

    /// Gives the processor to other threads, if there were enough empty polls. Call it without a lock.
    #[cold]
    pub fn snooze(&self) {
        if self.empty.load(Ordering::Relaxed) < self.limit.load(Ordering::Relaxed) {
            return;
        }
        let start = Instant::now();
        thread::yield_now();
        // Somebody wanted it: so it will be again.
        let crowded = start.elapsed() > TAKEN;
        self.limit
            .store(if crowded { 0 } else { MANY }, Ordering::Relaxed);
        self.empty.store(0, Ordering::Relaxed);
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

    /// Two threads that wait for each other.
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
