// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Readiness of the passive endpoints of an event queue. They share an epoll set and a timer: each needs one
//! descriptor, its listener, and a poll without connections costs the same for any number of them.

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use base::Result;
use engine::eq::{Driver, EventQueue};
use slab::Slab;
use sys::event::{BATCH, Epoll, Ready, Timer};

/// The part of a passive endpoint that handles its descriptors.
pub trait Accepts: Send + Sync {
    /// The listener has a connection.
    fn accept(&self);
    /// A connection without a request has bytes, or has ended. `id` is the number given to `watch`.
    fn requested(&self, id: usize);
    /// The pause of the listener is over: `Member::pause`.
    fn resume(&self);
    /// The deadline of a connection without a request is over: `Member::expect`. Called once for each.
    fn due(&self, now: Instant);
}

/// The passive endpoints of an event queue.
pub struct Acceptor {
    epoll: Epoll,
    /// Expires when a paused listener is to be polled again.
    timer: Timer,
    state: Mutex<State>,
    queue: Weak<EventQueue>,
}

#[derive(Default)]
struct State {
    members: Slab<Weak<dyn Accepts>>,
    paused: Vec<usize>,
    /// Deadlines of connections without a request, with their passive endpoints. Many are obsolete.
    dues: BinaryHeap<Reverse<(Instant, usize)>>,
}

/// A passive endpoint in the set.
pub struct Member {
    acceptor: Arc<Acceptor>,
    at: usize,
}

/// Maximum of deadlines that one poll handles, each of which may close a connection.
const DUES: usize = 16;
/// Number of a listener; connections have smaller ones.
const LISTENER: u32 = u32::MAX;
const TIMER: u64 = u64::MAX;
/// Time for which a listener is not polled if the process has no descriptor for a connection.
const PAUSE: Duration = Duration::from_millis(100);

impl Acceptor {
    /// Adds a passive endpoint to the acceptor of an event queue, which is opened for the first one.
    pub fn join(queue: &Arc<EventQueue>, member: Weak<dyn Accepts>) -> Result<Member> {
        let acceptor = match queue.driver::<Acceptor>() {
            Some(acceptor) => acceptor,
            None => Acceptor::open(queue)?,
        };
        let at = acceptor.state().members.insert(member);
        Ok(Member { acceptor, at })
    }

    fn open(queue: &Arc<EventQueue>) -> Result<Arc<Acceptor>> {
        let acceptor = Arc::new(Acceptor {
            epoll: Epoll::new()?,
            timer: Timer::new()?,
            state: Mutex::default(),
            queue: Arc::downgrade(queue),
        });
        acceptor.epoll.add(&acceptor.timer, TIMER, true, false)?;
        let weak: Weak<Acceptor> = Arc::downgrade(&acceptor);
        queue.add_driver(weak)?;
        Ok(acceptor)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn member(&self, at: usize) -> Option<Arc<dyn Accepts>> {
        self.state().members.get(at)?.upgrade()
    }

    fn resume(&self) {
        self.timer.set(None);
        let paused = core::mem::take(&mut self.state().paused);
        for member in paused.into_iter().filter_map(|at| self.member(at)) {
            member.resume();
        }
    }

    /// Handles the deadlines that are over.
    fn dues(&self) {
        if self.state().dues.is_empty() {
            return;
        }
        let now = Instant::now();
        for _ in 0..DUES {
            let Some(at) = self.next_due(now) else { return };
            if let Some(member) = self.member(at) {
                member.due(now);
            }
        }
    }

    fn next_due(&self, now: Instant) -> Option<usize> {
        let dues = &mut self.state().dues;
        let &Reverse((_, at)) = dues.peek().filter(|Reverse((due, _))| *due <= now)?;
        dues.pop();
        Some(at)
    }
}

impl Driver for Acceptor {
    fn drive(&self) {
        let mut ready = [Ready::default(); BATCH];
        let n = self.epoll.poll(&mut ready);
        for event in &ready[..n] {
            if event.token == TIMER {
                self.resume();
                continue;
            }
            let (at, id) = ((event.token >> 32) as usize, event.token as u32);
            match (self.member(at), id) {
                (Some(member), LISTENER) => member.accept(),
                (Some(member), id) => member.requested(id as usize),
                (None, _) => {}
            }
        }
        self.dues();
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.upgrade() {
            queue.remove_source(self.epoll.as_fd());
        }
    }
}

impl Member {
    fn token(&self, id: u32) -> u64 {
        (self.at as u64) << 32 | u64::from(id)
    }

    /// Starts to report connections of the listener.
    pub fn listen(&self, listener: impl AsFd) -> Result {
        let token = self.token(LISTENER);
        Ok(self.acceptor.epoll.add(listener, token, true, false)?)
    }

    /// Reports bytes of a connection, and its end.
    pub fn watch(&self, id: usize, socket: impl AsFd) -> Result {
        let token = self.token(id as u32);
        Ok(self.acceptor.epoll.add(socket, token, true, false)?)
    }

    pub fn unwatch(&self, socket: impl AsFd) {
        self.acceptor.epoll.remove(socket);
    }

    /// Stops to report the listener for a moment; `Accepts::resume` follows.
    pub fn pause(&self, listener: impl AsFd) {
        self.acceptor.epoll.remove(listener);
        self.acceptor.state().paused.push(self.at);
        self.acceptor.timer.set(Some(PAUSE));
    }

    /// Arranges for `Accepts::due` at this time, or a little later.
    pub fn expect(&self, due: Instant) {
        self.acceptor.state().dues.push(Reverse((due, self.at)));
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.acceptor.state().members.remove(self.at);
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::*;
    use abi::FI_WAIT_NONE;
    use engine::wait::Wait;

    struct Fake {
        listener: TcpListener,
        accepts: AtomicUsize,
        dues: AtomicUsize,
    }

    impl Fake {
        fn new() -> Arc<Fake> {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            Arc::new(Fake {
                listener: TcpListener::bind(any).unwrap(),
                accepts: AtomicUsize::new(0),
                dues: AtomicUsize::new(0),
            })
        }

        fn accepts(&self) -> usize {
            self.accepts.load(Ordering::Relaxed)
        }

        fn dues(&self) -> usize {
            self.dues.load(Ordering::Relaxed)
        }
    }

    impl Accepts for Fake {
        fn accept(&self) {
            self.listener.accept().unwrap();
            self.accepts.fetch_add(1, Ordering::Relaxed);
        }

        fn requested(&self, _id: usize) {}

        fn resume(&self) {}

        fn due(&self, _now: Instant) {
            self.dues.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn queue() -> Arc<EventQueue> {
        let wait = Wait::new(FI_WAIT_NONE, None, &[]).unwrap();
        Arc::new(EventQueue::new(0, false, wait))
    }

    fn join(queue: &Arc<EventQueue>, fake: &Arc<Fake>) -> Member {
        let weak: Weak<Fake> = Arc::downgrade(fake);
        let member = Acceptor::join(queue, weak).unwrap();
        member.listen(&fake.listener).unwrap();
        member
    }

    #[test]
    fn a_poll_visits_only_listeners_with_a_connection() {
        let queue = queue();
        let fakes = [(); 100].map(|()| Fake::new());
        let members = fakes.each_ref().map(|fake| join(&queue, fake));
        let acceptor = queue.driver::<Acceptor>().unwrap();
        let all = members.iter().map(|member| &member.acceptor);
        assert!(all.into_iter().all(|one| Arc::ptr_eq(one, &acceptor)));
        acceptor.drive();
        let visits = || fakes.iter().map(|fake| fake.accepts()).sum::<usize>();
        assert_eq!(visits(), 0);
        let _peer = TcpStream::connect(fakes[7].listener.local_addr().unwrap()).unwrap();
        acceptor.drive();
        assert_eq!((visits(), fakes[7].accepts()), (1, 1));
        // The acceptor ends with its last member.
        drop((acceptor, members));
        assert!(queue.driver::<Acceptor>().is_none());
    }

    #[test]
    fn deadlines_reach_the_members_that_are_left() {
        let (queue, fakes) = (queue(), [(); 2].map(|()| Fake::new()));
        let [first, second] = fakes.each_ref().map(|fake| join(&queue, fake));
        let acceptor = queue.driver::<Acceptor>().unwrap();
        let now = Instant::now();
        for member in [&first, &second] {
            member.expect(now);
            member.expect(now + Duration::from_secs(3600));
        }
        drop(first);
        acceptor.drive();
        assert_eq!(fakes.each_ref().map(|fake| fake.dues()), [0, 1]);
        acceptor.drive();
        assert_eq!(fakes[1].dues(), 1);
    }
}
