// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Receiving over a channel: the records that the other side has written, and room that is given back to it.
#![forbid(unsafe_code)]

use super::ShmChannel;
use crate::base::{IoVec, Piece};
use crate::sync::ring::{Garbage, HEADER, LINE, Record};

impl ShmChannel {
    /// The other side cannot have written more than this that was not read: all of its ring.
    pub fn longest_rest(&self) -> usize {
        self.rx.longest() + 2 * LINE
    }

    /// More was read of a side that is gone than it can have written.
    #[inline]
    pub fn is_past_end(&self) -> bool {
        self.ended && self.rx.position() > self.last
    }

    /// Whether `peek` is to be asked: if not, there is nothing.
    #[inline(always)]
    pub fn has_news(&self) -> bool {
        self.rx.has_news()
    }

    /// The next record of the other side.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Record>, Garbage> {
        self.rx.peek()
    }

    /// Begins to fetch what is not in the first line of a record.
    #[inline(always)]
    pub fn prefetch_rest(&self, record: &Record) {
        if !ShmChannel::is_line(record) {
            self.rx.prefetch_rest(record);
        }
    }

    /// Whether a record is in one line: `copy_line` copies that.
    #[inline]
    pub fn is_line(record: &Record) -> bool {
        record.len() <= LINE - HEADER
    }

    #[inline]
    pub fn copy_line(&self, record: &Record, out: &mut [u8; LINE - HEADER]) {
        self.rx.copy_line(record, out);
    }

    /// The first bytes of a record, and what is behind it if it has fewer.
    #[inline]
    pub fn copy_start<const N: usize>(&self, record: &Record, out: &mut [u8; N]) {
        self.rx.copy_start(record, out);
    }

    /// Copies `len` bytes of a record to the application's memory from its start on, whatever was moved.
    #[inline(always)]
    pub fn fill(&self, record: &Record, from: usize, len: usize, to: &IoVec) {
        to.fill_from(self.rx.body(record).behind(from).first(len));
    }

    /// The same to one piece of memory.
    #[inline(always)]
    pub fn fill_piece(&self, record: &Record, from: usize, len: usize, to: &Piece) {
        to.fill_from(self.rx.body(record).behind(from).first(len));
    }

    /// Appends what is behind the first `from` bytes of a record.
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

    /// The record has been taken. True: the other side waits for room, and the caller wakes it.
    #[inline]
    #[must_use]
    pub fn advance(&mut self, record: Record) -> bool {
        self.rx.advance(record)
    }

    /// Whether `release` is due although nothing more is there.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.rx.is_due()
    }

    /// Publishes that all was taken. True: the other side waits for room, and the caller wakes it.
    #[must_use]
    pub fn release(&mut self) -> bool {
        self.rx.release()
    }
}
