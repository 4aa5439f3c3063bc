// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Copies between memory of this process's own and memory that another processor writes or reads at the same time.
//!
//! There what counts is how often a line of the cache changes hands. A line that is stored by one instruction comes over
//! once, and one that is loaded by one instruction is not taken away in between; memcpy(3) promises neither, and begins at
//! any byte. Short copies are not worth the question what the processor can do.
//!
//! Trusted with: the two addresses that its callers give, and what was found out of the processor.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod lines;

use core::ptr;

/// From here on a copy is done by lines.
const LONG: usize = 512;

/// As `ptr::copy_nonoverlapping`, without a call for the sizes that latency is measured with.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; both halves lie within `len` bytes.
    unsafe {
        match len {
            8..=16 => copy_ends::<8>(from, to, len),
            17..=32 => copy_ends::<16>(from, to, len),
            _ => ptr::copy_nonoverlapping(from, to, len),
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

/// Copies the first `N` of `len` bytes and the last `N`, which together are all of them.
///
/// # Safety
/// As `copy`, with `len` from `N` to `2 * N`.
#[inline(always)]
unsafe fn copy_ends<const N: usize>(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; both ends lie within `len` bytes. Arrays of bytes have no alignment.
    unsafe {
        let first = from.cast::<[u8; N]>().read();
        let last = from.add(len - N).cast::<[u8; N]>().read();
        to.cast::<[u8; N]>().write(first);
        to.add(len - N).cast::<[u8; N]>().write(last);
    }
}

/// How long copies to shared memory go: through the cache, or past it. Past it is slower, unless the processor that has
/// used the lines last is so far away that it takes longer to get them back from there than to write to memory. That is seen
/// from what copies take, and may change at any time where a virtual machine's processors move.
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
/// What 1024 bytes take at least that come back from far away; between processors that share a cache it is 20 to 150 ticks.
const FAR_COST: u64 = 200;
/// What 1024 bytes take at most of a connection's first copies between processors that share a cache, where pages are new; it is
/// 300 to 1600 between others.
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
mod lines {
    pub const CAN_PASS: bool = false;

    pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize, _at: usize) {
        // SAFETY: the caller's promise.
        unsafe { core::ptr::copy_nonoverlapping(from, to, len) }
    }

    pub unsafe fn copy_past(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { core::ptr::copy_nonoverlapping(from, to, len) }
    }

    pub fn ticks() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// # Safety
    /// As `copy`.
    unsafe fn past(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match len < 64 {
                true => copy(from, to, len),
                false => lines::copy_past(from, to, len),
            }
        }
    }

    #[test]
    fn each_byte_is_copied_and_no_other() {
        const ROOM: usize = 2400;
        let from: Vec<u8> = (0..ROOM).map(|i| (i * 7 + i / 256) as u8 | 1).collect();
        let lens = (0..140)
            .chain(LONG - 3..LONG + 140)
            .chain([1000, 2047, 2100])
            .step_by(if cfg!(miri) { 97 } else { 1 });
        for len in lens {
            for (skip, at) in [
                (0, 0),
                (1, 0),
                (0, 1),
                (63, 64),
                (64, 63),
                (17, 40),
                (130, 5),
            ] {
                for way in [copy, copy_to_shared, copy_from_shared, past] {
                    let mut to = vec![0; ROOM];
                    // SAFETY: both have room for it behind these places.
                    unsafe { way(from.as_ptr().add(skip), to.as_mut_ptr().add(at), len) };
                    assert_eq!(
                        to[at..at + len],
                        from[skip..skip + len],
                        "{len} {skip} {at}"
                    );
                    assert!(
                        to[..at]
                            .iter()
                            .chain(&to[at + len..])
                            .all(|&byte| byte == 0)
                    );
                }
            }
        }
    }

    #[test]
    fn the_way_is_chosen_by_what_copies_take() {
        let mut ways = Ways::default();
        assert_eq!(ways.faster(), THROUGH);
        ways.note(PAST, 4000, 4096);
        assert_eq!(ways.faster(), THROUGH);
        ways.note(THROUGH, 4000, 4096);
        assert_eq!(ways.costs, [1000, 1000]);
        assert_eq!(ways.faster(), THROUGH);
        // The processors move apart, and together again.
        while ways.faster() == THROUGH {
            ways.note(THROUGH, 24000, 4096);
            assert!(ways.costs[THROUGH] < 5900);
        }
        while ways.faster() == PAST {
            ways.note(THROUGH, 8000, 4096);
            assert!(ways.costs[THROUGH] > 2100);
        }
        // What is near is near, however fast the other way seems.
        ways.costs = [150, 20];
        assert_eq!(ways.faster(), THROUGH);
        ways.costs = [250, 20];
        assert_eq!(ways.faster(), PAST);
        // One that was interrupted says little.
        ways.costs = [400, 1000];
        ways.note(THROUGH, u64::MAX, 4096);
        assert!(ways.costs[THROUGH] <= 1100);
        assert_eq!(ways.faster(), THROUGH);
        // Nor does it when it is the first.
        let mut ways = Ways::default();
        for way in [THROUGH, PAST, THROUGH, PAST] {
            ways.note(way, u64::MAX, SHORTEST);
            assert!(ways.costs[way] <= MOST);
        }
    }

    #[test]
    fn what_is_asked_is_a_copy_through_the_cache() {
        if !lines::CAN_PASS {
            return;
        }
        let (from, mut to) = ([7; SHORTEST], [0; SHORTEST]);
        for costs in [[3000, 20], [3000, 2000]] {
            let mut ways = Ways { costs, turn: 5 };
            assert!(ways.seems_far());
            ways.ask();
            // SAFETY: both have room for it.
            unsafe { ways.copy(from.as_ptr(), to.as_mut_ptr(), SHORTEST) };
            assert_ne!(ways.costs[THROUGH], costs[THROUGH]);
            assert_eq!(ways.costs[PAST], costs[PAST]);
        }
        assert!(!Ways::default().seems_far());
    }

    #[test]
    fn whichever_way_it_goes_the_bytes_are_there() {
        let mut ways = Ways::default();
        let from: Vec<u8> = (0..9000).map(|i| (i * 11 + i / 256) as u8).collect();
        for i in 0..2 * OTHER as usize {
            let (len, at) = (SHORTEST - 1 + 27 * i % 4000, i % 130);
            let mut to = vec![0; 9000];
            // SAFETY: both have room for it.
            unsafe { ways.copy(from.as_ptr().add(i), to.as_mut_ptr().add(at), len) };
            assert_eq!(to[at..at + len], from[i..i + len], "{len} {at}");
        }
        assert!(!lines::CAN_PASS || ways.costs.iter().all(|&cost| cost > 0));
    }
}
