// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Lists of memory pieces for one scatter or gather system call: readv(2), process_vm_readv(2).
//!
//! A list that is read from and a list that is written to are two types, so that bytes which were only lent for reading
//! never become the target of a read. Pieces of the library are slices and live as long as the list. Pieces of the
//! application are raw addresses, because no reference to that memory may exist; the caller that adds one answers for
//! it.
//!
//! Trusted with: keeping these addresses for the calls of `sys`.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::slice;
use std::io;

use libc::iovec;

/// Pieces from which a call takes bytes in order: a write, or the local side of a write to another process.
pub type GatherList<'a> = IoList<'a, Gather>;

/// Pieces that a call fills in order: a read, or the local side of a read from another process.
pub type ScatterList<'a> = IoList<'a, Scatter>;

/// Marks a `GatherList`.
pub enum Gather {}
/// Marks a `ScatterList`.
pub enum Scatter {}

/// See `GatherList` and `ScatterList`. Pieces that are slices live for `'a`.
pub struct IoList<'a, D> {
    /// The first `count` are initialized.
    pieces: [MaybeUninit<iovec>; CAPACITY],
    count: usize,
    bytes: usize,
    is_broken: bool,
    ours: PhantomData<(&'a mut [u8], D)>,
}

const CAPACITY: usize = 32;

impl<D> IoList<'_, D> {
    #[inline]
    pub fn new() -> Self {
        IoList {
            // A repetition of a plain value would zero the array.
            pieces: [const { MaybeUninit::uninit() }; CAPACITY],
            count: 0,
            bytes: 0,
            is_broken: false,
            ours: PhantomData,
        }
    }

    /// Adds a piece of memory to which no reference may exist. Returns false if the list is full.
    ///
    /// # Safety
    /// `base[..len]` is memory that stays valid while the list is used: readable in a `GatherList`, writable in a
    /// `ScatterList`. Other processes and the application may change it at any time.
    #[inline]
    pub unsafe fn push_raw(&mut self, base: *mut u8, len: usize) -> bool {
        if self.count == CAPACITY {
            return false;
        }
        self.pieces[self.count].write(iovec {
            iov_base: base.cast(),
            iov_len: len,
        });
        self.count += 1;
        self.bytes += len;
        true
    }

    /// Records that bytes of a piece could not be had, so that a call with the list fails.
    pub fn break_off(&mut self) {
        self.is_broken = true;
    }

    /// Fails if bytes of a piece could not be had.
    #[inline]
    pub fn check(&self) -> io::Result<()> {
        match self.is_broken {
            false => Ok(()),
            true => Err(io::Error::from_raw_os_error(libc::EIO)),
        }
    }

    pub fn is_full(&self) -> bool {
        self.count == CAPACITY
    }

    /// Returns the number of bytes in all pieces.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the pieces, for a system call and for copies out of a `GatherList`.
    #[inline]
    pub fn pieces(&self) -> &[iovec] {
        // SAFETY: `push_raw` has initialized the first `count`, and `count` is within the capacity.
        unsafe { slice::from_raw_parts(self.pieces.as_ptr().cast(), self.count) }
    }
}

impl<'a> GatherList<'a> {
    /// Adds bytes to be written. Returns false if the list is full.
    #[inline]
    pub fn push(&mut self, bytes: &'a [u8]) -> bool {
        // SAFETY: borrowed for as long as the list lives, and a `GatherList` is only read from.
        bytes.is_empty() || unsafe { self.push_raw(bytes.as_ptr().cast_mut(), bytes.len()) }
    }

    /// Appends the bytes of all pieces to `out`.
    pub fn copy_out(&self, out: &mut Vec<u8>) {
        out.reserve(self.bytes);
        for piece in self.pieces() {
            // SAFETY: `push_raw`: readable while the list is used; room was reserved. The copy tolerates changes by
            // others, because no reference to the bytes exists.
            unsafe {
                let room = out.as_mut_ptr().add(out.len());
                core::ptr::copy_nonoverlapping(piece.iov_base.cast(), room, piece.iov_len);
                out.set_len(out.len() + piece.iov_len);
            }
        }
    }
}

impl<'a> ScatterList<'a> {
    /// Adds room to be filled. Returns false if the list is full.
    #[inline]
    pub fn push(&mut self, room: &'a mut [u8]) -> bool {
        // SAFETY: borrowed for writing for as long as the list lives.
        room.is_empty() || unsafe { self.push_raw(room.as_mut_ptr(), room.len()) }
    }
}

#[cfg(any(test, feature = "testing"))]
impl GatherList<'_> {
    /// Returns the first `most` bytes, as a call would take them.
    pub fn gather(&self, most: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in self.pieces() {
            let len = piece.iov_len.min(most - bytes.len());
            // SAFETY: `push_raw`: readable while the list is used; a test has no other thread that writes there.
            bytes.extend_from_slice(unsafe { slice::from_raw_parts(piece.iov_base.cast(), len) });
        }
        bytes
    }
}

#[cfg(any(test, feature = "testing"))]
impl ScatterList<'_> {
    /// Fills the pieces in order, as a call would.
    pub fn scatter(&self, mut bytes: &[u8]) {
        for piece in self.pieces() {
            let (part, rest) = bytes.split_at(piece.iov_len.min(bytes.len()));
            // SAFETY: `push_raw`: writable while the list is used, and `part` is no longer than the piece.
            unsafe {
                core::ptr::copy_nonoverlapping(part.as_ptr(), piece.iov_base.cast(), part.len());
            }
            bytes = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_list_takes_no_more_and_empty_pieces_take_no_place() {
        let byte = [7u8];
        let mut list = GatherList::new();
        assert!(list.push(&[]) && list.pieces().is_empty());
        for _ in 0..CAPACITY {
            assert!(!list.is_full() && list.push(&byte));
        }
        assert!(list.is_full() && !list.push(&byte) && list.push(&[]));
        assert_eq!((list.bytes(), list.pieces().len()), (CAPACITY, CAPACITY));
    }
}
