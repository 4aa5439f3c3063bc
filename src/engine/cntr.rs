// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The values of a counter: fi_cntr(3). The handle is in `domain::cntr`.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::wait::Wait;
use abi::FI_WAIT_NONE;
use base::Result;

/// Shared by the handle and by the endpoints that count on it.
pub struct Counter {
    value: AtomicU64,
    errors: AtomicU64,
    pub wait: Wait,
    /// `BYTES`, `WATCHED`.
    mode: AtomicU8,
    /// Values at the last fi_trywait. Only later changes are reported.
    waited: Seen,
    /// Values at the last query of a poll set. They are separate, because a poll set is read after fi_trywait has
    /// reported a change.
    polled: Seen,
}

/// FI_CNTR_EVENTS_BYTES: counts bytes, not operations.
const BYTES: u8 = 1;
/// Operations wait for a value (fi_trigger(3)). Changed under the domain lock.
const WATCHED: u8 = 2;

/// The values that one kind of reader has seen.
#[derive(Default)]
struct Seen {
    value: AtomicU64,
    errors: AtomicU64,
    /// Operations had changed the counter, unseen, before the application itself changed a value.
    missed: AtomicBool,
}

impl Counter {
    pub fn new(wait: Wait, bytes: bool) -> Counter {
        Counter {
            value: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            wait,
            mode: AtomicU8::new(if bytes { BYTES } else { 0 }),
            waited: Seen::default(),
            polled: Seen::default(),
        }
    }

    /// Makes a counter that counts nothing. It stands in for one whose completions must each be examined.
    pub fn watcher() -> Result<Counter> {
        let counter = Counter::new(Wait::new(FI_WAIT_NONE, None, &[])?, false);
        counter.watch(true);
        Ok(counter)
    }

    pub fn value(&self) -> u64 {
        self.value.load(Ordering::Acquire)
    }

    /// Whether the counter has changed since the last call from fi_trywait.
    pub fn changed_for_wait(&self) -> bool {
        self.waited.take(self)
    }

    /// Whether operations have changed the counter since the last call from a poll set: fi_poll(3) excludes changes by
    /// the application itself.
    pub fn changed_for_poll(&self) -> bool {
        self.polled.take(self)
    }

    /// FI_CNTR_EVENTS_BYTES.
    pub fn counts_bytes(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & BYTES != 0
    }

    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Acquire)
    }

    /// Counts a successful operation of `len` bytes. Returns false and does nothing if operations wait for the value:
    /// the caller must then call `DomainState::count_watched`.
    #[inline]
    #[must_use]
    pub fn count(&self, len: usize) -> bool {
        // Relaxed: the mode changes under the domain lock, which the caller holds.
        self.add(match self.mode.load(Ordering::Relaxed) {
            0 => 1,
            BYTES => len as u64,
            _ => return false,
        });
        true
    }

    /// Like `count`, for a caller that checks afterwards whether a value was reached.
    pub fn succeeded(&self, len: usize) {
        self.add(if self.counts_bytes() { len as u64 } else { 1 });
    }

    /// Whether operations wait for a value. Called under the domain lock.
    pub fn is_watched(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & WATCHED != 0
    }

    pub fn watch(&self, on: bool) {
        match on {
            true => self.mode.fetch_or(WATCHED, Ordering::Relaxed),
            false => self.mode.fetch_and(!WATCHED, Ordering::Relaxed),
        };
    }

    pub fn failed(&self) {
        self.errors.fetch_add(1, Ordering::Release);
        self.wait.notify_unlocked();
    }

    #[inline]
    pub fn add(&self, n: u64) {
        // Release: a thread that sees the count also sees the data that it counts.
        self.value.fetch_add(n, Ordering::Release);
        self.wait.notify_unlocked();
    }

    /// Changes a value on behalf of the application: fi_cntr_add and similar calls.
    pub fn edit(&self, edit: Edit) {
        self.polled.miss(self);
        // Release: as in `add`.
        match edit {
            Edit::Add(n) => drop(self.value.fetch_add(n, Ordering::Release)),
            Edit::Set(n) => self.value.store(n, Ordering::Release),
            Edit::AddErrors(n) => drop(self.errors.fetch_add(n, Ordering::Release)),
            Edit::SetErrors(n) => self.errors.store(n, Ordering::Release),
        }
        self.polled.note(self);
        self.wait.notify_unlocked();
    }
}

/// A change of a counter by the application.
#[derive(Clone, Copy)]
pub enum Edit {
    Add(u64),
    Set(u64),
    AddErrors(u64),
    SetErrors(u64),
}

impl Seen {
    /// Records the values. Returns whether they have changed.
    fn note(&self, counter: &Counter) -> bool {
        let (value, errors) = (counter.value(), counter.errors());
        let value_changed = self.value.swap(value, Ordering::Relaxed) != value;
        let errors_changed = self.errors.swap(errors, Ordering::Relaxed) != errors;
        value_changed || errors_changed
    }

    /// Remembers a change by operations, whatever the application sets next.
    fn miss(&self, counter: &Counter) {
        if self.note(counter) {
            self.missed.store(true, Ordering::Relaxed);
        }
    }

    fn take(&self, counter: &Counter) -> bool {
        let missed = self.missed.swap(false, Ordering::Relaxed);
        self.note(counter) || missed
    }
}
