// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory that the application has registered: fi_mr(3).
//!
//! Trusted with: the promise given to `Registered::new`, which each part inherits.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::{Piece, Span};
use sys::verbs::{Access, ProtectionDomain, Region};

/// A piece of a region. Peers access parts of it.
pub struct Registered(Piece);

impl Registered {
    /// # Safety
    /// `base[..len]` must stay valid until the region is closed and all accesses that were pending then have ended.
    pub unsafe fn new(base: *mut u8, len: usize) -> Registered {
        // SAFETY: the caller's promise lasts as long as each access.
        Registered(unsafe { Piece::new(base, len) })
    }

    /// Memory that is never freed.
    #[cfg(any(test, feature = "testing"))]
    pub fn leaked(bytes: Vec<u8>) -> Registered {
        let bytes = bytes.leak();
        // SAFETY: leaked, and without other references.
        unsafe { Registered::new(bytes.as_mut_ptr(), bytes.len()) }
    }

    pub const fn empty() -> Registered {
        Registered(Piece::empty())
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Records that a device has the memory.
    pub fn mark(&mut self) {
        self.0.mark();
    }

    pub fn is_device(&self) -> bool {
        self.0.is_device()
    }

    pub fn span(&self) -> Span {
        self.0.span()
    }

    /// Registers the piece with an adapter.
    ///
    /// The adapter's region must be dropped, or put into a cache, when the region of this piece is closed: the
    /// application may free the memory then. `Transport::region_closed` is the place for that.
    pub fn register(&self, domain: &Arc<ProtectionDomain>, access: Access) -> io::Result<Region> {
        // SAFETY: the promise given to `new`; the caller ends the adapter's accesses when it ends. In a cache no
        // operation of this process uses the region; the adapter holds its pages, so a late access of a peer, which
        // fi_mr(3) allows with a cache, reaches those and no other memory. fi_mr(3): the application grants the
        // accesses that it registers the memory for.
        unsafe { Region::register(domain, self.address(), self.0.len, access) }
    }

    /// Registers the piece as a part of a buffer of another device, which keeps the buffer.
    ///
    /// The condition of `register`.
    pub fn register_buffer(
        &self,
        domain: &Arc<ProtectionDomain>,
        access: Access,
        fd: BorrowedFd<'_>,
        offset: u64,
    ) -> io::Result<Region> {
        // SAFETY: as in `register`. The adapter reaches the buffer, and nothing by its addresses.
        unsafe { Region::register_buffer(domain, fd, offset, self.address(), self.0.len, access) }
    }

    /// The address by which adapters know the memory.
    fn address(&self) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(self.span().start)
    }

    /// Returns the part of an access: `len` bytes behind the first `skip`, if the region has them. Closing the region
    /// ends the access, and so the part.
    #[inline]
    pub fn part(&self, skip: usize, len: usize) -> Option<Piece> {
        let fits = skip <= self.0.len && len <= self.0.len - skip;
        fits.then(|| Piece {
            base: self.0.base.wrapping_add(skip),
            len,
        })
    }
}
