// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Limits how many peers an endpoint or a domain greets at a time, as a congestion window limits packets. When a job
//! starts, each rank wants to reach all others at once; without a limit, all wait for answers so long that they try
//! again, which makes them wait longer. While a session waits for its turn, its peer may reach it, and then it needs
//! none.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

/// Connections that one poll begins to open: 8 take about 0.2 ms. A timer begins the next ones at once if the
/// application does not poll.
pub const STARTS: usize = 8;

/// The number of greetings that may be unanswered.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub first: u32,
    pub least: u32,
    pub most: u32,
    /// The limit rises if an answer takes at most `fast`, and falls if it takes more than `slow`: others then wait in
    /// queues.
    pub fast: Duration,
    pub slow: Duration,
}

pub struct Pacing {
    range: Range,
    /// Greetings that were sent once and are not answered.
    out: u32,
    limit: u32,
    /// Below this limit each answer raises it by one; above, a full round of answers does.
    steep_until: u32,
    credit: u32,
    /// Time of the last loss that has lowered the limit.
    lowered: Option<Instant>,
    /// Sessions that may greet later.
    waiting: VecDeque<usize>,
}

impl Pacing {
    pub fn new(range: Range) -> Pacing {
        Pacing {
            range,
            out: 0,
            limit: range.first,
            steep_until: range.most,
            credit: 0,
            lowered: None,
            waiting: VecDeque::new(),
        }
    }

    /// Counts a greeting if there is room for it.
    pub fn begin(&mut self) -> bool {
        let has_room = self.out < self.limit;
        self.out += u32::from(has_room);
        has_room
    }

    /// Adds a session that found no room.
    pub fn wait(&mut self, id: usize) {
        self.waiting.push_back(id);
    }

    /// Whether a session that waits may greet now.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.out < self.limit && !self.waiting.is_empty()
    }

    /// Whether sessions wait.
    #[inline]
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns a session that may greet now.
    pub fn take_next(&mut self) -> Option<usize> {
        self.is_ready().then(|| self.waiting.pop_front())?
    }

    /// A greeting was answered.
    pub fn answered(&mut self, sent: Instant, now: Instant) {
        self.out -= 1;
        let time = now.saturating_duration_since(sent);
        if time > self.range.slow {
            return self.lower(sent, now);
        }
        if time > self.range.fast {
            return;
        }
        if self.limit < self.steep_until {
            self.limit += 1;
            return;
        }
        self.credit += 1;
        if self.credit >= self.limit {
            self.credit = 0;
            self.limit = (self.limit + 1).min(self.range.most);
        }
    }

    /// A greeting was not answered in time. It is repeated, but takes no room any more: its peer may be absent.
    pub fn lost(&mut self, sent: Instant, now: Instant) {
        self.out -= 1;
        self.lower(sent, now);
    }

    fn lower(&mut self, sent: Instant, now: Instant) {
        // Greetings that were sent before the limit was lowered say nothing about the present one.
        if self.lowered.is_none_or(|at| at < sent) {
            self.lowered = Some(now);
            self.limit = (self.limit / 2).max(self.range.least);
            self.steep_until = self.limit;
        }
    }

    /// A greeting is no longer of interest.
    pub fn dropped(&mut self) {
        self.out -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u32 = 32;
    const LEAST: u32 = 4;
    const RANGE: Range = Range {
        first: FIRST,
        least: LEAST,
        most: 1024,
        fast: Duration::from_millis(20),
        slow: Duration::from_millis(100),
    };

    #[test]
    fn answers_make_room_and_losses_take_it() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut pacing = Pacing::new(RANGE);
        let fill = |pacing: &mut Pacing| (0..).take_while(|_| pacing.begin()).count() as u32;
        assert_eq!(fill(&mut pacing), FIRST);
        pacing.wait(7);
        assert_eq!(pacing.take_next(), None);
        (0..FIRST).for_each(|_| pacing.answered(at(0), at(1)));
        assert!(pacing.is_ready());
        assert_eq!((pacing.take_next(), pacing.take_next()), (Some(7), None));
        assert_eq!(fill(&mut pacing), 2 * FIRST);
        // All are lost together, which counts once.
        (0..2 * FIRST).for_each(|_| pacing.lost(at(0), at(100)));
        assert_eq!(fill(&mut pacing), FIRST);
        (0..FIRST).for_each(|_| pacing.answered(at(100), at(101)));
        assert_eq!(fill(&mut pacing), FIRST + 1);
        for round in 1..20 {
            let sent = at(100 + 10 * round);
            let out = pacing.out;
            (0..out).for_each(|_| pacing.lost(sent, sent));
            fill(&mut pacing);
        }
        assert_eq!(pacing.out, LEAST);
    }
}
