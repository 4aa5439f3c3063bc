// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations that wait for their peer: after a while the log says so, and where the application wants that they fail.
//!
//! Time is counted in ticks of the transport's timer, so that an operation that begins to wait need not ask for the time: it
//! notes the number of the last tick. There are ticks only while something waits, and one more. What waits for others to begin,
//! a receive without its message and a collective, is nobody's fault and does not count.
#![forbid(unsafe_code)]

use core::fmt;
use core::time::Duration;

use crate::base::Error;
use crate::base::log::{Subsys, log_warn};
use crate::engine::domain_state::TxOp;
use crate::engine::stream::conn::{After, At, Conn, Out, Sink};
use crate::engine::stream::net::Net;
use crate::engine::stream::transport::{DomainOf, Due, Stream};
use crate::ffi::ops::transfer::What;

/// So many ticks are in the shorter of the two times.
const TICKS: u32 = 8;
/// Ticks in the longer one, at most: numbers of ticks are compared within half their range.
const MOST_TICKS: u32 = 30_000;

/// The times, in ticks; 0 is never.
pub struct Waits {
    /// The number of the last tick.
    pub now: u16,
    /// Another tick is to come, or none is needed.
    pub armed: bool,
    tick: Duration,
    fails: u16,
    reports: u16,
}

/// The operation that waits for a peer the longest, and how many there are.
struct Oldest {
    age: u16,
    what: Waiter,
    len: u64,
    count: usize,
}

#[derive(Clone, Copy)]
enum Waiter {
    Transmit(What),
    Receive,
}

impl fmt::Display for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Waiter::Transmit(What::Msg) => "send",
            Waiter::Transmit(What::Tagged) => "tagged send",
            Waiter::Transmit(What::Write) => "write",
            Waiter::Transmit(What::Read) => "read",
            Waiter::Transmit(What::Atomic) => "atomic operation",
            Waiter::Transmit(What::AtomicFetch) => "fetching atomic operation",
            Waiter::Receive => "receive",
        })
    }
}

impl Waits {
    /// Operations fail after `fails` and are reported after `reports`; zero is never.
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

    /// Whether something that has seen so many ticks has waited for all of this time: the first tick may have come at once.
    fn is_over(age: u16, time: u16) -> bool {
        time > 0 && age > time
    }
}

impl<N: Net> Conn<N> {
    fn oldest(&self, waits: &Waits) -> Option<Oldest> {
        let mut oldest: Option<Oldest> = None;
        let mut note = |since: u16, what: Waiter, len: u64| {
            let age = waits.age(since);
            let count = oldest.as_ref().map_or(0, |oldest| oldest.count) + 1;
            match &mut oldest {
                Some(oldest) if oldest.age >= age => oldest.count = count,
                _ => {
                    oldest = Some(Oldest {
                        age,
                        what,
                        len,
                        count,
                    });
                }
            }
        };
        let mut sends = |op: &TxOp| note(op.since, Waiter::Transmit(op.what), op.len as u64);
        for out in &self.session.tx.queue {
            if let Out::Frame(frame) = out
                && let After::Complete(op) = &frame.after
            {
                sends(op);
            }
        }
        self.session.tx.await_ack.iter().for_each(&mut sends);
        self.session
            .tx
            .await_read
            .iter()
            .for_each(|read| sends(&read.op));
        self.session
            .tx
            .rendezvous
            .values()
            .for_each(|waiting| sends(&waiting.op));
        self.session
            .tx
            .waiting
            .iter()
            .for_each(|waiting| sends(&waiting.op));
        if let At::Payload(incoming) = &self.session.rx.at {
            match &incoming.sink {
                Sink::Read(read) => sends(&read.op),
                Sink::Recv(_, envelope) => {
                    note(self.session.rx.since, Waiter::Receive, envelope.len)
                }
                _ => {}
            }
        }
        for cleared in self.session.rx.told.cleared() {
            if cleared.recv.is_some() {
                note(cleared.since, Waiter::Receive, cleared.envelope.len);
            }
        }
        oldest
    }

    /// Changes while bytes of something long go either way.
    fn transfer(&self) -> u64 {
        let out = match self.session.tx.queue.front() {
            Some(Out::Frame(frame)) => frame.payload.remaining() as u64,
            Some(Out::Staged { done, .. }) => *done as u64,
            None => 0,
        };
        let incoming = match &self.session.rx.at {
            At::Payload(incoming) => incoming.remaining,
            _ => 0,
        };
        out ^ incoming.rotate_left(32)
    }
}

impl<N: Net> Stream<N> {
    /// An operation begins to wait for its peer.
    #[inline]
    pub(super) fn begin_waiting(&mut self, domain: &mut DomainOf<N>, op: &mut TxOp) {
        domain.eps[op.ep()].tx_pending += 1;
        op.since = self.common.waits.now;
        self.watch_waits();
    }

    /// Something waits from now on.
    #[inline]
    pub(super) fn watch_waits(&mut self) {
        if !self.common.waits.armed {
            self.arm_waits();
        }
    }

    #[cold]
    fn arm_waits(&mut self) {
        self.common.waits.armed = true;
        self.schedule(self.reactor.now() + self.common.waits.tick, Due::Waits);
    }

    /// A tick: what has waited too long is told of, or fails.
    #[cold]
    pub(super) fn check_waits(&mut self, domain: &mut DomainOf<N>) {
        self.common.waits.armed = false;
        self.common.waits.now = self.common.waits.now.wrapping_add(1);
        let (mut late, mut any) = (Vec::new(), false);
        for (id, conn) in &mut self.conns {
            let transfer = conn.transfer();
            let is_moving = std::mem::replace(&mut conn.transfer, transfer) != transfer;
            let Some(oldest) = conn.oldest(&self.common.waits) else {
                conn.is_stalled = false;
                continue;
            };
            any = true;
            if Waits::is_over(oldest.age, self.common.waits.fails) {
                late.push((id, oldest.what));
            }
            let stalls = Waits::is_over(oldest.age, self.common.waits.reports) && !is_moving;
            if stalls && !std::mem::replace(&mut conn.is_stalled, true) {
                log_warn!(
                    N::SOURCE,
                    Subsys::EpData,
                    "{}: operations that wait for it: {}; the oldest, a {} of {} bytes, for more than {} s",
                    conn.session.peer,
                    oldest.count,
                    oldest.what,
                    oldest.len,
                    (self.common.waits.tick * (u32::from(oldest.age) - 1)).as_secs_f32()
                );
            } else if !stalls {
                conn.is_stalled = false;
            }
        }
        for (id, what) in late {
            // The loss of one peer may have ended the connection to another.
            if self.conns.contains(id) {
                let limit = self.common.limits.op_timeout.as_millis();
                let why = format_args!("did not let a {what} complete within {limit} ms");
                self.disconnect_because(domain, id, Error::TIMEDOUT, &why);
            }
        }
        if any {
            self.watch_waits();
        }
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
