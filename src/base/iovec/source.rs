// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One piece of memory that an operation sends, or writes to a peer: it is only read.

use super::{CopySource, Cursor, IoVec, Piece, Span};

use sync::shared_bytes::SharedRoom;
use sys::io_list::GatherList;

/// Memory that the application leaves to the library for reading. It is never written to:
///
/// ```compile_fail,E0599
/// fn write(source: &base::Source) {
///     source.fill(b"bytes");
/// }
/// ```
///
/// ```compile_fail,E0277
/// fn as_piece(source: base::Source) -> base::Piece {
///     source.into()
/// }
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct Source(Piece);

impl From<Piece> for Source {
    #[inline(always)]
    fn from(piece: Piece) -> Source {
        Source(piece)
    }
}

impl From<Source> for IoVec {
    #[inline(always)]
    fn from(source: Source) -> IoVec {
        IoVec::from(source.0).as_source()
    }
}

impl Source {
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the address range.
    #[inline]
    pub fn span(&self) -> Span {
        self.0.span()
    }

    /// Returns a cursor that does not outlive the source.
    #[inline]
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::of(IoVec::from(self.0.again()).as_source())
    }

    /// Appends all bytes to `out`.
    #[inline]
    pub fn copy_out(&self, out: &mut Vec<u8>) {
        self.0.copy_out(out);
    }

    /// # Panics
    /// If there is less room: a fault of this library, which no peer can cause.
    #[inline(always)]
    pub fn put_into(&self, room: SharedRoom<'_>) {
        self.0.put_into(room);
    }
}

impl CopySource for Source {
    #[inline(always)]
    fn copy_to(&self, out: &mut [u8]) {
        self.0.copy_to(out);
    }

    #[inline(always)]
    fn copy_out(&self, out: &mut Vec<u8>) {
        self.0.copy_out(out);
    }
}

impl Source {
    /// As `IoVec::append_to`, for all bytes.
    ///
    /// Only for host memory: operations of one piece that name device memory become lists.
    #[inline]
    pub fn append_to<'a>(&'a self, out: &mut GatherList<'a>) {
        let (at, len) = (self.0.base, self.0.len);
        if len > 0 {
            // SAFETY: the list borrows the source, which is valid for reads until the completion (`Piece::new`).
            unsafe { out.push_raw(at, len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::io_list::ScatterList;

    #[test]
    fn memory_of_a_source_has_no_room() {
        let mut memory = [1_u8, 2];
        let base = memory.as_mut_ptr();
        // SAFETY: the array outlives the pieces.
        let piece = || unsafe { Piece::new(base, 2) };
        let (source, room) = (Source::from(piece()), IoVec::from(piece()));
        let (mut gather, mut scatter) = (GatherList::new(), ScatterList::new());
        source.append_to(&mut gather);
        assert_eq!(gather.bytes(), 2);
        source.cursor().fill(&[7, 7]);
        let mut iov = IoVec::from(source);
        assert_eq!(iov.copy_in(&[7, 7]), 0);
        iov.fill(&[7, 7]);
        let first = iov.split_piece(1).unwrap();
        assert_eq!(first.scatter_to(&mut scatter, 1), 0);
        assert_eq!(iov.scatter_to(&mut scatter, 1), 0);
        let mut out = Vec::new();
        iov.copy_out(&mut out);
        assert_eq!(out, [2]);
        assert_eq!(room.scatter_to(&mut scatter, 2), 2);
        let mut both = IoVec::from(piece());
        assert!(both.append(iov).is_ok());
        assert_eq!(both.copy_in(&[7]), 0);
        assert_eq!(memory, [1, 2]);
    }
}
