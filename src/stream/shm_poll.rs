// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connections over shared memory: polling, sleeping, waking. Their sockets carry no frames, only wake-ups and the end
//! of the peer.
//!
//! While a domain has connections over memory, sockets are left to epoll, and every 8th poll calls it; a domain
//! without such connections pays a comparison.
//!
//! No process number is watched and nothing has a time limit: this side waits for a peer that is stopped. Data that a
//! dead peer had published is still delivered; then the operations that wait for it fail.

use core::hint::spin_loop;
use core::time::Duration;
use std::time::Instant;

use crate::link::{Link, ShmLink};
use crate::net::Net;
use crate::session::State;
use crate::session::receive_state::At;
use crate::session::records::GARBAGE;
use crate::shm_channel::ShmChannel;
use crate::transport::{DomainOf, Stream};
use base::Error;
use sys::socket::Moved;

/// Consecutive records of one peer before the others get their turn.
const TURNS: usize = 64;
/// One poll in this many also calls epoll, to find new peers and the end of peers.
const EPOLL_EVERY: u64 = 64;
/// The same if some peers use sockets, or are still setting up shared memory: their data then waits no longer for epoll
/// than a system call takes.
const EPOLL_EVERY_BOTH: u64 = 8;

/// How long a poll waits for a record that is likely to come at once: a peer that also waits for this side answers in
/// half of it, even if it yields its processor in between. The clock is read after `LOOKS` polls.
const MOMENT: Duration = Duration::from_micros(2);
const LOOKS: usize = 16;

/// Result of a preview of the next poll.
pub(super) enum FastPoll {
    Nothing,
    /// Only this connection has records.
    NewsOf(usize),
    /// Only a full poll can find out.
    Unclear,
}

impl<N: Net> Stream<N> {
    /// Switches the connection to shared memory.
    pub fn use_shm(&mut self, domain: &DomainOf<N>, id: usize, shm: Box<ShmChannel>) {
        if !self.has_shm() {
            self.begin_sharing();
        }
        if self.shared == 0 {
            // No peer has seen the previous value.
            self.expects_sleep |= domain.watchers > 0;
        }
        self.shared += 1;
        // A new channel is armed.
        if !self.is_armed {
            shm.disarm(self.expects_sleep);
        }
        let conn = &mut self.peers[id];
        conn.link.upgrade(*shm);
        self.begin_polling(id);
        self.polled.push(id);
    }

    /// Prepares for the first connection of the domain over memory. It starts armed, because it is not known yet
    /// whether a thread sleeps. Sockets are left to epoll, which some polls call as well.
    #[cold]
    fn begin_sharing(&mut self) {
        self.is_armed = true;
        self.poller.demote_all();
    }

    /// Previews the next poll if that is cheap, that is, if earlier polls left no work.
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
            let conn = self.peers.get(id);
            let Some((conn, shm)) = conn.and_then(|conn| Some((conn, conn.link.shm()?))) else {
                return FastPoll::Unclear;
            };
            if shm.has_news() {
                news = match news {
                    FastPoll::Nothing => FastPoll::NewsOf(id),
                    // Several peers have records; each gets its turn in a full poll.
                    _ => return FastPoll::Unclear,
                };
            } else if conn.session.rx.was_written || shm.ended || shm.broken {
                // Room has to be returned to the peer, or its end has to be handled.
                return FastPoll::Unclear;
            }
        }
        news
    }

    /// Waits after an empty poll if the next record is likely to come at once, but no longer than a peer takes that
    /// waits for this side.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_a_moment(&mut self, domain: &mut DomainOf<N>) {
        // A thread that is about to sleep, or that waits for the lock, needs the processor.
        if self.is_armed || domain.contended || !self.poller.begin_spin() {
            return;
        }
        for &id in &self.polled {
            if let Some(shm) = self.peers[id].link.shm_mut() {
                shm.prefetch_next();
            }
        }
        let news = self.next_news();
        self.poller.end_spin(news.is_some());
        if let Some(id) = news {
            self.read_shm(domain, id);
        }
    }

    /// Returns the first peer from which a record arrives within `MOMENT`.
    fn next_news(&self) -> Option<usize> {
        let has_news = |&&id: &&usize| {
            let shm = self.peers[id].link.shm();
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
            let now = self.poller.now();
            if now >= *end.get_or_insert(now + MOMENT) {
                return None;
            }
        }
    }

    #[inline(always)]
    fn epoll_every(&self) -> u64 {
        match self.shared == self.peers.len() {
            true => EPOLL_EVERY,
            false => EPOLL_EVERY_BOTH,
        }
    }

    /// Polls the peers that share memory.
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
            // The list changes if the connection ends or is held.
            if self.polled.get(i) != Some(&id) {
                continue;
            }
            i += 1;
            if any {
                self.poller.spin_found();
            }
        }
    }

    /// Makes peers ring the doorbell after each write from now on. Polls all rings once more for earlier records.
    pub(super) fn arm_shm(&mut self, domain: &mut DomainOf<N>) {
        self.expect_sleep();
        self.is_armed = true;
        for &id in &self.polled {
            if let Some(shm) = self.peers[id].link.shm() {
                shm.arm();
            }
        }
        for &id in &self.full {
            if let Some(shm) = self.peers[id].link.shm() {
                shm.set_waiting(true);
            }
        }
        self.retry_full(domain);
        self.read_all_shm(domain);
    }

    /// Ends a sleep that is starting if a peer has more records, or room for queued frames, after each had its turn.
    /// Finding the room while epoll is being called would stop the timer of that sleep.
    pub(super) fn stay_awake(&mut self) {
        let has_more = |&id: &usize| {
            let shm = self.peers[id].link.shm();
            shm.is_some_and(|shm| shm.has_news())
        };
        let mut any = self.polled.iter().any(has_more);
        for &id in &self.full {
            let shm = self.peers.get_mut(id).and_then(|conn| conn.link.shm_mut());
            any |= shm.is_some_and(|shm| !matches!(shm.has_room(), Ok(false)));
        }
        if any {
            self.end_sleep();
        }
    }

    /// Starts or ends the use of doorbells, when threads may start to sleep or no longer do.
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
            if let Some(shm) = self.peers[id].link.shm() {
                shm.disarm(self.expects_sleep);
            }
        }
    }

    /// Polls the peer directly.
    pub(super) fn promote_shm(&mut self, id: usize) {
        if !self.polled.contains(&id) {
            if let (false, Some(shm)) = (self.is_armed, self.peers[id].link.shm()) {
                shm.disarm(self.expects_sleep);
            }
            self.begin_polling(id);
            self.polled.push(id);
            self.arm_where_asleep(id);
        }
    }

    /// Arms a ring that is polled while another thread may be parked, as the other rings are, and ends that sleep if a
    /// record is in the ring.
    pub(super) fn arm_where_asleep(&mut self, id: usize) {
        let shm = self.peers[id].link.shm().filter(|_| self.is_armed);
        if let Some(shm) = shm {
            shm.arm();
            if shm.has_news() {
                self.end_sleep();
            }
        }
    }

    /// Makes a thread that sleeps, or is about to, poll again at once.
    fn end_sleep(&mut self) {
        self.poller.wake();
    }

    /// Whether the next records have to stay in the ring; see `Session::waits_for_sender`.
    #[inline]
    fn waits_for_sender(&mut self, domain: &mut DomainOf<N>, id: usize) -> bool {
        if self
            .peers
            .get(id)
            .is_none_or(|conn| conn.session.rx.shared().is_empty())
        {
            return false;
        }
        let waits = self.with(domain, id, |session, cx| session.waits_for_sender(cx));
        // If the answer could not be sent, the connection may have ended.
        waits || !self.peers.contains(id)
    }

    /// Handles a ring that has no room for all queued frames.
    #[cold]
    pub(super) fn shm_full(&mut self, id: usize) {
        self.full.push(id);
        let Some(shm) = self.peers[id].link.shm_mut() else {
            return;
        };
        if self.is_armed {
            shm.set_waiting(true);
            if !matches!(shm.has_room(), Ok(false)) {
                self.end_sleep();
            }
        }
    }

    /// Retries connections whose ring may have room again.
    #[cold]
    pub(super) fn retry_full(&mut self, domain: &mut DomainOf<N>) {
        let waiting = std::mem::take(&mut self.full);
        for id in waiting {
            let Some(conn) = self.peers.get_mut(id) else {
                continue;
            };
            let Some(shm) = conn.link.shm_mut() else {
                continue;
            };
            if shm.ended && conn.session.rx.at.waits() {
                // The peer's data still waits for its receive, but operations to the peer can end now.
                self.full.push(id);
                self.transmits_end(domain, id);
                continue;
            }
            if !conn.session.tx.blocked {
                continue;
            }
            match shm.has_room() {
                Ok(false) => self.full.push(id),
                // If the other side has corrupted the ring, the read side finds it.
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

    /// Handles an event of the socket beside the memory.
    pub(super) fn doorbell_rung(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = &mut self.peers[id];
        let Link::Shm(link) = &mut conn.link else {
            return;
        };
        take_rings(link);
        if link.channel.ended {
            self.poller.expect_nothing(id);
            self.left_waiting(domain, id);
        }
        if !self.full.is_empty() {
            self.retry_full(domain);
        }
        if self
            .peers
            .get(id)
            .is_some_and(|conn| !conn.session.rx.at.waits())
        {
            self.promote_shm(id);
            self.read_shm(domain, id);
        }
    }

    /// Handles the end of a peer whose data waits for a receive. Operations to the peer fail without delay. If the data
    /// can never be complete, all operations fail.
    #[cold]
    fn left_waiting(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let Some(conn) = self.peers.get(id) else {
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
            // The held frame is a request, whose answer the peer cannot take any more.
            return self.disconnect(domain, id, Error::CONNRESET);
        }
        if !self.full.contains(&id) {
            self.full.push(id);
        }
    }

    /// Takes the records that the peer has written; returns whether there were any.
    #[inline]
    pub(super) fn read_shm(&mut self, domain: &mut DomainOf<N>, id: usize) -> bool {
        let mut any = false;
        let shm = self.peers.get(id).and_then(|conn| conn.link.shm());
        if shm.is_some_and(|shm| shm.is_past_end()) {
            self.fault(domain, id, &GARBAGE);
            return true;
        }
        let mut turns = TURNS;
        // After a record that is not a message, the next is likely not to be one either.
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
            let Some(conn) = self.peers.get_mut(id) else {
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
            let Some(conn) = self.peers.get_mut(id) else {
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

    /// Handles an empty ring after all records were taken.
    #[inline]
    fn found_empty(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = &mut self.peers[id];
        let Some(shm) = conn.link.shm_mut() else {
            return;
        };
        if shm.broken {
            return self.fault(domain, id, &GARBAGE);
        }
        // Otherwise no room has to be returned here: a peer that waits for room is notified after each quarter of a
        // lap, and never needs more than one more.
        let is_due = std::mem::take(&mut conn.session.rx.was_written) | shm.is_due();
        let wake = is_due && shm.release();
        if shm.ended {
            self.disconnect(domain, id, Error::CONNRESET);
        } else if wake {
            conn.link.ring();
        }
    }

    /// Gives frames that were reported as sent to the peer before the connection is closed; waits for room until
    /// `until`.
    pub(super) fn last_flush_to_shm(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        until: Instant,
    ) {
        loop {
            self.with(domain, id, |session, cx| session.flush_conn(cx));
            let Some(conn) = self.peers.get_mut(id) else {
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
            let left = until.saturating_duration_since(self.poller.now());
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
            let conn = &mut self.peers[id];
            conn.session.tx.blocked = false;
        }
    }
}

/// Takes the peer's doorbell rings. The peer rings once for a sleep, so a side that continues to sleep without having
/// polled arms the doorbell again. The caller has to poll the ring after this.
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
