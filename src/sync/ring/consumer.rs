// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The side of a ring that takes records, and what it knows of one.
//!
//! Trusted with: accesses to the memory that the creator of the side vouches for.

use core::marker::PhantomData;
use core::sync::atomic::Ordering;

use super::memory::{Cells, Memory};
use super::{
    AHEAD, Garbage, HEADER, KINDS, LAP, LEN_BITS, LEN_MASK, LINE, SKIP, first_lap, is_capacity,
    lap_at, longest_body, size_of_record,
};
use crate::sync::atomic::Atomic;
use crate::sync::copy::copy_from_line;
use crate::sync::prefetch::prefetch_read;
use crate::sync::shared_bytes::SharedBytes;

/// The side that takes records.
pub struct Consumer<M = Memory> {
    pub(super) memory: M,
    mask: usize,
    /// Bytes taken, ever growing.
    pub(super) head: u64,
    /// Bytes of `head` that the producer has left out.
    left_out: u64,
    /// What the producer knows of it.
    pub(super) released: u64,
    /// How much more it may be before the producer is told: a quarter of a lap.
    pub(super) step: u64,
}

/// The next record: what its word said when it was looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    len: u32,
    kind: u8,
    /// Not to be made elsewhere.
    made: PhantomData<()>,
}

impl Record {
    /// As a ring that has room for it would give it.
    #[cfg(test)]
    pub(super) fn of_len(len: u32) -> Record {
        Record {
            len,
            kind: 0,
            made: PhantomData,
        }
    }

    /// Bytes of the body.
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
    /// The consumer of a ring that has not been used. It asks the producer to use no more than `most` bytes of it.
    /// `None`: not a capacity.
    ///
    /// # Safety
    /// As for `Producer::new`, with one consumer.
    pub unsafe fn new(memory: Memory, capacity: usize, most: usize) -> Option<Consumer> {
        Consumer::over(memory, capacity, first_lap(capacity), most)
    }

    /// Copies bytes of the body of the record that `peek` gave last; a record that is too short is garbage.
    #[inline]
    pub fn copy(&self, record: &Record, from: usize, out: &mut [u8]) -> Result<(), Garbage> {
        let body = self.body(record);
        match from <= body.len() && body.behind(from).copy_to(out) {
            true => Ok(()),
            false => Err(Garbage),
        }
    }

    /// Copies the body of a record that is in one line, and what is behind it there.
    #[inline]
    pub fn copy_line(&self, _: &Record, out: &mut [u8; LINE - HEADER]) {
        // SAFETY: the whole line is mapped (promise to `new`), and `out` is a reference's, so it is no part of that.
        // The peer may write there meanwhile: bytes of any value are what it may give anyway.
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

    /// Begins to fetch the lines of a record behind its first, as far as that is worth it before they are copied.
    #[inline(never)]
    pub fn prefetch_rest(&self, record: &Record) {
        let rest = size_of_record(record.len) - LINE;
        let line = self.address_of_next();
        for at in (0..rest.min(AHEAD)).step_by(LINE) {
            prefetch_read(line.wrapping_add(LINE + at));
        }
    }

    /// The body of the record that `peek` gave last, until `advance`. A record of another ring, or one that was taken,
    /// would be our own mistake: then these are other bytes of this ring.
    #[inline(always)]
    pub fn body(&self, record: &Record) -> SharedBytes<'_> {
        let len = record.len().min(self.longest());
        let body = self.address_of_next().wrapping_add(HEADER);
        // SAFETY: header and body end within one capacity of a place within the first, and two are mapped while this
        // side lives (promise to `new`). Nobody refers to what is there.
        unsafe { SharedBytes::new(body, len) }
    }

    /// The line that will hold the next record, for a prefetch.
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

    /// Whether `peek` is to be asked: if not, there is nothing.
    #[inline(always)]
    pub fn has_news(&self) -> bool {
        // SAFETY: as in `peek`, which looks again.
        let word = unsafe { self.memory.word(self.at()) }.load(Ordering::Relaxed);
        word != 0 && word & LAP == lap_at(self.head, self.mask)
    }

    /// The next record, if there is one. If there is none, something may have been left out in front of it, which
    /// `is_due`.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Record>, Garbage> {
        // SAFETY: a line below the capacity. Pairs with `Producer::put_word`.
        let word = unsafe { self.memory.word(self.at()) }.load(Ordering::Acquire);
        if word == 0 || word & LAP != lap_at(self.head, self.mask) {
            return Ok(None);
        }
        // No length at all becomes the greatest.
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
        // A lap of nothing could be followed by another for ever.
        if word & !LAP != SKIP || at == 0 {
            return Err(Garbage);
        }
        let rest = (self.mask + 1 - at) as u64;
        self.head = self.head.wrapping_add(rest);
        self.left_out = self.left_out.wrapping_add(rest);
        self.step = at as u64 / 4;
        self.peek()
    }

    /// Goes on behind the record that `peek` gave last. Whenever a quarter of a lap has been taken, the producer is
    /// told so; true: it sleeps and is to be woken.
    #[inline]
    #[must_use]
    pub fn advance(&mut self, record: Record) -> bool {
        self.head = self.head.wrapping_add(size_of_record(record.len) as u64);
        self.is_due() && self.publish_head()
    }

    /// Whether the producer is to be told how much was taken: after `advance` only if the rest of a lap was left out
    /// since.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.head.wrapping_sub(self.released) >= self.step
    }

    /// Gives back all room that was taken: to be called when the ring was found empty. True: the producer sleeps and is
    /// to be woken; this is said once for each time that there was something to give back.
    #[inline]
    #[must_use]
    pub fn release(&mut self) -> bool {
        // Otherwise the producer was told everything, and asked, already; if the ring is empty, it has all the room.
        self.head != self.released && self.publish_head()
    }

    /// Bytes of records that were taken: whole lines.
    pub fn taken(&self) -> u64 {
        self.head.wrapping_sub(self.left_out)
    }

    /// Bytes of records that were taken, and of what was left out.
    #[inline]
    pub fn position(&self) -> u64 {
        self.head
    }

    /// The longest body that a record can have here.
    #[inline]
    pub fn longest(&self) -> usize {
        longest_body(self.mask + 1)
    }

    fn publish_head(&mut self) -> bool {
        self.released = self.head;
        // All reads of the records come before it: pairs with `Producer::look_at_head`.
        self.memory.head().store(self.head, Ordering::Release);
        self.memory.waiting().is_set()
    }

    #[inline]
    pub(super) fn at(&self) -> usize {
        self.head as usize & self.mask
    }
}
