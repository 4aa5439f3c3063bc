// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The loop: which sockets are polled, and how. Connections that were busy lately are read directly; epoll serves the
//! others, new connections and deadlines, and whoever sleeps.
//!
//! An arrival on a socket in the epoll set costs its sender some hundred nanoseconds. A connection that was taken out
//! goes back before anybody sleeps; it is taken out only while the domain has no wait object, no event queue that
//! drives it, and no progress thread but one that stands back (`watchers`).
//!
//! Programs talk to their peers in turn: the connection that had news after this one the last time is read without
//! asking epoll, once such guesses came true eight times in a row.
#![forbid(unsafe_code)]

use std::os::fd::AsRawFd;

use crate::base::Error;
use crate::engine::reactor::Token;
use crate::engine::stream::conn::{Conn, Watch};
use crate::engine::stream::link::Link;
use crate::engine::stream::net::Net;
use crate::engine::stream::session::State;
use crate::engine::stream::transport::{DomainOf, Due, Stream};
use crate::sys::clock::ticks;
use crate::sys::event::{BATCH, Ready};

/// Kinds of tokens.
const CONN: u32 = 1;
const LISTENER: u32 = 2;
const HANDSHAKE: u32 = 3;
const PENDING: u32 = 4;

/// Connections that are read directly, at most: an empty poll costs a system call for each of them, where epoll
/// costs one for all.
const HOT: usize = 1;
/// Polls in a row that bring something before a connection that is read directly is taken out of the epoll set, where
/// every arrival costs its sender something; only while nobody sleeps on the set.
const DETACH: u32 = 64;
/// Empty polls in a row before a connection is left to epoll.
const MISSES: u32 = 1024;
/// One poll in so many asks epoll, too, while there are connections to be read directly.
const EPOLL_EVERY: u64 = 32;
/// And one that brings nothing after so many ticks (20 to 60 us) without: where processes share a processor, each
/// poll may take that long, and a program that computes between two polls is not to wait for 32 of them.
const LATE: u64 = 1 << 16;
/// Epoll alone is asked from the first news of a connection that is not read directly until so many in a row came from
/// those that are: with more busy connections than `HOT`, the ones that are read directly are the wrong ones.
const WIDE: u32 = 16;

/// One poll in so many looks whether somebody asks what is going on; it asks epoll, too, beside which that is little.
const ATTEND_EVERY: u64 = 256;

/// Deadlines that a poll handles. The timer goes off again at once for the others.
const DUES: usize = 64;

/// Guesses in a row that came true before a guess is trusted: which connection has news after which.
const SURE: u32 = 8;
/// While guesses are trusted, one poll in so many asks epoll all the same.
const GUESS_EVERY: u64 = 8;

pub fn conn_token(id: usize) -> Token {
    Token::new(CONN, id)
}

pub fn listener_token(ep: usize) -> Token {
    Token::new(LISTENER, ep)
}

pub fn handshake_token(id: usize) -> Token {
    Token::new(HANDSHAKE, id)
}

pub fn pending_token(id: usize) -> Token {
    Token::new(PENDING, id)
}

impl<N: Net> Stream<N> {
    /// One look at everything that may have news.
    pub(super) fn poll(&mut self, domain: &mut DomainOf<N>) {
        match self.has_shm() {
            true => self.poll_shm(domain),
            false => self.poll_sockets(domain),
        }
    }

    /// As `poll`, where no memory is shared.
    #[inline(never)]
    pub(super) fn poll_sockets(&mut self, domain: &mut DomainOf<N>) {
        if self.wide > 0 || self.hot.is_empty() {
            return match self.sure >= SURE && !self.common.polls.is_multiple_of(GUESS_EVERY) {
                true => self.poll_next(domain),
                false => self.poll_all(domain),
            };
        }
        self.clear_up(domain);
        let mut i = 0;
        let mut came = false;
        while let Some(&id) = self.hot.get(i) {
            let any = self.read_conn(domain, id);
            came |= any;
            // The list changes when the connection ends or is left to epoll.
            if self.hot.get(i) == Some(&id) {
                i += 1;
                self.note(domain, id, any);
                if any {
                    self.news(id);
                }
            }
        }
        if self.common.polls.is_multiple_of(EPOLL_EVERY) || (!came && self.is_late()) {
            self.ask_epoll(domain);
        }
        if !self.common.held.is_empty() {
            self.retry_held(domain);
        }
    }

    /// A poll of the connection that is likely to have news next: programs talk to their peers in turn, and epoll costs
    /// as much as the message.
    fn poll_next(&mut self, domain: &mut DomainOf<N>) {
        self.clear_up(domain);
        let next = self
            .conns
            .get(self.last)
            .map_or(self.last, |conn| conn.next);
        if self.conns.contains(next) && self.read_conn(domain, next) {
            self.news(next);
        } else if self.is_late() {
            self.ask_epoll(domain);
        }
        if !self.common.held.is_empty() {
            self.retry_held(domain);
        }
    }

    /// Whether epoll was not asked for long.
    #[inline]
    fn is_late(&self) -> bool {
        ticks().wrapping_sub(self.asked) > LATE
    }

    /// The connection was busy for a while: it leaves the epoll set, unless somebody sleeps on that.
    #[cold]
    fn detach_unwatched(&mut self, domain: &DomainOf<N>, id: usize) {
        if domain.watchers == 0 {
            self.detach(id);
        }
    }

    /// The connection had news. Keeps in mind which one it came after.
    #[inline]
    fn news(&mut self, id: usize) {
        let last = std::mem::replace(&mut self.last, id);
        if last != id
            && let Some(conn) = self.conns.get_mut(last)
        {
            self.sure = match std::mem::replace(&mut conn.next, id) == id {
                true => (self.sure + 1).min(SURE),
                false => 0,
            };
        }
    }

    /// One poll that leaves out nothing: epoll watches the connections that are read directly, too.
    pub(super) fn poll_all(&mut self, domain: &mut DomainOf<N>) {
        if self.reactor.end_wake() {
            self.reactor.set_timer();
        }
        self.clear_up(domain);
        self.attach();
        if self.has_shm() {
            self.arm_shm(domain);
        }
        self.ask_epoll(domain);
        if self.has_shm() {
            self.stay_awake();
        }
        if !self.common.held.is_empty() {
            self.retry_held(domain);
        }
    }

    /// What is left to do of earlier polls.
    #[inline]
    pub(super) fn clear_up(&mut self, domain: &mut DomainOf<N>) {
        self.common.polls = self.common.polls.wrapping_add(1);
        if !self.common.dirty.is_empty() {
            self.flush_dirty(domain);
        }
        if !self.common.stalled.is_empty() {
            self.retry_stalled(domain);
        }
        if !self.full.is_empty() {
            self.retry_full(domain);
        }
    }

    /// Takes off the deadlines of what has come about, as far as they are the next: a domain at peace has no timer.
    fn drop_deadlines(&mut self) {
        let mut any = false;
        while let Some(due) = self.reactor.earliest()
            && !self.is_awaited(due)
        {
            self.reactor.drop_earliest();
            any = true;
        }
        if any {
            self.reactor.set_timer();
        }
    }

    /// Whether something still depends on a deadline of this kind.
    fn is_awaited(&self, due: Due) -> bool {
        match due {
            Due::Conn(id) => self
                .conns
                .get(id)
                .is_some_and(|conn| match conn.session.state {
                    State::Connecting => true,
                    State::Idle => conn.clock.is_started(),
                    // The provider may give up an attempt before its end (`Net::gives_up`).
                    State::Requested | State::Proving | State::Sharing => {
                        N::has_attempt_limit(conn)
                    }
                    State::Up | State::Down => false,
                }),
            Due::Handshake(id) => N::shakes_hands(self, id),
            Due::PendingPeer(id) => self.pending_peers.contains(id),
            Due::Listener(ep) => self.eps.get(ep).is_some(),
            Due::Peers | Due::Waits => true,
        }
    }

    #[inline]
    fn note(&mut self, domain: &DomainOf<N>, id: usize, any: bool) {
        let conn = &mut self.conns[id];
        if any {
            conn.misses = 0;
            conn.hits = conn.hits.wrapping_add(1);
            if conn.hits == DETACH {
                self.detach_unwatched(domain, id);
            }
            return;
        }
        conn.misses += 1;
        if conn.misses > MISSES {
            self.demote(id);
        }
    }

    /// Leaves a connection to epoll.
    #[cold]
    pub(super) fn demote(&mut self, id: usize) {
        self.conns[id].hot = false;
        self.hot.retain(|&hot| hot != id);
        self.watch_again(id);
    }

    /// Takes a connection that is read directly out of the epoll set.
    #[cold]
    fn detach(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        // Epoll has to say when the kernel takes bytes again.
        if let (false, Some(socket)) = (conn.watch.write, conn.link.socket()) {
            self.reactor.remove(socket.as_raw_fd());
            conn.watch.added = false;
        }
    }

    /// Puts back what was taken out of the epoll set: somebody is going to rely on it.
    fn attach(&mut self) {
        for i in 0..self.hot.len() {
            self.watch_again(self.hot[i]);
        }
    }

    fn watch_again(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        conn.hits = 0;
        if !conn.watch.added {
            let Watch { read, write, .. } = conn.watch;
            self.rewatch(id, read, write);
        }
    }

    pub(super) fn ask_epoll(&mut self, domain: &mut DomainOf<N>) {
        let mut ready = [Ready {
            token: 0,
            readable: false,
            writable: false,
            broken: false,
            ended: false,
        }; BATCH];
        let n = self.reactor.poll(&mut ready);
        self.asked = ticks();
        for event in &ready[..n] {
            let token = Token::of(event);
            let id = token.id();
            match token.kind() {
                Token::TIMER => self.timer_due(domain),
                CONN => {
                    self.wide = match self.conns.get(id) {
                        Some(conn) if conn.hot => self.wide.saturating_sub(1),
                        _ if self.hot.is_empty() => 0,
                        _ => WIDE,
                    };
                    self.conn_ready(domain, id, event);
                }
                LISTENER => N::accept_waiting(self, id),
                HANDSHAKE if N::shakes_hands(self, id) => {
                    N::handshake_ready(self, domain, id, event)
                }
                PENDING if self.pending_peers.contains(id) => self.pending_ready(domain, id),
                _ => {}
            }
        }
        if self.reactor.has_deadlines() {
            self.drop_deadlines();
        }
        if self.common.polls.is_multiple_of(ATTEND_EVERY) {
            self.attend(domain);
        }
    }

    fn conn_ready(&mut self, domain: &mut DomainOf<N>, id: usize, event: &Ready) {
        let Some(conn) = self.conns.get(id) else {
            return;
        };
        match conn.session.state {
            State::Up if conn.link.is_shm() => self.doorbell_rung(domain, id),
            State::Up if event.broken && !conn.watch.read => {
                // Its reader was waiting for room, and what it would read is not coming any more.
                self.disconnect(domain, id, Error::CONNRESET);
            }
            State::Up if event.ended && !conn.watch.read => self.ended_unread(domain, id),
            State::Up => {
                if event.readable && self.read_conn(domain, id) && self.conns.contains(id) {
                    self.news(id);
                    self.promote(id);
                }
                let blocked = |conn: &Conn<N>| conn.session.tx.blocked;
                if event.writable && self.conns.get(id).is_some_and(blocked) {
                    self.unblocked(domain, id);
                }
            }
            State::Connecting | State::Requested | State::Proving | State::Sharing => {
                N::opening(self, domain, id);
            }
            State::Idle | State::Down => {}
        }
    }

    /// The connection has news: it is read directly for a while. The one that was quiet the longest makes room.
    pub fn promote(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        if conn.link.is_shm() {
            return self.promote_shm(id);
        }
        conn.misses = 0;
        // Beside shared memory epoll serves all sockets.
        if conn.hot || conn.session.state != State::Up || N::MAY_SHARE && self.shared > 0 {
            return;
        }
        conn.hot = true;
        self.hot.push(id);
        if self.hot.len() > HOT {
            let quietest = (0..self.hot.len()).max_by_key(|&i| self.conns[self.hot[i]].misses);
            if let Some(i) = quietest {
                self.demote(self.hot[i]);
            }
        }
    }

    /// Nothing is read from the connection until it is asked for again.
    pub(super) fn pause_read(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        if conn.link.is_shm() {
            return self.polled.retain(|&other| other != id);
        }
        if std::mem::take(&mut conn.hot) {
            self.hot.retain(|&hot| hot != id);
        }
        let write = self.conns[id].watch.write;
        self.rewatch(id, false, write);
    }

    /// Tells epoll what to watch for.
    pub fn rewatch(&mut self, id: usize, read: bool, write: bool) {
        let conn = &mut self.conns[id];
        let Some(socket) = conn.link.socket() else {
            return;
        };
        let (read, write) = match conn.link {
            // It says no more than that the peer rings, or is gone.
            Link::Shm(_) => (true, false),
            _ => (read && !conn.session.rx.at.waits(), write),
        };
        let wanted = Watch {
            added: true,
            read,
            write,
        };
        if conn.watch == wanted {
            return;
        }
        let fd = socket.as_raw_fd();
        let result = match conn.watch.added {
            true => self.reactor.modify(fd, conn_token(id), read, write),
            false => self.reactor.add(fd, conn_token(id), read, write),
        };
        if result.is_ok() {
            conn.watch = wanted;
            conn.hits = 0;
        }
    }

    /// Deadlines that have come.
    #[cold]
    fn timer_due(&mut self, domain: &mut DomainOf<N>) {
        self.reactor.end_wake();
        let now = self.reactor.now();
        for _ in 0..DUES {
            let Some(due) = self.reactor.next_due(now) else {
                break;
            };
            match due {
                Due::Conn(id) => self.conn_due(domain, id),
                Due::Handshake(id) => N::handshake_due(self, id),
                Due::PendingPeer(id) => self.pending_due(id),
                Due::Peers => N::check_peers(self, domain),
                Due::Waits => self.check_waits(domain),
                Due::Listener(ep) => {
                    let listener = self.eps.get(ep).and_then(|ep| ep.listener.as_ref());
                    // The one that is there already stays.
                    for shm_listener in listener.into_iter().chain(N::shm_listener(self, ep)) {
                        let fd = shm_listener.as_raw_fd();
                        let _ = self.reactor.add(fd, listener_token(ep), true, false);
                    }
                }
            }
        }
        self.reactor.set_timer();
    }
}
