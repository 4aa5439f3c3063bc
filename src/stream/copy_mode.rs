// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The copy mode of a message that the receiver could fetch from the sender's memory: through the ring, or by a process
//! copy.
//!
//! Between processors that share a cache, two copies take less time than the kernel's calls for one; between others,
//! the cache lines of the ring take longer. The time of copies to the ring shows which case applies. It may change at
//! any time.
//!
//! The kernel's copy from another process takes 1.6 us before the first byte and looks up each page; two copies of 64
//! KiB that stay in caches take a third of that. If lines of the ring come from a distant cache, the ratio is reversed.
//! A source that is in no cache makes the first of the two copies as slow.

use sync::copy::Ways;

/// The largest messages that go through the ring; at most a quarter of the ring.
const LARGEST: usize = 256 * 1024;
/// After this many fetched messages, one message goes through the ring to measure whether that is faster by now. The
/// number doubles each time that it is not.
const FIRST_INTERVAL: u32 = 4;
const LAST_INTERVAL: u32 = 256;

pub struct CopyMode {
    /// Messages in a row that did not go through the ring.
    declined: u32,
    interval: u32,
}

impl CopyMode {
    pub fn new() -> CopyMode {
        CopyMode {
            declined: 0,
            interval: FIRST_INTERVAL,
        }
    }

    /// Whether a message of `len` bytes goes through the ring. `ways` holds the measured costs of copies to a ring of
    /// `ring` bytes.
    #[inline]
    pub fn is_ring(&mut self, len: usize, ring: usize, ways: &mut Ways) -> bool {
        if len > LARGEST.min(ring / 4) {
            return false;
        }
        if !ways.seems_far() {
            *self = CopyMode::new();
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

    #[test]
    fn what_the_ring_has_no_room_for_is_fetched() {
        let (mut copy_mode, mut ways) = (CopyMode::new(), Ways::default());
        assert!(copy_mode.is_ring(LARGEST, RING, &mut ways));
        assert!(!copy_mode.is_ring(LARGEST + 1, 2 * RING, &mut ways));
        assert!(!copy_mode.is_ring(RING / 8 + 1, RING / 2, &mut ways));
        assert!(copy_mode.is_ring(RING / 8, RING / 2, &mut ways));
    }

    #[test]
    fn one_that_seems_far_is_asked_less_and_less_often() {
        let (mut copy_mode, mut ways) = (CopyMode::new(), Ways::of_cost(2000));
        let mut gaps = Vec::new();
        let mut gap = 0;
        for _ in 0..2000 {
            gap += 1;
            if copy_mode.is_ring(20_000, RING, &mut ways) {
                gaps.push(gap);
                gap = 0;
            }
        }
        assert_eq!(gaps, [4, 8, 16, 32, 64, 128, 256, 256, 256, 256, 256, 256]);
        // The peer now shares a cache: all messages go through the ring, and the interval starts again at its first
        // value.
        let mut near = Ways::of_cost(100);
        assert!((0..100).all(|_| copy_mode.is_ring(20_000, RING, &mut near)));
        assert!((0..3).all(|_| !copy_mode.is_ring(20_000, RING, &mut ways)));
        assert!(copy_mode.is_ring(20_000, RING, &mut ways));
    }
}
