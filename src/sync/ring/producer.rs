// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The side of a ring that writes records, and the room for one record.
//!
//! Trusted with: accesses to the memory that the creator of the side vouches for.

use core::mem::ManuallyDrop;
use core::sync::atomic::Ordering;

use super::memory::{Cells, Memory};
use super::shrink::{Shrink, count_growth};
use super::{
    AHEAD, Garbage, HEADER, KINDS, LAPS, LEN_BITS, LINE, LONG, QUICK_LAP, SKIP, at_most, first_lap,
    is_capacity, lap_at, longest_body, size_of_record,
};
use crate::atomic::Atomic;
use crate::copy::{copy_to_line, copy_to_shared};
use crate::shared_bytes::SharedRoom;

/// The side that writes records.
pub struct Producer<M = Memory> {
    pub(super) memory: M,
    pub(super) mask: usize,
    /// Number of bytes published or skipped; only grows.
    pub(super) tail: u64,
    /// Number of skipped bytes in `tail`.
    left_out: u64,
    /// The consumer's head when it was last read.
    pub(super) seen: u64,
    /// Number of bytes that records may take before the head must be read again.
    pub(super) free: usize,
    /// Length of a lap, which can grow up to `most`.
    pub(super) lap: usize,
    pub(super) most: usize,
    /// The length up to which a lap grows as soon as a record finds no room.
    quick: usize,
    /// State of making laps shorter.
    pub(super) shrink: Shrink,
    /// Number of laps of this length whose traffic would profit from longer laps.
    pub(super) laps: u8,
    /// The value of `heard` when this lap began.
    heard: u64,
    /// Size of the last record; 0 after `prefetch_next` has used it.
    last: usize,
    /// One flag for each line in use: the line may hold something other than the last lap's word in the place of a
    /// word.
    pub(super) bodies: Vec<bool>,
}

impl Producer {
    /// Returns the producer of a ring that has not been used: all its memory is zero. It uses up to `most` bytes of
    /// the ring, but at least the first lap. Returns `None` if `capacity` is not valid.
    ///
    /// # Safety
    /// `memory.data` is at a multiple of 64, and twice `capacity` bytes long: the same pages twice, or, where both
    /// sides use this very address, any memory. All of `memory` stays mapped and writable while the producer lives, and
    /// there is one producer.
    pub unsafe fn new(memory: Memory, capacity: usize, most: usize) -> Option<Producer> {
        let mut producer = Producer::over(memory, capacity, first_lap(capacity), most)?;
        producer.quick = at_most(QUICK_LAP, capacity);
        Some(producer)
    }

    /// Reserves room for a body of `len` bytes; `None` if there is none now. `heard` counts the bytes received from the
    /// peer.
    #[inline(always)]
    pub fn reserve(&mut self, len: usize, heard: u64) -> Result<Option<Body<'_>>, Garbage> {
        if !self.find_room(len, heard)? {
            return Ok(None);
        }
        let at = self.at() + HEADER;
        Ok(Some(Body {
            // SAFETY: `at` is below the capacity and `len` too (`find_room`), and twice that is mapped (promise to
            // `new`).
            next: unsafe { self.memory.data.as_ptr().add(at) },
            left: len,
            len: len as u32,
            producer: self,
        }))
    }
}

impl<M: Cells> Producer<M> {
    pub(super) fn over(memory: M, capacity: usize, lap: usize, most: usize) -> Option<Producer<M>> {
        is_capacity(capacity).then(|| Producer {
            memory,
            mask: capacity - 1,
            tail: 0,
            left_out: 0,
            seen: 0,
            free: lap - LINE,
            lap,
            most: most.min(capacity),
            quick: lap,
            shrink: Shrink::default(),
            laps: 0,
            heard: 0,
            last: 0,
            bodies: vec![false; lap / LINE],
        })
    }

    /// Returns the longest body that `reserve` takes now if it does not take one of `wanted` bytes; `None` if it does
    /// not even take an empty one. `heard` is as in `reserve`.
    pub fn room(&mut self, wanted: usize, heard: u64) -> Result<Option<usize>, Garbage> {
        self.find_more_room(wanted, heard)?;
        Ok(self.free.checked_sub(HEADER))
    }

    /// Returns the longest body for which there can be room before laps get longer with use.
    pub fn longest(&self) -> usize {
        longest_body(self.lap.max(self.quick))
    }

    /// Returns the greatest length of a lap.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Sets or clears the flag that this side sleeps until there is room. After `true`, look for room again, then
    /// sleep.
    pub fn set_waiting(&self, waiting: bool) {
        match waiting {
            true => self.memory.waiting().arm(),
            false => self.memory.waiting().disarm(),
        }
    }

    /// Returns true if the consumer has published that it has taken everything.
    pub fn is_empty(&mut self) -> Result<bool, Garbage> {
        self.look_at_head()?;
        Ok(self.seen == self.tail)
    }

    /// Returns the number of bytes of records that were published, in whole lines.
    pub fn published(&self) -> u64 {
        self.tail.wrapping_sub(self.left_out)
    }

    /// Returns the number of bytes that were published or skipped.
    #[cfg(test)]
    pub fn position(&self) -> u64 {
        self.tail
    }

    /// Returns the number of bytes up to the consumer's published head.
    #[cfg(test)]
    pub(super) fn consumed(&mut self) -> Result<u64, Garbage> {
        self.look_at_head()?;
        Ok(self.seen)
    }

    #[inline(always)]
    pub(super) fn find_room(&mut self, len: usize, heard: u64) -> Result<bool, Garbage> {
        // The same as `len + HEADER <= free`, without an overflow of the sum.
        if len < self.free.saturating_sub(HEADER - 1) {
            return Ok(true);
        }
        self.find_more_room(len, heard)
    }

    #[inline(never)]
    fn find_more_room(&mut self, len: usize, heard: u64) -> Result<bool, Garbage> {
        self.look_at_head()?;
        loop {
            self.free = self.untaken().min(self.rest_of_lap());
            if len < self.free.saturating_sub(HEADER - 1) {
                return Ok(true);
            }
            if !self.turn(len, heard) {
                return Ok(false);
            }
        }
    }

    /// Returns the number of bytes that are free for records.
    pub(super) fn untaken(&self) -> usize {
        let used = self.tail.wrapping_sub(self.seen);
        self.mask + 1 - LINE - used as usize
    }

    /// Returns the number of bytes that records may take in this lap. If the lap is the whole ring, a record may wrap
    /// around its end.
    pub(super) fn rest_of_lap(&self) -> usize {
        match self.lap > self.mask {
            true => self.lap,
            false => (self.lap - LINE).saturating_sub(self.at()),
        }
    }

    /// Lengthens the lap or begins the next one, if the lap ends before a record of this length would.
    fn turn(&mut self, len: usize, heard: u64) -> bool {
        if len < self.rest_of_lap().saturating_sub(HEADER - 1) {
            // The consumer is behind: the next turn makes a short lap longer.
            if self.lap < self.quick {
                self.laps = LAPS;
            }
            return false;
        }
        if self.laps >= LAPS && self.lengthen() {
            return true;
        }
        let rest = self.mask + 1 - self.at();
        let room = self.untaken().checked_sub(rest);
        // Less than half of the next lap would be free: the consumer is behind.
        let wanted = (len.saturating_add(HEADER)).max(self.lap / 2);
        if room.is_none_or(|room| room < wanted) && self.lap < self.quick && self.lengthen() {
            return true;
        }
        let is_free = room.is_some() && len <= longest_body(self.lap);
        if is_free {
            self.skip(rest);
            let answers = heard.wrapping_sub(self.heard);
            self.heard = heard;
            let wants_more = len >= LONG || answers < self.lap as u64 / 2;
            self.laps = self.laps.saturating_add(u8::from(wants_more));
        }
        is_free
    }

    #[cold]
    fn lengthen(&mut self) -> bool {
        let lap = 2 * self.lap;
        // The limit is 0 as long as the consumer has not stored one.
        let limit = self.memory.limit().load(Ordering::Relaxed);
        if lap > self.quick && lap > self.most.min(limit as usize) {
            return false;
        }
        if !self.memory.provide(self.lap, lap) {
            (self.most, self.quick) = (self.lap, self.lap);
            return false;
        }
        self.lap = lap;
        self.laps = 0;
        self.bodies.resize(lap / LINE, false);
        count_growth();
        true
    }

    /// Skips the rest of the lap. `turn` has found room for it.
    pub(super) fn skip(&mut self, rest: usize) {
        let (at, word) = (self.at(), SKIP | self.lap_bit());
        self.shrink.skipped_at = at;
        // The skipped lines may hold words of the lap before this one, whose lap bit is that of the next lap.
        self.bodies[at / LINE + 1..].fill(true);
        self.put_word(at, 0, word);
        self.tail = self.tail.wrapping_add(rest as u64);
        self.left_out = self.left_out.wrapping_add(rest as u64);
    }

    pub(super) fn look_at_head(&mut self) -> Result<(), Garbage> {
        // Acquire: this side overwrites the room only after the consumer has read it. Pairs with
        // `Consumer::publish_head`.
        let head = self.memory.head().load(Ordering::Acquire);
        let used = self.tail.wrapping_sub(head);
        // A valid head never goes back, and never beyond what was published.
        if used > self.tail.wrapping_sub(self.seen) || !used.is_multiple_of(LINE as u64) {
            return Err(Garbage);
        }
        self.seen = head;
        Ok(())
    }

    /// Publishes a record for which `find_room` has found room.
    #[inline(always)]
    pub(super) fn publish(&mut self, len: u32, kind: u8) {
        let size = size_of_record(len);
        let next = self.tail.wrapping_add(size as u64);
        let word = u32::from(kind % KINDS) << LEN_BITS | (len + 1) | self.lap_bit();
        let (at, behind) = (self.at(), next as usize & self.mask);
        if size > LINE {
            self.note_body(at / LINE + 1, size / LINE - 1);
        }
        self.put_word(at, behind, word);
        self.tail = next;
        self.free -= size;
        self.last = size;
    }

    /// Prefetches the lines of the next record for writing, if it is as long as the last one, except the first line,
    /// which the consumer polls. For idle times: a record that is written at once is not faster for it.
    pub fn prefetch_next(&mut self) {
        let size = core::mem::take(&mut self.last);
        if size <= LINE || size > self.free {
            return;
        }
        let first = self.at();
        for at in (LINE..size.min(AHEAD + LINE)).step_by(LINE) {
            self.memory.prefetch_write(first + at);
        }
    }

    /// Publishes the record or skip mark in the line at `at`; `behind` is the line that the consumer polls next.
    #[inline(always)]
    fn put_word(&mut self, at: usize, behind: usize, word: u32) {
        // SAFETY: both are lines of the ring that are in use (`turn` makes sure of that, and a lap of the whole ring
        // uses all lines), and `bodies` has an entry for each.
        unsafe {
            *self.bodies.get_unchecked_mut(at / LINE) = false;
            if core::mem::take(self.bodies.get_unchecked_mut(behind / LINE)) {
                self.memory.word(behind).store(0, Ordering::Relaxed);
            }
            // A consumer that sees this word sees the body, and the cleared line behind it: pairs with
            // `Consumer::peek`.
            self.memory.word(at).store(word, Ordering::Release);
        }
    }

    /// Marks lines that hold only bytes of a body.
    #[inline(never)]
    fn note_body(&mut self, from: usize, lines: usize) {
        let from = from % self.bodies.len();
        let end = self.bodies.len().min(from + lines);
        let wrapped = lines - (end - from);
        self.bodies[from..end].fill(true);
        self.bodies[..wrapped].fill(true);
    }

    #[inline]
    fn lap_bit(&self) -> u32 {
        lap_at(self.tail, self.mask)
    }

    #[inline]
    pub(super) fn at(&self) -> usize {
        self.tail as usize & self.mask
    }
}

/// Room for the body of a record. A body that is dropped without `publish` sends nothing.
pub struct Body<'a> {
    producer: &'a mut Producer,
    next: *mut u8,
    /// Bytes from `next` on.
    left: usize,
    len: u32,
}

impl Body<'_> {
    /// Appends `bytes`.
    ///
    /// # Panics
    /// If `bytes` has more bytes than are left: a fault of this library, which no peer can cause.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.left, "a record is longer than its room");
        // SAFETY: `left` bytes from `next` on are mapped and belong to this side until it publishes. `bytes` does not
        // overlap them, because no reference to shared memory exists.
        unsafe {
            copy_to_shared(bytes.as_ptr(), self.next, bytes.len());
            self.next = self.next.add(bytes.len());
        }
        self.left -= bytes.len();
    }

    /// Appends the first `len` bytes of an array, which is copied whole. Must be the first bytes of the body.
    ///
    /// # Panics
    /// As for `put`.
    #[inline(always)]
    pub fn begin<const N: usize>(&mut self, bytes: &[u8; N], len: usize) {
        assert!(
            N <= LINE - HEADER && len <= N && len <= self.left && self.left == self.len as usize,
            "a record is longer than its room, or has begun"
        );
        // SAFETY: the body is empty, so `next` is 8 bytes behind the start of a line, which has room for `N` bytes
        // whatever the record's length; otherwise as in `put`.
        unsafe {
            copy_to_line(bytes, self.next);
            self.next = self.next.add(len);
        }
        self.left -= len;
    }

    /// Returns the rest of the room. Bytes that are copied there are part of the body but do not count as put.
    #[inline(always)]
    pub fn room(&mut self) -> SharedRoom<'_> {
        // SAFETY: as in `put`; the borrow keeps the body from being published or dropped meanwhile.
        unsafe { SharedRoom::new(self.next, self.left) }
    }

    #[cfg(test)]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Publishes the record to the consumer. Bytes of the body that were not put have the ring's old values.
    #[inline]
    pub fn publish(self, kind: u8) {
        let mut body = ManuallyDrop::new(self);
        let len = body.len;
        body.producer.publish(len, kind);
    }

    /// Publishes a record of only those reserved bytes that were put.
    #[cfg(test)]
    pub fn publish_put(mut self, kind: u8) {
        self.give_up();
        self.len -= self.left as u32;
        self.publish(kind);
    }

    /// Marks the lines of the reserved room, because any of them may hold bytes of a body now.
    fn give_up(&mut self) {
        let lines = size_of_record(self.len) / LINE;
        let at = self.producer.at() / LINE;
        self.producer.note_body(at + 1, lines - 1);
    }
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}
