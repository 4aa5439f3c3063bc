// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Receiving over a channel: takes the records of the other side and returns the room to it.

use super::ShmChannel;
use base::{IoVec, Piece};
use hmem::transit::Landing;
use sync::ring::{Garbage, HEADER, LINE, Record};

impl ShmChannel {
    /// Returns the most bytes that the other side can have written and this side has not read: all of the ring.
    pub fn longest_rest(&self) -> usize {
        self.rx.longest() + 2 * LINE
    }

    /// Whether more was read from a side that is gone than it can have written.
    #[inline]
    pub fn is_past_end(&self) -> bool {
        self.ended && self.rx.position() > self.last
    }

    /// Whether `peek` may find a record; if not, there is none.
    #[inline(always)]
    pub fn has_events(&self) -> bool {
        self.rx.has_events()
    }

    /// Returns the next record of the other side.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Record>, Garbage> {
        self.rx.peek()
    }

    /// Starts to prefetch the part of a record that is not in its first cache line.
    #[inline(always)]
    pub fn prefetch_rest(&self, record: &Record) {
        if !ShmChannel::is_line(record) {
            self.rx.prefetch_rest(record);
        }
    }

    /// Whether a record fits into one cache line: `copy_line` copies that.
    #[inline]
    pub fn is_line(record: &Record) -> bool {
        record.len() <= LINE - HEADER
    }

    #[inline]
    pub fn copy_line(&self, record: &Record, out: &mut [u8; LINE - HEADER]) {
        self.rx.copy_line(record, out);
    }

    /// Copies the first bytes of a record, and bytes behind it if it is shorter.
    #[inline]
    pub fn copy_start<const N: usize>(&self, record: &Record, out: &mut [u8; N]) {
        self.rx.copy_start(record, out);
    }

    /// Copies `len` bytes of a record to the start of the application's memory, independent of its cursor.
    #[inline(always)]
    pub fn fill(&self, record: &Record, from: usize, len: usize, to: &IoVec) {
        to.fill_from(self.rx.body(record).behind(from).first(len));
    }

    /// Does the same for one piece of memory.
    #[inline(always)]
    pub fn fill_piece(&self, record: &Record, from: usize, len: usize, to: &Piece) {
        to.fill_from(self.rx.body(record).behind(from).first(len));
    }

    /// Appends a record without its first `from` bytes.
    #[inline]
    pub fn append(&self, record: &Record, from: usize, bytes: &mut Vec<u8>) {
        self.rx.body(record).behind(from).append_to(bytes);
    }

    #[inline]
    pub fn copy(&self, record: &Record, from: usize, out: &mut [u8]) -> Result<(), Garbage> {
        self.rx.copy(record, from, out)
    }

    /// Copies up to `len` bytes of a record to the application's memory.
    #[inline]
    pub fn place(&self, record: &Record, from: usize, len: usize, to: &mut IoVec) {
        to.copy_in_from(self.rx.body(record).behind(from).first(len));
    }

    /// Does the same for memory of a device, part by part: returns how many bytes it has copied.
    #[cold]
    pub fn land(
        &self,
        record: &Record,
        from: usize,
        len: usize,
        to: &mut IoVec,
        landing: &mut Option<Box<Landing>>,
    ) -> Result<usize, Garbage> {
        let next = landing.get_or_insert_default();
        let Some(room) = to.landing_room(next, len) else {
            self.place(record, from, len, to);
            return Ok(len);
        };
        let n = room.len();
        self.copy(record, from, room)?;
        to.landed(next, n);
        Ok(n)
    }

    /// Marks the record as taken. Returns true if the other side waits for room and the caller has to wake it.
    #[inline]
    #[must_use]
    pub fn advance(&mut self, record: Record) -> bool {
        self.rx.advance(record)
    }

    /// Whether a `release` is due although no more records are there.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.rx.is_due()
    }

    /// Publishes that all records were taken. Returns true if the other side waits for room and the caller has to wake
    /// it.
    #[must_use]
    pub fn release(&mut self) -> bool {
        self.rx.release()
    }
}
