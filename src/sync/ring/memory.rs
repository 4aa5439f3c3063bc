// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The memory of a ring: its words and lines as atomics, in shared memory or in loom's model of it.
//!
//! Trusted with: references to atomics in memory that the creator of a side vouches for. No other references to that
//! memory are made: another process may change these numbers at any time.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::Arc;

use super::LINE;
use crate::atomic::Atomic;
use crate::prefetch::prefetch_write;
use crate::sleep_flag::SleepFlag;
use sys::mapping::{Mapping, Pages, Shared};

/// The line that only the producer writes. Its size is part of the format (docs/wire/shm.md); crossbeam's `CachePadded`
/// would take two lines.
#[repr(C, align(64))]
pub struct ProducerLine {
    waiting: SleepFlag,
}

/// The line that only the consumer writes.
#[repr(C, align(64))]
pub struct ConsumerLine {
    head: AtomicU64,
    limit: AtomicU32,
}

// SAFETY: one atomic number, and padding that is never read.
unsafe impl Shared for ProducerLine {}
// SAFETY: two atomic numbers, and padding that is never read.
unsafe impl Shared for ConsumerLine {}

const _: () = assert!(size_of::<ProducerLine>() == LINE && size_of::<ConsumerLine>() == LINE);

/// The parts of one ring.
#[derive(Debug)]
pub struct Memory {
    pub data: NonNull<u8>,
    pub producer: NonNull<ProducerLine>,
    pub consumer: NonNull<ConsumerLine>,
    /// The pages of the data; at least those of the first lap are allocated.
    pub pages: Pages,
    /// The mapping of these addresses, which lives as long as this side of the ring.
    pub _mapped: Option<Arc<Mapping>>,
}

// SAFETY: addresses of memory that belongs to no thread; the maker of a side promises that each side exists once.
unsafe impl Send for Memory {}

/// The words and lines of a ring that both sides access.
pub trait Cells {
    type U32: Atomic<u32>;
    type U64: Atomic<u64>;

    /// Returns the word of the line at this offset.
    ///
    /// # Safety
    /// `at` is a multiple of a line, and below the capacity.
    unsafe fn word(&self, at: usize) -> &Self::U32;
    fn head(&self) -> &Self::U64;
    /// Returns the number of bytes of the ring that the consumer lets the producer use.
    fn limit(&self) -> &Self::U32;
    /// Makes sure that this range of the data can be accessed.
    fn provide(&self, from: usize, to: usize) -> bool;
    /// Frees the memory of this range of the data, which has no records. It reads as zeros afterwards. Returns false
    /// if that is not possible.
    fn give_back(&self, _from: usize, _to: usize) -> bool {
        false
    }
    fn waiting(&self) -> &SleepFlag<Self::U32>;
    /// Announces that the line at this offset is about to be written.
    fn prefetch_write(&self, _at: usize) {}
}

impl Cells for Memory {
    type U32 = AtomicU32;
    type U64 = AtomicU64;

    #[inline]
    unsafe fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: within the data (the caller's promise), which is at a multiple of a line and mapped (promise to
        // `Producer::new` and `Consumer::new`, the only users).
        unsafe { AtomicU32::from_ptr(self.data.as_ptr().add(at).cast()) }
    }

    #[inline]
    fn prefetch_write(&self, at: usize) {
        prefetch_write(self.data.as_ptr().wrapping_add(at));
    }

    #[inline]
    fn head(&self) -> &AtomicU64 {
        // SAFETY: the line is mapped (promise to `new`), and all of it is an atomic.
        unsafe { &(*self.consumer.as_ptr()).head }
    }

    fn limit(&self) -> &AtomicU32 {
        // SAFETY: as in `head`.
        unsafe { &(*self.consumer.as_ptr()).limit }
    }

    fn provide(&self, from: usize, to: usize) -> bool {
        // SAFETY: within the data, which is mapped (promise to `Producer::new`).
        unsafe { self.pages.allocate(self.data, from, to) }
    }

    fn give_back(&self, from: usize, to: usize) -> bool {
        // SAFETY: within the data, which is mapped (promise to `Producer::new`). The caller has no records there.
        unsafe { self.pages.free(self.data, from, to) }
    }

    #[inline]
    fn waiting(&self) -> &SleepFlag {
        // SAFETY: as in `head`.
        unsafe { &(*self.producer.as_ptr()).waiting }
    }
}
