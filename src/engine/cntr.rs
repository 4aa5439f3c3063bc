// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The values of a counter: fi_cntr(3). The handle is in `domain::cntr`.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::abi::FI_WAIT_NONE;
use crate::base::Result;
use crate::engine::wait::Wait;

/// Shared by the handle and by the endpoints that count on it.
pub struct Counter {
    value: AtomicU64,
    errors: AtomicU64,
    pub wait: Wait,
    /// `BYTES`, `WATCHED`.
    mode: AtomicU8,
    /// For fi_trywait: what it has answered for is not news any more.
    waited: Seen,
    /// For poll sets, which are asked after fi_trywait said that there is something.
    polled: Seen,
}

/// FI_CNTR_EVENTS_BYTES: counts bytes, not operations.
const BYTES: u8 = 1;
/// Something waits for a value (fi_trigger(3)). Changes under the domain's lock.
const WATCHED: u8 = 2;

/// The values that somebody has been told of.
#[derive(Default)]
struct Seen {
    value: AtomicU64,
    errors: AtomicU64,
    /// Operations have completed, and nobody was told, before the application itself changed a value.
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

    /// Counts nothing. It stands where each completion has to be examined by itself.
    pub fn watcher() -> Result<Counter> {
        let counter = Counter::new(Wait::new(FI_WAIT_NONE, None, &[])?, false);
        counter.watch(true);
        Ok(counter)
    }

    pub fn value(&self) -> u64 {
        self.value.load(Ordering::Acquire)
    }

    /// Whether the counter has changed since fi_trywait last asked.
    pub fn changed_for_wait(&self) -> bool {
        self.waited.take(self)
    }

    /// Whether operations have changed the counter since a poll set last asked: fi_poll(3) leaves out what the
    /// application has added or set itself.
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

    /// An operation of `len` bytes has succeeded. False if nothing was done because something waits for the value:
    /// `DomainState::count_watched` is to be called.
    #[inline]
    #[must_use]
    pub fn count(&self, len: usize) -> bool {
        // Relaxed: changes under the domain's lock, which the caller holds.
        self.add(match self.mode.load(Ordering::Relaxed) {
            0 => 1,
            BYTES => len as u64,
            _ => return false,
        });
        true
    }

    /// As `count`, from a caller that checks afterwards whether a value was reached.
    pub fn succeeded(&self, len: usize) {
        self.add(if self.counts_bytes() { len as u64 } else { 1 });
    }

    /// Whether something waits for a value. To be asked, and changed, under the domain's lock.
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
        // Release: who sees the count also sees the data that it stands for.
        self.value.fetch_add(n, Ordering::Release);
        self.wait.notify_unlocked();
    }

    /// The application changes a value by itself: fi_cntr_add and the like.
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

/// What an application may do to a counter.
#[derive(Clone, Copy)]
pub enum Edit {
    Add(u64),
    Set(u64),
    AddErrors(u64),
    SetErrors(u64),
}

impl Seen {
    /// Takes note of the values; whether they are others.
    fn note(&self, counter: &Counter) -> bool {
        let (value, errors) = (counter.value(), counter.errors());
        let value_changed = self.value.swap(value, Ordering::Relaxed) != value;
        let errors_changed = self.errors.swap(errors, Ordering::Relaxed) != errors;
        value_changed || errors_changed
    }

    /// Keeps in mind that there was news, whatever the values become.
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
