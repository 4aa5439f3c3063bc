// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A thread that limits how long frames are held back to be sent together: it flushes frames that the application does
//! not flush by its next call. It starts when a frame is held back for the first time, and blocks while nothing is.
//!
//! The thread wakes up every `HOLD` while frames are held back now and then, without being notified. After `QUIET`
//! rounds without such frames it parks, and the next poster that holds a frame back unparks it. A poster that continues
//! to post or poll flushes by itself long before; the thread then only reads a number.
//!
//! A kernel timer that every burst sets would cost the poster a system call per burst. A thread that is woken for every
//! burst costs as much and reacts later.
//!
//! A poster flushes by itself after at most 256 frames or 64 KiB, which takes about 25 us, so in a stream the thread
//! finds nothing old. Poster and thread share a number and a flag, but no lock. If the thread cannot be started, and in
//! a forked child, every post flushes.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use core::time::Duration;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::Instant;

use crossbeam_utils::CachePadded;
use crossbeam_utils::sync::{Parker, Unparker};

use sys::clock::make_sleeps_exact;
use sys::fork::Birth;
use sys::thread;

/// Longest time for which a frame may be held back. Including the time to wake up and to write it stays below 50 us.
const HOLD: Duration = Duration::from_micros(25);
/// Rounds without anything held back before the thread parks.
const QUIET: u32 = 4;

/// The time since when a transport holds frames back, and the thread that flushes them.
pub struct Held {
    /// Time at which the oldest frame was held back, in nanoseconds since `epoch` and never 0; 0: nothing is held back.
    /// This field has its own cache line, because the thread takes the mutex in each round, which would take the line
    /// away from the poster.
    since: CachePadded<AtomicU64>,
    epoch: Instant,
    parked: AtomicBool,
    birth: Birth,
    thread: OnceLock<Option<Unparker>>,
    /// The work of the thread, which takes it when it starts.
    work: Mutex<Work>,
}

#[derive(Default)]
struct Work {
    flush: Option<Flush>,
    handle: Option<JoinHandle<()>>,
    stopped: bool,
}

/// Flushes. Returns false if nothing is left to serve.
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

    /// Records that a frame is held back, the first one. Returns false if no thread will flush it.
    pub fn begin(self: &Arc<Held>) -> bool {
        // A child has no such thread, so `since` stays 0 there and each call comes here.
        if !self.birth.is_here() {
            self.end();
            return false;
        }
        self.since.store(self.now(), Ordering::Relaxed);
        let thread = self.thread.get_or_init(|| self.start());
        // Pairs with the fence in `park`: either the thread sees `since`, or this thread sees `parked`.
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed)
            && let Some(thread) = thread
        {
            thread.unpark();
        }
        thread.is_some()
    }

    /// Whether `begin` was called since the last `end`.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.since.load(Ordering::Relaxed) != 0
    }

    /// Records that nothing is held back.
    #[inline]
    pub fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// Sets the work of the thread. Called before anything is held back.
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

    /// Blocks until a frame is held back or `stop` is called.
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
        // A child has no such thread, and the data here may be inconsistent.
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

/// Stops the thread when it is dropped. Only threads of the application may drop it.
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
            // Some rounds start with the thread parked.
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
        // The thread was stopped, so the caller has to flush.
        assert!(!held.begin());
    }
}
