// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One piece of memory of the application.
//!
//! Trusted with: reading and writing it, by the promise given to `Piece::new`. Pieces and lists of them are not copied:
//! the owner moves a piece to the record of its operation and drops it with the operation, because the promise ends
//! then.
//!

use super::{Cursor, IoVec, Span};
use hmem::address;
use sync::copy;

/// Memory that the application leaves to the library: its address and its length.
#[derive(Debug)]
pub struct Piece {
    pub(super) base: *mut u8,
    pub(super) len: usize,
}

// SAFETY: the address is a plain word here; that the memory may be used from any thread is the promise given to `new`.
unsafe impl Send for Piece {}
// SAFETY: as above. Operations on overlapping bytes are a race of the application, or of the peers that it grants
// access.
unsafe impl Sync for Piece {}

impl Piece {
    /// # Safety
    /// `base[..len]` must be memory that stays valid until the operation that uses it completes: for reads, and for
    /// writes unless it becomes a `Source` or part of a list that is one (`IoVec::as_source`). The owner of the piece
    /// drops it before that completion is reported.
    #[inline(always)]
    pub unsafe fn new(base: *mut u8, len: usize) -> Piece {
        Piece { base, len }
    }

    /// Returns a piece of no memory.
    #[inline]
    pub const fn empty() -> Piece {
        Piece {
            base: core::ptr::null_mut(),
            len: 0,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether a device has the memory: only copies reach it.
    #[inline(always)]
    pub fn is_device(&self) -> bool {
        address::is_device(self.base)
    }

    /// Records that a device has the memory.
    pub fn mark(&mut self) {
        self.base = address::marked(self.base);
    }

    /// Returns the address range.
    #[inline]
    pub fn span(&self) -> Span {
        Span::new(address::plain(self.base), self.len)
    }

    /// Moves the piece out and leaves one without bytes.
    #[inline(always)]
    pub fn take(&mut self) -> Piece {
        Piece {
            base: self.base,
            len: core::mem::take(&mut self.len),
        }
    }

    /// Returns a cursor that does not outlive the piece.
    #[inline]
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::of(IoVec::from(self.again()))
    }

    /// Duplicates the piece. Only for values that are bounded by a lifetime, or made by a caller that has the promise.
    #[inline(always)]
    pub(super) fn again(&self) -> Piece {
        Piece { ..*self }
    }

    /// Copies bytes to the piece, and drops those for which there is no room.
    #[inline(always)]
    pub fn fill(&self, bytes: &[u8]) {
        // SAFETY: `bytes` are the library's own.
        unsafe { self.fill_raw(bytes.as_ptr(), bytes.len()) }
    }

    /// As `fill`, for a piece that no device has.
    #[inline(always)]
    pub fn fill_host(&self, bytes: &[u8]) {
        debug_assert!(!self.is_device());
        // SAFETY: as in `fill_raw`.
        unsafe { copy::copy_from_shared(bytes.as_ptr(), self.base, bytes.len().min(self.len)) }
    }

    /// Returns the address of a piece that no device has.
    #[inline(always)]
    pub fn host_address(&self) -> usize {
        debug_assert!(!self.is_device());
        self.base.addr()
    }

    /// As `fill`, from a raw pointer.
    ///
    /// # Safety
    /// `len` bytes from `bytes` on must be readable.
    #[inline(always)]
    pub(super) unsafe fn fill_raw(&self, bytes: *const u8, len: usize) {
        // SAFETY: the maker of the piece promised its memory for as long as it is kept; the caller promises the bytes.
        unsafe { hmem::copy_to_from_shared(bytes, self.base, len.min(self.len)) }
    }

    /// Copies the piece to memory to which no reference may exist.
    ///
    /// # Safety
    /// `len()` bytes from `out` on must be writable, and must not overlap the piece.
    #[inline(always)]
    pub unsafe fn copy_to_raw(&self, out: *mut u8) {
        // SAFETY: the maker of the piece promised its memory for as long as it is kept; the caller promises the room.
        unsafe { hmem::copy_from_to_shared(self.base, out, self.len) }
    }

    /// Appends all bytes to `out`.
    #[inline]
    pub fn copy_out(&self, out: &mut Vec<u8>) {
        // SAFETY: 0 is within the piece.
        unsafe { self.copy_out_from(0, out) }
    }

    /// As `copy_out`, without the first `skip` bytes.
    ///
    /// # Safety
    /// The piece has at least `skip` bytes.
    #[inline(always)]
    pub(super) unsafe fn copy_out_from(&self, skip: usize, out: &mut Vec<u8>) {
        let len = self.len - skip;
        if len > 0 {
            out.reserve(len);
            // SAFETY: the piece is valid for reads until the completion (`Piece::new`); room was reserved.
            unsafe {
                let room = out.as_mut_ptr().add(out.len());
                hmem::copy_from(self.at(skip), room, len);
                out.set_len(out.len() + len);
            }
        }
    }

    /// Copies all bytes to the beginning of `out`.
    ///
    /// # Panics
    /// If `out` is shorter: a fault of this library.
    #[inline(always)]
    pub fn copy_to(&self, out: &mut [u8]) {
        let room = &mut out[..self.len];
        // SAFETY: the piece is valid for reads until the completion (`Piece::new`); `room` has its length.
        unsafe { hmem::copy_from(self.base, room.as_mut_ptr(), self.len) };
    }

    /// Returns the address `skip` bytes behind the start.
    ///
    /// # Safety
    /// The piece has at least `skip` bytes.
    #[inline(always)]
    pub(super) unsafe fn at(&self, skip: usize) -> *mut u8 {
        self.base.wrapping_add(skip)
    }
}
