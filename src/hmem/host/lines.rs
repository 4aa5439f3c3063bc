// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Copies by whole lines of the cache, with the instructions of x86_64.
//!
//! Trusted with: the addresses that its callers give, and what was found out of the processor.

use core::arch::x86_64::{__m256i, __m512i, _mm_sfence, _rdtsc};
use core::arch::x86_64::{_mm256_loadu_si256, _mm256_storeu_si256, _mm256_stream_si256};
use core::arch::x86_64::{_mm512_loadu_si512, _mm512_storeu_si512, _mm512_stream_si512};
use core::ptr;

const LINE: usize = 64;
pub const CAN_PASS: bool = true;

/// As `ptr::copy_nonoverlapping`, for a line at least; `at` is the address of the side whose lines count.
///
/// # Safety
/// As there.
#[inline(never)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize, at: usize) {
    // SAFETY: the caller's promise; the processor has what each needs.
    unsafe {
        if is_x86_feature_detected!("avx512f") {
            by_lines(from, to, len, at)
        } else if is_x86_feature_detected!("avx") {
            by_halves(from, to, len, at)
        } else {
            ptr::copy_nonoverlapping(from, to, len)
        }
    }
}

/// As `copy`, past the cache.
///
/// # Safety
/// As there.
#[inline(never)]
pub unsafe fn copy_past(from: *const u8, to: *mut u8, len: usize) {
    let head = (to as usize).wrapping_neg() % LINE;
    let lines = (len - head) / LINE * LINE;
    // SAFETY: the caller's promise: the three parts are all of it. The processor has what each needs.
    unsafe {
        ptr::copy_nonoverlapping(from, to, head);
        let (body, end) = (head, head + lines);
        if is_x86_feature_detected!("avx512f") {
            past_by_lines(from.add(body), to.add(body), lines);
        } else if is_x86_feature_detected!("avx") {
            past_by_halves(from.add(body), to.add(body), lines);
        } else {
            ptr::copy_nonoverlapping(from.add(body), to.add(body), lines);
        }
        ptr::copy_nonoverlapping(from.add(end), to.add(end), len - end);
        // No store comes after these by itself.
        _mm_sfence();
    }
}

pub fn ticks() -> u64 {
    // SAFETY: every processor of this kind has it.
    unsafe { _rdtsc() }
}

/// # Safety
/// As `copy`, on a processor with AVX-512.
#[target_feature(enable = "avx512f")]
unsafe fn by_lines(from: *const u8, to: *mut u8, len: usize, at: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        with_ends(from, to, len, at, |from, to| {
            _mm512_storeu_si512(to.cast(), _mm512_loadu_si512(from.cast()));
        });
    }
}

/// # Safety
/// As `copy`, on a processor with AVX.
#[target_feature(enable = "avx")]
unsafe fn by_halves(from: *const u8, to: *mut u8, len: usize, at: usize) {
    // SAFETY: the caller's promise; two halves are a line.
    unsafe {
        with_ends(from, to, len, at, |from, to| {
            let (first, second) = halves(from);
            _mm256_storeu_si256(to.cast(), first);
            _mm256_storeu_si256(to.add(LINE / 2).cast(), second);
        });
    }
}

/// # Safety
/// As `copy`, for whole lines of `to`, on a processor with AVX-512.
#[target_feature(enable = "avx512f")]
unsafe fn past_by_lines(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        each_line(from, to, len, |from, to| {
            _mm512_stream_si512(to.cast::<__m512i>(), _mm512_loadu_si512(from.cast()));
        });
    }
}

/// # Safety
/// As `copy`, for whole lines of `to`, on a processor with AVX.
#[target_feature(enable = "avx")]
unsafe fn past_by_halves(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; two halves are a line.
    unsafe {
        each_line(from, to, len, |from, to| {
            let (first, second) = halves(from);
            _mm256_stream_si256(to.cast(), first);
            _mm256_stream_si256(to.add(LINE / 2).cast(), second);
        });
    }
}

/// # Safety
/// A line can be read there, by a processor with AVX.
#[target_feature(enable = "avx")]
unsafe fn halves(line: *const u8) -> (__m256i, __m256i) {
    // SAFETY: the caller's promise.
    unsafe {
        let second = line.add(LINE / 2).cast();
        (_mm256_loadu_si256(line.cast()), _mm256_loadu_si256(second))
    }
}

/// Copies each line that lies within, then the ends, which may share bytes with those.
///
/// # Safety
/// As `copy`; `line` copies one.
#[inline(always)]
unsafe fn with_ends(
    from: *const u8,
    to: *mut u8,
    len: usize,
    at: usize,
    line: impl Fn(*const u8, *mut u8),
) {
    debug_assert!(len >= LINE);
    let head = at.wrapping_neg() % LINE;
    // SAFETY: all within `len` bytes.
    unsafe {
        each_line(from.add(head), to.add(head), len - head, &line);
        line(from, to);
        line(from.add(len - LINE), to.add(len - LINE));
    }
}

/// Copies whole lines from the first byte on.
///
/// # Safety
/// As `with_ends`.
#[inline(always)]
unsafe fn each_line(from: *const u8, to: *mut u8, len: usize, line: impl Fn(*const u8, *mut u8)) {
    let mut done = 0;
    while done + LINE <= len {
        // SAFETY: within `len` bytes.
        unsafe { line(from.add(done), to.add(done)) };
        done += LINE;
    }
}
