// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory that another process may read or write at any time, with its length: room for this side to write, bytes for
//! it to read. No reference to it is ever made. Copies stay within it, whatever lengths their callers pass.
//!
//! Trusted with: that the address and length given by the maker are right, and stay right for the given lifetime.

use core::marker::PhantomData;

use super::copy::{Ways, copy_from_shared};
use sys::io_list::GatherList;

/// Room that only this side writes for now.
pub struct SharedRoom<'a> {
    at: *mut u8,
    len: usize,
    memory: PhantomData<&'a mut [u8]>,
}

impl SharedRoom<'_> {
    /// # Safety
    /// `at[..len]` is writable for the lifetime of the room, this process has no reference to any of it, and
    /// nothing else of this process writes there meanwhile.
    #[inline(always)]
    pub unsafe fn new(at: *mut u8, len: usize) -> Self {
        SharedRoom {
            at,
            len,
            memory: PhantomData,
        }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns a pointer to the room, for a raw copy of `len` bytes.
    #[inline(always)]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.at
    }

    /// Returns the room behind the first `n` bytes; empty if it has no more.
    #[inline(always)]
    pub fn behind(self, n: usize) -> Self {
        let n = n.min(self.len);
        SharedRoom {
            at: self.at.wrapping_add(n),
            len: self.len - n,
            memory: PhantomData,
        }
    }

    /// Copies the bytes of a list behind its first `skip` bytes, as many as there are and as there is room for.
    pub fn gather(mut self, list: &GatherList<'_>, skip: usize, ways: &mut Ways) {
        let len = self.len.min(list.bytes().saturating_sub(skip));
        // SAFETY: the maker of the room promises that it is writable and that no reference to it exists; the list has
        // `len` bytes behind `skip`.
        unsafe { ways.gather(list, skip, self.as_mut_ptr(), len) }
    }
}

/// Bytes that are read here, and may change meanwhile.
#[derive(Clone, Copy)]
pub struct SharedBytes<'a> {
    at: *const u8,
    len: usize,
    memory: PhantomData<&'a [u8]>,
}

impl SharedBytes<'_> {
    /// # Safety
    /// `at[..len]` is readable for the lifetime of these bytes, and this process has no `&mut` to any of it.
    #[inline(always)]
    pub unsafe fn new(at: *const u8, len: usize) -> Self {
        SharedBytes {
            at,
            len,
            memory: PhantomData,
        }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns a pointer to the bytes, for a raw copy of `len` bytes.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.at
    }

    /// Returns the bytes behind the first `n`; empty if there are no more.
    #[inline(always)]
    pub fn behind(self, n: usize) -> Self {
        let n = n.min(self.len);
        SharedBytes {
            at: self.at.wrapping_add(n),
            len: self.len - n,
            memory: PhantomData,
        }
    }

    /// Returns the first `n` bytes, or all if there are fewer.
    #[inline(always)]
    pub fn first(self, n: usize) -> Self {
        SharedBytes {
            len: n.min(self.len),
            ..self
        }
    }

    /// Fills `out`. Returns false, and copies nothing, if there are fewer bytes than that.
    #[inline(always)]
    pub fn copy_to(&self, out: &mut [u8]) -> bool {
        if out.len() > self.len {
            return false;
        }
        // SAFETY: the maker of these bytes promises that `len` of them are readable; `out` is a reference, so it does
        // not overlap them. The other side may give bytes of any value anyway.
        unsafe { copy_from_shared(self.at, out.as_mut_ptr(), out.len()) };
        true
    }

    #[inline]
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.reserve(self.len);
        let len = bytes.len();
        // SAFETY: as in `copy_to`; room was reserved, and the bytes are written before the length includes them.
        unsafe {
            copy_from_shared(self.at, bytes.as_mut_ptr().add(len), self.len);
            bytes.set_len(len + self.len);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn bytes_of(memory: &[u8]) -> SharedBytes<'_> {
        // SAFETY: a reference of the same lifetime.
        unsafe { SharedBytes::new(memory.as_ptr(), memory.len()) }
    }

    fn room_of(memory: &mut [u8]) -> SharedRoom<'_> {
        // SAFETY: as above.
        unsafe { SharedRoom::new(memory.as_mut_ptr(), memory.len()) }
    }

    #[test]
    fn no_length_leads_out_of_the_bytes() {
        let memory = [1, 2, 3, 4];
        let bytes = bytes_of(&memory);
        let all = |bytes: SharedBytes<'_>| {
            let mut out = vec![9];
            bytes.append_to(&mut out);
            out
        };
        assert_eq!(all(bytes.behind(1).first(2)), [9, 2, 3]);
        assert_eq!(all(bytes.behind(3).first(usize::MAX)), [9, 4]);
        assert_eq!(all(bytes.behind(5)), [9]);
        assert_eq!(all(bytes.behind(usize::MAX).first(1)), [9]);
        let mut out = [0; 3];
        assert!(bytes.behind(1).copy_to(&mut out));
        assert!(!bytes.behind(2).copy_to(&mut out));
        assert_eq!(out, [2, 3, 4]);
    }

    #[test]
    fn no_length_leads_out_of_the_room() {
        let mut memory = [0; 4];
        let mut list = GatherList::new();
        assert!(list.push(&[1, 2, 3]) && list.push(&[4, 5, 6]));
        room_of(&mut memory)
            .behind(2)
            .gather(&list, 1, &mut Ways::default());
        assert_eq!(memory, [0, 0, 2, 3]);
        room_of(&mut memory).gather(&list, 5, &mut Ways::default());
        assert_eq!(memory, [6, 0, 2, 3]);
        room_of(&mut memory).gather(&list, 7, &mut Ways::default());
        assert_eq!(room_of(&mut memory).behind(5).len(), 0);
        assert_eq!(memory, [6, 0, 2, 3]);
    }
}
