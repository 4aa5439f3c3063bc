// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Copies to and from the pieces of an operation. `hmem` copies the bytes in the way that the kind of memory needs.
//!
//! Trusted with: reading and writing the pieces, for which the callers of the constructors gave their promise.

use super::{IoVec, Piece};
use sync::copy::{self, Ways};

/// Memory that is copied whole.
pub trait CopySource {
    /// Copies all bytes to the beginning of `out`.
    ///
    /// # Panics
    /// If `out` is shorter: a fault of this library, which no peer can cause.
    fn copy_to(&self, out: &mut [u8]);
    /// Appends all bytes to `out`.
    fn copy_out(&self, out: &mut Vec<u8>);
}

impl CopySource for IoVec {
    #[inline(always)]
    fn copy_to(&self, out: &mut [u8]) {
        IoVec::copy_to(self, out);
    }

    #[inline(always)]
    fn copy_out(&self, out: &mut Vec<u8>) {
        IoVec::copy_out(self, out);
    }
}

impl IoVec {
    /// Returns the number of pieces that may be written.
    #[inline(always)]
    fn end_of_room(&self) -> u8 {
        match self.is_source {
            true => 0,
            false => self.count,
        }
    }

    /// Copies bytes into the pieces. Returns how many there was room for.
    #[inline]
    pub fn copy_in(&mut self, bytes: &[u8]) -> usize {
        let mut moved = 0;
        let end = self.end_of_room();
        while moved < bytes.len() && self.at < end {
            let piece = &self.pieces[usize::from(self.at)];
            let len = (piece.len - self.done).min(bytes.len() - moved);
            // SAFETY: the maker of the piece (`Piece::new`) promised its memory for as long as the piece is kept; `done
            // + len` was bounded by its length.
            unsafe {
                let (from, to) = (bytes.as_ptr().add(moved), piece.at(self.done));
                hmem::copy_to(from, to, len);
            }
            moved += len;
            self.done += len;
            if self.done == piece.len {
                self.at += 1;
                self.done = 0;
            }
        }
        moved
    }

    /// Copies bytes to the start of the pieces, whatever was moved already, as far as there is room.
    #[inline(always)]
    pub fn fill(&self, bytes: &[u8]) {
        // SAFETY: the library's own bytes: no slice of the application's memory is ever made.
        unsafe { self.fill_raw(bytes.as_ptr(), bytes.len()) };
    }

    /// As `fill`, from memory to which no reference may exist.
    ///
    /// # Safety
    /// `len` bytes from `from` on must be readable, and must not overlap the pieces.
    #[inline(always)]
    pub unsafe fn fill_raw(&self, from: *const u8, len: usize) {
        let first = &self.pieces[0];
        if self.end_of_room() == 1 && !self.is_device && len <= first.len {
            // SAFETY: as in `copy_in`; the caller promises `from`.
            return unsafe { copy::copy_from_shared(from, first.base, len) };
        }
        // SAFETY: promised by the caller.
        unsafe { self.fill_each(from, len) };
    }

    /// # Safety
    /// As for `fill_raw`.
    #[inline(never)]
    unsafe fn fill_each(&self, mut from: *const u8, mut len: usize) {
        for piece in &self.pieces[..usize::from(self.end_of_room())] {
            let part = len.min(piece.len);
            // SAFETY: as in `copy_in`; `part` is not longer than the piece, and the caller promises `from`.
            unsafe {
                hmem::copy_to_from_shared(from, piece.base, part);
                from = from.add(part);
            }
            len -= part;
            if len == 0 {
                return;
            }
        }
    }

    /// Calls with these bytes as memory, which the call fills.
    pub fn with_bytes<R>(bytes: &mut [u8], call: impl FnOnce(&IoVec) -> R) -> R {
        // SAFETY: the list is only lent to the call, during which `bytes` is not used otherwise.
        let piece = unsafe { Piece::new(bytes.as_mut_ptr(), bytes.len()) };
        call(&IoVec::from(piece))
    }

    /// Copies all bytes not yet moved to the start of `out`, which has room for them.
    #[inline]
    pub fn copy_to(&self, out: &mut [u8]) {
        let mut skip = self.done;
        let mut at = 0;
        for piece in &self.pieces[usize::from(self.at)..usize::from(self.count)] {
            let len = piece.len - skip;
            let room = &mut out[at..at + len];
            // SAFETY: the piece is valid while it is kept, as in `copy_in`; `room` has its length.
            unsafe {
                hmem::copy_from(piece.at(skip), room.as_mut_ptr(), len);
            }
            at += len;
            skip = 0;
        }
    }

    /// As `copy_to`, to memory to which no reference may exist.
    ///
    /// # Panics
    /// If there is less room than the pieces need: a fault of this library. Some bytes may have been copied then.
    ///
    /// # Safety
    /// `room` bytes from `out` on must be writable, and must not overlap the pieces.
    #[inline]
    pub unsafe fn copy_to_raw(&self, out: *mut u8, room: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            self.each_to_raw(out, room, |from, to, len| {
                hmem::copy_from_to_shared(from, to, len)
            })
        }
    }

    /// As `copy_to_raw`, for many bytes.
    ///
    /// # Safety
    /// As for `copy_to_raw`.
    #[inline]
    pub unsafe fn copy_long_to_raw(&self, out: *mut u8, room: usize, ways: &mut Ways) {
        // SAFETY: the caller's promise.
        unsafe {
            self.each_to_raw(out, room, |from, to, len| {
                hmem::copy_long_to_shared(from, to, len, ways);
            });
        }
    }

    /// # Safety
    /// As for `copy_to_raw`; `copy` has the same requirements as the copies of `hmem`.
    #[inline(always)]
    unsafe fn each_to_raw(
        &self,
        mut out: *mut u8,
        mut room: usize,
        mut copy: impl FnMut(*const u8, *mut u8, usize),
    ) {
        let mut skip = self.done;
        for piece in &self.pieces[usize::from(self.at)..usize::from(self.count)] {
            let len = piece.len - skip;
            // Compared one by one, because computing their sum first costs small messages more.
            assert!(len <= room, "pieces are longer than their room");
            room -= len;
            // SAFETY: the piece is valid while it is kept, as in `copy_in`; the caller promises the room, and the piece
            // is no longer than that.
            unsafe {
                copy(piece.at(skip), out, len);
                out = out.add(len);
            }
            skip = 0;
        }
    }

    /// As `copy_in`, from memory to which no reference may exist.
    ///
    /// # Safety
    /// `len` bytes from `from` on must be readable, and must not overlap the pieces.
    #[inline]
    pub unsafe fn copy_in_raw(&mut self, from: *const u8, len: usize) -> usize {
        let mut moved = 0;
        let end = self.end_of_room();
        while moved < len && self.at < end {
            let piece = &self.pieces[usize::from(self.at)];
            let part = (piece.len - self.done).min(len - moved);
            // SAFETY: as in `copy_in`; the caller promises `from`.
            unsafe {
                let (from, to) = (from.add(moved), piece.at(self.done));
                hmem::copy_to_from_shared(from, to, part);
            }
            moved += part;
            self.done += part;
            if self.done == piece.len {
                self.at += 1;
                self.done = 0;
            }
        }
        moved
    }

    /// Copies all bytes of `from` not yet moved to the start of these pieces, which are host memory and have room for
    /// them.
    pub fn copy_from(&self, from: &IoVec) {
        if let [room, ..] = &self.pieces[..usize::from(self.end_of_room())] {
            // SAFETY: the maker of the piece promised its memory; that of `from` is another operation's.
            unsafe { from.copy_to_raw(room.base, room.len) }
        }
    }

    /// Appends all bytes not yet moved to `out`.
    #[inline]
    pub fn copy_out(&self, out: &mut Vec<u8>) {
        let mut skip = self.done;
        for piece in &self.pieces[usize::from(self.at)..usize::from(self.count)] {
            // SAFETY: `skip` is within the piece.
            unsafe { piece.copy_out_from(skip, out) };
            skip = 0;
        }
    }
}
