// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Copies of whole cache lines. Each line is loaded and stored by as few instructions as the processor allows.
//!
//! Each function ends with VZEROUPPER, which the compiler does not add for registers that only inline assembly uses.
//! Without it the processor keeps the upper halves of the registers, and all later SSE instructions of the program wait
//! for each other: messages of 512 bytes then took 1.5 times as long, and a stream of them was a third as fast.
//!
//! Trusted with: these instructions, and the detected processor features.

use core::arch::asm;
use core::arch::x86_64::{_mm_sfence, _mm256_zeroupper};

pub use sys::clock::ticks;
use sys::memory;

const LINE: usize = 64;
pub const CAN_PASS: bool = true;

/// As `super::copy`, for at least one line; `at` is the address on the side whose line boundaries count.
///
/// # Safety
/// As for `super::copy`.
#[inline(never)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize, at: usize) {
    // SAFETY: the caller's promise; the processor supports the instructions of the chosen function.
    unsafe {
        if is_x86_feature_detected!("avx512f") {
            by_lines(from, to, len, at)
        } else if is_x86_feature_detected!("avx") {
            by_halves(from, to, len, at)
        } else {
            memory::copy(from, to, len)
        }
    }
}

/// As `copy`, past the cache.
///
/// # Safety
/// As for `copy`.
#[inline(never)]
pub unsafe fn copy_past(from: *const u8, to: *mut u8, len: usize) {
    let head = (to as usize).wrapping_neg() % LINE;
    let lines = (len - head) / LINE * LINE;
    // SAFETY: the caller's promise: the three pieces make up the whole copy. The processor supports the chosen
    // instructions.
    unsafe {
        memory::copy(from, to, head);
        let (body, end) = (head, head + lines);
        if is_x86_feature_detected!("avx512f") {
            past_by_lines(from.add(body), to.add(body), lines);
        } else if is_x86_feature_detected!("avx") {
            past_by_halves(from.add(body), to.add(body), lines);
        } else {
            memory::copy(from.add(body), to.add(body), lines);
        }
        memory::copy(from.add(end), to.add(end), len - end);
        // Non-temporal stores are not ordered before later stores without this fence.
        _mm_sfence();
    }
}

/// # Safety
/// As `copy`, on a processor with AVX-512.
#[target_feature(enable = "avx512f")]
unsafe fn by_lines(from: *const u8, to: *mut u8, len: usize, at: usize) {
    // SAFETY: the caller's promise; each line that is named lies within.
    unsafe {
        with_ends(from, to, len, at, |from, to, at| {
            asm!(
                "vmovdqu64 {a}, zmmword ptr [{from} + {at}]",
                "vmovdqu64 zmmword ptr [{to} + {at}], {a}",
                from = in(reg) from, to = in(reg) to, at = in(reg) at,
                a = out(zmm_reg) _,
                options(nostack, preserves_flags),
            );
        });
        _mm256_zeroupper();
    }
}

/// # Safety
/// As `copy`, on a processor with AVX; two halves are a line.
#[target_feature(enable = "avx")]
unsafe fn by_halves(from: *const u8, to: *mut u8, len: usize, at: usize) {
    // SAFETY: the caller's promise; each line that is named lies within.
    unsafe {
        with_ends(from, to, len, at, |from, to, at| {
            asm!(
                "vmovdqu {a}, ymmword ptr [{from} + {at}]",
                "vmovdqu {b}, ymmword ptr [{from} + {at} + 32]",
                "vmovdqu ymmword ptr [{to} + {at}], {a}",
                "vmovdqu ymmword ptr [{to} + {at} + 32], {b}",
                from = in(reg) from, to = in(reg) to, at = in(reg) at,
                a = out(ymm_reg) _, b = out(ymm_reg) _,
                options(nostack, preserves_flags),
            );
        });
        _mm256_zeroupper();
    }
}

/// # Safety
/// As `copy`, for whole lines of `to`, on a processor with AVX-512.
#[target_feature(enable = "avx512f")]
unsafe fn past_by_lines(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; each line that is named lies within.
    unsafe {
        each_line(from, to, len, |from, to, at| {
            asm!(
                "vmovdqu64 {a}, zmmword ptr [{from} + {at}]",
                "vmovntdq zmmword ptr [{to} + {at}], {a}",
                from = in(reg) from, to = in(reg) to, at = in(reg) at,
                a = out(zmm_reg) _,
                options(nostack, preserves_flags),
            );
        });
        _mm256_zeroupper();
    }
}

/// # Safety
/// As `copy`, for whole lines of `to`, on a processor with AVX.
#[target_feature(enable = "avx")]
unsafe fn past_by_halves(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; each line that is named lies within.
    unsafe {
        each_line(from, to, len, |from, to, at| {
            asm!(
                "vmovdqu {a}, ymmword ptr [{from} + {at}]",
                "vmovdqu {b}, ymmword ptr [{from} + {at} + 32]",
                "vmovntdq ymmword ptr [{to} + {at}], {a}",
                "vmovntdq ymmword ptr [{to} + {at} + 32], {b}",
                from = in(reg) from, to = in(reg) to, at = in(reg) at,
                a = out(ymm_reg) _, b = out(ymm_reg) _,
                options(nostack, preserves_flags),
            );
        });
        _mm256_zeroupper();
    }
}
/// Copies each line that lies wholly inside, then the first and the last `LINE` bytes, which may overlap those lines.
///
/// # Safety
/// As `copy`; `line` copies one.
#[inline(always)]
unsafe fn with_ends(
    from: *const u8,
    to: *mut u8,
    len: usize,
    at: usize,
    line: impl Fn(*const u8, *mut u8, usize),
) {
    debug_assert!(len >= LINE);
    let head = at.wrapping_neg() % LINE;
    // SAFETY: all within `len` bytes.
    unsafe { each_line(from.add(head), to.add(head), len - head, &line) };
    line(from, to, 0);
    line(from, to, len - LINE);
}

/// Copies whole lines from the first byte on.
///
/// # Safety
/// As `with_ends`.
#[inline(always)]
unsafe fn each_line(
    from: *const u8,
    to: *mut u8,
    len: usize,
    line: impl Fn(*const u8, *mut u8, usize),
) {
    let mut done = 0;
    while done + LINE <= len {
        line(from, to, done);
        done += LINE;
    }
}
