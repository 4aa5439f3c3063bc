// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Pieces in memory of devices. Copies ask the driver; the kernel and other processes get and give their bytes through
//! the thread's stage.
//!
//! Trusted with: that the bytes in the stage are used before the next ones get there. A list of pieces is used up
//! before another is made.

use std::io;
use std::sync::{Mutex, PoisonError};

use hmem::stage;
use sys::io_list::GatherList;

use super::{IoVec, Piece, Span};

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
