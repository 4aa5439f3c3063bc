// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Which descriptors are polled, and how. Connections that were active recently are read directly; epoll serves the
//! others, new connections, deadlines and sleeping threads. The poller has no sessions: it names connections by number.
//!
//! An arrival on a socket in the epoll set costs its sender some hundred nanoseconds. A connection that was taken out
//! goes back before any thread sleeps. It is taken out only while the domain has no wait object, no event queue that
//! drives it, and no active progress thread (`watchers`).
//!
//! Programs usually talk to their peers in turn. The poller therefore predicts the connection that followed this one
//! the last time, and that connection is read without calling epoll, once such predictions were right eight times in a
//! row.

mod deadlines;
mod event;
mod rate;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

pub use self::event::Due;
pub(crate) use self::event::Polled;

use self::event::{CONN, HANDSHAKE, LISTENER, PENDING};
use self::rate::Rate;
use engine::clock::Monotonic;
use engine::reactor::{Reactor, Token};
use sys::clock::ticks;
use sys::event::{BATCH, Ready, SharedFd};

/// Maximum of connections that are read directly: an empty poll costs a system call for each of them, while epoll costs
/// one for all.
const HOT: usize = 1;
/// Successful polls of a directly read connection before it leaves the epoll set, where every arrival costs its sender
/// time. Empty polls in between do not reset the count. It leaves the set only while no thread sleeps on the set.
const DETACH: u32 = 64;
/// Consecutive empty polls before a connection is left to epoll.
const MISSES: u32 = 1024;
/// While connections are read directly, one poll in this many also calls epoll.
const EPOLL_EVERY: u64 = 32;
/// An empty poll this many ticks (20 to 60 us) after the last call of epoll also calls epoll. If processes share a
/// processor, each poll may take that long, and a program that computes between two polls must not wait for 32 of them.
const LATE: u64 = 1 << 16;
/// After an event of a connection that is not read directly, only epoll is used until this many events in a row came
/// from directly read connections. With more active connections than `HOT`, the wrong ones are read directly.
const WIDE: u32 = 16;

/// Correct predictions in a row before a prediction (which connection has an event after which) is trusted.
const SURE: u32 = 8;
/// While predictions are trusted, one poll in this many still calls epoll.
const GUESS_EVERY: u64 = 8;

/// How the next poll of sockets is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// Call epoll.
    Epoll,
    /// Read the predicted connection only.
    Predicted(usize),
    /// Read the hot connections.
    Hot,
}

/// The polling of one connection.
#[derive(Clone, Copy)]
struct Watched {
    /// Whether the socket is in the epoll set.
    is_added: bool,
    /// Events to watch for.
    read: bool,
    write: bool,
    /// Whether the socket is read without a call of epoll first.
    is_hot: bool,
    /// Consecutive polls that found nothing.
    misses: u32,
    /// Polls that found something since the connection was last put into the epoll set.
    hits: u32,
    /// Predicted successor: the connection that last had an event after this one.
    next: usize,
}

impl Watched {
    const NEW: Watched = Watched {
        is_added: false,
        read: false,
        write: false,
        is_hot: false,
        misses: 0,
        hits: 0,
        next: usize::MAX,
    };
}

/// The sockets of the connections. The poller owns none of them and keeps no number of a descriptor, so it cannot watch
/// a socket that has replaced a closed one.
pub(super) trait Sockets {
    /// Returns the socket that epoll watches for a connection, if it has one.
    fn socket_of(&self, id: usize) -> Option<BorrowedFd<'_>>;
}

/// The epoll set of a domain, and the connections that are read without it.
pub struct Poller {
    reactor: Reactor<Due>,
    /// By the number of the connection.
    watched: Vec<Watched>,
    /// Connections that are read without a call of epoll.
    hot: Vec<usize>,
    /// While above zero only epoll is called.
    epoll_only_polls: u32,
    /// Time of the last call of epoll, in ticks.
    epoll_called_at: u64,
    /// The connection that had the last event, and the number of correct predictions in a row.
    last_active: usize,
    predict_streak: u32,
    rate: Rate,
}

impl Poller {
    pub(super) fn new() -> io::Result<Poller> {
        Ok(Poller {
            reactor: Reactor::new(Monotonic)?,
            watched: Vec::new(),
            hot: Vec::new(),
            epoll_only_polls: 0,
            epoll_called_at: 0,
            last_active: usize::MAX,
            predict_streak: 0,
            rate: Rate::new(),
        })
    }

    /// Returns a descriptor that becomes readable when there is an event, or when a deadline is due.
    pub(super) fn shared(&self) -> SharedFd {
        self.reactor.shared()
    }

    #[inline]
    pub fn now(&self) -> Instant {
        self.reactor.now()
    }
}

/// Descriptors that do not belong to a connection.
impl Poller {
    /// Watches a listener of an endpoint.
    pub fn add_listener(&self, fd: impl AsFd, ep: usize) -> io::Result<()> {
        self.reactor.add(fd, Token::new(LISTENER, ep), true, false)
    }

    /// Watches an accepted socket whose peer has not identified itself yet.
    pub fn add_handshake(&self, fd: impl AsFd, id: usize) -> io::Result<()> {
        self.reactor.add(fd, Token::new(HANDSHAKE, id), true, false)
    }

    /// Watches a pending peer.
    pub(super) fn add_pending(&self, fd: impl AsFd, id: usize) -> io::Result<()> {
        self.reactor.add(fd, Token::new(PENDING, id), true, false)
    }

    /// Stops watching such a descriptor.
    pub fn remove_fd(&self, fd: impl AsFd) {
        self.reactor.remove(fd);
    }
}

/// Connections.
impl Poller {
    #[inline]
    fn state(&self, id: usize) -> Watched {
        self.watched.get(id).copied().unwrap_or(Watched::NEW)
    }

    fn state_mut(&mut self, id: usize) -> &mut Watched {
        if self.watched.len() <= id {
            self.watched.resize(id + 1, Watched::NEW);
        }
        &mut self.watched[id]
    }

    /// Sets the events of a connection's socket that epoll watches for. A number is not a socket:
    ///
    /// ```
    /// fn watch(poller: &mut stream::poller::Poller, socket: &sys::socket::Socket) {
    ///     let _ = poller.watch(0, socket, true, false);
    /// }
    /// ```
    ///
    /// ```compile_fail,E0277
    /// fn watch(poller: &mut stream::poller::Poller, socket: i32) {
    ///     let _ = poller.watch(0, socket, true, false);
    /// }
    /// ```
    pub fn watch(&mut self, id: usize, fd: impl AsFd, read: bool, write: bool) -> io::Result<()> {
        let before = self.state(id);
        if before.is_added && (before.read, before.write) == (read, write) {
            return Ok(());
        }
        let token = Token::new(CONN, id);
        match before.is_added {
            true => self.reactor.modify(fd, token, read, write)?,
            false => {
                self.reactor.add(fd, token, read, write)?;
                self.rate.hurry();
            }
        }
        let state = self.state_mut(id);
        (state.is_added, state.read, state.write) = (true, read, write);
        state.hits = 0;
        Ok(())
    }

    /// Returns whether the connection is watched for data, and for room to write.
    #[inline]
    pub(super) fn interest(&self, id: usize) -> (bool, bool) {
        let state = self.state(id);
        (state.read, state.write)
    }

    /// Forgets a connection, whose socket is closed next or gets another purpose.
    pub fn remove(&mut self, id: usize, socket: Option<BorrowedFd<'_>>) {
        self.expect_nothing(id, socket);
        if self.state(id).is_hot {
            self.hot.retain(|&hot| hot != id);
        }
        if let Some(state) = self.watched.get_mut(id) {
            *state = Watched::NEW;
        }
    }

    /// Removes the socket from the epoll set, because no further event is expected from it.
    pub(super) fn expect_nothing(&mut self, id: usize, socket: Option<BorrowedFd<'_>>) {
        if let Some(state) = self.watched.get_mut(id) {
            if let (true, Some(socket)) = (state.is_added, socket) {
                self.reactor.remove(socket);
            }
            (state.is_added, state.read, state.write) = (false, false, false);
        }
    }

    /// Reads the connection directly for a while, after an event. The one that was quiet the longest makes room for it.
    /// `is_allowed`: the connection can be read directly.
    pub(super) fn promote(&mut self, id: usize, is_allowed: bool, sockets: &impl Sockets) {
        let state = self.state_mut(id);
        state.misses = 0;
        if state.is_hot || !is_allowed {
            return;
        }
        state.is_hot = true;
        self.hot.push(id);
        if self.hot.len() > HOT {
            let quietest = (0..self.hot.len()).max_by_key(|&i| self.state(self.hot[i]).misses);
            if let Some(i) = quietest {
                self.demote(self.hot[i], sockets);
            }
        }
    }

    /// Leaves a connection to epoll.
    #[cold]
    fn demote(&mut self, id: usize, sockets: &impl Sockets) {
        self.stop_direct_reads(id);
        self.watch_again(id, sockets);
    }

    /// Leaves all connections to epoll.
    pub(super) fn demote_all(&mut self, sockets: &impl Sockets) {
        while let Some(&id) = self.hot.last() {
            self.demote(id, sockets);
        }
        self.epoll_only_polls = 0;
    }

    /// Takes a connection off the list of those that are read directly.
    pub(super) fn stop_direct_reads(&mut self, id: usize) {
        if let Some(state) = self.watched.get_mut(id)
            && std::mem::take(&mut state.is_hot)
        {
            self.hot.retain(|&hot| hot != id);
        }
    }

    /// Puts detached connections back into the epoll set, because a thread is about to rely on it.
    pub(super) fn attach_all(&mut self, sockets: &impl Sockets) {
        for i in 0..self.hot.len() {
            self.watch_again(self.hot[i], sockets);
        }
    }

    fn watch_again(&mut self, id: usize, sockets: &impl Sockets) {
        let state = self.state_mut(id);
        state.hits = 0;
        let Watched {
            is_added,
            read,
            write,
            ..
        } = *state;
        if !is_added && let Some(socket) = sockets.socket_of(id) {
            // The next attempt to watch it reports the error.
            let _ = self.watch(id, socket, read, write);
        }
    }

    /// Takes a connection that is read directly out of the epoll set.
    #[cold]
    fn detach(&mut self, id: usize, sockets: &impl Sockets) {
        let state = &mut self.watched[id];
        // Epoll has to report when the kernel has room again.
        if !state.write
            && let Some(socket) = sockets.socket_of(id)
        {
            self.reactor.remove(socket);
            state.is_added = false;
        }
    }
}

/// Polls.
impl Poller {
    /// Returns how the poll with this number is done.
    #[inline]
    pub(super) fn way(&self, poll: u64) -> Way {
        if self.epoll_only_polls == 0 && !self.hot.is_empty() {
            return Way::Hot;
        }
        match self.predict_streak >= SURE && !poll.is_multiple_of(GUESS_EVERY) {
            true => {
                let last = self.watched.get(self.last_active);
                Way::Predicted(last.map_or(usize::MAX, |state| state.next))
            }
            false => Way::Epoll,
        }
    }

    /// Returns a connection that is read directly, by its place in the list.
    #[inline]
    pub(super) fn hot(&self, at: usize) -> Option<usize> {
        self.hot.get(at).copied()
    }

    /// Whether a poll of directly read connections calls epoll, too.
    #[inline]
    pub(super) fn must_call_epoll(&self, poll: u64, has_found: bool) -> bool {
        poll.is_multiple_of(EPOLL_EVERY) || (!has_found && self.is_late())
    }

    /// Whether the last call of epoll was long ago.
    #[inline]
    pub(super) fn is_late(&self) -> bool {
        ticks().wrapping_sub(self.epoll_called_at) > LATE
    }

    /// Records the result of a direct read. `is_unwatched`: no thread sleeps on the epoll set.
    #[inline]
    pub(super) fn record_poll(
        &mut self,
        id: usize,
        has_found: bool,
        is_unwatched: bool,
        sockets: &impl Sockets,
    ) {
        let Some(state) = self.watched.get_mut(id) else {
            return;
        };
        if has_found {
            state.misses = 0;
            state.hits = state.hits.wrapping_add(1);
            if state.hits == DETACH && is_unwatched {
                self.detach(id, sockets);
            }
            return;
        }
        state.misses += 1;
        if state.misses > MISSES {
            self.demote(id, sockets);
        }
    }

    /// Records an event of the connection, and which connection it followed.
    #[inline]
    pub(super) fn mark_active(&mut self, id: usize) {
        let last = std::mem::replace(&mut self.last_active, id);
        if last != id
            && let Some(state) = self.watched.get_mut(last)
        {
            self.predict_streak = match std::mem::replace(&mut state.next, id) == id {
                true => (self.predict_streak + 1).min(SURE),
                false => 0,
            };
        }
    }

    /// Prepares for a call of epoll on which a thread will rely.
    pub(super) fn prepare_sleep(&mut self) {
        if self.reactor.end_wake() {
            self.reactor.set_timer();
        }
    }

    /// Whether the poll with this number calls epoll, while rings are polled.
    #[inline(always)]
    pub(super) fn is_epoll_due(&self, poll: u64) -> bool {
        self.rate.is_due(poll)
    }

    /// Returns how many times a poll may call epoll.
    pub(super) fn epoll_calls(&self) -> u32 {
        self.rate.calls()
    }

    /// Makes the next poll call epoll.
    pub(super) fn call_epoll_next(&mut self) {
        self.rate.hurry();
    }

    /// Plans the next call of epoll, while rings are polled: `Rate::plan`.
    pub(super) fn plan_epoll(&mut self, poll: u64, all_share: bool) {
        self.rate.plan(poll, all_share);
    }

    /// Whether recent calls of epoll have found something, so that the result of the next has to be recorded.
    #[inline(always)]
    pub(super) fn is_epoll_busy(&self) -> bool {
        self.rate.is_busy()
    }

    /// Records what the calls of epoll in one poll have found: `Rate::record`.
    pub(super) fn record_found(&mut self, found: usize, is_full: bool) {
        self.rate.record(found, is_full);
    }

    /// Returns ready descriptors without blocking.
    #[inline]
    pub(super) fn call_epoll(&mut self, ready: &mut [Ready; BATCH]) -> usize {
        let n = self.reactor.poll(ready);
        self.epoll_called_at = ticks();
        n
    }

    /// Records that epoll has reported an event of a connection.
    pub(super) fn reported(&mut self, id: usize) {
        self.epoll_only_polls = match self.state(id).is_hot {
            true => self.epoll_only_polls.saturating_sub(1),
            false if self.hot.is_empty() => 0,
            false => WIDE,
        };
    }

    /// Makes a thread that sleeps, or is about to, poll again at once.
    pub(super) fn wake(&mut self) {
        self.reactor.wake();
    }
}
