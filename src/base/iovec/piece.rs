// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One piece of memory of the application.
//!
//! Trusted with: reading and writing it, by the promise given to `Piece::new`. Pieces and what is made of them are not
//! copied: who has one moves it to where the operation is kept, and drops it with the operation, for there the promise
//! ends.
//!
//! Names for the kernel and atomic instructions are methods of host pieces alone.

use super::{Cursor, IoVec, Span};
use crate::hmem::{self, Host, Memory};

/// Memory that the application leaves to the library: where it is, and what its transport has to know of it.
#[derive(Debug)]
pub struct Piece<M = Host> {
    pub(super) base: *mut u8,
    pub(super) len: usize,
    pub(super) memory: M,
}

// SAFETY: the address is a plain word here; that the memory may be used from any thread is the promise given to `new`.
unsafe impl<M: Memory> Send for Piece<M> {}
// SAFETY: as above. Operations that meet in the same bytes are a race of the application's, or of the peers that it
// lets in.
unsafe impl<M: Memory> Sync for Piece<M> {}

impl<M: Memory> Piece<M> {
    /// # Safety
    /// `base[..len]` must be memory as `memory` says, and stay valid until the operation that this describes completes.
    /// Whoever keeps the piece drops it before that is reported.
    #[inline(always)]
    pub unsafe fn new(base: *mut u8, len: usize, memory: M) -> Piece<M> {
        Piece { base, len, memory }
    }

    /// No memory.
    #[inline]
    pub const fn empty(memory: M) -> Piece<M> {
        Piece {
            base: core::ptr::null_mut(),
            len: 0,
            memory,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn memory(&self) -> M {
        self.memory
    }

    /// Where it is.
    #[inline]
    pub fn span(&self) -> Span {
        Span::new(self.base as usize, self.len)
    }

    /// It goes to somebody else; what is left has no bytes.
    #[inline(always)]
    pub fn take(&mut self) -> Piece<M> {
        Piece {
            base: self.base,
            len: core::mem::take(&mut self.len),
            memory: self.memory,
        }
    }

    /// A look at it that does not outlive it.
    #[inline]
    pub fn cursor(&self) -> Cursor<'_, M> {
        Cursor::of(IoVec::from(self.again()))
    }

    /// The same memory once more: only for what is bounded by a lifetime, or made anew by somebody who has the promise.
    #[inline(always)]
    pub(super) fn again(&self) -> Piece<M> {
        Piece { ..*self }
    }

    /// Takes bytes; what there is no room for is dropped.
    #[inline(always)]
    pub fn fill(&self, bytes: &[u8]) {
        // SAFETY: `bytes` are the library's own.
        unsafe { self.fill_raw(bytes.as_ptr(), bytes.len()) }
    }

    /// As `fill`.
    ///
    /// # Safety
    /// `len` bytes from `bytes` on must be readable.
    #[inline(always)]
    pub(super) unsafe fn fill_raw(&self, bytes: *const u8, len: usize) {
        // SAFETY: who made the piece promised its memory for as long as it is kept; the caller promises the bytes.
        unsafe {
            hmem::copy_to_from_shared(self.memory.kind(), bytes, self.base, len.min(self.len))
        }
    }

    /// Copies it to memory that no reference can stand for.
    ///
    /// # Safety
    /// `len()` bytes from `out` on must be writable, and no part of the piece.
    #[inline(always)]
    pub unsafe fn copy_to_raw(&self, out: *mut u8) {
        // SAFETY: who made the piece promised its memory for as long as it is kept; the caller promises the room.
        unsafe { hmem::copy_from_to_shared(self.memory.kind(), self.base, out, self.len) }
    }

    /// Appends all bytes to `out`.
    #[inline]
    pub fn copy_out(&self, out: &mut Vec<u8>) {
        self.cursor().copy_out(out);
    }

    /// Its address `skip` bytes further on.
    ///
    /// # Safety
    /// The piece has at least so many bytes.
    #[inline(always)]
    pub(super) unsafe fn at(&self, skip: usize) -> *mut u8 {
        // SAFETY: within the piece.
        unsafe { self.base.add(skip) }
    }
}
