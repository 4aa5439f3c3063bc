// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! How long an answer takes, and for how long one is waited for (as in RFC 6298).
#![forbid(unsafe_code)]

use core::time::Duration;

#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt {
    smoothed: Option<Duration>,
    variation: Duration,
    least: Duration,
}

impl Rtt {
    /// A packet that was sent once was answered after this time.
    pub fn measured(&mut self, time: Duration) {
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.variation, self.least) = (Some(time), time / 2, time);
            return;
        };
        self.variation = (self.variation * 3 + smoothed.abs_diff(time)) / 4;
        self.smoothed = Some((smoothed * 7 + time) / 8);
        self.least = self.least.min(time);
    }

    /// After this time without an answer a packet is sent again, for the first time.
    pub fn patience(&self) -> Duration {
        match self.smoothed {
            None => FIRST,
            Some(smoothed) => (smoothed + self.variation * 4).clamp(SHORTEST, LONGEST),
        }
    }

    /// The same after so many times. It grows slowly at first: where others keep a queue full, who waits long enough to
    /// be polite never gets in.
    pub fn patience_after(&self, timeouts: u32) -> Duration {
        let doublings = match timeouts {
            ..POLITE => timeouts.min(2),
            _ => 3 + (timeouts - POLITE).min(16),
        };
        self.patience().saturating_mul(1 << doublings).min(LONGEST)
    }

    /// Answers take longer than they have to, so packets wait somewhere. Or so it may be: who has never seen the queue
    /// empty does not know.
    pub fn is_queued(&self) -> bool {
        let is_short = |time: Duration| time < QUEUED && time <= self.least + self.least / 8;
        !self.smoothed.is_some_and(is_short)
    }

    /// No answer took less.
    pub fn least(&self) -> Duration {
        self.least
    }
}

/// While nothing is known of the peer.
const FIRST: Duration = Duration::from_millis(20);
/// A peer that shares its processor with others may not answer earlier.
const SHORTEST: Duration = Duration::from_millis(2);
/// No queue to speak of is shorter.
const QUEUED: Duration = Duration::from_millis(1);
/// Silences before they are taken for more than a full queue.
const POLITE: u32 = 24;
pub const LONGEST: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn patience_follows_what_was_measured() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.patience(), FIRST);
        for _ in 0..100 {
            rtt.measured(30 * MS);
        }
        assert!(rtt.patience() >= 30 * MS && rtt.patience() < 40 * MS);
        rtt.measured(90 * MS);
        assert!(rtt.patience() > 90 * MS);
        for _ in 0..100 {
            rtt.measured(MS / 10);
        }
        assert_eq!(rtt.patience(), SHORTEST);
        assert_eq!(rtt.least(), MS / 10);
    }

    #[test]
    fn patience_grows_to_a_limit() {
        let mut rtt = Rtt::default();
        rtt.measured(10 * MS);
        let all: Vec<Duration> = (0..100).map(|n| rtt.patience_after(n)).collect();
        assert_eq!(all[1], 2 * all[0]);
        assert_eq!(all[99], LONGEST);
    }
}
