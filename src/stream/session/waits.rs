// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Waiting times of operations, counted in ticks: each operation records the number of the last tick, not the time.
//!
//! The first operation that waits schedules a tick. A tick schedules the next one only if an operation still waits.

use core::time::Duration;

use crate::session::receive_state::{At, Sink};
use crate::session::{Session, State};
use engine::domain_state::TxOp;
use engine::report::{Stage, Waiter};
use engine::srx::Envelope;
use object::ops::transfer::What;

/// Number of ticks in the shorter of the two times.
const TICKS: u32 = 8;
/// Maximum of ticks in the longer time: numbers of ticks are compared within half their range.
const MOST_TICKS: u32 = 30_000;

/// The two times in ticks; 0 means never.
pub struct Waits {
    /// Number of the last tick.
    pub now: u16,
    /// Whether another tick is scheduled, or none is needed.
    pub armed: bool,
    pub tick: Duration,
    pub fails: u16,
    pub reports: u16,
}

/// The operation that has waited longest for a peer, and the number of waiting operations.
pub struct Oldest {
    pub age: u16,
    pub what: Waiter,
    pub len: u64,
    pub count: usize,
}

impl Waits {
    /// Operations fail after `fails` and are reported after `reports`; zero means never.
    pub fn new(fails: Duration, reports: Duration) -> Waits {
        let times = [fails, reports];
        let longest = times.into_iter().max().unwrap_or_default();
        let shortest = times.into_iter().filter(|time| !time.is_zero()).min();
        let tick = shortest.unwrap_or_default() / TICKS;
        let tick = tick.max(longest / MOST_TICKS).max(Duration::from_millis(1));
        let ticks = |time: Duration| time.as_nanos().div_ceil(tick.as_nanos()) as u16;
        Waits {
            now: 0,
            armed: shortest.is_none(),
            tick,
            fails: ticks(fails),
            reports: ticks(reports),
        }
    }

    fn age(&self, since: u16) -> u16 {
        self.now.wrapping_sub(since)
    }

    /// Returns the minimum time since tick `since`, or `None` if no ticks are counted.
    pub fn time(&self, since: u16) -> Option<Duration> {
        let counts = self.fails > 0 || self.reports > 0;
        // The first tick may have come at once.
        let ticks = u32::from(self.age(since).saturating_sub(1));
        counts.then(|| self.tick * ticks)
    }

    /// Whether an operation of this age in ticks has waited for the whole time. The first tick may have come at once.
    pub fn is_over(age: u16, time: u16) -> bool {
        time > 0 && age > time
    }
}

/// An operation that waits for a peer.
pub struct Wait {
    /// Tick at which it started to wait.
    pub since: u16,
    pub what: Waiter,
    pub len: u64,
    /// The tag, if it is still available.
    pub tag: Option<u64>,
    pub stage: Stage,
}

impl<A> Session<A> {
    /// Visits all operations that wait for the peer, and the connection attempt that the application waits for.
    pub fn each_wait(&self, mut note: impl FnMut(Wait)) {
        let mut sends = |op: &TxOp, tag: Option<u64>, stage: Stage| {
            note(Wait {
                since: op.since,
                what: Waiter::Transmit(op.what),
                len: op.len as u64,
                tag: tag.filter(|_| op.what == What::Tagged),
                stage,
            });
        };
        self.tx.each_wait(&mut sends);
        if let At::Payload(incoming) = &self.rx.at
            && let Sink::Read(read) = &incoming.sink
        {
            sends(&read.op, None, Stage::Bytes);
        }
        if let Some(attempt) = self.attempt
            && !matches!(self.state, State::Up | State::Down)
        {
            note(Wait {
                since: attempt.since,
                what: Waiter::Connection,
                len: u64::from(attempt.len),
                tag: None,
                stage: Stage::Answer,
            });
        }
        let mut receives = |since: u16, envelope: &Envelope| {
            note(Wait {
                since,
                what: Waiter::Receive,
                len: envelope.len,
                tag: (envelope.what == What::Tagged).then_some(envelope.tag),
                stage: Stage::Bytes,
            });
        };
        if let At::Payload(incoming) = &self.rx.at
            && let Sink::Recv(_, envelope) = &incoming.sink
        {
            receives(self.rx.since, envelope);
        }
        for requested in self.rx.told.requested() {
            if requested.recv.is_some() {
                receives(requested.since, &requested.envelope);
            }
        }
    }

    pub fn oldest(&self, waits: &Waits) -> Option<Oldest> {
        let mut oldest: Option<Oldest> = None;
        self.each_wait(|wait| {
            let age = waits.age(wait.since);
            let count = oldest.as_ref().map_or(0, |oldest| oldest.count) + 1;
            match &mut oldest {
                Some(oldest) if oldest.age >= age => oldest.count = count,
                _ => {
                    oldest = Some(Oldest {
                        age,
                        what: wait.what,
                        len: wait.len,
                        count,
                    });
                }
            }
        });
        oldest
    }

    /// Returns a number that changes while the bytes of a long message move in either direction.
    pub fn transfer(&self) -> u64 {
        let incoming = match &self.rx.at {
            At::Payload(incoming) => incoming.remaining,
            _ => 0,
        };
        self.tx.out.frames().transfer() ^ incoming.rotate_left(32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn times_are_counted_in_ticks_of_the_shorter_one() {
        for (fails, reports, tick, ticks) in [
            (0, 60_000, 7500, (0, 8)),
            (800, 60_000, 100, (8, 600)),
            (60_000, 800, 100, (600, 8)),
            (1, 0, 1, (1, 0)),
            (8, 3_600_000, 120, (1, 30_000)),
        ] {
            let waits = Waits::new(ms(fails), ms(reports));
            assert_eq!(waits.tick, ms(tick));
            assert_eq!((waits.fails, waits.reports), ticks, "{fails} {reports}");
            assert!(!waits.armed);
        }
        assert!(Waits::new(ms(0), ms(0)).armed);
    }

    #[test]
    fn nothing_is_over_before_its_time() {
        assert!(!Waits::is_over(u16::MAX, 0));
        assert!(!Waits::is_over(8, 8));
        assert!(Waits::is_over(9, 8));
        let mut waits = Waits::new(ms(800), ms(0));
        waits.now = 3;
        assert_eq!(waits.age(u16::MAX - 4), 8);
    }
}
