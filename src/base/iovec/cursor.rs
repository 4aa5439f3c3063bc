// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A view of the pieces of an operation with a position of its own: for copies of a part, which do not move the
//! operation's position. It does not outlive the operation.
#![forbid(unsafe_code)]

use core::marker::PhantomData;
use core::ops::Deref;

use super::IoVec;
use hmem::{Host, Memory};

pub struct Cursor<'a, M = Host> {
    iov: IoVec<M>,
    of: PhantomData<&'a IoVec<M>>,
}

impl<M: Memory> Cursor<'_, M> {
    #[inline(always)]
    pub(super) fn of(iov: IoVec<M>) -> Self {
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

impl<M: Memory> Deref for Cursor<'_, M> {
    type Target = IoVec<M>;

    #[inline(always)]
    fn deref(&self) -> &IoVec<M> {
        &self.iov
    }
}
