// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Pieces in memory of devices. Copies ask the driver; the kernel and other processes get and give their bytes through
//! the thread's stage.
//!
//! Trusted with: that the bytes in the stage are used before the next ones get there. A list of pieces is used up
//! before another is made.

use core::ops::Range;
use core::ptr;
use std::io;
use std::sync::{Mutex, PoisonError};

use hmem::import::Import;
use hmem::stage;
use sys::io_list::GatherList;

use super::{IoVec, Piece, Span};
use crate::grow::reserve;

impl IoVec {
    /// Whether a device has a piece of the memory.
    #[inline]
    pub fn is_device(&self) -> bool {
        self.is_device
    }

    /// Records which pieces a device has.
    pub fn mark(&mut self, is_device: impl Fn(Span) -> bool) {
        for piece in &mut self.pieces[..usize::from(self.count)] {
            if piece.len > 0 && is_device(piece.span()) {
                piece.mark();
                self.is_device = true;
            }
        }
    }

    /// Whether a device has the next byte.
    fn is_device_next(&self) -> bool {
        if !self.is_device {
            return false;
        }
        let mut pieces = self.pieces[usize::from(self.at)..usize::from(self.count)].iter();
        let skipped = pieces.next().filter(|piece| piece.len > self.done);
        let next = skipped.or_else(|| pieces.find(|piece| piece.len > 0));
        next.is_some_and(|piece| piece.is_device())
    }

    /// If a device has the next byte, fills the memory with what `read` puts into host memory, at most `max` bytes, and
    /// returns how many those are.
    #[inline]
    pub fn fill_by(
        &self,
        max: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        self.is_device_next().then(|| self.fill_through(max, read))
    }

    #[cold]
    fn fill_through(
        &self,
        max: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        stage::with(max, |stage| {
            let len = read(stage)?;
            Ok(self.again().copy_in(&stage[..len]))
        })
    }

    /// Returns the address of the next byte, which is marked if a device has it.
    pub fn next_address(&self) -> *const u8 {
        let pieces = &self.pieces[usize::from(self.at)..usize::from(self.count)];
        let mut skip = self.done;
        for piece in pieces {
            if piece.len > skip {
                return piece.base.wrapping_byte_add(skip);
            }
            skip = 0;
        }
        ptr::null()
    }

    /// Fills the memory with bytes of a mapped allocation of another process. Returns false if they did not all arrive.
    #[cold]
    pub fn fill_from_import(&self, import: &Import, from: Range<usize>) -> bool {
        self.fill_by_place(from, |at, to, len| {
            // SAFETY: the maker of the piece promised its memory for as long as it is kept.
            unsafe { import.copy_to(at, to, len) }.is_ok()
        })
    }

    /// Does the same with device memory of this process.
    #[cold]
    pub fn fill_from_device(&self, from: Range<usize>) -> bool {
        self.fill_by_place(from, |at, to, len| {
            // SAFETY: as above; the driver checks the device's side.
            unsafe { hmem::driver::copy_within(at, to, len) }.is_ok()
        })
    }

    /// Returns `len` bytes that a call puts into new host memory, unless it returns false.
    #[cold]
    pub fn bytes_by(len: usize, fill: impl FnOnce(&IoVec) -> bool) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        reserve(&mut bytes, len).ok()?;
        bytes.resize(len, 0);
        // SAFETY: the list is dropped before `bytes` is used again.
        let piece = unsafe { Piece::new(bytes.as_mut_ptr(), len) };
        fill(&IoVec::from(piece)).then_some(bytes)
    }

    fn fill_by_place(
        &self,
        from: Range<usize>,
        copy: impl Fn(usize, *mut u8, usize) -> bool,
    ) -> bool {
        let mut from = from;
        let mut skip = self.done;
        for piece in &self.pieces[usize::from(self.at)..usize::from(self.count)] {
            let len = (piece.len - skip).min(from.len());
            if len > 0 && !copy(from.start, piece.base.wrapping_byte_add(skip), len) {
                return false;
            }
            from.start += len;
            skip = 0;
        }
        true
    }

    /// Changes the next `len` bytes through a copy in the host's memory, one such change of the process at a time. It
    /// is not atomic for the device itself, or for other processes.
    #[cold]
    pub fn change_by_copy(&mut self, len: usize, change: impl FnOnce(&mut IoVec)) {
        static CHANGE: Mutex<()> = Mutex::new(());
        let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut part = self.split_off(len);
        let mut bytes = Vec::new();
        part.copy_out(&mut bytes);
        let before = bytes.clone();
        // SAFETY: the list is dropped before `bytes` is used again.
        let piece = unsafe { Piece::new(bytes.as_mut_ptr(), bytes.len()) };
        change(&mut IoVec::from(piece));
        if bytes != before {
            part.copy_in(&bytes);
        }
    }

    /// Returns and forgets the driver's number of a failed copy to or from this memory.
    #[inline]
    pub fn take_fault(&self) -> Option<i32> {
        match hmem::faults::any() {
            false => None,
            true => self.find_fault(),
        }
    }

    #[cold]
    fn find_fault(&self) -> Option<i32> {
        let pieces = self.pieces[..usize::from(self.count)].iter();
        let spans = pieces
            .filter(|piece| piece.is_device())
            .map(|piece| piece.span());
        spans
            .filter_map(|span| hmem::faults::take(span.start, span.len))
            .reduce(|first, _| first)
            .map(|fault| fault.code)
    }
}

/// Copies bytes of device memory to the stage, behind those of the list that are there, and adds them to the list.
#[cold]
#[inline(never)]
pub(super) fn stage(from: *const u8, len: usize, out: &mut GatherList<'_>) -> usize {
    let base = stage::base();
    let inside = |at: usize| at.checked_sub(base.addr()).filter(|&at| at < stage::LEN);
    let pieces = out.pieces().iter();
    let ends = pieces.filter_map(|piece| Some(inside(piece.iov_base.addr())? + piece.iov_len));
    let used = ends.max().unwrap_or(0);
    let len = len.min(stage::LEN - used);
    if len == 0 {
        return 0;
    }
    // SAFETY: `used + len` is within the stage, which belongs to this thread; it stays, and no other list of the thread
    // is in use.
    unsafe {
        let room = base.add(used);
        if !hmem::read_device(from, room, len) {
            out.break_off();
        }
        match out.push_raw(room, len) {
            true => len,
            false => 0,
        }
    }
}
