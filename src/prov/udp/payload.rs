// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The bytes of a posted message: one piece in most cases, or several.

use base::{IoVec, Source};
use sys::io_list::GatherList;

pub trait Payload {
    fn len(&self) -> usize;
    /// Returns the pieces, for a system call.
    fn list(&self) -> GatherList<'_>;
    fn copy_out(&self, out: &mut Vec<u8>);
}

impl Payload for Source {
    #[inline]
    fn len(&self) -> usize {
        Source::len(self)
    }

    #[inline]
    fn list(&self) -> GatherList<'_> {
        let mut list = GatherList::new();
        self.append_to(&mut list);
        list
    }

    #[inline]
    fn copy_out(&self, out: &mut Vec<u8>) {
        Source::copy_out(self, out);
    }
}

impl Payload for IoVec {
    fn len(&self) -> usize {
        self.remaining()
    }

    fn list(&self) -> GatherList<'_> {
        let mut list = GatherList::new();
        self.append_to(&mut list, usize::MAX);
        list
    }

    fn copy_out(&self, out: &mut Vec<u8>) {
        IoVec::copy_out(self, out);
    }
}
