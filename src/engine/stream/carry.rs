// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Whether a message goes through the ring although the other side could fetch it from the sender's memory.
//!
//! Between processors that share a cache two copies take less than the kernel's calls for one; between others the lines of the
//! ring take longer. Which it is shows in what copies to the ring take, and may change at any time.
#![forbid(unsafe_code)]

use crate::hmem::host::Ways;

/// The largest messages that are carried; a quarter of the ring, if that is less.
const LARGEST: usize = 256 * 1024;
/// After so many messages that were not, one is carried, to see whether it is the faster way by now. Each time in vain doubles it.
const AT_FIRST: u32 = 4;
const AT_LAST: u32 = 256;

pub struct Carrier {
    /// Messages in a row that were not carried.
    declined: u32,
    patience: u32,
}

impl Carrier {
    pub fn new() -> Carrier {
        Carrier {
            declined: 0,
            patience: AT_FIRST,
        }
    }

    /// `ways` are those of the copies to a ring of `ring` bytes.
    #[inline]
    pub fn takes(&mut self, len: usize, ring: usize, ways: &mut Ways) -> bool {
        if len > LARGEST.min(ring / 4) {
            return false;
        }
        if !ways.seems_far() {
            *self = Carrier::new();
            return true;
        }
        self.declined += 1;
        if self.declined < self.patience {
            return false;
        }
        self.declined = 0;
        self.patience = AT_LAST.min(2 * self.patience);
        ways.ask();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: usize = 1 << 20;

    #[test]
    fn what_the_ring_has_no_room_for_is_not_carried() {
        let (mut carrier, mut ways) = (Carrier::new(), Ways::default());
        assert!(carrier.takes(LARGEST, RING, &mut ways));
        assert!(!carrier.takes(LARGEST + 1, 2 * RING, &mut ways));
        assert!(!carrier.takes(RING / 8 + 1, RING / 2, &mut ways));
        assert!(carrier.takes(RING / 8, RING / 2, &mut ways));
    }

    #[test]
    fn one_that_seems_far_is_asked_less_and_less_often() {
        let (mut carrier, mut ways) = (Carrier::new(), Ways::of_cost(2000));
        let mut gaps = Vec::new();
        let mut gap = 0;
        for _ in 0..2000 {
            gap += 1;
            if carrier.takes(20_000, RING, &mut ways) {
                gaps.push(gap);
                gap = 0;
            }
        }
        assert_eq!(gaps, [4, 8, 16, 32, 64, 128, 256, 256, 256, 256, 256, 256]);
        // It has come nearer: all are carried, and the patience begins anew.
        let mut near = Ways::of_cost(100);
        assert!((0..100).all(|_| carrier.takes(20_000, RING, &mut near)));
        assert!((0..3).all(|_| !carrier.takes(20_000, RING, &mut ways)));
        assert!(carrier.takes(20_000, RING, &mut ways));
    }
}
