// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A view of the pieces of an operation with a position of its own: for copies of a part, which do not move the
//! operation's position. It does not outlive the operation.
#![forbid(unsafe_code)]

use core::marker::PhantomData;
use core::ops::Deref;

use super::IoVec;

pub struct Cursor<'a> {
    iov: IoVec,
    of: PhantomData<&'a IoVec>,
}

impl Cursor<'_> {
    #[inline(always)]
    pub(super) fn of(iov: IoVec) -> Self {
        Cursor {
            iov,
            of: PhantomData,
        }
    }

    /// As `IoVec::advance`.
    #[inline]
    pub fn advance(&mut self, n: usize) {
        self.iov.advance(n);
    }

    /// As `IoVec::truncate`.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.iov.truncate(len);
    }
}

impl Deref for Cursor<'_> {
    type Target = IoVec;

    #[inline(always)]
    fn deref(&self) -> &IoVec {
        &self.iov
    }
}
