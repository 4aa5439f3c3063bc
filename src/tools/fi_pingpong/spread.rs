// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The distribution of times: a histogram of nanoseconds with three digits, whose memory is bounded.

use std::time::Duration;

use hdrhistogram::Histogram;

pub struct Spread(Histogram<u64>);

impl Spread {
    pub fn new() -> Spread {
        let histogram = Histogram::new_with_bounds(1, LONGEST, DIGITS);
        Spread(histogram.expect("the bounds are in order"))
    }

    /// Adds a time. Times above the limit count as the limit.
    pub fn add(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanoseconds);
    }

    /// Returns the microseconds for each of `NAMES`.
    pub fn values(&self) -> [f64; 5] {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        [
            at(0.5),
            at(0.9),
            at(0.99),
            at(0.999),
            self.0.max() as f64 / 1e3,
        ]
    }
}

pub const NAMES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

/// The limit: one minute in nanoseconds.
const LONGEST: u64 = 60_000_000_000;
const DIGITS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_values() {
        let mut spread = Spread::new();
        for microseconds in 1..=1000 {
            spread.add(Duration::from_micros(microseconds));
        }
        for (got, wanted) in spread
            .values()
            .into_iter()
            .zip([500., 900., 990., 999., 1000.])
        {
            assert!((got - wanted).abs() <= wanted / 500., "{got} {wanted}");
        }
    }

    #[test]
    fn what_is_too_long_counts_as_the_longest() {
        let mut spread = Spread::new();
        spread.add(Duration::from_secs(3600));
        assert!(spread.values()[4] >= 60e6);
    }
}
