// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One side says that it sleeps, so that the other pays for a wake-up only then.
//!
//! The sleeper: `lie_down`, look once more for what it waits for, sleep, `get_up`. The other: bring it, ask `is_set`, wake.
//! Either the second look finds what was brought, or the other sees the flag: of two fences one comes first.
//!
//! In memory that a hostile process may write: a flag that is not set when it should be lets that process's peer sleep, so
//! sleepers have a limit or a second source of news; a flag that is set when it should not be costs wake-ups.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

use super::atomic::Atomic;

#[derive(Default)]
#[repr(transparent)]
pub struct Asleep<A = AtomicU32>(A);

impl<A: Atomic<u32>> Asleep<A> {
    /// What is looked at from now on is looked at after this.
    #[inline]
    pub fn lie_down(&self) {
        self.0.store(1, Ordering::Relaxed);
        // Pairs with the fence of `is_set`.
        A::fence(Ordering::SeqCst);
    }

    #[inline]
    pub fn get_up(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether the other side sleeps, or is about to, and may have missed what was stored before this.
    #[inline]
    pub fn is_set(&self) -> bool {
        // Pairs with the fence of `lie_down`.
        A::fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) != 0
    }
}

#[cfg(all(test, loom))]
impl<A> Asleep<A> {
    pub fn over(flag: A) -> Self {
        Asleep(flag)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use std::sync::atomic::AtomicU64;
    use std::thread;

    #[test]
    fn the_flag_is_what_was_said_last() {
        let flag = Asleep::<AtomicU32>::default();
        assert!(!flag.is_set());
        flag.lie_down();
        assert!(flag.is_set());
        flag.get_up();
        assert!(!flag.is_set());
    }

    /// `park` stands for the sleep; a lost wake-up would leave the test asleep, which its limit then tells.
    #[test]
    fn no_wake_up_is_lost() {
        const ROUNDS: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let limit = std::time::Duration::from_secs(20);
        let (flag, news) = (Asleep::<AtomicU32>::default(), AtomicU64::new(0));
        let seen = AtomicU64::new(0);
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                for round in 1..=ROUNDS {
                    while news.load(Ordering::Acquire) < round {
                        flag.lie_down();
                        if news.load(Ordering::Acquire) < round {
                            let start = std::time::Instant::now();
                            thread::park_timeout(limit);
                            assert!(start.elapsed() < limit, "slept through round {round}");
                        }
                        flag.get_up();
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

    /// loom fails where a thread sleeps for ever.
    #[test]
    fn loom_no_wake_up_is_lost() {
        loom::model(|| {
            let flag = Arc::new(Asleep::over(AtomicU32::new(0)));
            let news = Arc::new(AtomicU64::new(0));
            let bell = Arc::new(Notify::new());
            let bringer = {
                let (flag, news, bell) = (flag.clone(), news.clone(), bell.clone());
                loom::thread::spawn(move || {
                    for round in 1..=2 {
                        news.store(round, Ordering::Release);
                        if flag.is_set() {
                            bell.notify();
                        }
                    }
                })
            };
            while news.load(Ordering::Acquire) < 2 {
                flag.lie_down();
                if news.load(Ordering::Acquire) < 2 {
                    bell.wait();
                }
                flag.get_up();
            }
            bringer.join().unwrap();
        });
    }
}
