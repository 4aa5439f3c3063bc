// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory that tests lend to operations, as applications do.
//!
//! Trusted with: tests, which must keep the memory longer than the operations.

use core::cell::UnsafeCell;

use super::{IoVec, Piece, Registered};

/// Memory that a test lends to operations. It must outlive them.
pub struct TestMemory(UnsafeCell<Box<[u8]>>);

impl TestMemory {
    pub fn new(bytes: Vec<u8>) -> TestMemory {
        TestMemory(UnsafeCell::new(bytes.into_boxed_slice()))
    }

    fn base(&self) -> *mut u8 {
        // SAFETY: tests have one thread, and no reference into the memory lives here.
        unsafe { (*self.0.get()).as_mut_ptr() }
    }

    pub fn len(&self) -> usize {
        // SAFETY: as in `base`.
        unsafe { (&*self.0.get()).len() }
    }

    /// Returns a part of the memory for an operation.
    pub fn iov(&self, at: usize, len: usize) -> IoVec {
        assert!(at + len <= self.len());
        // SAFETY: within the memory, which outlives the operation: see above.
        unsafe { Piece::new(self.base().add(at), len) }.into()
    }

    /// Returns all of the memory, for access by peers.
    pub fn registered(&self) -> Registered {
        // SAFETY: as in `iov`: it outlives the region.
        unsafe { Registered::new(self.base(), self.len()) }
    }

    /// Returns the present content.
    pub fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(at + len <= self.len());
        // SAFETY: as in `base`; nothing writes during the copy.
        unsafe { core::slice::from_raw_parts(self.base().add(at), len) }.to_vec()
    }
}
