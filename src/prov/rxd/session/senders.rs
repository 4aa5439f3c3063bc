// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The receive window of each peer: a share of what an endpoint can take at once, by the number of peers that send.

use core::time::Duration;
use std::time::Instant;

/// Counts peers that have sent packets of operations lately.
#[derive(Default)]
pub struct Senders {
    /// Number of the present period, and its start.
    period: u32,
    since: Option<Instant>,
    /// Peers that have sent in the present period, and in the one before.
    present: u32,
    before: u32,
}

/// The last period in which a peer has sent.
#[derive(Clone, Copy, Default)]
pub struct Seen(u32);

impl Senders {
    /// Records a packet of a peer.
    #[inline]
    pub fn heard(&mut self, seen: &mut Seen, now: Instant) {
        let is_over = |since| now.saturating_duration_since(since) >= PERIOD;
        if self.since.is_none_or(is_over) {
            self.begin(now);
        }
        if seen.0 != self.period {
            seen.0 = self.period;
            self.present += 1;
        }
    }

    #[cold]
    fn begin(&mut self, now: Instant) {
        self.period = self.period.wrapping_add(1).max(1);
        self.since = Some(now);
        self.before = std::mem::take(&mut self.present);
    }

    /// The window for one peer: `most`, if few peers send.
    #[inline]
    pub fn window(&self, most: u32) -> u32 {
        match self.present.max(self.before) {
            0 | 1 => most,
            senders => (ROOM / senders).clamp(LEAST.min(most), most),
        }
    }
}

/// Time for which a peer counts after it has sent.
const PERIOD: Duration = Duration::from_millis(10);
/// Packets that an endpoint can take at once: its receives below and the buffer of a socket.
const ROOM: u32 = 2048;
/// Smallest window.
const LEAST: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_senders_share_the_room() {
        let start = Instant::now();
        let mut senders = Senders::default();
        let mut seen = vec![Seen::default(); 1000];
        let mut hear = |count: usize, at: Duration, senders: &mut Senders| {
            for seen in &mut seen[..count] {
                senders.heard(seen, start + at);
                senders.heard(seen, start + at);
            }
            senders.window(128)
        };
        assert_eq!(hear(1, Duration::ZERO, &mut senders), 128);
        assert_eq!(hear(4, Duration::ZERO, &mut senders), 128);
        assert_eq!(hear(64, Duration::ZERO, &mut senders), 32);
        assert_eq!(hear(1000, Duration::ZERO, &mut senders), LEAST);
        // All senders count for one more period.
        assert_eq!(hear(1, PERIOD, &mut senders), LEAST);
        assert_eq!(hear(1, 2 * PERIOD, &mut senders), 128);
    }

    #[test]
    fn a_small_window_stays_as_it_is() {
        let mut senders = Senders::default();
        let now = Instant::now();
        for _ in 0..1000 {
            senders.heard(&mut Seen::default(), now);
        }
        assert_eq!(senders.window(1), 1);
    }
}
