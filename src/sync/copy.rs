// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Copies between private memory and memory that another processor may read or write at the same time.
//!
//! The compiler must not see a copy from shared memory as an ordinary load: it could read a byte twice, once to check
//! it and once to use it, and a hostile peer could change the byte in between. So each load from shared memory and each
//! store to it is volatile, or a hand-written instruction (`words`, `lines`: volatile accesses must be aligned), or
//! part of a memcpy(3) that the compiler cannot look into. The copied bytes can have any value; each byte is one that
//! the memory held at some time during the copy.
//!
//! Speed depends on how often a cache line moves between processors. A line that one instruction stores moves once, and
//! a line that one instruction loads is not taken away in between. memcpy(3) promises neither and may begin at any
//! byte. For short copies the check of the processor's features costs more than it gains.
//!
//! Trusted with: the two addresses that its callers give, and the detected processor features.
//!
//! memcpy(3) of 4 KiB takes `rep movsb`, which was slower than whole lines where we have measured it.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod lines;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod words;

#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::__m128i as Words;

use sys::io_list::GatherList;
use sys::memory;

/// 16 bytes that are moved as one value.
#[cfg(not(target_arch = "x86_64"))]
type Words = u128;

/// Copies of at least this many bytes use whole cache lines.
const LONG: usize = 512;

/// Copies bytes, without a call for the sizes that latency is measured with.
///
/// # Safety
/// As for `ptr::copy_nonoverlapping`, except that other processes may change either side at any time.
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

/// Copies the start of a cache line, behind its first 8 bytes, from shared memory.
///
/// # Safety
/// `from` is 8 bytes behind a multiple of 16. `N` bytes are readable there; other processes may change them at any
/// time.
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

/// Copies in the other direction of `copy_from_line`.
///
/// # Safety
/// As for `copy_from_line`, with `to` as the shared side; `N` bytes are writable there.
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

/// As `copy`, with shared memory as the target.
///
/// # Safety
/// As for `copy`.
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

/// As `copy`, with shared memory as the source.
///
/// # Safety
/// As for `copy`.
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

/// Chooses how copies to shared memory are made: through the cache, or with non-temporal stores that bypass it.
/// Bypassing is slower unless the processor that used the lines last is so far away that fetching them from there takes
/// longer than writing to memory. The measured time of copies shows which is the case; it can change at any time when a
/// virtual machine's processors move.
#[derive(Default)]
pub struct Ways {
    /// Processor ticks for 1024 bytes: through the cache, past the cache. 0 means not measured yet.
    costs: [u64; 2],
    turn: u32,
}

const THROUGH: usize = 0;
const PAST: usize = 1;
/// One copy in `MEASURED` is measured, and one in `OTHER` uses the way that seems slower.
const MEASURED: u32 = 8;
const OTHER: u32 = 128;
/// Least cost in ticks of 1024 bytes whose lines are fetched from a distant processor; between processors that share a
/// cache it is 20 to 150 ticks.
const FAR_COST: u64 = 200;
/// Longest credible sample in ticks. A longer one includes more than the copy: the process was descheduled, or the
/// clock was set back.
const MOST: u64 = 4096;
/// Measured speed-up from which the way past the cache is chosen.
const GAIN: u64 = 3;
/// Shorter copies always go through the cache.
const SHORTEST: usize = 2048;

impl Ways {
    /// As `copy_to_shared`, by the faster way. A reader that loads an atomic which was stored after this call also sees
    /// these bytes.
    ///
    /// # Safety
    /// As for `copy_to_shared`.
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
            // SAFETY: the maker of the list answers for each piece; the caller promises the room.
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

    /// Returns the ticks that 1024 bytes take through the cache; 0 if that was not measured yet.
    pub fn through(&self) -> u64 {
        self.costs[THROUGH]
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn of_cost(ticks: u64) -> Ways {
        Ways {
            costs: [ticks, 0],
            turn: 0,
        }
    }

    /// Makes the next copy go through the cache and be measured.
    pub fn ask(&mut self) {
        self.turn = match self.faster() {
            PAST => 0,
            _ => MEASURED,
        };
    }

    fn faster(&self) -> usize {
        let [through, past] = self.costs;
        // Non-temporal stores are still under way when the measurement ends, and the reader has to load the lines from
        // memory.
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
    pub use sys::memory::{copy as copy_ends_8, copy as copy_ends_16};
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod lines {
    use sys::memory;

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
