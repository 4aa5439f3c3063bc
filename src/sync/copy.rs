// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Copies between memory of this process's own and memory that another processor writes or reads at the same time.
//!
//! The compiler must not know that memory: of a copy that it knows it may read a byte twice, once for a check and once
//! for its use, and a hostile peer changes it in between. So each load from there, and each store to it, is volatile,
//! or an instruction that is written here (`words`, `lines`: volatile accesses have to be aligned), or done by a
//! memcpy(3) that the compiler knows nothing about.
//! What it gives are bytes of any value, each as it was at one time.
//!
//! For speed it counts how often a line of the cache changes hands. A line that is stored by one instruction comes over
//! once, and one that is loaded by one instruction is not taken away in between; memcpy(3) promises neither, and begins
//! at any byte. Short copies are not worth the question what the processor can do.
//!
//! Trusted with: the two addresses that its callers give, and what was found out of the processor.
//!
//! memcpy(3) of 4 KiB takes `rep movsb`, which was slower than whole lines where we have measured it.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod lines;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod words;

#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::__m128i as Words;

use crate::sys::io_list::GatherList;
use crate::sys::memory;

/// 16 bytes that the processor moves at once.
#[cfg(not(target_arch = "x86_64"))]
type Words = u128;

/// From here on a copy is done by lines.
const LONG: usize = 512;

/// Copies bytes, without a call for the sizes that latency is measured with.
///
/// # Safety
/// As for `ptr::copy_nonoverlapping`, but that either side may be changed by others at any time.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; both halves lie within `len` bytes.
    unsafe {
        match len {
            8..=16 => words::copy_ends_8(from, to, len),
            17..=32 => words::copy_ends_16(from, to, len),
            _ => memory::copy(from, to, len),
        }
    }
}

/// Copies the start of a line, behind a word of 8 bytes, from memory that is shared.
///
/// # Safety
/// `from` is 8 bytes behind a multiple of 16, and `N` bytes are readable there, which others may change at any time.
#[inline(always)]
pub unsafe fn copy_from_line<const N: usize>(from: *const u8, to: &mut [u8; N]) {
    const { assert!(N.is_multiple_of(8) && N >= 8) };
    let to = to.as_mut_ptr();
    // SAFETY: all within `N` bytes, and aligned on the shared side: `from` is, and steps are of 16 from `from + 8` on.
    unsafe {
        let word = from.cast::<u64>().read_volatile();
        to.cast::<u64>().write_unaligned(word);
        let mut at = 8;
        while at + 16 <= N {
            let words = from.add(at).cast::<Words>().read_volatile();
            to.add(at).cast::<Words>().write_unaligned(words);
            at += 16;
        }
        if at < N {
            let word = from.add(at).cast::<u64>().read_volatile();
            to.add(at).cast::<u64>().write_unaligned(word);
        }
    }
}

/// As `copy_from_line`, the other way.
///
/// # Safety
/// As there, for `to`, where `N` bytes are writable.
#[inline(always)]
pub unsafe fn copy_to_line<const N: usize>(from: &[u8; N], to: *mut u8) {
    const { assert!(N.is_multiple_of(8) && N >= 8) };
    let from = from.as_ptr();
    // SAFETY: as in `copy_from_line`.
    unsafe {
        let word = from.cast::<u64>().read_unaligned();
        to.cast::<u64>().write_volatile(word);
        let mut at = 8;
        while at + 16 <= N {
            let words = from.add(at).cast::<Words>().read_unaligned();
            to.add(at).cast::<Words>().write_volatile(words);
            at += 16;
        }
        if at < N {
            let word = from.add(at).cast::<u64>().read_unaligned();
            to.add(at).cast::<u64>().write_volatile(word);
        }
    }
}

/// As `copy`, to memory that is shared.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn copy_to_shared(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match len < LONG {
            true => copy(from, to, len),
            false => lines::copy(from, to, len, to as usize),
        }
    }
}

/// As `copy`, from memory that is shared.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn copy_from_shared(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match len < LONG {
            true => copy(from, to, len),
            false => lines::copy(from, to, len, from as usize),
        }
    }
}

/// How long copies to shared memory go: through the cache, or past it. Past it is slower, unless the processor that has
/// used the lines last is so far away that it takes longer to get them back from there than to write to memory. That is
/// seen from what copies take, and may change at any time where a virtual machine's processors move.
#[derive(Default)]
pub struct Ways {
    /// Ticks for 1024 bytes: through, past. 0 is not known.
    costs: [u64; 2],
    turn: u32,
}

const THROUGH: usize = 0;
const PAST: usize = 1;
/// One copy in so many is measured, and one in so many goes the other way.
const MEASURED: u32 = 8;
const OTHER: u32 = 128;
/// What 1024 bytes take at least that come back from far away; between processors that share a cache it is 20 to 150
/// ticks.
const FAR_COST: u64 = 200;
/// What 1024 bytes take at most of a connection's first copies between processors that share a cache, where pages are
/// new; it is 300 to 1600 between others.
const NEAR_COST: u64 = 360;
/// What took longer was no copy alone: the process had to wait for its processor, or the clock was set back.
const MOST: u64 = 4096;
/// How much faster it has to seem to go past the cache.
const GAIN: u64 = 3;
/// Below, a copy is too short for the question.
const SHORTEST: usize = 2048;

impl Ways {
    /// As `copy_to_shared`, the faster way. Whoever is told of the bytes by an atomic that is stored later sees them.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn copy(&mut self, from: *const u8, to: *mut u8, len: usize) {
        if len < SHORTEST || !lines::CAN_PASS {
            // SAFETY: the caller's promise.
            return unsafe { copy_to_shared(from, to, len) };
        }
        let turn = self.turn;
        self.turn = turn.wrapping_add(1);
        let mut way = self.faster();
        if turn.is_multiple_of(OTHER) {
            way = 1 - way;
        }
        let is_measured = turn.is_multiple_of(MEASURED);
        let start = if is_measured { lines::ticks() } else { 0 };
        // SAFETY: the caller's promise.
        unsafe {
            match way {
                PAST => lines::copy_past(from, to, len),
                _ => lines::copy(from, to, len, to as usize),
            }
        }
        if is_measured {
            self.note(way, lines::ticks().wrapping_sub(start), len);
        }
    }

    /// Copies `len` bytes of a list, behind its first `skip`, to shared memory.
    ///
    /// # Safety
    /// `len` bytes from `out` on are writable, and no part of the pieces, which have `skip + len` bytes.
    pub unsafe fn gather(
        &mut self,
        list: &GatherList<'_>,
        mut skip: usize,
        mut out: *mut u8,
        mut len: usize,
    ) {
        for piece in list.pieces() {
            if skip >= piece.iov_len {
                skip -= piece.iov_len;
                continue;
            }
            let part = (piece.iov_len - skip).min(len);
            // SAFETY: whoever put the piece into the list answers for it; the caller promises the room.
            unsafe {
                self.copy(piece.iov_base.cast::<u8>().add(skip), out, part);
                out = out.add(part);
            }
            len -= part;
            skip = 0;
            if len == 0 {
                return;
            }
        }
    }

    /// Whether the processor that has used the lines last seems to be far away.
    pub fn seems_far(&self) -> bool {
        self.costs[THROUGH] > NEAR_COST
    }

    #[cfg(test)]
    pub fn of_cost(ticks: u64) -> Ways {
        Ways {
            costs: [ticks, 0],
            turn: 0,
        }
    }

    /// The next copy goes through the cache and is measured.
    pub fn ask(&mut self) {
        self.turn = match self.faster() {
            PAST => 0,
            _ => MEASURED,
        };
    }

    fn faster(&self) -> usize {
        let [through, past] = self.costs;
        // Stores past the cache are not over when they seem so, and leave the reader more to do.
        match past != 0 && past * GAIN < through && through > FAR_COST {
            true => PAST,
            false => THROUGH,
        }
    }

    fn note(&mut self, way: usize, ticks: u64, len: usize) {
        let cost = &mut self.costs[way];
        let sample = (ticks.saturating_mul(1024) / len as u64).clamp(1, MOST);
        *cost = match *cost {
            0 => sample,
            known => known - known / 4 + sample.min(8 * known) / 4,
        };
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod words {
    pub use crate::sys::memory::{copy as copy_ends_8, copy as copy_ends_16};
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod lines {
    use crate::sys::memory;

    pub const CAN_PASS: bool = false;

    pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize, _at: usize) {
        // SAFETY: the caller's promise.
        unsafe { memory::copy(from, to, len) }
    }

    pub unsafe fn copy_past(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { memory::copy(from, to, len) }
    }

    pub fn ticks() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests;
