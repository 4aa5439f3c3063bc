// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory of the application, named by an operation: up to `IOV_LIMIT` pieces, and a cursor over them.
//!
//! Trusted with: reading and writing these pieces. `IoVec::new` carries the promise (the man page says the buffers
//! stay valid until the completion), its users need no unsafe. The pieces are never `&[u8]`: they outlive the call,
//! and the peer or the application may write them at any time.

mod element;
mod record;

use core::ptr;

use crate::abi::iovec;
use crate::sync::copy::{Ways, copy_from_shared, copy_to_shared};
use crate::sys::io_list::IoList;

/// Pieces that one operation may name, here and at the target.
pub const IOV_LIMIT: usize = 4;

const EMPTY: iovec = iovec {
    iov_base: ptr::null_mut(),
    iov_len: 0,
};

/// The pieces of one operation and how far it has come.
#[derive(Clone, Copy)]
pub struct IoVec {
    pieces: [iovec; IOV_LIMIT],
    count: u8,
    /// The piece that comes next, and how many of its bytes are done.
    at: u8,
    done: usize,
}

// SAFETY: the addresses are plain numbers here; that the memory may be used from any thread until the completion is
// the promise given to `new`.
unsafe impl Send for IoVec {}

/// One piece of memory, in the calls that name no more.
#[derive(Clone, Copy)]
pub struct Piece {
    base: *mut u8,
    len: usize,
}

impl Piece {
    /// # Safety
    /// `base[..len]` must stay valid for the operation that this describes until its completion.
    #[inline]
    pub unsafe fn new(base: *mut u8, len: usize) -> Piece {
        Piece { base, len }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Copies it to memory that no reference can stand for.
    ///
    /// # Safety
    /// `len()` bytes from `out` on must be writable, and no part of the piece.
    #[inline(always)]
    pub unsafe fn copy_to_raw(&self, out: *mut u8) {
        // SAFETY: the piece is valid until the completion (promise of the constructor); the caller promises the room.
        unsafe { copy_to_shared(self.base, out, self.len) }
    }
}

impl Default for IoVec {
    fn default() -> IoVec {
        IoVec::empty()
    }
}

impl From<Piece> for IoVec {
    #[inline]
    fn from(piece: Piece) -> IoVec {
        let mut iov = IoVec::empty();
        iov.set(piece);
        iov
    }
}

impl IoVec {
    pub const fn empty() -> IoVec {
        IoVec {
            pieces: [EMPTY; IOV_LIMIT],
            count: 0,
            at: 0,
            done: 0,
        }
    }

    /// One piece.
    ///
    /// # Safety
    /// `base[..len]` must stay valid for the operation that this describes until its completion.
    #[inline]
    pub unsafe fn single(base: *mut u8, len: usize) -> IoVec {
        // SAFETY: promised by the caller.
        unsafe { Piece::new(base, len) }.into()
    }

    /// From now on it is this piece, and nothing was moved.
    #[inline]
    pub fn set(&mut self, piece: Piece) {
        self.pieces[0] = iovec {
            iov_base: piece.base.cast(),
            iov_len: piece.len,
        };
        self.count = 1;
        self.at = 0;
        self.done = 0;
    }

    /// `count` pieces; nothing if there are more than `IOV_LIMIT`, or more bytes than memory can have.
    ///
    /// # Safety
    /// `pieces[..count]` must be readable, and each piece valid as in `single`.
    pub unsafe fn new(pieces: *const iovec, count: usize) -> Option<IoVec> {
        let mut iov = IoVec::empty();
        if count > IOV_LIMIT || (count > 0 && pieces.is_null()) {
            return None;
        }
        let mut total = 0usize;
        for i in 0..count {
            // SAFETY: the caller promises `count` readable pieces.
            iov.pieces[i] = unsafe { *pieces.add(i) };
            total = total.checked_add(iov.pieces[i].iov_len)?;
        }
        if total > isize::MAX as usize {
            return None;
        }
        iov.count = count as u8;
        Some(iov)
    }

    /// Adds a piece; false if there is no room.
    ///
    /// # Safety
    /// As in `single`.
    pub unsafe fn push(&mut self, base: usize, len: usize) -> bool {
        if usize::from(self.count) == IOV_LIMIT {
            return false;
        }
        self.pieces[usize::from(self.count)] = iovec {
            iov_base: base as *mut _,
            iov_len: len,
        };
        self.count += 1;
        true
    }

    /// How many pieces were named.
    #[inline]
    pub fn pieces(&self) -> usize {
        self.count.into()
    }

    /// Whether a piece with bytes has the address NULL.
    pub fn has_null(&self) -> bool {
        self.pieces[..usize::from(self.count)]
            .iter()
            .any(|p| p.iov_base.is_null() && p.iov_len > 0)
    }

    /// Pieces with the address NULL become empty.
    pub fn drop_null(&mut self) {
        for piece in &mut self.pieces[..usize::from(self.count)] {
            if piece.iov_base.is_null() {
                piece.iov_len = 0;
            }
        }
    }

    /// The address of the first piece.
    #[inline]
    pub fn base(&self) -> usize {
        self.pieces[0].iov_base as usize
    }

    /// The address of the next byte.
    pub fn address(&self) -> usize {
        let at = usize::from(self.at).min(IOV_LIMIT - 1);
        self.pieces[at].iov_base as usize + self.done
    }

    /// Bytes not yet moved.
    #[inline]
    pub fn remaining(&self) -> usize {
        let mut total = 0usize;
        for piece in &self.pieces[usize::from(self.at)..usize::from(self.count)] {
            total = total.saturating_add(piece.iov_len);
        }
        total - self.done
    }

    /// The pieces not yet moved, at most `max` bytes of them, appended to `out`; how many bytes that is.
    pub fn append_to<D>(&self, out: &mut IoList<'_, D>, max: usize) -> usize {
        let mut left = max;
        let mut skip = self.done;
        for piece in &self.pieces[usize::from(self.at)..usize::from(self.count)] {
            let len = (piece.iov_len - skip).min(left);
            if len > 0 {
                // SAFETY: within the piece, which is valid until the completion (promise of the constructor), and that
                // has not been given while this cursor is in use. What it is valid for is what the operation does.
                if !unsafe { out.push_raw(piece.iov_base.cast::<u8>().add(skip), len) } {
                    break;
                }
                left -= len;
            }
            skip = 0;
        }
        max - left
    }

    /// Counts `n` bytes as moved.
    pub fn advance(&mut self, mut n: usize) {
        while self.at < self.count {
            let rest = self.pieces[usize::from(self.at)].iov_len - self.done;
            if n < rest {
                self.done += n;
                return;
            }
            n -= rest;
            self.at += 1;
            self.done = 0;
        }
    }

    /// Keeps the first `len` of the bytes not yet moved.
    pub fn truncate(&mut self, len: usize) {
        let mut left = len + self.done;
        for piece in &mut self.pieces[usize::from(self.at)..usize::from(self.count)] {
            piece.iov_len = piece.iov_len.min(left);
            left -= piece.iov_len;
        }
    }

    /// Copies bytes into the pieces; how many there was room for.
    #[inline]
    pub fn copy_in(&mut self, bytes: &[u8]) -> usize {
        let mut moved = 0;
        while moved < bytes.len() && self.at < self.count {
            let piece = self.pieces[usize::from(self.at)];
            let len = (piece.iov_len - self.done).min(bytes.len() - moved);
            // SAFETY: the piece is valid until the completion (promise of the constructor), which has not been given
            // while this cursor is in use; `done + len` was bounded by its length.
            unsafe {
                ptr::copy_nonoverlapping(
                    bytes.as_ptr().add(moved),
                    piece.iov_base.cast::<u8>().add(self.done),
                    len,
                );
            }
            moved += len;
            self.done += len;
            if self.done == piece.iov_len {
                self.at += 1;
                self.done = 0;
            }
        }
        moved
    }

    /// Copies bytes into the pieces from their start on, whatever was moved, as far as there is room.
    #[inline]
    pub fn fill(&self, bytes: &[u8]) {
        // SAFETY: a slice, which is no part of the application's memory.
        unsafe { self.fill_raw(bytes.as_ptr(), bytes.len()) };
    }

    /// As `fill`, from memory that no reference can stand for.
    ///
    /// # Safety
    /// `len` bytes from `from` on must be readable, and no part of the pieces.
    #[inline(always)]
    pub unsafe fn fill_raw(&self, from: *const u8, len: usize) {
        let first = &self.pieces[0];
        if self.count == 1 && len <= first.iov_len {
            // SAFETY: as in `copy_in`; the caller promises `from`.
            return unsafe { copy_from_shared(from, first.iov_base.cast::<u8>(), len) };
        }
        // SAFETY: promised by the caller.
        unsafe { self.fill_each(from, len) };
    }

    /// # Safety
    /// As `fill_raw`.
    #[inline(never)]
    unsafe fn fill_each(&self, mut from: *const u8, mut len: usize) {
        for piece in &self.pieces[..usize::from(self.count)] {
            let part = len.min(piece.iov_len);
            // SAFETY: as in `copy_in`; `part` is not longer than the piece, and the caller promises `from`.
            unsafe {
                copy_from_shared(from, piece.iov_base.cast::<u8>(), part);
                from = from.add(part);
            }
            len -= part;
            if len == 0 {
                return;
            }
        }
    }

    /// Copies all bytes not yet moved to the start of `out`, which has room for them.
    #[inline]
    pub fn copy_to(&self, out: &mut [u8]) {
        let mut skip = self.done;
        let mut at = 0;
        for piece in &self.pieces[usize::from(self.at)..usize::from(self.count)] {
            let len = piece.iov_len - skip;
            let room = &mut out[at..at + len];
            // SAFETY: the piece is valid until the completion (promise of the constructor); `room` has its length.
            unsafe {
                ptr::copy_nonoverlapping(
                    piece.iov_base.cast::<u8>().add(skip),
                    room.as_mut_ptr(),
                    len,
                );
            }
            at += len;
            skip = 0;
        }
    }

    /// As `copy_to`, to memory that no reference can stand for.
    ///
    /// # Panics
    /// If there is less room than the pieces need, which may have been copied in part then: our own mistake.
    ///
    /// # Safety
    /// `room` bytes from `out` on must be writable, and no part of the pieces.
    #[inline]
    pub unsafe fn copy_to_raw(&self, out: *mut u8, room: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.each_to_raw(out, room, |from, to, len| copy_to_shared(from, to, len)) }
    }

    /// As `copy_to_raw`, for many bytes.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn copy_long_to_raw(&self, out: *mut u8, room: usize, ways: &mut Ways) {
        // SAFETY: the caller's promise.
        unsafe { self.each_to_raw(out, room, |from, to, len| ways.copy(from, to, len)) }
    }

    /// # Safety
    /// As `copy_to_raw`; `copy` is called for places that `ptr::copy_nonoverlapping` could be called for.
    #[inline(always)]
    unsafe fn each_to_raw(
        &self,
        mut out: *mut u8,
        mut room: usize,
        mut copy: impl FnMut(*const u8, *mut u8, usize),
    ) {
        let mut skip = self.done;
        for piece in &self.pieces[usize::from(self.at)..usize::from(self.count)] {
            let len = piece.iov_len - skip;
            // One by one: their sum costs small messages more.
            assert!(len <= room, "pieces are longer than their room");
            room -= len;
            // SAFETY: the piece is valid until the completion (promise of the constructor); the caller promises the room,
            // with which it was compared.
            unsafe {
                copy(piece.iov_base.cast::<u8>().add(skip), out, len);
                out = out.add(len);
            }
            skip = 0;
        }
    }

    /// As `copy_in`, from memory that no reference can stand for.
    ///
    /// # Safety
    /// `len` bytes from `from` on must be readable, and no part of the pieces.
    #[inline]
    pub unsafe fn copy_in_raw(&mut self, from: *const u8, len: usize) -> usize {
        let mut moved = 0;
        while moved < len && self.at < self.count {
            let piece = self.pieces[usize::from(self.at)];
            let part = (piece.iov_len - self.done).min(len - moved);
            // SAFETY: as in `copy_in`; the caller promises `from`.
            unsafe {
                let to = piece.iov_base.cast::<u8>().add(self.done);
                copy_from_shared(from.add(moved), to, part);
            }
            moved += part;
            self.done += part;
            if self.done == piece.iov_len {
                self.at += 1;
                self.done = 0;
            }
        }
        moved
    }

    /// Addresses and lengths of what is not yet moved.
    pub fn places(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let pieces = &self.pieces[usize::from(self.at).min(IOV_LIMIT)..usize::from(self.count)];
        pieces.iter().enumerate().map(|(i, piece)| {
            let skip = if i == 0 { self.done } else { 0 };
            (piece.iov_base as usize + skip, piece.iov_len - skip)
        })
    }

    /// Appends all bytes not yet moved to `out`.
    #[inline]
    pub fn copy_out(&self, out: &mut Vec<u8>) {
        let mut skip = self.done;
        for piece in &self.pieces[usize::from(self.at)..usize::from(self.count)] {
            let len = piece.iov_len - skip;
            if len > 0 {
                out.reserve(len);
                // SAFETY: the piece is valid until the completion (promise of the constructor); room was reserved.
                unsafe {
                    ptr::copy_nonoverlapping(
                        piece.iov_base.cast::<u8>().add(skip),
                        out.as_mut_ptr().add(out.len()),
                        len,
                    );
                    out.set_len(out.len() + len);
                }
            }
            skip = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::io_list::GatherList;

    fn over(parts: &mut [&mut [u8]]) -> IoVec {
        let mut iov = IoVec::empty();
        for part in parts {
            // SAFETY: the test's arrays outlive the vector.
            assert!(unsafe { iov.push(part.as_mut_ptr() as usize, part.len()) });
        }
        iov
    }

    #[test]
    fn bytes_go_in_piece_by_piece_and_stop_at_the_end() {
        let (mut a, mut b, mut c) = ([0u8; 3], [0u8; 0], [0u8; 4]);
        let mut iov = over(&mut [&mut a, &mut b, &mut c]);
        assert_eq!(iov.remaining(), 7);
        assert_eq!(iov.copy_in(&[1, 2]), 2);
        assert_eq!(iov.copy_in(&[3, 4, 5, 6, 7, 8, 9]), 5);
        assert_eq!(iov.remaining(), 0);
        assert_eq!((a, c), ([1, 2, 3], [4, 5, 6, 7]));
    }

    #[test]
    fn filling_starts_at_the_first_piece_and_stops_at_the_end() {
        let (mut a, mut b, mut c) = ([0u8; 2], [0u8; 0], [0u8; 2]);
        let iov = over(&mut [&mut a, &mut b, &mut c]);
        iov.fill(&[1]);
        iov.fill(&[]);
        assert_eq!((a, c), ([1, 0], [0, 0]));
        iov.fill(&[2, 3, 4, 5, 6]);
        assert_eq!((a, c), ([2, 3], [4, 5]));
    }

    #[test]
    fn the_cursor_resumes_where_a_short_write_ended() {
        let (mut a, mut b) = ([1u8, 2, 3], [4u8, 5, 6]);
        let mut iov = over(&mut [&mut a, &mut b]);
        iov.advance(4);
        let mut out = Vec::new();
        iov.copy_out(&mut out);
        assert_eq!(out, [5, 6]);
        let mut list = GatherList::new();
        assert_eq!(iov.append_to(&mut list, usize::MAX), 2);
        iov.truncate(1);
        assert_eq!(iov.remaining(), 1);
        iov.advance(1);
        assert_eq!(iov.remaining(), 0);
    }

    #[test]
    fn more_pieces_than_the_limit_are_refused() {
        let pieces = [EMPTY; IOV_LIMIT + 1];
        // SAFETY: five readable, empty pieces.
        assert!(unsafe { IoVec::new(pieces.as_ptr(), pieces.len()) }.is_none());
        // SAFETY: as above.
        assert!(unsafe { IoVec::new(pieces.as_ptr(), IOV_LIMIT) }.is_some());
        // SAFETY: no piece is read.
        assert!(unsafe { IoVec::new(ptr::null(), 0) }.is_some());
    }
}
