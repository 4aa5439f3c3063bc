// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Copies between memory of the application and memory that two processes share. Both sides have a length, so these
//! copies are safe functions.
//!
//! Trusted with: that the two never overlap. Addresses of shared memory are not given to applications.

use super::{IoVec, Piece};

use sync::copy::Ways;
use sync::shared_bytes::{SharedBytes, SharedRoom};

impl Piece {
    /// # Panics
    /// If there is less room: a fault of this library, which no peer can cause.
    #[inline(always)]
    pub fn put_into(&self, mut room: SharedRoom<'_>) {
        assert!(self.len() <= room.len(), "a piece is longer than its room");
        // SAFETY: the maker of the room promises that all of it is writable, and the piece is no longer than the room.
        unsafe { self.copy_to_raw(room.as_mut_ptr()) }
    }
}

impl IoVec {
    /// Copies all bytes not yet moved.
    ///
    /// # Panics
    /// As for `Piece::put_into`.
    #[inline(always)]
    pub fn put_into(&self, mut room: SharedRoom<'_>) {
        // SAFETY: the maker of the room promises that all of it is writable.
        unsafe { self.copy_to_raw(room.as_mut_ptr(), room.len()) }
    }

    /// As `put_into`, for many bytes.
    ///
    /// # Panics
    /// As for `put_into`.
    #[inline]
    pub fn put_long_into(&self, mut room: SharedRoom<'_>, ways: &mut Ways) {
        // SAFETY: as in `put_into`.
        unsafe { self.copy_long_to_raw(room.as_mut_ptr(), room.len(), ways) }
    }

    /// As `fill`, from shared memory.
    #[inline(always)]
    pub fn fill_from(&self, bytes: SharedBytes<'_>) {
        // SAFETY: the maker of the bytes promises that all of them are readable.
        unsafe { self.fill_raw(bytes.as_ptr(), bytes.len()) }
    }

    /// As `copy_in`, from shared memory.
    #[inline]
    pub fn copy_in_from(&mut self, bytes: SharedBytes<'_>) -> usize {
        // SAFETY: as in `fill_from`.
        unsafe { self.copy_in_raw(bytes.as_ptr(), bytes.len()) }
    }
}

impl Piece {
    /// As `fill`, from shared memory.
    #[inline(always)]
    pub fn fill_from(&self, bytes: SharedBytes<'_>) {
        // SAFETY: the maker of the bytes promises that all of them are readable.
        unsafe { self.fill_raw(bytes.as_ptr(), bytes.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece_of(memory: &mut [u8]) -> Piece {
        // SAFETY: the arrays of the tests outlive these pieces.
        unsafe { Piece::new(memory.as_mut_ptr(), memory.len()) }
    }

    fn room_of(memory: &mut [u8]) -> SharedRoom<'_> {
        // SAFETY: a reference of the same lifetime.
        unsafe { SharedRoom::new(memory.as_mut_ptr(), memory.len()) }
    }

    #[test]
    fn pieces_go_where_there_is_room_and_come_back() {
        let (mut from, mut shared, mut back) = ([1, 2, 3], [0; 4], [0; 2]);
        piece_of(&mut from).put_into(room_of(&mut shared));
        IoVec::from(piece_of(&mut from))
            .put_long_into(room_of(&mut shared).behind(1), &mut Ways::default());
        assert_eq!(shared, [1, 1, 2, 3]);
        let mut iov = IoVec::from(piece_of(&mut back));
        // SAFETY: an array of this function.
        let bytes = unsafe { SharedBytes::new(shared.as_ptr(), shared.len()) };
        iov.fill_from(bytes.behind(1));
        assert_eq!(back, [1, 2]);
        assert_eq!(iov.copy_in_from(bytes.behind(3)), 1);
        assert_eq!(iov.copy_in_from(bytes), 1);
        assert_eq!(back, [3, 1]);
    }

    #[test]
    #[should_panic(expected = "longer than its room")]
    fn a_piece_without_room_is_not_copied() {
        let (mut from, mut shared) = ([1; 8], [0; 7]);
        piece_of(&mut from).put_into(room_of(&mut shared));
    }

    #[test]
    #[should_panic(expected = "longer than their room")]
    fn pieces_without_room_are_not_copied() {
        let (mut from, mut shared) = ([1; 8], [0; 7]);
        IoVec::from(piece_of(&mut from)).put_into(room_of(&mut shared));
    }
}
