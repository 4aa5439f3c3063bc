// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The events of a transport: ready descriptors, deadlines, and how long a poll without events spins. All events make
//! one descriptor readable, on which other threads can block.

mod adaptive_spin;

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use self::adaptive_spin::AdaptiveSpin;
use crate::clock::{Clock, Monotonic};
use sys::event::{BATCH, Epoll, Ready, SharedFd, Timer};

/// The meaning of a descriptor in the set: a kind, and a number of that kind.
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

/// `D` is the meaning of a deadline.
pub struct Reactor<D, C = Monotonic> {
    epoll: Epoll,
    timer: Timer,
    /// Earliest first. Obsolete deadlines are skipped when they are due.
    deadlines: BinaryHeap<Reverse<(Instant, D)>>,
    /// The timer must expire at once, whatever the deadlines are: see `wake`.
    is_urgent: bool,
    clock: C,
    /// Decides whether a poll without events spins for a moment.
    pub spin: AdaptiveSpin,
}

impl<D: Copy + Ord, C: Clock> Reactor<D, C> {
    pub fn new(clock: C) -> io::Result<Reactor<D, C>> {
        let (epoll, timer) = (Epoll::new()?, Timer::new()?);
        let Token(token) = Token::new(Token::TIMER, 0);
        epoll.add(&timer, token, true, false)?;
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

    /// Adds a descriptor, which is borrowed for the call. A number is not one:
    ///
    /// ```
    /// use engine::reactor::{Reactor, Token};
    /// fn watch(reactor: &Reactor<()>, event: &sys::event::EventFd) -> std::io::Result<()> {
    ///     reactor.add(event, Token::new(1, 0), true, false)
    /// }
    /// ```
    ///
    /// ```compile_fail,E0277
    /// use engine::reactor::{Reactor, Token};
    /// fn watch(reactor: &Reactor<()>, event: i32) -> std::io::Result<()> {
    ///     reactor.add(event, Token::new(1, 0), true, false)
    /// }
    /// ```
    pub fn add(&self, fd: impl AsFd, token: Token, read: bool, write: bool) -> io::Result<()> {
        self.epoll.add(fd, token.0, read, write)
    }

    pub fn modify(&self, fd: impl AsFd, token: Token, read: bool, write: bool) -> io::Result<()> {
        self.epoll.modify(fd, token.0, read, write)
    }

    /// A descriptor that is not in the set is not an error.
    pub fn remove(&self, fd: impl AsFd) {
        self.epoll.remove(fd);
    }

    /// Returns ready descriptors without blocking.
    #[inline]
    pub fn poll(&self, ready: &mut [Ready; BATCH]) -> usize {
        self.epoll.poll(ready)
    }

    /// Adds a deadline and sets the timer if it is the earliest.
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

    /// The meaning of the earliest deadline.
    pub fn earliest(&self) -> Option<D> {
        self.deadlines.peek().map(|Reverse((_, due))| *due)
    }

    /// Removes the earliest deadline. The caller must then call `set_timer`.
    pub fn drop_earliest(&mut self) {
        self.deadlines.pop();
    }

    /// Removes a deadline that is due. After the last one the caller must call `set_timer`.
    pub fn next_due(&mut self, now: Instant) -> Option<D> {
        let &Reverse((at, due)) = self.deadlines.peek()?;
        if at > now {
            return None;
        }
        self.deadlines.pop();
        Some(due)
    }

    /// Sets the timer to the earliest deadline, unless it must expire at once.
    pub fn set_timer(&self) {
        if !self.is_urgent {
            let left =
                |Reverse((at, _)): &Reverse<(Instant, D)>| at.saturating_duration_since(self.now());
            self.timer.set(self.deadlines.peek().map(left));
        }
    }

    /// Makes a thread that blocks on the descriptor, or is about to, poll again at once.
    pub fn wake(&mut self) {
        self.is_urgent = true;
        self.timer.set(Some(Duration::ZERO));
    }

    /// Ends the effect of `wake`. Returns whether there was any; then the caller must call `set_timer`.
    #[inline]
    pub fn end_wake(&mut self) -> bool {
        std::mem::take(&mut self.is_urgent)
    }
}

impl<D, C> Reactor<D, C> {
    /// Returns a descriptor that becomes readable when `poll` finds something, or when a deadline is due.
    pub fn shared(&self) -> SharedFd {
        self.epoll.shared()
    }
}

impl<D, C> AsFd for Reactor<D, C> {
    /// Returns the same descriptor as `shared`.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use sys::event::{EventFd, sleep_on};

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

    /// A deadline is due by the virtual clock although it is an hour away by the clock of the host.
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
        sleep_on(&[reactor.as_fd()], Some(Duration::from_secs(60))).unwrap();
        assert_eq!(ready_kinds(&reactor), [(Token::TIMER, 0)]);
    }

    #[test]
    fn who_sleeps_is_woken_whatever_the_deadlines_are() {
        let mut reactor = Reactor::new(Monotonic).unwrap();
        let at = reactor.now() + Duration::from_secs(3600);
        reactor.wake();
        // A new deadline does not cancel the wake-up.
        reactor.schedule(at, ());
        sleep_on(&[reactor.as_fd()], Some(Duration::from_secs(60))).unwrap();
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
            reactor.add(event.as_fd(), token, true, false).unwrap();
            assert_eq!(ready_kinds(&reactor), []);
            event.set();
            assert_eq!(ready_kinds(&reactor), [(kind, id)]);
            event.clear();
        }
        reactor.remove(events[0].as_fd());
        events[0].set();
        assert_eq!(ready_kinds(&reactor), []);
    }
}
