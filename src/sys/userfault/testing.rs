// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Pages for tests, whose memory may change in every way that is watched.

use core::ffi::c_void;
use core::num::NonZeroUsize;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::mman::{
    MRemapFlags, MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, mremap, munmap,
};

use crate::memory::page_size;

/// Private pages. No reference to them exists.
pub struct Pages {
    base: NonNull<c_void>,
    count: usize,
}

// SAFETY: the kernel orders the calls, and nothing refers to the memory.
unsafe impl Sync for Pages {}

impl Pages {
    /// Far from where the kernel puts other mappings, which must not come into a hole.
    pub fn new(count: usize) -> Pages {
        const FAR: usize = 1 << 40;
        static NEXT: AtomicUsize = AtomicUsize::new(FAR);
        let at = NEXT.fetch_add((count + 1) * page_size(), Ordering::Relaxed);
        // SAFETY: nothing else is there.
        let base = unsafe { map(at, count) };
        Pages { base, count }
    }

    /// The addresses of some pages.
    pub fn range(&self, pages: Range<usize>) -> Range<usize> {
        let at = |page: usize| self.base.as_ptr().addr() + page * page_size();
        at(pages.start)..at(pages.end)
    }

    fn at(&self, page: usize) -> NonNull<c_void> {
        assert!(page < self.count);
        // SAFETY: within the pages.
        unsafe { self.base.byte_add(page * page_size()) }
    }

    pub fn unmap(&self, pages: Range<usize>) {
        // SAFETY: nothing refers to the memory.
        unsafe { munmap(self.at(pages.start), pages.len() * page_size()).unwrap() };
    }

    /// Maps new memory there, in place of other memory if there is some.
    pub fn map(&self, pages: Range<usize>) {
        // SAFETY: nothing refers to the memory.
        unsafe { map(self.range(pages.clone()).start, pages.len()) };
    }

    pub fn is_mapped(&self, page: usize) -> bool {
        let mut is_resident = 0;
        // SAFETY: one byte for one page.
        unsafe { libc::mincore(self.at(page).as_ptr(), page_size(), &raw mut is_resident) == 0 }
    }

    /// MADV_DONTNEED.
    pub fn discard(&self, pages: Range<usize>) {
        let len = pages.len() * page_size();
        // SAFETY: nothing refers to the memory.
        unsafe { madvise(self.at(pages.start), len, MmapAdvise::MADV_DONTNEED).unwrap() };
    }

    /// Moves pages to another place, and unmaps them there.
    pub fn move_away(&self, pages: Range<usize>) {
        let len = pages.len() * page_size();
        let more = len + page_size();
        // SAFETY: nothing refers to the memory.
        unsafe {
            // Growing where the next page is in use moves them.
            let to = mremap(
                self.at(pages.start),
                len,
                more,
                MRemapFlags::MREMAP_MAYMOVE,
                None,
            );
            munmap(to.unwrap(), more).unwrap();
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.unmap(0..self.count);
    }
}

/// # Safety
/// Nothing refers to memory at this place.
unsafe fn map(at: usize, count: usize) -> NonNull<c_void> {
    let len = NonZeroUsize::new(count * page_size()).unwrap();
    let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED;
    // SAFETY: the caller's promise.
    unsafe { mmap_anonymous(NonZeroUsize::new(at), len, rights, flags).unwrap() }
}
