// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What a transport waits for: descriptors that get ready, deadlines, and for how long a poll that finds nothing spins.
//! All of it shows on one descriptor that others can sleep on.
#![forbid(unsafe_code)]

mod adaptive_spin;

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

use self::adaptive_spin::AdaptiveSpin;
use crate::engine::clock::{Clock, Monotonic};
use crate::sys::event::{BATCH, Epoll, Ready, Timer};

/// What a descriptor in the set stands for: a kind, and which one of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(u64);

impl Token {
    /// The kind of the reactor's own timer. Owners count theirs from 1.
    pub const TIMER: u32 = 0;

    #[inline]
    pub const fn new(kind: u32, id: usize) -> Token {
        Token((kind as u64) << 32 | id as u64)
    }

    #[inline]
    pub const fn of(event: &Ready) -> Token {
        Token(event.token)
    }

    #[inline]
    pub const fn kind(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub const fn id(self) -> usize {
        self.0 as u32 as usize
    }
}

/// `D` says what a deadline is about.
pub struct Reactor<D, C = Monotonic> {
    epoll: Epoll,
    timer: Timer,
    /// Earliest first; those that no longer hold are skipped when they come up.
    deadlines: BinaryHeap<Reverse<(Instant, D)>>,
    /// The timer is to go off at once, whatever the deadlines are: see `wake`.
    is_urgent: bool,
    clock: C,
    /// Whether a poll that finds nothing spins for a moment.
    pub spin: AdaptiveSpin,
}

impl<D: Copy + Ord, C: Clock> Reactor<D, C> {
    pub fn new(clock: C) -> io::Result<Reactor<D, C>> {
        let (epoll, timer) = (Epoll::new()?, Timer::new()?);
        let Token(token) = Token::new(Token::TIMER, 0);
        epoll.add(timer.as_raw_fd(), token, true, false)?;
        Ok(Reactor {
            epoll,
            timer,
            deadlines: BinaryHeap::new(),
            is_urgent: false,
            clock,
            spin: AdaptiveSpin::new(),
        })
    }

    #[inline]
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    pub fn add(&self, fd: RawFd, token: Token, read: bool, write: bool) -> io::Result<()> {
        self.epoll.add(fd, token.0, read, write)
    }

    pub fn modify(&self, fd: RawFd, token: Token, read: bool, write: bool) -> io::Result<()> {
        self.epoll.modify(fd, token.0, read, write)
    }

    /// A descriptor that is not in the set is not an error.
    pub fn remove(&self, fd: RawFd) {
        self.epoll.remove(fd);
    }

    /// What is ready now, without sleeping.
    #[inline]
    pub fn poll(&self, ready: &mut [Ready; BATCH]) -> usize {
        self.epoll.poll(ready)
    }

    /// Makes the timer go off for the earliest deadline.
    pub fn schedule(&mut self, at: Instant, due: D) {
        let first = self.deadlines.peek();
        let earlier = first.is_none_or(|Reverse((first, _))| at < *first);
        self.deadlines.push(Reverse((at, due)));
        if earlier {
            self.set_timer();
        }
    }

    #[inline]
    pub fn has_deadlines(&self) -> bool {
        !self.deadlines.is_empty()
    }

    /// What the earliest deadline is about.
    pub fn earliest(&self) -> Option<D> {
        self.deadlines.peek().map(|Reverse((_, due))| *due)
    }

    /// Takes off the earliest deadline. `set_timer` is to follow.
    pub fn drop_earliest(&mut self) {
        self.deadlines.pop();
    }

    /// Takes off a deadline that has come. After the last one `set_timer` is to follow.
    pub fn next_due(&mut self, now: Instant) -> Option<D> {
        let &Reverse((at, due)) = self.deadlines.peek()?;
        if at > now {
            return None;
        }
        self.deadlines.pop();
        Some(due)
    }

    /// Sets the timer for the earliest deadline, unless it is to go off at once.
    pub fn set_timer(&self) {
        if !self.is_urgent {
            let left =
                |Reverse((at, _)): &Reverse<(Instant, D)>| at.saturating_duration_since(self.now());
            self.timer.set(self.deadlines.peek().map(left));
        }
    }

    /// A thread that sleeps on the descriptor, or is about to, polls again at once.
    pub fn wake(&mut self) {
        self.is_urgent = true;
        self.timer.set(Some(Duration::ZERO));
    }

    /// Whoever was to be woken is awake. Whether anybody was to be: `set_timer` is to follow then.
    #[inline]
    pub fn end_wake(&mut self) -> bool {
        std::mem::take(&mut self.is_urgent)
    }
}

impl<D, C> AsRawFd for Reactor<D, C> {
    /// Readable when `poll` finds something, or a deadline has come.
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::sys::event::{EventFd, sleep_on};

    #[derive(Clone)]
    struct Virtual(Arc<Mutex<Instant>>);

    impl Virtual {
        fn new() -> Virtual {
            Virtual(Arc::new(Mutex::new(Instant::now())))
        }

        fn pass(&self, ms: u64) {
            *self.0.lock().unwrap() += Duration::from_millis(ms);
        }
    }

    impl Clock for Virtual {
        fn now(&self) -> Instant {
            *self.0.lock().unwrap()
        }
    }

    fn ready_kinds<D: Copy + Ord, C: Clock>(reactor: &Reactor<D, C>) -> Vec<(u32, usize)> {
        let mut ready = [Ready {
            token: 0,
            readable: false,
            writable: false,
            broken: false,
            ended: false,
        }; BATCH];
        let n = reactor.poll(&mut ready);
        let tokens = ready[..n].iter().map(Token::of);
        tokens.map(|token| (token.kind(), token.id())).collect()
    }

    #[test]
    fn deadlines_come_in_their_order_and_not_before_their_time() {
        let clock = Virtual::new();
        let mut reactor = Reactor::new(clock.clone()).unwrap();
        let start = reactor.now();
        for (ms, due) in [(20, 'b'), (10, 'a'), (30, 'c'), (10, 'A')] {
            reactor.schedule(start + Duration::from_millis(ms), due);
        }
        let due = |reactor: &mut Reactor<char, Virtual>| {
            let now = reactor.now();
            std::iter::from_fn(|| reactor.next_due(now)).collect::<String>()
        };
        assert_eq!(due(&mut reactor), "");
        clock.pass(9);
        assert_eq!(due(&mut reactor), "");
        clock.pass(1);
        assert_eq!(due(&mut reactor), "Aa");
        assert_eq!(reactor.earliest(), Some('b'));
        reactor.drop_earliest();
        clock.pass(100);
        assert_eq!(due(&mut reactor), "c");
        assert!(!reactor.has_deadlines());
    }

    /// By the clock that was handed in a deadline is here that by the host's is an hour away.
    #[test]
    fn the_timer_goes_by_the_clock() {
        const HOUR: u64 = 3_600_000;
        let clock = Virtual::new();
        let mut reactor = Reactor::new(clock.clone()).unwrap();
        let at = reactor.now() + Duration::from_millis(HOUR);
        reactor.schedule(at, ());
        assert_eq!(ready_kinds(&reactor), []);
        clock.pass(HOUR);
        reactor.set_timer();
        sleep_on(&[reactor.as_raw_fd()], Some(Duration::from_secs(60))).unwrap();
        assert_eq!(ready_kinds(&reactor), [(Token::TIMER, 0)]);
    }

    #[test]
    fn who_sleeps_is_woken_whatever_the_deadlines_are() {
        let mut reactor = Reactor::new(Monotonic).unwrap();
        let at = reactor.now() + Duration::from_secs(3600);
        reactor.wake();
        // It does not put the timer out.
        reactor.schedule(at, ());
        sleep_on(&[reactor.as_raw_fd()], Some(Duration::from_secs(60))).unwrap();
        assert_eq!(ready_kinds(&reactor), [(Token::TIMER, 0)]);
        assert!(reactor.end_wake() && !reactor.end_wake());
        reactor.set_timer();
        assert_eq!(ready_kinds(&reactor), []);
    }

    #[test]
    fn descriptors_are_told_apart() {
        let reactor = Reactor::<()>::new(Monotonic).unwrap();
        let events = [EventFd::new().unwrap(), EventFd::new().unwrap()];
        let tokens = [(1, 0xffff_ffff), (u32::MAX, 7)];
        for (event, (kind, id)) in events.iter().zip(tokens) {
            let token = Token::new(kind, id);
            reactor.add(event.as_raw_fd(), token, true, false).unwrap();
            assert_eq!(ready_kinds(&reactor), []);
            event.set();
            assert_eq!(ready_kinds(&reactor), [(kind, id)]);
            event.clear();
        }
        reactor.remove(events[0].as_raw_fd());
        events[0].set();
        assert_eq!(ready_kinds(&reactor), []);
    }
}
