// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Estimates the round-trip time and the retransmission timeout (as in RFC 6298).

use core::time::Duration;

#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt {
    smoothed: Option<Duration>,
    /// Before the first sample: the retransmission timeout; zero: `FIRST`.
    variation: Duration,
    least: Duration,
}

impl Rtt {
    /// Before the first sample, `others` decides: the times in which other peers have answered.
    #[inline]
    pub fn expect(&mut self, others: &Rtt) {
        if self.smoothed.is_none() && others.smoothed.is_some() {
            self.variation = others.patience().clamp(SHORT, MOST);
        }
    }

    /// Adds a sample, from a packet that was sent only once.
    pub fn measured(&mut self, time: Duration) {
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.variation, self.least) = (Some(time), time / 2, time);
            return;
        };
        self.variation = (self.variation * 3 + smoothed.abs_diff(time)) / 4;
        self.smoothed = Some((smoothed * 7 + time) / 8);
        self.least = self.least.min(time);
    }

    /// The first retransmission timeout.
    pub fn patience(&self) -> Duration {
        match self.smoothed {
            None if self.variation.is_zero() => FIRST,
            None => self.variation,
            Some(smoothed) => (smoothed + self.variation * 4).clamp(SHORTEST, LONGEST),
        }
    }

    /// The timeout after this number of timeouts in a row. It doubles slowly at first: while other senders keep a queue
    /// full, a sender that backs off fast never gets a packet through.
    pub fn patience_after(&self, timeouts: u32) -> Duration {
        let doublings = match timeouts {
            ..POLITE => timeouts.min(2),
            _ => 3 + (timeouts - POLITE).min(16),
        };
        self.patience().saturating_mul(1 << doublings).min(LONGEST)
    }

    /// The timeout while the peer takes nothing. Its next acknowledgement says when it does again, and packets are only
    /// for the case that this one is lost.
    pub fn patience_closed(&self, timeouts: u32) -> Duration {
        let first = self.patience().max(CLOSED);
        first.saturating_mul(1 << timeouts.min(16)).min(LONGEST)
    }

    /// Whether packets seem to wait in a queue, because answers take clearly longer than the fastest one. A round trip
    /// of `QUEUED` or more always counts as queued: the fastest one may have waited, too.
    pub fn is_queued(&self) -> bool {
        let is_short = |time: Duration| time < QUEUED && time <= self.least + self.least / 8;
        !self.smoothed.is_some_and(is_short)
    }

    /// The shortest round trip so far.
    pub fn least(&self) -> Duration {
        self.least
    }
}

/// Timeout before the first sample. When a job starts, a peer has answers for all others to send first.
const FIRST: Duration = Duration::from_millis(100);
/// Its limits, if other peers have answered.
const SHORT: Duration = Duration::from_millis(20);
const MOST: Duration = Duration::from_secs(2);
/// Shortest timeout: a peer that shares its processor may need this long to answer.
const SHORTEST: Duration = Duration::from_millis(2);
/// Round trips that take less have no queue worth mentioning.
const QUEUED: Duration = Duration::from_millis(1);
/// Shortest timeout while the peer takes nothing.
const CLOSED: Duration = Duration::from_millis(10);
/// Timeouts in a row that a full queue may explain.
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
    fn the_first_patience_follows_other_peers() {
        let (mut rtt, mut others) = (Rtt::default(), Rtt::default());
        rtt.expect(&others);
        assert_eq!(rtt.patience(), FIRST);
        others.measured(MS);
        rtt.expect(&others);
        assert_eq!(rtt.patience(), SHORT);
        (0..100).for_each(|_| others.measured(300 * MS));
        rtt.expect(&others);
        assert!(rtt.patience() >= 300 * MS && rtt.patience() < 310 * MS);
        rtt.measured(10 * MS);
        rtt.expect(&others);
        assert!(rtt.patience() <= 30 * MS);
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
