// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connections that go over shared memory: polling, sleeping, waking. Their sockets carry no frames, only wake-ups and
//! the news that the peer is gone.
//!
//! While a domain has connections over memory, sockets are left to epoll, which is asked every 8th poll then; a domain
//! without such connections pays a comparison.
//!
//! No process number is watched and nothing has a time limit: a peer that is stopped is waited for. What a dead peer
//! had published is still delivered, then what waits for it fails.
#![forbid(unsafe_code)]

use core::hint::spin_loop;
use core::time::Duration;
use std::time::Instant;

use crate::base::Error;
use crate::engine::stream::link::{Link, ShmLink};
use crate::engine::stream::net::Net;
use crate::engine::stream::session::State;
use crate::engine::stream::session::receive_state::At;
use crate::engine::stream::session::records::GARBAGE;
use crate::engine::stream::shm_channel::ShmChannel;
use crate::engine::stream::transport::{DomainOf, Stream};
use crate::sys::socket::Moved;

/// Records of one peer in a row before the others have their turn.
const TURNS: usize = 64;
/// One poll in so many asks epoll, too: for new peers, and for those that are gone.
const EPOLL_EVERY: u64 = 64;
/// The same where some peers have sockets, or are only about to share memory: what comes over those waits no longer for
/// this than a call of the kernel takes.
const EPOLL_EVERY_BOTH: u64 = 8;

/// How long a poll waits for what is likely to come at once: a peer that is waiting for us, too, answers in half of it,
/// also if it gives its processor away in between. The clock is asked after so many polls.
const MOMENT: Duration = Duration::from_micros(2);
const LOOKS: usize = 16;

/// What a poll would find.
pub(super) enum FastPoll {
    Nothing,
    /// Something of this connection.
    NewsOf(usize),
    /// Only the poll tells.
    Unclear,
}

impl<N: Net> Stream<N> {
    /// From now on the connection goes over shared memory.
    pub fn use_shm(&mut self, domain: &DomainOf<N>, id: usize, shm: Box<ShmChannel>) {
        if !self.has_shm() {
            self.begin_sharing();
        }
        if self.shared == 0 {
            // No peer has been told otherwise.
            self.expects_sleep |= domain.watchers > 0;
        }
        self.shared += 1;
        // It is armed from its birth.
        if !self.is_armed {
            shm.disarm(self.expects_sleep);
        }
        let conn = &mut self.conns[id];
        conn.link.upgrade(*shm);
        self.begin_polling(id);
        self.polled.push(id);
    }

    /// The first connection of the domain that goes over memory: nobody has said yet whether somebody sleeps, and what
    /// has sockets is left to epoll, which is asked besides.
    #[cold]
    fn begin_sharing(&mut self) {
        self.is_armed = true;
        while let Some(&id) = self.hot.last() {
            self.demote(id);
        }
        self.wide = 0;
    }

    /// What a poll would find, where that is easily told: where nothing is left to do of earlier polls.
    #[inline(always)]
    pub(super) fn poll_fast(&self, domain: &DomainOf<N>) -> FastPoll {
        let left = self.common.dirty.len()
            | self.common.stalled.len()
            | self.full.len()
            | self.common.held.len();
        let is_idle = left == 0
            && self.is_armed == domain.may_sleep()
            && !self
                .common
                .polls
                .wrapping_add(1)
                .is_multiple_of(self.epoll_every());
        if !is_idle {
            return FastPoll::Unclear;
        }
        let mut news = FastPoll::Nothing;
        for &id in &self.polled {
            let conn = self.conns.get(id);
            let Some((conn, shm)) = conn.and_then(|conn| Some((conn, conn.link.shm()?))) else {
                return FastPoll::Unclear;
            };
            if shm.has_news() {
                news = match news {
                    FastPoll::Nothing => FastPoll::NewsOf(id),
                    // Each gets its turn.
                    _ => return FastPoll::Unclear,
                };
            } else if conn.session.rx.was_written || shm.ended || shm.broken {
                // What was taken is to be said, or the end.
                return FastPoll::Unclear;
            }
        }
        news
    }

    /// A poll has found nothing, and what comes next is likely to come at once: waits for it, but for no longer than a
    /// peer takes that is waiting for us.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_a_moment(&mut self, domain: &mut DomainOf<N>) {
        // Who is going to sleep wants the processor for others, and so does who waits for the lock.
        if self.is_armed || domain.contended || !self.reactor.spin.take_turn() {
            return;
        }
        for &id in &self.polled {
            if let Some(shm) = self.conns[id].link.shm_mut() {
                shm.prefetch_next();
            }
        }
        let news = self.next_news();
        self.reactor.spin.note(news.is_some());
        if let Some(id) = news {
            self.read_shm(domain, id);
        }
    }

    /// The first peer from which something comes in the next moment.
    fn next_news(&self) -> Option<usize> {
        let has_news = |&&id: &&usize| {
            let shm = self.conns[id].link.shm();
            shm.is_some_and(|shm| shm.has_news())
        };
        let mut end = None;
        loop {
            for _ in 0..LOOKS {
                if let Some(&id) = self.polled.iter().find(has_news) {
                    return Some(id);
                }
                spin_loop();
            }
            let now = self.reactor.now();
            if now >= *end.get_or_insert(now + MOMENT) {
                return None;
            }
        }
    }

    #[inline(always)]
    fn epoll_every(&self) -> u64 {
        match self.shared == self.conns.len() {
            true => EPOLL_EVERY,
            false => EPOLL_EVERY_BOTH,
        }
    }

    /// One poll of the peers that share memory with us.
    #[inline]
    pub(super) fn poll_shm(&mut self, domain: &mut DomainOf<N>) {
        self.clear_up(domain);
        if self.is_armed != domain.may_sleep() {
            self.change_watch(domain);
        }
        self.read_all_shm(domain);
        if self.common.polls.is_multiple_of(self.epoll_every()) {
            self.leave_quiet_peers();
            self.ask_epoll(domain);
        }
        if !self.common.held.is_empty() {
            self.retry_held(domain);
        }
    }

    #[inline]
    pub(super) fn read_all_shm(&mut self, domain: &mut DomainOf<N>) {
        let mut i = 0;
        while let Some(&id) = self.polled.get(i) {
            let any = self.read_shm(domain, id);
            // The list changes when the connection ends or is held.
            if self.polled.get(i) != Some(&id) {
                continue;
            }
            i += 1;
            if any {
                self.reactor.spin.found();
            }
        }
    }

    /// Whoever writes from now on rings the doorbell. All are polled here once more for what came before.
    pub(super) fn arm_shm(&mut self, domain: &mut DomainOf<N>) {
        self.expect_sleep();
        self.is_armed = true;
        for &id in &self.polled {
            if let Some(shm) = self.conns[id].link.shm() {
                shm.arm();
            }
        }
        for &id in &self.full {
            if let Some(shm) = self.conns[id].link.shm() {
                shm.set_waiting(true);
            }
        }
        self.retry_full(domain);
        self.read_all_shm(domain);
    }

    /// Each had its turn. Who has more, or room for what waits, ends the sleep that begins here, if one does: who finds
    /// room while epoll is asked would have its timer put out there.
    pub(super) fn stay_awake(&mut self) {
        let has_more = |&id: &usize| {
            let shm = self.conns[id].link.shm();
            shm.is_some_and(|shm| shm.has_news())
        };
        let mut any = self.polled.iter().any(has_more);
        for &id in &self.full {
            let shm = self.conns.get_mut(id).and_then(|conn| conn.link.shm_mut());
            any |= shm.is_some_and(|shm| !matches!(shm.has_room(), Ok(false)));
        }
        if any {
            self.end_sleep();
        }
    }

    /// Somebody may sleep from now on, or nobody does any more.
    #[cold]
    fn change_watch(&mut self, domain: &mut DomainOf<N>) {
        match self.is_armed {
            true => self.disarm_shm(),
            false => self.arm_shm(domain),
        }
    }

    fn disarm_shm(&mut self) {
        self.is_armed = false;
        for &id in &self.polled {
            if let Some(shm) = self.conns[id].link.shm() {
                shm.disarm(self.expects_sleep);
            }
        }
    }

    /// The peer is polled directly.
    pub(super) fn promote_shm(&mut self, id: usize) {
        if !self.polled.contains(&id) {
            if let (false, Some(shm)) = (self.is_armed, self.conns[id].link.shm()) {
                shm.disarm(self.expects_sleep);
            }
            self.begin_polling(id);
            self.polled.push(id);
            self.arm_where_asleep(id);
        }
    }

    /// A ring is polled again, or still, while another thread may be parked: it is armed as the others are, and ends
    /// that sleep if something stands in it.
    pub(super) fn arm_where_asleep(&mut self, id: usize) {
        let shm = self.conns[id].link.shm().filter(|_| self.is_armed);
        if let Some(shm) = shm {
            shm.arm();
            if shm.has_news() {
                self.end_sleep();
            }
        }
    }

    /// A thread that sleeps, or is about to, polls again at once.
    fn end_sleep(&mut self) {
        self.reactor.wake();
    }

    /// Whether what comes next has to stay where it is, see `Session::waits_for_sender`.
    #[inline]
    fn waits_for_sender(&mut self, domain: &mut DomainOf<N>, id: usize) -> bool {
        if self
            .conns
            .get(id)
            .is_none_or(|conn| conn.session.rx.shared().is_empty())
        {
            return false;
        }
        let waits = self.with(domain, id, |session, cx| session.waits_for_sender(cx));
        // An answer that could not be sent may have ended the connection.
        waits || !self.conns.contains(id)
    }

    /// There is no room for all that is queued.
    #[cold]
    pub(super) fn shm_full(&mut self, id: usize) {
        self.full.push(id);
        let Some(shm) = self.conns[id].link.shm_mut() else {
            return;
        };
        if self.is_armed {
            shm.set_waiting(true);
            if !matches!(shm.has_room(), Ok(false)) {
                self.end_sleep();
            }
        }
    }

    /// There may be room for what waits.
    #[cold]
    pub(super) fn retry_full(&mut self, domain: &mut DomainOf<N>) {
        let waiting = std::mem::take(&mut self.full);
        for id in waiting {
            let Some(conn) = self.conns.get_mut(id) else {
                continue;
            };
            let Some(shm) = conn.link.shm_mut() else {
                continue;
            };
            if shm.ended && conn.session.rx.at.waits() {
                // What the peer sent waits for its receive; what it is sent waits for nothing any more.
                self.full.push(id);
                self.transmits_end(domain, id);
                continue;
            }
            if !conn.session.tx.blocked {
                continue;
            }
            match shm.has_room() {
                Ok(false) => self.full.push(id),
                // What the other side has broken its reader finds.
                Ok(true) => {
                    shm.set_waiting(false);
                    conn.session.tx.blocked = false;
                    self.with(domain, id, |session, cx| {
                        session.flush_conn(cx);
                        session.retry_frame(cx);
                    });
                }
                Err(_) => {
                    shm.broken = true;
                    self.promote_shm(id);
                }
            }
        }
    }

    /// News of the socket beside the memory.
    pub(super) fn doorbell_rung(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = &mut self.conns[id];
        let Link::Shm(link) = &mut conn.link else {
            return;
        };
        take_rings(link);
        if link.channel.ended {
            self.epoll_forget(id);
            self.left_waiting(domain, id);
        }
        if !self.full.is_empty() {
            self.retry_full(domain);
        }
        if self
            .conns
            .get(id)
            .is_some_and(|conn| !conn.session.rx.at.waits())
        {
            self.promote_shm(id);
            self.read_shm(domain, id);
        }
    }

    /// The peer is gone. If what it had sent waits for its receive, what it is sent fails without delay; if that is
    /// never going to be whole, everything does.
    #[cold]
    fn left_waiting(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let Some(conn) = self.conns.get(id) else {
            return;
        };
        let Some(shm) = conn.link.shm().filter(|_| conn.session.rx.at.waits()) else {
            return;
        };
        let there = shm.longest_rest() + conn.session.rx.leftover.len();
        let unread = conn.session.rx.at.unread();
        if unread.is_some_and(|unread| unread > there as u64) {
            return self.disconnect(domain, id, Error::CONNRESET);
        }
        if matches!(&conn.session.rx.at, At::Held(header) if header.is_answered()) {
            // Of what it asked for it takes no more.
            return self.disconnect(domain, id, Error::CONNRESET);
        }
        if !self.full.contains(&id) {
            self.full.push(id);
        }
    }

    /// Takes what the peer has written; whether there was anything.
    #[inline]
    pub(super) fn read_shm(&mut self, domain: &mut DomainOf<N>, id: usize) -> bool {
        let mut any = false;
        let shm = self.conns.get(id).and_then(|conn| conn.link.shm());
        if shm.is_some_and(|shm| shm.is_past_end()) {
            self.fault(domain, id, &GARBAGE);
            return true;
        }
        let mut turns = TURNS;
        // What follows something that is no message is likely to be none either.
        let mut is_other = false;
        while turns > 0 && !self.waits_for_sender(domain, id) {
            if !is_other {
                let (session, mut cx) = self.at(domain, id);
                let left = session.take_messages(&mut cx, turns);
                any |= left.taken > 0;
                turns -= left.taken;
                if left.nothing {
                    self.found_empty(domain, id);
                    break;
                }
            }
            let (session, mut cx) = self.at(domain, id);
            let writes = session.take_writes(&mut cx, turns);
            if writes > 0 {
                any = true;
                turns -= writes;
                is_other = false;
                continue;
            }
            let Some(conn) = self.conns.get_mut(id) else {
                break;
            };
            let Some(shm) = conn.link.shm_mut() else {
                break;
            };
            let record = match shm.peek() {
                Ok(Some(record)) => record,
                Ok(None) => {
                    self.found_empty(domain, id);
                    break;
                }
                Err(_) => {
                    self.fault(domain, id, &GARBAGE);
                    return true;
                }
            };
            if turns == 0 || conn.session.state != State::Up || conn.session.rx.at.waits() {
                break;
            }
            if !domain.may_receive(conn.session.ep) {
                self.hold(id);
                break;
            }
            any = true;
            turns -= 1;
            let (session, mut cx) = self.at(domain, id);
            match session.take_record(&mut cx, &record) {
                Ok(other) => is_other = other,
                Err(fault) => {
                    self.fault(domain, id, &fault);
                    self.settle(domain);
                    break;
                }
            }
            self.settle(domain);
            let Some(conn) = self.conns.get_mut(id) else {
                break;
            };
            let Some(shm) = conn.link.shm_mut() else {
                break;
            };
            let (wakes, ended) = (shm.advance(record), shm.ended);
            if wakes {
                conn.link.ring();
            }
            if ended {
                self.left_waiting(domain, id);
            }
        }
        any
    }

    /// All was taken.
    #[inline]
    fn found_empty(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = &mut self.conns[id];
        let Some(shm) = conn.link.shm_mut() else {
            return;
        };
        if shm.broken {
            return self.fault(domain, id, &GARBAGE);
        }
        // Else nothing has to be given back here: who waits for room is told of each quarter of a lap, and never needs
        // more than another.
        let is_due = std::mem::take(&mut conn.session.rx.was_written) | shm.is_due();
        let wake = is_due && shm.release();
        if shm.ended {
            self.disconnect(domain, id, Error::CONNRESET);
        } else if wake {
            conn.link.ring();
        }
    }

    /// Before the connection is closed: what was reported as sent goes to the peer, which may take until `until`.
    pub(super) fn last_flush_to_shm(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        until: Instant,
    ) {
        loop {
            self.with(domain, id, |session, cx| session.flush_conn(cx));
            let Some(conn) = self.conns.get_mut(id) else {
                return;
            };
            conn.link.ring_if_parked();
            let Link::Shm(link) = &mut conn.link else {
                return;
            };
            let shm = &mut link.channel;
            if shm.ended || shm.broken {
                return;
            }
            let left = until.saturating_duration_since(self.reactor.now());
            if conn.session.tx.staged == 0 || left.is_zero() {
                return;
            }
            shm.set_waiting(true);
            if !matches!(shm.has_room(), Ok(false)) {
                conn.session.tx.blocked = false;
                continue;
            }
            link.doorbell
                .wait_readable(left.min(Duration::from_millis(100)));
            take_rings(link);
            if link.channel.has_news() && !conn.session.rx.at.waits() {
                // Another thread may sleep on the doorbell that rang.
                self.end_sleep();
            }
            let conn = &mut self.conns[id];
            conn.session.tx.blocked = false;
        }
    }
}

/// Takes the peer's doorbell rings. The peer rings once for a sleep, so a side that sleeps on, or again, without having
/// polled says that anew. The caller has to poll the ring after this.
fn take_rings(link: &mut ShmLink) {
    let (mut rings, mut any) = ([0; 256], false);
    loop {
        match link.doorbell.read(&mut rings) {
            Ok(Moved::Bytes(n)) => {
                any = true;
                if n < rings.len() {
                    break;
                }
            }
            Ok(Moved::Later) => break,
            Ok(Moved::End) | Err(_) => {
                link.channel.end();
                break;
            }
        }
    }
    if any {
        link.channel.arm_again();
    }
}
