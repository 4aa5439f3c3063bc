// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The copy mode of a message that the receiver could fetch from the sender's memory: through the ring, or by a process
//! copy.
//!
//! Through the ring each byte is copied twice, by sender and receiver at the same time. The kernel's copy from another
//! process takes some time before the first byte and looks up each page. Which one is faster depends on the machine and
//! on the distance of the processors, which may change at any time. So both are measured: copies to the ring all the
//! time (`Ways`), the kernel's copy once (`FetchCost`).
//!
//! A source that is in no cache makes the first of the two copies as slow as a distant processor does.

use std::sync::OnceLock;

use crate::shm_channel::RECORD;
use sync::copy::Ways;
use sys::clock::ticks;
use sys::io_list::ScatterList;
use sys::process_memory::Process;

/// The largest messages that go through the ring; at most a quarter of the ring.
const LARGEST: usize = 256 * 1024;
/// After this many fetched messages, one message goes through the ring to measure whether that is faster by now. The
/// number doubles each time that it is not.
const FIRST_INTERVAL: u32 = 4;
const LAST_INTERVAL: u32 = 256;

const KIB: usize = 1024;
/// The time of both copies through the ring, as a multiple of the measured copy to it, in twentieths: of what the two
/// sides copy one after the other, and of what they copy at the same time. On processors with 25 and with 70 ns for a
/// KiB these gave the times of messages of 16 to 256 KiB within a fifth.
const ALONE: u64 = 62;
const TOGETHER: u64 = 23;
const PARTS: u64 = 20;

/// The kernel's copy from another process, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct FetchCost {
    call: u64,
    kib: u64,
}

impl FetchCost {
    /// Returns the cost on this machine. The first call measures it, in less than 50 us; once more after each
    /// measurement that was disturbed, so that more bytes seemed to take less time.
    pub fn here() -> FetchCost {
        static COST: OnceLock<FetchCost> = OnceLock::new();
        *COST.get_or_init(FetchCost::measure_undisturbed)
    }

    fn measure_undisturbed() -> FetchCost {
        const ATTEMPTS: usize = 8;
        let credible = |cost: &FetchCost| cost.kib > 0;
        let mut attempts = core::iter::repeat_with(FetchCost::measure).take(ATTEMPTS);
        attempts.find(credible).unwrap_or_else(FetchCost::measure)
    }

    /// Reads memory of this process. The pages are in this processor's cache, as is most of what a peer has just sent.
    fn measure() -> FetchCost {
        const SHORT: usize = 4;
        const LONG: usize = 32;
        const TIMES: usize = 3;
        let from = vec![1u8; LONG * KIB];
        let mut to = vec![1u8; LONG * KIB];
        let mut least = |kib: usize| {
            let mut once = || {
                let mut list = ScatterList::new();
                list.push(&mut to[..kib * KIB]);
                let start = ticks();
                // A failure is as fast as no copy, so messages are fetched, which shows the failure.
                let _ = Process::own().read(&list, &[(from.as_ptr() as usize, kib * KIB)]);
                ticks().wrapping_sub(start)
            };
            (0..TIMES).map(|_| once()).min().unwrap_or(0)
        };
        let (short, long) = (least(SHORT), least(LONG));
        let kib = long.saturating_sub(short) / (LONG - SHORT) as u64;
        FetchCost {
            call: short.saturating_sub(kib * SHORT as u64),
            kib,
        }
    }

    /// Whether a message of `len` bytes goes through a ring in less time, if a copy of 1 KiB to the ring takes `ring`.
    /// `is_busy`: the other side is still copying earlier messages, so both sides work at the same time from the start.
    fn is_slower(&self, len: usize, ring: u64, is_busy: bool) -> bool {
        let kib = (len / KIB) as u64;
        let alone = match is_busy {
            true => 0,
            false => kib.min((RECORD / KIB) as u64),
        };
        let copies = ring * (ALONE * alone + TOGETHER * (kib - alone)) / PARTS;
        copies < self.call + FRAMES + self.kib * kib
    }
}

/// Ticks for the further frames of a message that is fetched, and for their handling.
const FRAMES: u64 = 700;

pub struct CopyMode {
    /// How much this side had read from the other one at the last message.
    read: u64,
    /// Messages in a row that did not go through the ring.
    declined: u32,
    interval: u32,
}

impl CopyMode {
    pub fn new() -> CopyMode {
        CopyMode {
            read: u64::MAX,
            declined: 0,
            interval: FIRST_INTERVAL,
        }
    }

    /// Whether a message of `len` bytes goes through the ring. `ways` holds the measured costs of copies to a ring of
    /// `ring` bytes, `fetch` those of the other mode. `read`: how much this side has read from the other one.
    #[inline]
    pub fn is_ring(
        &mut self,
        len: usize,
        ring: usize,
        read: u64,
        ways: &mut Ways,
        fetch: FetchCost,
    ) -> bool {
        if len > LARGEST.min(ring / 4) {
            return false;
        }
        // A message right after another one: the other side probably has not finished the first.
        let is_busy = std::mem::replace(&mut self.read, read) == read;
        if fetch.is_slower(len, ways.through(), is_busy) {
            (self.declined, self.interval) = (0, FIRST_INTERVAL);
            return true;
        }
        self.declined += 1;
        if self.declined < self.interval {
            return false;
        }
        self.declined = 0;
        self.interval = LAST_INTERVAL.min(2 * self.interval);
        ways.ask();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: usize = 1 << 20;
    /// Measured on two machines.
    const SLOW: FetchCost = FetchCost {
        call: 3900,
        kib: 210,
    };
    const FAST: FetchCost = FetchCost {
        call: 1300,
        kib: 100,
    };

    #[test]
    fn what_the_ring_has_no_room_for_is_fetched() {
        let (mut copy_mode, mut ways) = (CopyMode::new(), Ways::default());
        let mut is_ring = |len, ring| copy_mode.is_ring(len, ring, 0, &mut ways, FAST);
        assert!(is_ring(LARGEST, RING));
        assert!(!is_ring(LARGEST + 1, 2 * RING));
        assert!(!is_ring(RING / 8 + 1, RING / 2));
        assert!(is_ring(RING / 8, RING / 2));
    }

    #[test]
    fn the_faster_mode_is_chosen() {
        let is_ring = |len, cost, fetch: FetchCost| fetch.is_slower(len, cost, false);
        for len in [16 * KIB, 64 * KIB, 256 * KIB] {
            assert!(is_ring(len, 60, SLOW), "{len}");
            assert!(is_ring(len, 150, SLOW), "{len}");
            assert!(!is_ring(len, 300, SLOW), "{len}");
            assert!(!is_ring(len, 160, FAST), "{len}");
            assert!(is_ring(len, 40, FAST), "{len}");
        }
        assert!(FAST.is_slower(16 * KIB, 160, true));
        assert!(!FAST.is_slower(256 * KIB, 160, true));
    }

    #[test]
    fn a_message_right_after_another_goes_through_the_ring_if_both_sides_copy() {
        let (mut copy_mode, mut ways) = (CopyMode::new(), Ways::of_cost(160));
        let mut is_ring = |read| copy_mode.is_ring(16 * KIB, RING, read, &mut ways, FAST);
        assert!(!is_ring(64) && is_ring(64) && is_ring(64) && !is_ring(128));
    }

    #[test]
    fn the_cost_of_this_machine_is_credible() {
        let cost = FetchCost::measure_undisturbed();
        // More bytes take longer.
        assert!(
            (1..1 << 20).contains(&cost.kib) && cost.call < 1 << 24,
            "{cost:?}"
        );
    }

    #[test]
    fn a_ring_that_seems_slow_is_asked_less_and_less_often() {
        let (mut copy_mode, mut ways) = (CopyMode::new(), Ways::of_cost(2000));
        let mut gaps = Vec::new();
        let (mut gap, mut read) = (0, 0);
        // The other side answers each message.
        let mut next = || {
            read += 64;
            read
        };
        for _ in 0..2000 {
            gap += 1;
            if copy_mode.is_ring(20_000, RING, next(), &mut ways, SLOW) {
                gaps.push(gap);
                gap = 0;
            }
        }
        assert_eq!(gaps, [4, 8, 16, 32, 64, 128, 256, 256, 256, 256, 256, 256]);
        // The peer now shares a cache: all messages go through the ring, and the interval starts again at its first
        // value.
        let mut near = Ways::of_cost(100);
        assert!((0..100).all(|_| copy_mode.is_ring(20_000, RING, next(), &mut near, SLOW)));
        assert!((0..3).all(|_| !copy_mode.is_ring(20_000, RING, next(), &mut ways, SLOW)));
        assert!(copy_mode.is_ring(20_000, RING, next(), &mut ways, SLOW));
    }
}
