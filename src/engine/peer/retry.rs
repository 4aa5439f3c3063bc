// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Pauses between attempts that failed. They double up to a limit. A random part (jitter) keeps peers that failed
//! together from trying again together: thousands of ranks that start at once would meet at one listener each time.

use core::time::Duration;

use fastrand::Rng;

use sys::random::unpredictable;

/// The pauses between attempts of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// Maximum of the pause after the first failed attempt. Each further failure doubles the maximum.
    pub first: Duration,
    /// Maximum of all pauses.
    pub longest: Duration,
}

impl Pauses {
    /// Returns the pause after this number of failed attempts.
    pub fn after(&self, failed: u32, jitter: &mut Jitter) -> Duration {
        let doublings = failed.saturating_sub(1).min(31);
        let pause = self.first.saturating_mul(1 << doublings);
        jitter.shorten(pause.min(self.longest))
    }
}

/// The source of the random part of pauses. A simulation passes a seed, so that its runs can be repeated.
#[derive(Clone, Debug)]
pub struct Jitter(Rng);

impl Jitter {
    /// Returns a source that differs from those of all other domains and processes.
    pub fn new() -> Jitter {
        let seed = unpredictable().map_or(u64::from(std::process::id()), |bytes| {
            u64::from_ne_bytes(*bytes.first_chunk().unwrap_or(&[0; 8]))
        });
        Jitter::of_seed(seed)
    }

    pub fn of_seed(seed: u64) -> Jitter {
        Jitter(Rng::with_seed(seed))
    }

    /// Returns a random duration from half of the pause to the whole pause.
    pub fn shorten(&mut self, pause: Duration) -> Duration {
        let half = u64::try_from(pause.as_nanos() / 2).unwrap_or(u64::MAX);
        pause - Duration::from_nanos(self.0.u64(0..=half))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const PAUSES: Pauses = Pauses {
        first: Duration::from_millis(2),
        longest: Duration::from_millis(500),
    };

    #[test]
    fn a_pause_is_between_half_of_its_maximum_and_the_maximum() {
        let mut jitter = Jitter::of_seed(1);
        for (failed, most) in [(0, 2), (1, 2), (2, 4), (8, 256), (9, 500), (u32::MAX, 500)] {
            let most = Duration::from_millis(most);
            let pauses: HashSet<_> = (0..1000)
                .map(|_| PAUSES.after(failed, &mut jitter))
                .collect();
            assert!(
                pauses
                    .iter()
                    .all(|&pause| most / 2 <= pause && pause <= most)
            );
            assert!(pauses.len() > 900, "{failed}: {}", pauses.len());
            // The whole range is used.
            let (least, longest) = (pauses.iter().min(), pauses.iter().max());
            assert!(least.is_some_and(|&pause| pause < most * 6 / 10));
            assert!(longest.is_some_and(|&pause| pause > most * 9 / 10));
        }
        assert_eq!(jitter.shorten(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn domains_do_not_pause_alike_unless_they_have_the_same_seed() {
        let pauses = |mut jitter: Jitter| [1, 2, 3, 4].map(|n| PAUSES.after(n, &mut jitter));
        assert_eq!(pauses(Jitter::of_seed(7)), pauses(Jitter::of_seed(7)));
        assert_ne!(pauses(Jitter::of_seed(7)), pauses(Jitter::of_seed(8)));
        assert_ne!(pauses(Jitter::new()), pauses(Jitter::new()));
    }
}
