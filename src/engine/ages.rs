// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Ages of posted receives, or of anything else that is numbered, without reading a clock for each: now and then the
//! number of receives posted so far is recorded with the time. A receive is at least as old as the first record that
//! counts it.

use core::time::Duration;
use std::time::Instant;

#[derive(Default)]
pub struct Ages {
    /// The number of receives posted by each time, in order.
    notes: Vec<(u64, Instant)>,
}

/// Records that are kept. Older ones are thinned out: the older a receive is, the less its exact age matters.
const MOST: usize = 32;
/// A record that follows the previous one by less than this replaces it.
const APART: Duration = Duration::from_millis(100);

impl Ages {
    /// Records that `posted` receives were posted so far.
    pub fn note(&mut self, posted: u64, now: Instant) {
        if self.notes.last().is_some_and(|&(known, _)| known == posted) || posted == 0 {
            return;
        }
        let kept = self.notes.len().checked_sub(2).map(|at| self.notes[at].1);
        if kept.is_some_and(|kept| now.saturating_duration_since(kept) < APART) {
            self.notes.pop();
        }
        self.notes.push((posted, now));
        if self.notes.len() > MOST {
            let mut at = 0;
            // The first record stays.
            self.notes.retain(|_| {
                at += 1;
                at > MOST / 2 || at % 2 == 1
            });
        }
    }

    /// A time since when a receive has waited at least, if `before` receives were posted before it; none if there is no
    /// record.
    pub fn since(&self, before: u64) -> Option<Instant> {
        let first = self.notes.partition_point(|&(posted, _)| posted <= before);
        self.notes.get(first).map(|&(_, time)| time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receive_waits_since_the_first_note_behind_it() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut ages = Ages::default();
        assert_eq!(ages.since(0), None);
        for (posted, seconds) in [(0, 1), (2, 10), (2, 20), (3, 30)] {
            ages.note(posted, at(seconds));
        }
        let since = [0, 1, 2, 3].map(|before| ages.since(before));
        assert_eq!(since, [Some(at(10)), Some(at(10)), Some(at(30)), None]);
    }

    #[test]
    fn however_many_notes_there_are_no_age_is_too_long_and_few_are_much_too_short() {
        let start = Instant::now();
        let mut ages = Ages::default();
        // One receive and one record per second.
        let end = 100_000;
        for posted in 1..=end {
            ages.note(posted, start + Duration::from_secs(posted));
        }
        assert!(ages.notes.len() <= MOST);
        for before in [0, 10, 1000, 50_000, 99_000, 99_990] {
            let real = end - before - 1;
            let since = ages.since(before).unwrap();
            let said = (start + Duration::from_secs(end) - since).as_secs();
            assert!(said <= real, "{before}: {said} s, not {real}");
        }
        // The ages of the newest receives are exact.
        assert_eq!(
            ages.since(end - 2),
            Some(start + Duration::from_secs(end - 1))
        );
    }

    #[test]
    fn many_notes_in_a_moment_are_one() {
        let start = Instant::now();
        let mut ages = Ages::default();
        for posted in 1..1000 {
            ages.note(posted, start + Duration::from_micros(posted));
        }
        assert!(ages.notes.len() <= 2, "{:?}", ages.notes);
        assert!(ages.since(998).is_some());
    }
}
