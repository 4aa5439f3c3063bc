// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The side of a ring that takes records, and the description of one record.
//!
//! Trusted with: accesses to the memory that the creator of the side vouches for.

use core::marker::PhantomData;
use core::sync::atomic::Ordering;

use super::memory::{Cells, Memory};
use super::{
    AHEAD, Garbage, HEADER, KINDS, LAP, LEN_BITS, LEN_MASK, LINE, SKIP, first_lap, is_capacity,
    lap_at, longest_body, size_of_record,
};
use crate::atomic::Atomic;
use crate::copy::copy_from_line;
use crate::prefetch::prefetch_read;
use crate::shared_bytes::SharedBytes;

/// The side that takes records.
pub struct Consumer<M = Memory> {
    pub(super) memory: M,
    mask: usize,
    /// Number of bytes taken; only grows.
    pub(super) head: u64,
    /// Bytes of `head` that the producer skipped.
    left_out: u64,
    /// The head that was published to the producer.
    pub(super) released: u64,
    /// Number of bytes by which `head` may be ahead of `released`: a quarter of a lap.
    pub(super) step: u64,
}

/// The next record, as described by its word when `peek` read it.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    len: u32,
    kind: u8,
    /// Keeps other modules from making a value.
    made: PhantomData<()>,
}

impl Record {
    /// Returns a record of the given length, as `peek` would return it.
    #[cfg(test)]
    pub(super) fn of_len(len: u32) -> Record {
        Record {
            len,
            kind: 0,
            made: PhantomData,
        }
    }

    /// Returns the number of bytes of the body.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    #[cfg(test)]
    pub fn kind(&self) -> u8 {
        self.kind
    }
}

impl Consumer {
    /// Returns the consumer of a ring that has not been used. It limits the producer to `most` bytes of the ring.
    /// Returns `None` if `capacity` is not valid.
    ///
    /// # Safety
    /// As for `Producer::new`, with one consumer.
    pub unsafe fn new(memory: Memory, capacity: usize, most: usize) -> Option<Consumer> {
        Consumer::over(memory, capacity, first_lap(capacity), most)
    }

    /// Copies bytes of the body of the record that `peek` returned last. Returns `Garbage` if the record is too short.
    #[inline]
    pub fn copy(&self, record: &Record, from: usize, out: &mut [u8]) -> Result<(), Garbage> {
        let body = self.body(record);
        match from <= body.len() && body.behind(from).copy_to(out) {
            true => Ok(()),
            false => Err(Garbage),
        }
    }

    /// Copies the body of a record that lies in one line, with the bytes behind it in that line.
    #[inline]
    pub fn copy_line(&self, _: &Record, out: &mut [u8; LINE - HEADER]) {
        // SAFETY: the whole line is mapped (promise to `new`), and `out` is a reference, so it does not overlap the
        // line. The peer may write there meanwhile: it may give bytes of any value anyway.
        unsafe {
            copy_from_line(self.address_of_next().add(HEADER), out);
        }
    }

    /// As `copy_line`, for the first bytes of any record.
    #[inline]
    pub fn copy_start<const N: usize>(&self, _: &Record, out: &mut [u8; N]) {
        const { assert!(N <= LINE - HEADER) };
        // SAFETY: as in `copy_line`: a part of the line.
        unsafe {
            copy_from_line(self.address_of_next().add(HEADER), out);
        }
    }

    /// Prefetches the lines of a record behind its first, up to `AHEAD` bytes.
    #[inline(never)]
    pub fn prefetch_rest(&self, record: &Record) {
        let rest = size_of_record(record.len) - LINE;
        let line = self.address_of_next();
        for at in (0..rest.min(AHEAD)).step_by(LINE) {
            prefetch_read(line.wrapping_add(LINE + at));
        }
    }

    /// Returns the body of the record that `peek` returned last, until `advance`. For a record of another ring, or
    /// one that was taken already (a fault of the caller), the result is other bytes of this ring.
    #[inline(always)]
    pub fn body(&self, record: &Record) -> SharedBytes<'_> {
        let len = record.len().min(self.longest());
        let body = self.address_of_next().wrapping_add(HEADER);
        // SAFETY: header and body end within one capacity of a place within the first, and two are mapped while this
        // side lives (promise to `new`). No reference to that memory exists.
        unsafe { SharedBytes::new(body, len) }
    }

    /// Returns the line that will hold the next record, for a prefetch.
    #[inline]
    pub fn address_of_next(&self) -> *const u8 {
        self.memory.data.as_ptr().wrapping_add(self.at())
    }
}

impl<M: Cells> Consumer<M> {
    pub(super) fn over(memory: M, capacity: usize, lap: usize, most: usize) -> Option<Consumer<M>> {
        if !is_capacity(capacity) {
            return None;
        }
        memory
            .limit()
            .store(most.min(capacity) as u32, Ordering::Relaxed);
        Some(Consumer {
            memory,
            mask: capacity - 1,
            head: 0,
            left_out: 0,
            released: 0,
            step: lap as u64 / 4,
        })
    }

    /// Returns true if the caller should call `peek`; false means that there is no record.
    #[inline(always)]
    pub fn has_events(&self) -> bool {
        // SAFETY: as in `peek`, which looks again.
        let word = unsafe { self.memory.word(self.at()) }.load(Ordering::Relaxed);
        word != 0 && word & LAP == lap_at(self.head, self.mask)
    }

    /// Returns the next record, if there is one. If there is none, `peek` may have skipped the rest of a lap, so
    /// `is_due` may be true.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Record>, Garbage> {
        // SAFETY: a line below the capacity. Pairs with `Producer::put_word`.
        let word = unsafe { self.memory.word(self.at()) }.load(Ordering::Acquire);
        if word == 0 || word & LAP != lap_at(self.head, self.mask) {
            return Ok(None);
        }
        // A word without a length becomes the greatest value.
        let len = (word & LEN_MASK).wrapping_sub(1);
        if len > self.longest() as u32 {
            return self.peek_at_next_lap(word);
        }
        Ok(Some(Record {
            len,
            kind: (word >> LEN_BITS) as u8 % KINDS,
            made: PhantomData,
        }))
    }

    #[cold]
    fn peek_at_next_lap(&mut self, word: u32) -> Result<Option<Record>, Garbage> {
        let at = self.at();
        // An empty lap could be followed by another one, endlessly.
        if word & !LAP != SKIP || at == 0 {
            return Err(Garbage);
        }
        let rest = (self.mask + 1 - at) as u64;
        self.head = self.head.wrapping_add(rest);
        self.left_out = self.left_out.wrapping_add(rest);
        self.step = at as u64 / 4;
        self.peek()
    }

    /// Moves behind the record that `peek` returned last. After each quarter of a lap it publishes the head to the
    /// producer. Returns true if the producer sleeps and has to be woken up.
    #[inline]
    #[must_use]
    pub fn advance(&mut self, record: Record) -> bool {
        self.head = self.head.wrapping_add(size_of_record(record.len) as u64);
        self.is_due() && self.publish_head()
    }

    /// Returns true if the head has to be published to the producer. After `advance` that happens only if `peek` has
    /// skipped the rest of a lap since.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.head.wrapping_sub(self.released) >= self.step
    }

    /// Publishes the head, so that the producer gets all room back. The caller does so when it found the ring empty.
    /// Returns true if the producer sleeps and has to be woken up; only if there was something to give back.
    #[inline]
    #[must_use]
    pub fn release(&mut self) -> bool {
        // If the heads are equal, the head was published and the flag was checked already, so the producer has all the
        // room of an empty ring.
        self.head != self.released && self.publish_head()
    }

    /// Returns the number of bytes of records that were taken, in whole lines.
    pub fn taken(&self) -> u64 {
        self.head.wrapping_sub(self.left_out)
    }

    /// Returns the number of bytes of records that were taken, with the skipped bytes.
    #[inline]
    pub fn position(&self) -> u64 {
        self.head
    }

    /// Returns the longest body that a record can have in this ring.
    #[inline]
    pub fn longest(&self) -> usize {
        longest_body(self.mask + 1)
    }

    fn publish_head(&mut self) -> bool {
        self.released = self.head;
        // Release: all reads of the records come before it. Pairs with `Producer::look_at_head`.
        self.memory.head().store(self.head, Ordering::Release);
        self.memory.waiting().is_set()
    }

    #[inline]
    pub(super) fn at(&self) -> usize {
        self.head as usize & self.mask
    }
}
