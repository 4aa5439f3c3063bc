// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Prefetches of cache lines that another processor holds. They change only how long an access takes.
//!
//! The consumer polls the first line of a record and prefetches the other lines while it decodes the header. A sender
//! that waits for an answer prefetches the lines of its next record meanwhile. So a message of 256 bytes takes hardly
//! longer than one of 8.

/// Begins to load a line that is about to be read.
#[inline(always)]
pub fn prefetch_read(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch accepts any address and ignores one that it cannot load.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}

/// Begins to take a line from the other processors, because it is about to be written.
#[inline(always)]
pub fn prefetch_write(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as in `prefetch_read`. Processors without the instruction treat it as a no-op.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}
