// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory of the application for one operation: up to `IOV_LIMIT` pieces, and a cursor over them. `copies` has the
//! copies to and from the pieces.
//!
//! Trusted with: reading and writing these pieces. `IoVec::new` carries the promise (the man page says that buffers
//! stay valid until the completion), so its users need no unsafe. The pieces are never `&[u8]`: they outlive the call,
//! and the peer or the application may write them at any time.

mod block;
mod copies;
mod cursor;
mod device;
mod element;
#[cfg(any(test, feature = "testing"))]
pub mod lent;
mod piece;
mod record;
mod registered;
mod source;
mod span;
#[cfg(test)]
mod tests;

use core::ptr;

use abi::iovec;
use hmem::Desc;
use sys::io_list::{GatherList, IoList, ScatterList};

pub use block::Block;
pub use copies::CopySource;
pub use cursor::Cursor;
pub use piece::Piece;
pub use registered::Registered;
pub use source::Source;
pub use span::Span;

/// Limit on the pieces of one operation, here and at the target.
pub const IOV_LIMIT: usize = 4;

/// The pieces of one operation and how far it has come.
pub struct IoVec {
    pieces: [Piece; IOV_LIMIT],
    count: u8,
    /// The next piece, and how many of its bytes are done.
    at: u8,
    done: usize,
    /// Descriptor of all pieces; none if they have several.
    desc: Desc,
    /// The memory was only lent for reading, so it has no room for bytes.
    is_source: bool,
    /// A device has a piece.
    is_device: bool,
}

const _: () = assert!(size_of::<IoVec>() == size_of::<[Piece; IOV_LIMIT]>() + 16);

impl Default for IoVec {
    fn default() -> IoVec {
        IoVec::empty()
    }
}

impl From<Piece> for IoVec {
    #[inline]
    fn from(piece: Piece) -> IoVec {
        let mut iov = IoVec::empty();
        let is_device = piece.is_device();
        iov.set(piece, Desc::NONE);
        iov.is_device = is_device;
        iov
    }
}

impl IoVec {
    pub const fn empty() -> IoVec {
        IoVec {
            pieces: [const { Piece::empty() }; IOV_LIMIT],
            count: 0,
            at: 0,
            done: 0,
            desc: Desc::NONE,
            is_source: false,
            is_device: false,
        }
    }

    /// Returns the same memory for operations that only read it.
    #[inline]
    pub fn as_source(mut self) -> IoVec {
        self.is_source = true;
        self
    }

    /// Moves the pieces out and leaves an empty list.
    #[inline(always)]
    pub fn take(&mut self) -> IoVec {
        let taken = self.again();
        self.count = 0;
        self.at = 0;
        self.done = 0;
        taken
    }

    /// Moves the first `len` of the bytes not yet moved to a new list.
    pub fn split_off(&mut self, len: usize) -> IoVec {
        let mut first = self.again();
        first.truncate(len);
        self.advance(len);
        first
    }

    /// As `split_off`, if the bytes lie in one piece; otherwise nothing changes.
    #[inline]
    pub fn split_piece(&mut self, len: usize) -> Option<IoVec> {
        let piece = self.pieces[..usize::from(self.count)].get(usize::from(self.at))?;
        if piece.len - self.done < len {
            return None;
        }
        let mut first = IoVec::empty();
        let piece = Piece {
            base: piece.base.wrapping_byte_add(self.done),
            len,
        };
        first.set(piece, self.desc);
        first.is_source = self.is_source;
        first.is_device = self.is_device;
        self.advance(len);
        Some(first)
    }

    /// Returns a cursor over the bytes not yet moved, with a position of its own.
    #[inline(always)]
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::of(self.again())
    }

    /// Makes a second list of the same memory.
    ///
    /// # Safety
    /// Once an operation has been posted with one of the two, the other is not used.
    pub unsafe fn duplicate(&self) -> IoVec {
        self.again()
    }

    #[inline(always)]
    fn again(&self) -> IoVec {
        // SAFETY: nothing in it owns a resource; the callers answer for the existence of two lists.
        unsafe { ptr::read(self) }
    }

    /// Replaces the pieces by this one of host memory, with no byte moved.
    #[inline(always)]
    pub fn set(&mut self, piece: Piece, desc: Desc) {
        self.pieces[0] = piece;
        self.count = 1;
        self.at = 0;
        self.done = 0;
        self.desc = desc;
        self.is_source = false;
        self.is_device = false;
    }

    /// Makes a list of `count` pieces, without a descriptor. Returns `None` if there are more than
    /// `IOV_LIMIT`, or if their total length overflows.
    ///
    /// # Safety
    /// `pieces[..count]` must be readable. Each piece must be valid as for `Piece::new`.
    pub unsafe fn new(pieces: *const iovec, count: usize) -> Option<IoVec> {
        let mut iov = IoVec::empty();
        if count > IOV_LIMIT || (count > 0 && pieces.is_null()) {
            return None;
        }
        let mut total = 0usize;
        for i in 0..count {
            // SAFETY: the caller promises `count` readable pieces, and valid memory behind the pieces.
            iov.pieces[i] = unsafe {
                let piece = *pieces.add(i);
                Piece::new(piece.iov_base.cast(), piece.iov_len)
            };
            total = total.checked_add(iov.pieces[i].len)?;
        }
        if total > isize::MAX as usize {
            return None;
        }
        iov.count = count as u8;
        Some(iov)
    }

    /// Adds a piece. Returns false if there is no room.
    pub fn push(&mut self, piece: Piece) -> bool {
        if usize::from(self.count) == IOV_LIMIT {
            return false;
        }
        self.is_device |= piece.is_device();
        self.pieces[usize::from(self.count)] = piece;
        self.count += 1;
        true
    }

    /// Adds all pieces of a list of which no byte was moved. If there is no room for all, returns the list unchanged.
    pub fn append(&mut self, mut more: IoVec) -> core::result::Result<(), IoVec> {
        let count = usize::from(self.count);
        let added = usize::from(more.count);
        if count + added > IOV_LIMIT {
            return Err(more);
        }
        let places = &mut self.pieces[count..count + added];
        for (place, piece) in places.iter_mut().zip(&mut more.pieces) {
            *place = piece.take();
        }
        self.count += more.count;
        self.desc = self.desc.and(more.desc);
        self.is_source |= more.is_source;
        self.is_device |= more.is_device;
        Ok(())
    }

    /// Returns the piece if the list has exactly one.
    pub fn into_one(mut self) -> Option<Piece> {
        (self.count == 1).then(|| self.pieces[0].take())
    }

    /// Returns the number of pieces.
    #[inline]
    pub fn pieces(&self) -> usize {
        self.count.into()
    }

    /// Returns the list with the descriptor of all its pieces.
    #[inline(always)]
    pub fn with_desc(self, desc: Desc) -> IoVec {
        IoVec { desc, ..self }
    }

    #[inline]
    pub fn desc(&self) -> Desc {
        self.desc
    }

    /// Returns true if a piece with bytes has the address NULL.
    pub fn has_null(&self) -> bool {
        self.pieces[..usize::from(self.count)]
            .iter()
            .any(|p| p.base.is_null() && p.len > 0)
    }

    /// Makes the pieces with the address NULL empty.
    pub fn drop_null(&mut self) {
        for piece in &mut self.pieces[..usize::from(self.count)] {
            if piece.base.is_null() {
                piece.len = 0;
            }
        }
    }

    /// Returns the address of the first piece.
    #[inline]
    pub fn base(&self) -> usize {
        self.pieces[0].span().start
    }

    /// Returns the address of the next byte.
    pub fn address(&self) -> usize {
        let at = usize::from(self.at).min(IOV_LIMIT - 1);
        self.pieces[at].span().start + self.done
    }

    /// Returns the number of bytes not yet moved.
    #[inline]
    pub fn remaining(&self) -> usize {
        let mut total = 0usize;
        for piece in &self.pieces[usize::from(self.at)..usize::from(self.count)] {
            total = total.saturating_add(piece.len);
        }
        total - self.done
    }

    /// Counts `n` bytes as moved.
    #[inline]
    pub fn advance(&mut self, mut n: usize) {
        while self.at < self.count {
            let rest = self.pieces[usize::from(self.at)].len - self.done;
            if n < rest {
                self.done += n;
                return;
            }
            n -= rest;
            self.at += 1;
            self.done = 0;
        }
    }

    /// Keeps the first `len` of the bytes not yet moved.
    pub fn truncate(&mut self, len: usize) {
        let mut left = len + self.done;
        for piece in &mut self.pieces[usize::from(self.at)..usize::from(self.count)] {
            piece.len = piece.len.min(left);
            left -= piece.len;
        }
    }
}

/// Uses of host memory, whose addresses can be passed to the kernel or to another process.
impl IoVec {
    /// Appends the pieces not yet moved to `out`, at most `max` bytes of them. Returns the number of bytes. Bytes of
    /// device memory are copied to the thread's stage before, as many as it has room for.
    ///
    /// The list does not outlive the pieces:
    ///
    /// ```compile_fail,E0505
    /// let mut list = sys::io_list::GatherList::new();
    /// let iov = base::IoVec::empty();
    /// iov.append_to(&mut list, 1);
    /// drop(iov);
    /// list.bytes();
    /// ```
    ///
    /// A call does not read into them:
    ///
    /// ```compile_fail,E0308
    /// let mut list = sys::io_list::ScatterList::new();
    /// let iov = base::IoVec::empty();
    /// iov.append_to(&mut list, 1);
    /// ```
    pub fn append_to<'a>(&'a self, out: &mut GatherList<'a>, max: usize) -> usize {
        // SAFETY: the list borrows the pieces, which are valid for reads until the completion (`Piece::new`), which is
        // not reported while the operation has them.
        unsafe { self.push_to(out, max, device::stage) }
    }

    /// As `append_to`, for a call that reads into the pieces. Memory of a source has no room, and neither has memory of
    /// a device or what is behind it.
    pub fn scatter_to<'a>(&'a self, out: &mut ScatterList<'a>, max: usize) -> usize {
        if self.is_source {
            return 0;
        }
        // SAFETY: as in `append_to`; memory that is not that of a source may be written.
        unsafe { self.push_to(out, max, |_, _, _| 0) }
    }

    /// `device` adds bytes of device memory and returns how many there was room for.
    ///
    /// # Safety
    /// The access that the list is for is one for which the memory is valid while the list is used.
    #[inline(always)]
    unsafe fn push_to<D>(
        &self,
        out: &mut IoList<'_, D>,
        max: usize,
        device: impl Fn(*const u8, usize, &mut IoList<'_, D>) -> usize,
    ) -> usize {
        let mut left = max;
        let mut skip = self.done;
        for piece in &self.pieces[usize::from(self.at)..usize::from(self.count)] {
            let len = (piece.len - skip).min(left);
            if len > 0 && piece.is_device() {
                // SAFETY: within the piece.
                let added = device(unsafe { piece.at(skip) }, len, out);
                left -= added;
                if added < len {
                    break;
                }
            } else if len > 0 {
                // SAFETY: within the piece; the rest is promised by the caller.
                if !unsafe { out.push_raw(piece.at(skip), len) } {
                    break;
                }
                left -= len;
            }
            skip = 0;
        }
        max - left
    }

    /// Returns the address ranges of the bytes not yet moved.
    #[inline]
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        let pieces = &self.pieces[usize::from(self.at).min(IOV_LIMIT)..usize::from(self.count)];
        pieces.iter().enumerate().map(|(i, piece)| {
            let skip = if i == 0 { self.done } else { 0 };
            let Span { start, len } = piece.span();
            Span::new(start + skip, len - skip)
        })
    }
}
