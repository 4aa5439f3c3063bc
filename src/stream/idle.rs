// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Counts the polls since a peer that shares memory was last active, and how long it is still polled: see
//! `shm_host::quiet`.

/// Polls without a record before a peer has to ring its doorbell: initial value and maximum (about 20 ms of empty
/// polls).
const FIRST_PATIENCE: u32 = 32;
const MOST_PATIENCE: u32 = 1 << 18;
const GROWTH: u32 = 8;
/// Activity of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Bytes taken from the ring of the peer at the last check.
    taken: u64,
    /// Number of the last poll that found a record of the peer.
    pub since: u32,
    /// Number of empty polls after which the peer has to ring the doorbell.
    patience: u32,
    /// Set while the ring is not polled and the peer has to ring the doorbell.
    pub is_left: bool,
}

impl Default for Idle {
    fn default() -> Idle {
        Idle {
            taken: 0,
            since: 0,
            patience: FIRST_PATIENCE,
            is_left: false,
        }
    }
}

impl Idle {
    /// Checks the ring during a poll.
    pub fn update(&mut self, taken: u64, poll: u32) {
        if self.taken != taken {
            (self.taken, self.since) = (taken, poll);
        }
    }

    /// Starts to poll the peer with this poll.
    pub fn begin(&mut self, poll: u32) {
        if self.is_left {
            self.is_left = false;
            let quiet = poll.wrapping_sub(self.since);
            let longer = self.patience * GROWTH;
            // Neither limit would have been long enough for a peer that was quiet for longer.
            self.patience = match quiet <= longer {
                true => longer.min(MOST_PATIENCE),
                false => (self.patience / GROWTH).max(FIRST_PATIENCE),
            };
        }
        self.since = poll;
    }

    pub fn is_quiet(&self, poll: u32) -> bool {
        poll.wrapping_sub(self.since) >= self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_quiet_after_its_patience() {
        let mut idle = Idle::default();
        idle.begin(100);
        idle.update(64, 128);
        assert!(!idle.is_quiet(128 + FIRST_PATIENCE - 1));
        assert!(idle.is_quiet(128 + FIRST_PATIENCE));
        // The poll counter wraps around.
        idle.begin(u32::MAX);
        assert!(!idle.is_quiet(1));
        assert!(idle.is_quiet(FIRST_PATIENCE));
    }

    #[test]
    fn a_peer_that_rings_soon_is_polled_longer() {
        let mut idle = Idle::default();
        let mut poll = 0;
        idle.begin(poll);
        for _ in 0..9 {
            idle.is_left = true;
            poll += idle.patience + 1;
            idle.begin(poll);
        }
        assert_eq!(idle.patience, MOST_PATIENCE);
        // For a peer that is quiet for this long, a smaller limit rings as often.
        idle.is_left = true;
        idle.begin(poll + 9 * MOST_PATIENCE);
        assert_eq!(idle.patience, MOST_PATIENCE / GROWTH);
    }
}
