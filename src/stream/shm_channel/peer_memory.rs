// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Permission for direct copies: which entries of the directories of registered memory are in use, and which offers are
//! revoked. `PeerProcess` copies.

use core::ops::Range;

use super::ShmChannel;
use crate::proto::MAX_SEGS;
use base::IoVec;
use base::iovec::Cursor;
use hmem::export::Export;
use object::ops::transfer::RemoteSeg;
use sync::split_copy::Part;

impl ShmChannel {
    /// Whether the other side is using this entry of the local directory.
    pub fn is_using(&self, at: usize) -> bool {
        self.words.other().in_use().is(at)
    }

    /// Ends direct copies of the other side: from now on it starts none from or to local registered memory.
    pub fn leave(&self) {
        self.words.own().in_use().leave();
    }

    /// Copies the next `len` bytes between `local` and registered memory of the other side. Returns false if not all of
    /// it was copied.
    #[inline(always)]
    pub fn copy_region(&self, local: &mut Cursor<'_>, seg: &RemoteSeg, write: bool) -> bool {
        let words = &self.words;
        self.process.copy_region(words, local, seg, write)
    }

    /// Copies as many bytes from the other process as both lists have. Returns false if the copy failed, or if the
    /// offer was revoked.
    pub fn fetch(&self, from: &Places, to: &IoVec, epoch: u32) -> bool {
        let all = Part {
            from: 0,
            len: len_of(from).min(to.remaining()),
        };
        self.process.copy_part(all, to.cursor(), *from, false) && !self.is_revoked(epoch)
    }

    /// Does the same as `fetch` for all `len` bytes, into a new buffer.
    pub fn fetch_bytes(&self, from: &Places, len: usize, epoch: u32) -> Option<Vec<u8>> {
        let bytes = self.process.read(from, len)?;
        (!self.is_revoked(epoch)).then_some(bytes)
    }

    /// Does the same as `fetch` for a message in an allocation of device memory, whose bytes are in this part of it.
    #[cold]
    pub fn fetch_export(
        &self,
        export: &Export,
        from: Range<usize>,
        to: &IoVec,
        epoch: u32,
    ) -> bool {
        self.process.copy_export(export, from, to) && !self.is_revoked(epoch)
    }

    /// Returns the number of the current epoch of offers.
    pub fn epoch(&self) -> u32 {
        self.words.own().epoch().number()
    }

    /// Revokes all offers made so far: a peer that copied from this memory sees that it must not use the copy.
    pub fn revoke(&self) {
        self.words.own().epoch().revoke();
    }

    /// Whether the other side has revoked the offers of that epoch. Must be checked after a copy.
    pub fn is_revoked(&self, epoch: u32) -> bool {
        self.words.other().epoch().is_over(epoch)
    }
}

/// Addresses in the other process, and lengths.
pub type Places = [(usize, usize); MAX_SEGS];

pub fn len_of(places: &Places) -> usize {
    places
        .iter()
        .fold(0, |sum, &(_, len)| sum.saturating_add(len))
}
