// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Room for connections if the process has more peers than descriptors: connections that are idle are closed, and
//! reopened when an operation needs them.
//!
//! The search for an idle connection is a clock with a second chance: it compares the bytes that a link has moved with
//! their number at the last visit, so posting and polling keep no record of the use. It runs only while descriptors are
//! scarce. The peer has to agree (`session::closing`); connections to other libraries and older versions stay.
//!
//! An attempt to connect waits while the close of a connection is pending. If no connection is idle, it uses a part of
//! the descriptors that are otherwise left to the application, and after that it waits until its time limit
//! (FI_*_CONN_TIMEOUT) is over. Connections that peers open wait in the queue of the listener; another part of these
//! descriptors is for them alone (`Free`).

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use crate::conn::{Conn, WaitsFor};
use crate::connector::{Connector, Event};
use crate::link::Link;
use crate::poller::Due;
use crate::session::State;
use crate::transport::{DomainOf, Stream, Traffic};
use abi::FI_ADDR_NOTAVAIL;
use base::Error;
use base::log::{Subsys, log_debug};
use engine::descriptors::{Free, free_descriptors, look_next, prepare_connection, would_help};
use engine::half_open::ACCEPTS;
use sync::stats::Count;

/// Time for an answer to a request to close; after that, other peers get requests.
const ROUND: Duration = Duration::from_millis(20);
/// Maximum of pending requests, and of requests in one round.
const ASKED: usize = 16;
const ASKED_IN_ROUND: usize = 64;

/// Connections that wait for a descriptor.
#[derive(Default)]
pub(super) struct Room {
    /// Connections that wait for a descriptor, in the order of their first attempt.
    waiting: VecDeque<usize>,
    /// Endpoints whose listener waits.
    listeners: Vec<usize>,
    /// Number of the connection that the search visited last.
    hand: usize,
    /// Connections of this round whose peers were asked and have not closed them.
    asked: usize,
    /// Number of peers that were asked in this round.
    asked_in_round: usize,
    /// The timer for the next round is set.
    is_armed: bool,
    /// The last of the scarce descriptors was used for a connection that a peer opened, so the next is for an attempt.
    was_accepted: bool,
    /// When a scarce descriptor was used the last time.
    moved: Option<Instant>,
}

impl Room {
    pub(super) fn is_armed(&self) -> bool {
        self.is_armed
    }

    /// Records the use of a scarce descriptor.
    fn used(&mut self, for_accept: bool, now: Instant) {
        self.was_accepted = for_accept;
        self.moved = Some(now);
    }

    /// Returns when a scarce descriptor was used the last time.
    pub(super) fn moved(&self) -> Option<Instant> {
        self.moved
    }

    /// Returns how many descriptors are waited for.
    fn wanted(&self) -> usize {
        self.waiting.len() + self.listeners.len()
    }
}

impl<N: Connector> Traffic<N> {
    /// Returns how many descriptors are free for connections.
    fn free_descriptors(&self) -> Free {
        let most = self.common.limits.connections;
        if most > 0 && self.peers.len() >= most {
            let linked = |(_, conn): &(usize, &Conn<N>)| !matches!(conn.link, Link::Down);
            if self.peers.iter().filter(linked).count() >= most {
                return Free::Reserve;
            }
        }
        free_descriptors()
    }

    /// Whether the close of all connections would leave a descriptor for another one.
    fn would_help(&self) -> bool {
        would_help(self.peers.len())
    }

    /// Whether the connection may be closed if its session is at rest.
    fn may_close(&self, conn: &Conn<N>) -> bool {
        let session = &conn.session;
        session.state == State::Up && session.closing.may_request() && !conn.receive_only
    }

    /// Asks the peer of an idle connection to agree to the close. Returns false if there is none. The first visit of a
    /// connection that was used since the last one only records that.
    fn ask_idlest(&mut self, domain: &mut DomainOf<N>) -> bool {
        let end = self.peers.end();
        for _ in 0..2 * end {
            self.room.hand = (self.room.hand + 1) % end;
            let id = self.room.hand;
            let Some(conn) = self.peers.get(id) else {
                continue;
            };
            if !self.may_close(conn) || !conn.session.is_quiet() {
                continue;
            }
            let (sent, received) = conn.link.moved();
            // The lower half is enough for a comparison.
            let moved = sent.unwrap_or(0).wrapping_add(received.unwrap_or(0)) as u32;
            if std::mem::replace(&mut self.peers[id].moved, moved) != moved {
                continue;
            }
            let (ep, peer) = {
                let peer = &self.peers[id].session.peer;
                (peer.ep, peer.addr.clone())
            };
            // Both ends of a connection to the endpoint itself are in this domain.
            let has_others = |endpoint: &crate::ep::Ep<N>| endpoint.conns_with(&peer).len() > 1;
            if self.peers.find_ep(ep).is_none_or(has_others) {
                continue;
            }
            if self.with(domain, id, |session, cx| session.request_close(cx)) {
                let source = self.common.source;
                log_debug!(
                    source,
                    Subsys::EpCtrl,
                    "{peer}: idle, asked to close the connection"
                );
                return true;
            }
        }
        false
    }

    /// Asks for as many idle connections as are waited for. Returns false if no close is pending.
    fn ask(&mut self, domain: &mut DomainOf<N>, wanted: usize) -> bool {
        while self.room.asked < wanted.min(ASKED) && self.room.asked_in_round < ASKED_IN_ROUND {
            if !self.ask_idlest(domain) {
                break;
            }
            self.room.asked += 1;
            self.room.asked_in_round += 1;
        }
        self.room.asked > 0
    }

    /// Whether another attempt may use a scarce descriptor. If attempts that the peers have not answered yet took all
    /// of them, processes would wait for each other.
    fn may_attempt(&self) -> bool {
        let states = || self.peers.iter().map(|(_, conn)| conn.session.state);
        let attempts = states().filter(|state| state.is_opening()).count();
        let open = states().filter(|state| state.is_open()).count();
        attempts <= open / 2
    }

    /// Whether the next scarce descriptor is for an attempt that waits, not for a connection that a peer opens.
    fn is_turn_of_attempts(&self) -> bool {
        self.room.was_accepted && !self.room.waiting.is_empty() && self.may_attempt()
    }

    fn arm_room(&mut self) {
        if !self.room.is_armed {
            self.room.is_armed = true;
            self.poller.schedule(self.poller.now() + ROUND, Due::Room);
        }
    }
}

impl<N: Connector> Stream<N> {
    /// Whether a connection may be opened now. If not, it waits for the close of another one.
    pub(super) fn has_room_for(&mut self, domain: &mut DomainOf<N>, id: usize) -> bool {
        prepare_connection(self.traffic.common.source);
        if !N::CLOSES_IDLE || !self.traffic.peers.is_of_rdm(id) {
            return true;
        }
        // Connections that were closed for others and have new operations do not overtake those others.
        if self.traffic.room.waiting.is_empty() && self.may_connect(domain) {
            return true;
        }
        if self.traffic.peers.contains(id) {
            self.wait_for_room(id);
        }
        false
    }

    /// Whether there is a descriptor for one more connection to a peer. If not, asks for some.
    fn may_connect(&mut self, domain: &mut DomainOf<N>) -> bool {
        let wanted = self.traffic.room.wanted() + 1;
        let free = self.traffic.free_descriptors();
        let may = match free {
            Free::Ample => true,
            Free::Reserve => !self.traffic.ask(domain, wanted) && self.traffic.may_attempt(),
            Free::Accept | Free::Few => {
                if self.traffic.would_help() {
                    self.traffic.ask(domain, wanted);
                }
                free == Free::Accept && self.traffic.room.was_accepted && self.traffic.may_attempt()
            }
        };
        if may && free != Free::Ample {
            self.traffic.room.used(false, self.traffic.poller.now());
        }
        self.settle(domain);
        may
    }

    /// Has a connection wait for a descriptor.
    pub(super) fn wait_for_room(&mut self, id: usize) {
        look_next();
        let (now, limit) = (
            self.traffic.poller.now(),
            self.traffic.common.limits.connect,
        );
        let conn = &mut self.traffic.peers[id];
        conn.last_error = Some(Error::MFILE);
        conn.clock.start(now, limit);
        if let Some(deadline) = conn.clock.deadline() {
            self.traffic.poller.schedule(deadline, Due::Conn(id));
        }
        if std::mem::replace(&mut conn.waits_for, WaitsFor::Room) != WaitsFor::Room {
            self.traffic.room.waiting.push_back(id);
        }
        self.traffic.arm_room();
    }

    /// Accepts connections, or leaves them in the queue of the listener until a descriptor is free.
    pub(super) fn accept_waiting(&mut self, domain: &mut DomainOf<N>, ep: usize) {
        prepare_connection(self.traffic.common.source);
        let accepts = match N::CLOSES_IDLE {
            true => self.may_accept(domain, ep),
            false => ACCEPTS,
        };
        if accepts == 0 {
            // Peers at the other listener have a connection already, which they close afterwards.
            if let Some(listener) = self.connector.shm_listener(ep) {
                let Traffic { shm, poller, .. } = &mut self.traffic;
                for said in shm.accept_waiting(poller, listener, ep, ACCEPTS) {
                    self.connector_event(domain, Event::Hello(said));
                }
            }
            return;
        }
        self.connector_event(domain, Event::Incoming { ep, accepts });
    }

    /// Asks for an idle connection if this one, which is up now, has made descriptors scarce. Connections of peers
    /// outside the address vector end none of the others.
    pub(super) fn make_room(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = self.traffic.peers.get(id);
        if conn.is_none_or(|conn| conn.session.peer.fi_addr == FI_ADDR_NOTAVAIL) {
            return;
        }
        if N::CLOSES_IDLE
            && self.traffic.free_descriptors() != Free::Ample
            && self.traffic.would_help()
        {
            let wanted = self.traffic.room.wanted() + 1;
            self.traffic.ask(domain, wanted);
            self.settle(domain);
            self.traffic.arm_room();
        }
    }

    /// Returns how many connections the listener may accept now. If none, it waits.
    fn may_accept(&mut self, domain: &mut DomainOf<N>, ep: usize) -> usize {
        if self.traffic.room.listeners.contains(&ep) {
            return 0;
        }
        let free = self.traffic.free_descriptors();
        if free == Free::Ample {
            return ACCEPTS;
        }
        let wanted = self.traffic.room.wanted() + 1;
        // Only the request of a peer says whether it is in the address vector, so no connection is closed for one that
        // is only accepted, except with the last descriptors: see `make_room`.
        let is_blocked = free == Free::Few
            && (self.connector.handshakes() > 0 || self.traffic.ask(domain, wanted));
        self.settle(domain);
        if !is_blocked && !self.traffic.is_turn_of_attempts() {
            self.traffic.room.used(true, self.traffic.poller.now());
            return 1;
        }
        let endpoint = self.traffic.peers.find_ep(ep);
        if let Some(listener) = endpoint.and_then(|endpoint| endpoint.listener.as_ref()) {
            self.traffic.poller.remove_fd(listener);
            self.traffic.room.listeners.push(ep);
            self.traffic.arm_room();
            return 0;
        }
        ACCEPTS
    }

    /// Watches the listeners of an endpoint again.
    pub(super) fn resume_listener(&self, ep: usize) {
        let endpoint = self.traffic.peers.find_ep(ep);
        let listener = endpoint.and_then(|ep| ep.listener.as_ref());
        for listener in listener.into_iter().chain(self.connector.shm_listener(ep)) {
            // A descriptor that is already in the set stays.
            let _ = self.traffic.poller.add_listener(listener, ep);
        }
    }

    /// Begins the next round of the search.
    #[cold]
    pub(super) fn room_due(&mut self, domain: &mut DomainOf<N>) {
        self.traffic.room.is_armed = false;
        self.traffic.room.asked = 0;
        self.traffic.room.asked_in_round = 0;
        self.serve_room(domain);
    }

    /// Lets connections and listeners go on that wait for a descriptor, as far as there are some.
    fn serve_room(&mut self, domain: &mut DomainOf<N>) {
        for ep in std::mem::take(&mut self.traffic.room.listeners) {
            // If there is still no room, the next event of the listener makes it wait again.
            self.resume_listener(ep);
        }
        while let Some(id) = self.traffic.room.waiting.pop_front() {
            let conn = self.traffic.peers.get(id);
            let waits = |conn: &Conn<N>| {
                conn.waits_for == WaitsFor::Room && conn.session.state == State::Idle
            };
            if conn.is_some_and(waits) && !self.may_connect(domain) {
                self.traffic.room.waiting.push_front(id);
                break;
            }
            if let Some(conn) = self.traffic.peers.get_mut(id)
                && conn.waits_for.end(WaitsFor::Room)
                && conn.session.state == State::Idle
            {
                if conn.has_work() {
                    // A failure ends the connection, which reports it.
                    let _ = self.connect_now(domain, id);
                } else {
                    // The operation was refused because the queue was full. The next one begins anew.
                    conn.clock.reset();
                }
            }
        }
        if self.traffic.room.wanted() > 0 {
            self.traffic.arm_room();
        }
    }

    /// Closes a connection whose peer has agreed, unless its number belongs to another connection by now.
    pub(super) fn retire_agreed(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = self.traffic.peers.get(id);
        if conn.is_some_and(|conn| conn.session.closing.is_over() && !conn.session.is_over()) {
            self.retire(domain, id);
        }
    }

    /// Closes a connection after both sides have agreed. Operations that were posted meanwhile begin the next one.
    pub(super) fn retire(&mut self, domain: &mut DomainOf<N>, id: usize) {
        if self
            .traffic
            .peers
            .get(id)
            .is_none_or(|conn| !conn.session.state.is_open())
        {
            return;
        }
        // A forked child may hold the descriptor, too, so only a shutdown makes the peer see the end.
        self.traffic.peers[id].link.shutdown();
        self.traffic.lines().close(id);
        let Traffic { common, peers, .. } = &mut self.traffic;
        let conn = &mut peers[id];
        let ep = conn.session.peer.ep;
        domain.eps[ep].stats.count(Count::Disconnected);
        log_debug!(
            common.source,
            Subsys::EpCtrl,
            "{}: idle connection closed",
            conn.session.peer.addr
        );
        common.dirty.retain(|&other| other != id);
        common.stalled.remove(id);
        common.held.remove(id);
        let goes_on = conn.has_work();
        if goes_on {
            conn.renew();
        } else {
            peers.keep_source(domain, id);
            peers.remove(domain, id);
        }
        self.traffic.room.asked = self.traffic.room.asked.saturating_sub(1);
        if goes_on {
            // A failure ends the connection, which reports it.
            let _ = self.begin_connect(domain, id);
        }
        self.serve_room(domain);
    }

    /// Asks another peer, because one has not agreed.
    pub(super) fn kept_open(&mut self, domain: &mut DomainOf<N>) {
        self.traffic.room.asked = self.traffic.room.asked.saturating_sub(1);
        self.serve_room(domain);
    }

    /// Sends what waits on a connection that stays although a side had requested to close it.
    pub(super) fn reopened(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = self.traffic.peers.get(id);
        if conn.is_some_and(|conn| conn.session.state == State::Up && !conn.session.is_over()) {
            self.with(domain, id, |session, cx| {
                session.tx.send_waiting(cx, session.agreed)
            });
            self.member_up(domain, id);
        }
    }
}
