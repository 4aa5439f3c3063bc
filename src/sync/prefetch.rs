// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Prefetches of cache lines that another processor has. They change nothing but how long something takes.
//!
//! Of a record of several lines the first is polled; the others are fetched while its header is looked into. Who waits
//! for an answer takes the lines of the next record meanwhile, so a message of 256 bytes takes hardly longer than one
//! of 8.

/// Begins to load a line that is about to be read.
#[inline(always)]
pub fn prefetch_read(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: any address is allowed: what cannot be fetched is left alone.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}

/// Begins to take a line from the other processors, as it is about to be written.
#[inline(always)]
pub fn prefetch_write(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as in `prefetch_read`. Processors that do not know the instruction do nothing.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}
