// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The progress loop: which sockets are polled, and how. Connections that were active recently are read directly; epoll
//! serves the others, new connections, deadlines and sleeping threads.
//!
//! An arrival on a socket in the epoll set costs its sender some hundred nanoseconds. A connection that was taken out
//! goes back before any thread sleeps. It is taken out only while the domain has no wait object, no event queue that
//! drives it, and no active progress thread (`watchers`).
//!
//! Programs usually talk to their peers in turn. The loop therefore reads the connection that followed this one the
//! last time without calling epoll, once such predictions were right eight times in a row.

use std::os::fd::AsRawFd;

use crate::conn::{Conn, Watch};
use crate::link::Link;
use crate::net::Net;
use crate::session::State;
use crate::transport::{DomainOf, Due, Stream};
use base::Error;
use engine::reactor::Token;
use sys::clock::ticks;
use sys::event::{BATCH, Ready};

/// Kinds of reactor tokens.
const CONN: u32 = 1;
const LISTENER: u32 = 2;
const HANDSHAKE: u32 = 3;
const PENDING: u32 = 4;

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

/// Number of polls between two checks for a pending report request. The check also calls epoll, which costs much more.
const ATTEND_EVERY: u64 = 256;

/// Maximum of deadlines that one poll handles. The timer fires again at once for the others.
const DUES: usize = 64;

/// Correct predictions in a row before a prediction (which connection has an event after which) is trusted.
const SURE: u32 = 8;
/// While predictions are trusted, one poll in this many still calls epoll.
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
    /// Polls everything that may have an event.
    pub(super) fn poll(&mut self, domain: &mut DomainOf<N>) {
        match self.has_shm() {
            true => self.poll_shm(domain),
            false => self.poll_sockets(domain),
        }
    }

    /// Does the work of `poll` if no memory is shared.
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
            // The list changes if the connection ends or is left to epoll.
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

    /// Polls only the predicted connection: programs talk to their peers in turn, and epoll costs as much as the
    /// message.
    fn poll_next(&mut self, domain: &mut DomainOf<N>) {
        self.clear_up(domain);
        let next = self
            .peers
            .get(self.last)
            .map_or(self.last, |conn| conn.next);
        if self.peers.contains(next) && self.read_conn(domain, next) {
            self.news(next);
        } else if self.is_late() {
            self.ask_epoll(domain);
        }
        if !self.common.held.is_empty() {
            self.retry_held(domain);
        }
    }

    /// Whether the last call of epoll was long ago.
    #[inline]
    fn is_late(&self) -> bool {
        ticks().wrapping_sub(self.asked) > LATE
    }

    /// Takes a connection that was active for a while out of the epoll set, unless a thread sleeps on the set.
    #[cold]
    fn detach_unwatched(&mut self, domain: &DomainOf<N>, id: usize) {
        if domain.watchers == 0 {
            self.detach(id);
        }
    }

    /// Records an event of the connection, and which connection it followed.
    #[inline]
    fn news(&mut self, id: usize) {
        let last = std::mem::replace(&mut self.last, id);
        if last != id
            && let Some(conn) = self.peers.get_mut(last)
        {
            self.sure = match std::mem::replace(&mut conn.next, id) == id {
                true => (self.sure + 1).min(SURE),
                false => 0,
            };
        }
    }

    /// Polls everything through epoll, which also watches the connections that are read directly.
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

    /// Finishes work that earlier polls left.
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

    /// Removes deadlines whose purpose is fulfilled from the front of the queue, so that an idle domain has no timer.
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
                .peers
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
            Due::Listener(ep) => self.peers.find_ep(ep).is_some(),
            Due::Peers | Due::Waits => true,
        }
    }

    #[inline]
    fn note(&mut self, domain: &DomainOf<N>, id: usize, any: bool) {
        let conn = &mut self.peers[id];
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
        self.peers[id].hot = false;
        self.hot.retain(|&hot| hot != id);
        self.watch_again(id);
    }

    /// Takes a connection that is read directly out of the epoll set.
    #[cold]
    fn detach(&mut self, id: usize) {
        let conn = &mut self.peers[id];
        // Epoll has to report when the kernel has room again.
        if let (false, Some(socket)) = (conn.watch.write, conn.link.socket()) {
            self.reactor.remove(socket.as_raw_fd());
            conn.watch.added = false;
        }
    }

    /// Puts detached connections back into the epoll set, because a thread is about to rely on it.
    fn attach(&mut self) {
        for i in 0..self.hot.len() {
            self.watch_again(self.hot[i]);
        }
    }

    fn watch_again(&mut self, id: usize) {
        let conn = &mut self.peers[id];
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
                    self.wide = match self.peers.get(id) {
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
        let Some(conn) = self.peers.get(id) else {
            return;
        };
        match conn.session.state {
            State::Up if conn.link.is_shm() => self.doorbell_rung(domain, id),
            State::Up if event.broken && !conn.watch.read => {
                // Reading waited for room, and the rest of the data is not coming any more.
                self.disconnect(domain, id, Error::CONNRESET);
            }
            State::Up if event.ended && !conn.watch.read => self.ended_unread(domain, id),
            State::Up => {
                if event.readable && self.read_conn(domain, id) && self.peers.contains(id) {
                    self.news(id);
                    self.promote(id);
                }
                let blocked = |conn: &Conn<N>| conn.session.tx.blocked;
                if event.writable && self.peers.get(id).is_some_and(blocked) {
                    self.unblocked(domain, id);
                }
            }
            State::Connecting | State::Requested | State::Proving | State::Sharing => {
                N::opening(self, domain, id);
            }
            State::Idle | State::Down => {}
        }
    }

    /// Reads the connection directly for a while, after an event. The one that was quiet the longest makes room for it.
    pub fn promote(&mut self, id: usize) {
        let conn = &mut self.peers[id];
        if conn.link.is_shm() {
            return self.promote_shm(id);
        }
        conn.misses = 0;
        // While memory is shared, epoll serves all sockets.
        if conn.hot || conn.session.state != State::Up || N::MAY_SHARE && self.shared > 0 {
            return;
        }
        conn.hot = true;
        self.hot.push(id);
        if self.hot.len() > HOT {
            let quietest = (0..self.hot.len()).max_by_key(|&i| self.peers[self.hot[i]].misses);
            if let Some(i) = quietest {
                self.demote(self.hot[i]);
            }
        }
    }

    /// Stops reading from the connection until reading is requested again.
    pub(super) fn pause_read(&mut self, id: usize) {
        let conn = &mut self.peers[id];
        if conn.link.is_shm() {
            return self.polled.retain(|&other| other != id);
        }
        if std::mem::take(&mut conn.hot) {
            self.hot.retain(|&hot| hot != id);
        }
        let write = self.peers[id].watch.write;
        self.rewatch(id, false, write);
    }

    /// Sets the events that epoll watches for.
    pub fn rewatch(&mut self, id: usize, read: bool, write: bool) {
        let conn = &mut self.peers[id];
        let Some(socket) = conn.link.socket() else {
            return;
        };
        let (read, write) = match conn.link {
            // The socket is only the doorbell: it signals a ring or the end of the peer.
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

    /// Handles deadlines that have passed.
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
                    let listener = self.peers.find_ep(ep).and_then(|ep| ep.listener.as_ref());
                    // A descriptor that is already in the set stays.
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
