// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A word in which the reader of a ring announces that it sleeps, so that the writer pays for a wake-up only then.
//!
//! The reader calls `arm`, looks at the ring once more, sleeps, and calls `disarm`. The writer publishes, calls
//! `must_ring`, and wakes the reader if that returns true. Both sides execute a fence, and one of the fences comes
//! first: either the reader's second look finds what was published, or the writer sees the word.
//!
//! The writer's fence would cost every message some nanoseconds. So a reader that only polls leaves the word at
//! `POLLS`, and the writer then only loads it. A reader that is going to sleep for the first time announces that
//! (`expect`) and runs a barrier on all processes (see `sys::barrier`), so that every writer has seen the word before
//! the reader arms.
//!
//! Each sleep has a number. The writer rings once for a sleep, however much it publishes until the reader is awake. So
//! a reader that was woken and goes on sleeping arms again.
//!
//! The word may lie in memory that a hostile process can write. If that process clears the word, its peer may miss a
//! wake-up, so readers have a second source of wake-ups; if it sets the word, it causes needless wake-ups.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use super::atomic::Atomic;

/// The reader polls; the writer need not make a fence.
const POLLS: u32 = 0;
/// The reader may sleep at any time: the writer makes a fence before it looks at the word.
const EXPECTED: u32 = 1;
/// The reader sleeps, or is about to.
const SLEEPS: u32 = 2;
const STATE: u32 = 3;
/// Added to the word with each sleep.
const SLEEP: u32 = 4;

/// The word. Only the reader writes it.
#[derive(Default)]
#[repr(transparent)]
pub struct Doorbell<A = AtomicU32>(A);

/// The last sleep for which the writer has rung.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rung(u32);

impl<A: Atomic<u32>> Doorbell<A> {
    /// Announces that the reader may sleep from now on. Before the reader arms for the first time it must run a barrier
    /// on all processes, unless no writer has the memory yet.
    pub fn expect(&self) {
        self.set(EXPECTED);
    }

    /// Announces that the reader is about to sleep. Loads that follow this call are ordered after the announcement.
    pub fn arm(&self) {
        let word = self.0.load(Ordering::Relaxed);
        self.0.store(
            (word & !STATE).wrapping_add(SLEEP) | SLEEPS,
            Ordering::Relaxed,
        );
        // Pairs with the fence of `may_sleep`.
        A::fence(Ordering::SeqCst);
    }

    /// Marks the reader as polling. If `expected` is true, the reader may sleep again without another barrier.
    pub fn disarm(&self, expected: bool) {
        self.set(match expected {
            true => EXPECTED,
            false => POLLS,
        });
    }

    fn set(&self, state: u32) {
        let word = self.0.load(Ordering::Relaxed);
        self.0.store(word & !STATE | state, Ordering::Relaxed);
    }

    /// Returns true if the writer has to wake the reader for what it published before this call.
    #[inline(always)]
    pub fn must_ring(&self, rung: &mut Rung) -> bool {
        // The compiler must keep the load behind the publication. The processor need not: if the reader may sleep, the
        // word is not `POLLS`, and `may_sleep` has a fence.
        compiler_fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) & STATE != POLLS && self.may_sleep(rung)
    }

    #[cold]
    fn may_sleep(&self, rung: &mut Rung) -> bool {
        // Pairs with the fence of `arm`.
        A::fence(Ordering::SeqCst);
        let word = self.0.load(Ordering::Relaxed);
        // A hostile reader may set both bits.
        word & SLEEPS != 0 && std::mem::replace(rung, Rung(word)) != Rung(word)
    }

    /// Returns true if the reader sleeps. Only for the reader itself, and for a writer that has published nothing.
    pub fn is_armed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & SLEEPS != 0
    }
}

#[cfg(all(test, loom))]
impl<A> Doorbell<A> {
    pub fn over(word: A) -> Self {
        Doorbell(word)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use std::sync::atomic::AtomicU64;
    use std::thread;

    #[test]
    fn a_reader_that_polls_is_not_rung() {
        let (bell, mut rung) = (Doorbell::<AtomicU32>::default(), Rung::default());
        assert!(!bell.must_ring(&mut rung) && !bell.is_armed());
        bell.expect();
        assert!(!bell.must_ring(&mut rung) && !bell.is_armed());
    }

    #[test]
    fn each_sleep_is_rung_for_once() {
        let (bell, mut rung) = (Doorbell::<AtomicU32>::default(), Rung::default());
        for expected in [true, false, true] {
            bell.arm();
            assert!(bell.is_armed());
            assert!(bell.must_ring(&mut rung));
            assert!(!bell.must_ring(&mut rung));
            bell.arm();
            assert!(bell.must_ring(&mut rung));
            bell.disarm(expected);
            assert!(!bell.must_ring(&mut rung) && !bell.is_armed());
        }
    }

    /// `park` stands for the sleep. A lost wake-up leaves the test asleep, which the time limit detects.
    #[test]
    fn no_wake_up_is_lost() {
        const ROUNDS: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let limit = std::time::Duration::from_secs(20);
        let (bell, news) = (Doorbell::<AtomicU32>::default(), AtomicU64::new(0));
        let seen = AtomicU64::new(0);
        bell.expect();
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                for round in 1..=ROUNDS {
                    while news.load(Ordering::Acquire) < round {
                        bell.arm();
                        if news.load(Ordering::Acquire) < round {
                            let start = std::time::Instant::now();
                            thread::park_timeout(limit);
                            assert!(start.elapsed() < limit, "slept through round {round}");
                        }
                        bell.disarm(true);
                    }
                    seen.store(round, Ordering::Release);
                }
            });
            let mut rung = Rung::default();
            for round in 1..=ROUNDS {
                news.store(round, Ordering::Release);
                if bell.must_ring(&mut rung) {
                    reader.thread().unpark();
                }
                while seen.load(Ordering::Acquire) < round && !reader.is_finished() {
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
    fn loom_each_sleep_is_ended() {
        loom::model(|| {
            let bell = Arc::new(Doorbell::over(AtomicU32::new(EXPECTED)));
            let news = Arc::new(AtomicU64::new(0));
            let woken = Arc::new(Notify::new());
            let writer = {
                let (bell, news, woken) = (bell.clone(), news.clone(), woken.clone());
                loom::thread::spawn(move || {
                    let mut rung = Rung::default();
                    for round in 1..=2 {
                        news.store(round, Ordering::Release);
                        if bell.must_ring(&mut rung) {
                            woken.notify();
                        }
                    }
                })
            };
            while news.load(Ordering::Acquire) < 2 {
                bell.arm();
                if news.load(Ordering::Acquire) < 2 {
                    woken.wait();
                }
                bell.disarm(true);
            }
            writer.join().unwrap();
        });
    }
}
