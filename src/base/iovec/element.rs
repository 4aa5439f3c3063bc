// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One element of the application's memory, changed atomically: fi_atomic(3).
//!
//! Trusted with: reading and writing that memory while other actors do. fi_atomic(3) treats every opening of a domain
//! of the same name, in any process, as one actor, so the lock of a domain is not sufficient. Elements of 1, 2, 4 and 8
//! bytes at their natural alignment are changed with the processor's own instructions, which are also atomic between
//! processes that share the memory, and against atomics of the application. All other elements (larger or misaligned
//! ones) are changed under one lock of the process. The same element always takes the same path, because only its
//! address and size decide. Elements in device memory: `IoVec::change_by_copy`.

use core::ptr;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::IoVec;

/// Guards all elements that no single instruction can change.
static ODD: Mutex<()> = Mutex::new(());

impl IoVec {
    /// Replaces the next element, of `N` bytes, by the result of `change`, or only reads it if the result is `None`.
    /// Returns the previous value. `change` may be called again if another actor changes the element meanwhile. Returns
    /// `None` if fewer bytes are left.
    pub fn update<const N: usize>(
        &mut self,
        change: impl Fn([u8; N]) -> Option<[u8; N]>,
    ) -> Option<[u8; N]> {
        while self.at < self.count && self.done == self.pieces[usize::from(self.at)].len {
            self.at += 1;
            self.done = 0;
        }
        if self.at >= self.count || self.pieces[usize::from(self.at)].len - self.done < N {
            return self.update_across(change);
        }
        let piece = &self.pieces[usize::from(self.at)];
        // SAFETY: the maker of the piece (`Piece::new`) promised its memory for as long as the piece is kept; `N` of
        // its bytes are left.
        let before = unsafe { update(piece.at(self.done), change) };
        self.done += N;
        Some(before)
    }

    /// As `update`, for an element that crosses the end of its piece, as can happen in a region of several buffers.
    #[cold]
    fn update_across<const N: usize>(
        &mut self,
        change: impl Fn([u8; N]) -> Option<[u8; N]>,
    ) -> Option<[u8; N]> {
        if self.remaining() < N {
            return None;
        }
        let mut element = self.split_off(N);
        let _odd = ODD.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = [0; N];
        element.copy_to(&mut before);
        if let Some(new) = change(before) {
            element.copy_in(&new);
        }
        Some(before)
    }
}

macro_rules! by_instruction {
    ($atomic:ty, $int:ty, $place:expr, $change:expr) => {{
        // SAFETY: the callers ensure that `place` is valid and aligned. Other accesses meanwhile are atomic, too, or
        // are a race of the application (fi_atomic(3): several actors).
        let place = unsafe { <$atomic>::from_ptr($place.cast()) };
        let bytes = |value: $int| {
            let mut bytes = [0; N];
            bytes.copy_from_slice(&value.to_ne_bytes());
            bytes
        };
        let next = |value: $int| {
            let mut new = [0; size_of::<$int>()];
            new.copy_from_slice(&$change(bytes(value))?);
            Some(<$int>::from_ne_bytes(new))
        };
        // Acquire and release: a reader of the element sees everything that its writer stored before.
        match place.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) {
            Ok(before) | Err(before) => bytes(before),
        }
    }};
}

/// # Safety
/// `place` must be valid for reads and writes of `N` bytes.
unsafe fn update<const N: usize>(
    place: *mut u8,
    change: impl Fn([u8; N]) -> Option<[u8; N]>,
) -> [u8; N] {
    match N {
        1 => return by_instruction!(AtomicU8, u8, place, change),
        2 if place.addr().is_multiple_of(2) => {
            return by_instruction!(AtomicU16, u16, place, change);
        }
        4 if place.addr().is_multiple_of(4) => {
            return by_instruction!(AtomicU32, u32, place, change);
        }
        8 if place.addr().is_multiple_of(8) => {
            return by_instruction!(AtomicU64, u64, place, change);
        }
        _ => {}
    }
    let _odd = ODD.lock().unwrap_or_else(PoisonError::into_inner);
    let mut before = [0; N];
    // SAFETY: promised by the caller; the other side of each copy is a local array.
    unsafe {
        ptr::copy_nonoverlapping(place, before.as_mut_ptr(), N);
        if let Some(new) = change(before) {
            ptr::copy_nonoverlapping(new.as_ptr(), place, N);
        }
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Piece;

    #[repr(align(16))]
    struct Memory([u8; 64]);

    /// Increments every element of `N` bytes from `start` on, in pieces of different sizes.
    fn count_up<const N: usize>(start: usize) {
        let mut memory = Memory([7; 64]);
        let mut iov = IoVec::empty();
        let mut at = start;
        for elements in [1, 0, 2] {
            // SAFETY: the memory outlives the vector.
            let piece = unsafe { Piece::new(memory.0.as_mut_ptr().add(at), elements * N) };
            assert!(iov.push(piece));
            at += elements * N;
        }
        for _ in 0..3 {
            let before = iov.update::<N>(|mut old| {
                old[0] += 1;
                Some(old)
            });
            assert_eq!(before, Some([7; N]));
        }
        assert_eq!(iov.update::<N>(Some), None);
        for (i, &byte) in memory.0.iter().enumerate() {
            let counted = i >= start && i < at && (i - start).is_multiple_of(N);
            assert_eq!(byte, 7 + u8::from(counted), "byte {i}");
        }
    }

    #[test]
    fn elements_of_every_size_change_where_they_are() {
        for start in 0..4 {
            count_up::<1>(start);
            count_up::<2>(start);
            count_up::<4>(start);
            count_up::<8>(start);
            count_up::<16>(start);
        }
    }

    #[test]
    fn an_element_may_lie_in_several_pieces() {
        let mut memory = Memory([7; 64]);
        let mut iov = IoVec::empty();
        for (at, len) in [(20, 3), (10, 0), (0, 1), (40, 9)] {
            // SAFETY: the memory outlives the vector.
            let piece = unsafe { Piece::new(memory.0.as_mut_ptr().add(at), len) };
            assert!(iov.push(piece));
        }
        let add = |old: [u8; 8]| Some(old.map(|byte| byte + 1));
        assert_eq!(iov.update::<8>(add), Some([7; 8]));
        assert_eq!(iov.update::<8>(add), None);
        assert_eq!(iov.update::<4>(|_| None), Some([7; 4]));
        for (i, &byte) in memory.0.iter().enumerate() {
            let changed = matches!(i, 20..23 | 0 | 40..44);
            assert_eq!(byte, 7 + u8::from(changed), "byte {i}");
        }
    }

    #[test]
    fn an_element_that_is_only_looked_at_stays() {
        let mut memory = Memory([3; 64]);
        for start in [0, 1] {
            // SAFETY: the memory outlives the vector.
            let piece = unsafe { Piece::new(memory.0.as_mut_ptr().add(start), 8) };
            let mut iov = IoVec::from(piece);
            assert_eq!(iov.update::<8>(|_| None), Some([3; 8]));
        }
        assert_eq!(memory.0, [3; 64]);
    }

    #[test]
    fn no_change_of_many_threads_is_lost() {
        const EACH: u64 = if cfg!(miri) { 20 } else { 2000 };
        for start in [0, 1] {
            let mut memory = Memory([0; 64]);
            let base = memory.0.as_mut_ptr() as usize + start;
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..EACH {
                            let mut iov = IoVec::empty();
                            // SAFETY: the memory outlives the threads.
                            let piece = unsafe { Piece::new(base as *mut u8, 24) };
                            assert!(iov.push(piece));
                            let wide = |old| Some((u128::from_ne_bytes(old) + 1).to_ne_bytes());
                            let small = |old| Some((u64::from_ne_bytes(old) + 1).to_ne_bytes());
                            iov.update::<16>(wide);
                            iov.update::<8>(small);
                        }
                    });
                }
            });
            let word = |at| u64::from_ne_bytes(memory.0[at..at + 8].try_into().unwrap());
            assert_eq!(
                (word(start), word(start + 8), word(start + 16)),
                (4 * EACH, 0, 4 * EACH)
            );
        }
    }
}
