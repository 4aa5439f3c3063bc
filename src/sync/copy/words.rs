// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Copies of a few words. A hand-written instruction loads each byte, and another one stores it.
//!
//! Trusted with: these instructions.

use core::arch::asm;

/// Copies the first 8 bytes and the last 8, which together cover the whole range.
///
/// # Safety
/// As `copy`, with `len` from 8 to 16.
#[inline(always)]
pub unsafe fn copy_ends_8(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; both ends lie within `len` bytes.
    unsafe {
        asm!(
            "mov {first}, qword ptr [{from}]",
            "mov {last}, qword ptr [{from} + {len} - 8]",
            "mov qword ptr [{to}], {first}",
            "mov qword ptr [{to} + {len} - 8], {last}",
            from = in(reg) from, to = in(reg) to, len = in(reg) len,
            first = out(reg) _, last = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// As `copy_ends_8`, with 16 bytes at each end.
///
/// # Safety
/// As `copy`, with `len` from 16 to 32.
#[inline(always)]
pub unsafe fn copy_ends_16(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; both ends lie within `len` bytes.
    unsafe {
        asm!(
            "movups {first}, xmmword ptr [{from}]",
            "movups {last}, xmmword ptr [{from} + {len} - 16]",
            "movups xmmword ptr [{to}], {first}",
            "movups xmmword ptr [{to} + {len} - 16], {last}",
            from = in(reg) from, to = in(reg) to, len = in(reg) len,
            first = out(xmm_reg) _, last = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}
