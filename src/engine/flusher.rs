// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What bounds the time for which frames are held back to be sent together: a thread that flushes what the application
//! does not flush by its next call. It is started when something is held back for the first time, and sleeps without a
//! tick while nothing is.
//!
//! It wakes up every `HOLD` while frames are held back now and then, which needs no word of the poster; after `QUIET` rounds in
//! which there were none it parks, and the next poster that holds something back unparks it. A poster that goes on posting or
//! polling flushes by itself long before: the thread then only reads a number.
//!
//! Why there is no kernel timer, and no wake-up for each burst: a timer that every burst sets costs the poster a
//! system call each time; a thread that is woken for every burst costs as much and comes later.
//!
//! A poster flushes by itself 256 frames or 64 KiB later at the latest, which takes some 25 us, so in a stream the
//! thread finds nothing old. Poster and thread share a number and a flag, no lock. Where no thread can be had, and in
//! a forked child, every post flushes.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use core::time::Duration;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::Instant;

use crossbeam_utils::CachePadded;
use crossbeam_utils::sync::{Parker, Unparker};

use crate::sys::clock::make_sleeps_exact;
use crate::sys::fork::Birth;
use crate::sys::thread;

/// So long something may be held back. With what it takes to wake up and to write, it stays below 50 us.
const HOLD: Duration = Duration::from_micros(25);
/// Rounds without anything held back before the thread parks.
const QUIET: u32 = 4;

/// What a transport holds back, and the thread that flushes it.
pub struct Held {
    /// When it was held back first, in nanoseconds since `epoch` and never 0; 0: nothing is held back. Apart from the
    /// rest: the thread takes the mutex in each round, and that would take the line away from the poster.
    since: CachePadded<AtomicU64>,
    epoch: Instant,
    parked: AtomicBool,
    birth: Birth,
    thread: OnceLock<Option<Unparker>>,
    /// What the thread does. It is taken when the thread is started.
    work: Mutex<Work>,
}

#[derive(Default)]
struct Work {
    flush: Option<Flush>,
    handle: Option<JoinHandle<()>>,
    stopped: bool,
}

/// Flushes; false when there is nothing left to serve.
type Flush = Box<dyn FnMut() -> bool + Send>;

impl Held {
    pub fn new() -> Arc<Held> {
        Arc::new(Held {
            since: CachePadded::new(AtomicU64::new(0)),
            epoch: Instant::now(),
            parked: AtomicBool::new(false),
            birth: Birth::here(),
            thread: OnceLock::new(),
            work: Mutex::default(),
        })
    }

    /// Something is held back that was not, or nothing was before. False: no thread flushes it.
    pub fn begin(self: &Arc<Held>) -> bool {
        // A child has no such thread; it is asked each time.
        if !self.birth.is_here() {
            self.end();
            return false;
        }
        self.since.store(self.now(), Ordering::Relaxed);
        let thread = self.thread.get_or_init(|| self.start());
        // Pairs with the fence in `park`: either the thread sees what is held back, or it is seen to be parked.
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed)
            && let Some(thread) = thread
        {
            thread.unpark();
        }
        thread.is_some()
    }

    /// Whether the thread knows that something is held back.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.since.load(Ordering::Relaxed) != 0
    }

    /// Nothing is held back any more.
    #[inline]
    pub fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// What the thread is to do, before anything is held back.
    pub fn serve_by(&self, flush: impl FnMut() -> bool + Send + 'static) {
        self.work().flush = Some(Box::new(flush));
    }

    fn now(&self) -> u64 {
        (self.epoch.elapsed().as_nanos() as u64).max(1)
    }

    fn work(&self) -> std::sync::MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn start(self: &Arc<Held>) -> Option<Unparker> {
        let mut work = self.work();
        if work.stopped {
            return None;
        }
        let flush = work.flush.take()?;
        let parker = Parker::new();
        let unparker = parker.unparker().clone();
        let held = self.clone();
        let started = thread::spawn("fi-flush", move || held.run(&parker, flush));
        work.handle = Some(started.ok()?);
        Some(unparker)
    }

    fn run(&self, parker: &Parker, mut flush: Flush) {
        make_sleeps_exact();
        let mut quiet = 0;
        while !self.work().stopped {
            let since = self.since.load(Ordering::Relaxed);
            if since == 0 {
                quiet += 1;
                match quiet > QUIET {
                    true => self.park(parker),
                    false => sleep(HOLD),
                }
                continue;
            }
            quiet = 0;
            let age = Duration::from_nanos(self.now().saturating_sub(since));
            match HOLD.checked_sub(age) {
                Some(left) if !left.is_zero() => sleep(left),
                _ if !flush() => return,
                _ => {}
            }
        }
    }

    /// Sleeps until something is held back, or all is over.
    fn park(&self, parker: &Parker) {
        self.parked.store(true, Ordering::Relaxed);
        // Pairs with those in `begin` and `stop`.
        fence(Ordering::SeqCst);
        if self.since.load(Ordering::Relaxed) == 0 && !self.work().stopped {
            parker.park();
        }
        self.parked.store(false, Ordering::Relaxed);
    }

    fn stop(&self) {
        // A child has no such thread, and what it finds here may be half changed.
        if !self.birth.is_here() {
            return;
        }
        let handle = {
            let mut work = self.work();
            work.stopped = true;
            work.flush = None;
            work.handle.take()
        };
        if let (Some(handle), Some(Some(thread))) = (handle, self.thread.get()) {
            thread.unpark();
            // A panic aborts the process; there is no other error.
            let _ = handle.join();
        }
    }
}

/// Ends the thread when it goes. To be dropped by none but threads of the application.
pub struct Flusher(pub Arc<Held>);

impl Drop for Flusher {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn what_is_held_back_is_flushed_again_and_again() {
        let held = Held::new();
        let (say, heard) = channel();
        let other = held.clone();
        held.serve_by(move || {
            other.end();
            say.send(()).is_ok()
        });
        let flusher = Flusher(held.clone());
        for round in 0..100 {
            assert!(held.begin());
            heard.recv_timeout(LIMIT).unwrap();
            // Some rounds find it parked.
            if round % 10 == 0 {
                let end = Instant::now() + LIMIT;
                while !held.parked.load(Ordering::Relaxed) && Instant::now() < end {
                    std::thread::yield_now();
                }
                assert!(held.parked.load(Ordering::Relaxed), "it goes on ticking");
            }
        }
        drop(flusher);
        assert!(heard.try_recv().is_err(), "flushed without need");
    }

    #[test]
    fn without_anything_held_back_there_is_no_thread() {
        let held = Held::new();
        held.serve_by(|| true);
        drop(Flusher(held.clone()));
        assert!(held.thread.get().is_none());
        // Too late: whoever holds something back has to flush it.
        assert!(!held.begin());
    }
}
