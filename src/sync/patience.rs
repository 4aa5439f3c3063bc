// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Looking again and again for what another thread is to bring, without keeping the processor from that thread.
//!
//! Where threads are more than processors, each that spins makes the others wait for the end of its time slice. Giving
//! the processor away costs a system call, and nothing else where nobody wants it: so it is done after many looks in
//! vain, and after few once it has turned out that somebody does.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

/// Of one object that is looked at. A hint: threads that share it may lose each other's looks.
pub struct Patience {
    in_vain: AtomicU32,
    limit: AtomicU32,
}

/// About 100 us: longer than a peer takes to answer that need not wait for a processor.
const MANY: u32 = 4096;
/// Between one chance for others and the next, where they want it.
const FEW: u32 = 8;
/// A thread that got the processor, and gave it back, took longer than that; the system call alone does not.
const TAKEN: Duration = Duration::from_micros(1);

impl Patience {
    pub const fn new() -> Self {
        Patience {
            in_vain: AtomicU32::new(0),
            limit: AtomicU32::new(MANY),
        }
    }

    /// What was looked for was there.
    #[inline]
    pub fn found(&self) {
        self.in_vain.store(0, Ordering::Relaxed);
    }

    /// It was not.
    #[inline]
    pub fn in_vain(&self) {
        let n = self.in_vain.load(Ordering::Relaxed);
        self.in_vain.store(n.wrapping_add(1), Ordering::Relaxed);
    }

    /// `rest` is due.
    #[inline]
    pub fn is_worn(&self) -> bool {
        self.in_vain.load(Ordering::Relaxed) % FEW == FEW - 1
    }

    /// Lets others have the processor, if that has been long enough. Call it without a lock.
    #[cold]
    pub fn rest(&self) {
        if self.in_vain.load(Ordering::Relaxed) < self.limit.load(Ordering::Relaxed) {
            return;
        }
        let start = Instant::now();
        thread::yield_now();
        // Somebody wanted it: so it will be again.
        let crowded = start.elapsed() > TAKEN;
        self.limit
            .store(if crowded { 0 } else { MANY }, Ordering::Relaxed);
        self.in_vain.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(patience: &Patience, times: u32) -> u32 {
        let mut rests = 0;
        for _ in 0..times {
            if patience.is_worn() {
                patience.rest();
                rests += 1;
            }
            patience.in_vain();
        }
        rests
    }

    #[test]
    fn a_rest_is_due_after_every_few_looks_in_vain() {
        let patience = Patience::new();
        assert_eq!(look(&patience, FEW - 1), 0);
        assert!(patience.is_worn());
        assert_eq!(look(&patience, 10 * FEW), 10);
        patience.found();
        assert!(!patience.is_worn());
        assert_eq!(look(&patience, FEW - 1), 0);
    }

    /// Two threads that wait for each other.
    #[test]
    fn threads_wait_for_each_other() {
        use core::sync::atomic::AtomicBool;
        let turn = AtomicBool::new(false);
        let play = |mine: bool| {
            let patience = Patience::new();
            for _ in 0..200 {
                while turn.load(Ordering::Acquire) != mine {
                    if patience.is_worn() {
                        patience.rest();
                    }
                    patience.in_vain();
                }
                patience.found();
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
