// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Waiting times of operations, counted in ticks of a timer: each operation records the number of the last tick, not
//! the time.
//!
//! The first operation that waits schedules a tick. A tick schedules the next one only if an operation still waits, so
//! a domain without pending operations wakes up once more at most.

use core::mem;
use core::time::Duration;

/// Number of ticks in the shorter of the two times.
const TICKS: u32 = 8;
/// Maximum of ticks in the longer time: numbers of ticks are compared within half their range.
const MOST_TICKS: u32 = 30_000;

/// The ticks, and the two times in ticks; 0 means never.
pub struct Ticks {
    /// Number of the last tick.
    now: u16,
    /// Whether another tick is scheduled, or none is needed.
    is_armed: bool,
    interval: Duration,
    fails: u16,
    reports: u16,
}

impl Ticks {
    /// Operations fail after `fails` and are reported after `reports`; zero means never.
    pub fn new(fails: Duration, reports: Duration) -> Ticks {
        let times = [fails, reports];
        let longest = times.into_iter().max().unwrap_or_default();
        let shortest = times.into_iter().filter(|time| !time.is_zero()).min();
        let interval = shortest.unwrap_or_default() / TICKS;
        let interval = interval
            .max(longest / MOST_TICKS)
            .max(Duration::from_millis(1));
        let ticks = |time: Duration| time.as_nanos().div_ceil(interval.as_nanos()) as u16;
        Ticks {
            now: 0,
            is_armed: shortest.is_none(),
            interval,
            fails: ticks(fails),
            reports: ticks(reports),
        }
    }

    /// Returns the stamp for an operation that begins to wait.
    #[inline]
    pub const fn stamp(&self) -> u16 {
        self.now
    }

    /// Time between two ticks.
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// Called when an operation waits. Returns true if the caller has to schedule a tick.
    #[inline]
    pub const fn arm(&mut self) -> bool {
        !mem::replace(&mut self.is_armed, true)
    }

    /// Counts a tick. No other is scheduled until `arm` is called.
    pub const fn advance(&mut self) {
        self.is_armed = false;
        self.now = self.now.wrapping_add(1);
    }

    /// Returns the number of ticks since a stamp was taken.
    pub const fn age(&self, stamp: u16) -> u16 {
        self.now.wrapping_sub(stamp)
    }

    /// Returns the minimum time of this many ticks, or `None` if no ticks are counted.
    pub fn time(&self, age: u16) -> Option<Duration> {
        let counts = self.fails > 0 || self.reports > 0;
        // The first tick may have come at once.
        counts.then(|| self.interval * u32::from(age.saturating_sub(1)))
    }

    /// Whether an operation of this age fails.
    pub const fn has_failed(&self, age: u16) -> bool {
        is_over(age, self.fails)
    }

    /// Whether the peer of an operation of this age is reported.
    pub const fn is_late(&self, age: u16) -> bool {
        is_over(age, self.reports)
    }
}

/// Whether an operation of this age in ticks has waited for the whole time. The first tick may have come at once.
const fn is_over(age: u16, time: u16) -> bool {
    time > 0 && age > time
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn times_are_counted_in_ticks_of_the_shorter_one() {
        for (fails, reports, interval, counts) in [
            (0, 60_000, 7500, (0, 8)),
            (800, 60_000, 100, (8, 600)),
            (60_000, 800, 100, (600, 8)),
            (1, 0, 1, (1, 0)),
            (8, 3_600_000, 120, (1, 30_000)),
        ] {
            let mut ticks = Ticks::new(ms(fails), ms(reports));
            assert_eq!(ticks.interval(), ms(interval));
            assert_eq!((ticks.fails, ticks.reports), counts, "{fails} {reports}");
            assert!(ticks.arm() && !ticks.arm());
            ticks.advance();
            assert!(ticks.arm());
        }
    }

    #[test]
    fn without_a_time_nothing_is_counted() {
        let mut ticks = Ticks::new(ms(0), ms(0));
        assert!(!ticks.arm());
        assert_eq!(ticks.time(9), None);
    }

    #[test]
    fn nothing_is_over_before_its_time() {
        let mut ticks = Ticks::new(ms(800), ms(0));
        assert!(!ticks.has_failed(8) && ticks.has_failed(9));
        assert!(!ticks.is_late(u16::MAX));
        assert_eq!(
            [0, 1, 9].map(|age| ticks.time(age)),
            [0, 0, 800].map(|time| Some(ms(time)))
        );
        ticks.now = 3;
        assert_eq!(ticks.age(u16::MAX - 4), 8);
        ticks.advance();
        assert_eq!((ticks.age(3), ticks.stamp()), (1, 4));
    }
}
