// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A flag that one side sets while it sleeps, so that the other side pays for a wake-up only then.
//!
//! The sleeper calls `arm`, looks once more for what it waits for, sleeps, and calls `disarm`. The other side
//! publishes, calls `is_set`, and wakes the sleeper if it is. One of the two fences comes first: either the sleeper's
//! second look finds what was published, or the other side sees the flag.
//!
//! The flag may lie in memory that a hostile process can write. A flag that is cleared wrongly lets that process's peer
//! sleep, so sleepers have a time limit or a second source of wake-ups. A flag that is set wrongly costs needless
//! wake-ups.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

use super::atomic::Atomic;

#[derive(Default)]
#[repr(transparent)]
pub struct SleepFlag<A = AtomicU32>(A);

impl<A: Atomic<u32>> SleepFlag<A> {
    /// Announces that the sleeper is about to sleep. Loads that follow this call are ordered after the announcement.
    #[inline]
    pub fn arm(&self) {
        self.0.store(1, Ordering::Relaxed);
        // Pairs with the fence of `is_set`.
        A::fence(Ordering::SeqCst);
    }

    /// Announces that the sleeper is awake.
    #[inline]
    pub fn disarm(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns true if the other side sleeps, or is about to, and may have missed what was stored before this call.
    #[inline]
    pub fn is_set(&self) -> bool {
        // Pairs with the fence of `arm`.
        A::fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) != 0
    }
}

#[cfg(all(test, loom))]
impl<A> SleepFlag<A> {
    pub fn over(flag: A) -> Self {
        SleepFlag(flag)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use std::sync::atomic::AtomicU64;
    use std::thread;

    #[test]
    fn the_flag_is_what_was_said_last() {
        let flag = SleepFlag::<AtomicU32>::default();
        assert!(!flag.is_set());
        flag.arm();
        assert!(flag.is_set());
        flag.disarm();
        assert!(!flag.is_set());
    }

    /// `park` stands for the sleep. A lost wake-up leaves the test asleep, which the time limit detects.
    #[test]
    fn no_wake_up_is_lost() {
        const ROUNDS: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let limit = std::time::Duration::from_secs(20);
        let (flag, news) = (SleepFlag::<AtomicU32>::default(), AtomicU64::new(0));
        let seen = AtomicU64::new(0);
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                for round in 1..=ROUNDS {
                    while news.load(Ordering::Acquire) < round {
                        flag.arm();
                        if news.load(Ordering::Acquire) < round {
                            let start = std::time::Instant::now();
                            thread::park_timeout(limit);
                            assert!(start.elapsed() < limit, "slept through round {round}");
                        }
                        flag.disarm();
                    }
                    seen.store(round, Ordering::Release);
                }
            });
            for round in 1..=ROUNDS {
                news.store(round, Ordering::Release);
                if flag.is_set() {
                    sleeper.thread().unpark();
                }
                while seen.load(Ordering::Acquire) < round && !sleeper.is_finished() {
                    thread::yield_now();
                }
            }
        });
        assert_eq!(seen.into_inner(), ROUNDS);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::atomic::{AtomicU32, AtomicU64};
    use loom::sync::{Arc, Notify};

    use super::*;

    /// loom fails if a thread sleeps for ever.
    #[test]
    fn loom_no_wake_up_is_lost() {
        loom::model(|| {
            let flag = Arc::new(SleepFlag::over(AtomicU32::new(0)));
            let news = Arc::new(AtomicU64::new(0));
            let woken = Arc::new(Notify::new());
            let writer = {
                let (flag, news, woken) = (flag.clone(), news.clone(), woken.clone());
                loom::thread::spawn(move || {
                    for round in 1..=2 {
                        news.store(round, Ordering::Release);
                        if flag.is_set() {
                            woken.notify();
                        }
                    }
                })
            };
            while news.load(Ordering::Acquire) < 2 {
                flag.arm();
                if news.load(Ordering::Acquire) < 2 {
                    woken.wait();
                }
                flag.disarm();
            }
            writer.join().unwrap();
        });
    }
}
