// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! How often epoll is called while rings of shared memory are polled, and how many calls one poll makes. Both follow
//! what the calls find, because one call reports only a few descriptors: with thousands of peers that connect or send
//! at once, their events would otherwise wait for many polls. An empty poll pays nothing for this.

/// Number of polls between two calls that find nothing, if all peers share memory: epoll then reports only new peers
/// and the end of peers.
const RARE: u64 = 64;
/// The same if some peers use sockets, or are still setting up shared memory: their data then waits no longer for epoll
/// than a system call takes.
const OFTEN: u64 = 8;
/// The shortest interval, because rings have to be polled in between; and the halvings that lead from the longest to
/// it.
const SHORTEST: u64 = 2;
const MOST_HALVINGS: u32 = RARE.ilog2() - SHORTEST.ilog2();
/// Maximum of calls in one poll, which report 512 descriptors. A poll also has a limit of time.
const MOST_CALLS: u32 = 16;

/// The frequency of calls of epoll.
pub(super) struct Rate {
    /// The number of the next poll that calls epoll, beside shared memory.
    next: u64,
    /// The number of times that the interval is halved. Above zero while calls find something.
    halvings: u32,
    /// Number of calls in one poll while each reports as many descriptors as it can.
    calls: u32,
}

impl Rate {
    pub(super) const fn new() -> Rate {
        Rate {
            next: 0,
            halvings: 0,
            calls: 1,
        }
    }

    /// Whether a poll with this number calls epoll.
    #[inline(always)]
    pub(super) fn is_due(&self, poll: u64) -> bool {
        poll >= self.next
    }

    /// Has the next poll call epoll.
    pub(super) fn hurry(&mut self) {
        self.next = 0;
    }

    /// Returns how many times a poll may call epoll.
    pub(super) fn calls(&self) -> u32 {
        self.calls
    }

    /// Whether recent calls have found something.
    #[inline(always)]
    pub(super) fn is_busy(&self) -> bool {
        self.halvings > 0
    }

    /// Records the calls of one poll. `found`: number of descriptors that the calls reported. `is_full`: the last call
    /// reported as many as it can. May be left out for a poll that found nothing if the rate is not busy.
    pub(super) fn record(&mut self, found: usize, is_full: bool) {
        self.calls = match is_full {
            true => (2 * self.calls).min(MOST_CALLS),
            false => (self.calls / 2).max(1),
        };
        self.halvings = match found {
            0 => self.halvings.saturating_sub(1),
            _ => (self.halvings + 1).min(MOST_HALVINGS),
        };
    }

    /// Plans the next call, beside shared memory, during the poll with this number. `all_share`: all peers share
    /// memory.
    pub(super) fn plan(&mut self, poll: u64, all_share: bool) {
        let longest = match all_share {
            true => RARE,
            false => OFTEN,
        };
        self.next = poll.wrapping_add((longest >> self.halvings).max(SHORTEST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the polls of `polls` that call epoll, each of which finds this number of descriptors.
    fn calling(rate: &mut Rate, polls: core::ops::Range<u64>, found: usize, share: bool) -> usize {
        let mut count = 0;
        for poll in polls {
            if rate.is_due(poll) {
                count += 1;
                if found > 0 || rate.is_busy() {
                    rate.record(found, false);
                }
                rate.plan(poll, share);
            }
        }
        count
    }

    #[test]
    fn epoll_is_called_as_often_as_before_while_it_finds_nothing() {
        for (share, every) in [(true, RARE), (false, OFTEN)] {
            let mut rate = Rate::new();
            let count = calling(&mut rate, 0..6400, 0, share);
            assert_eq!(count as u64, 6400 / every);
        }
    }

    #[test]
    fn the_interval_follows_what_is_found() {
        for share in [true, false] {
            let mut rate = Rate::new();
            let busy = calling(&mut rate, 0..1000, 5, share);
            // Each second poll calls epoll after a few calls that found something.
            assert!((450..=510).contains(&busy), "{busy}");
            // After as many empty calls the interval is what it was.
            let quiet = calling(&mut rate, 1000..1000 + 64 * RARE, 0, share);
            let before = 64 * RARE / if share { RARE } else { OFTEN };
            assert!(quiet as u64 <= before + 6, "{quiet}");
        }
    }

    #[test]
    fn a_new_peer_is_looked_for_at_once() {
        let mut rate = Rate::new();
        rate.plan(100, true);
        assert!(!rate.is_due(101));
        rate.hurry();
        assert!(rate.is_due(101));
    }

    #[test]
    fn full_calls_are_repeated_and_others_are_not() {
        let mut rate = Rate::new();
        for calls in [1, 2, 4, 8, 16, 16] {
            assert_eq!(rate.calls(), calls);
            rate.record(32, true);
        }
        for calls in [16, 8, 4, 2, 1, 1] {
            assert_eq!(rate.calls(), calls);
            rate.record(3, false);
        }
    }
}
