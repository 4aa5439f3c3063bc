// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Sessions with peers that are not in the endpoint's address vector: how many are kept, and which are forgotten.
//!
//! A stranger that only greeted may have an invented address. The endpoint keeps few sessions of this kind and forgets
//! the oldest first. This costs an honest stranger nothing: its number is a hash of its address, so its first packet
//! makes the session again (`recall`). Without source addresses from the provider below that is impossible. Then the
//! endpoint keeps more of these sessions, none is forgotten before its peer had time to send, and a flood only delays
//! newcomers.
//!
//! A stranger that has proved its address keeps its session while it is in use. Beyond `MANY` sessions the endpoint
//! forgets those that were quiet for long, and beyond `MOST` any that is idle.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use super::{Port, Routes};
use crate::rxd::session::{From, GENERATION, Session};
use engine::domain_state::DomainState;
use engine::transport::Address;

/// Sessions with strangers. A session may have been proved, or inserted into the vector, since it was listed.
#[derive(Default)]
pub struct UnknownSenders {
    /// Sessions whose peers have only greeted, oldest first.
    greeted: VecDeque<usize>,
    /// Sessions whose peers have proved their addresses, in the order in which they were last checked.
    proved: VecDeque<usize>,
}

impl<A: Address> Port<A> {
    /// Makes the session of a stranger again that was answered and then forgotten. `own_id` must be the number that the
    /// hash gives its address.
    #[cold]
    pub(super) fn recall<W: Routes<A>>(
        &mut self,
        domain: &mut DomainState<A>,
        wire: &mut W,
        now: Instant,
        from: &From<A>,
        own_id: u32,
    ) -> Option<usize> {
        let addr = self.addr_of(wire, from)?;
        let is_ours = self.common.ids.is_first(now, &addr.to_bytes(), own_id);
        if !is_ours || !self.make_room_proved(domain, wire, now) {
            return None;
        }
        let id = self.session(domain, wire, now, &addr).ok()?;
        self.list_proved(id);
        self.with(domain, wire, now, id, |session, cx| {
            session.recall(cx, own_id)
        });
        Some(id)
    }

    pub(super) fn is_in_vector(&self, domain: &DomainState<A>, addr: &A) -> bool {
        let av = domain.eps[self.ep].av;
        av.and_then(|av| domain.avs[av].find(addr)).is_some()
    }

    pub(super) fn list_greeted(&mut self, id: usize) {
        self.sessions[id].is_listed = true;
        self.strangers.greeted.push_back(id);
    }

    pub(super) fn list_proved(&mut self, id: usize) {
        let session = &mut self.sessions[id];
        if !std::mem::replace(&mut session.is_listed, true) {
            self.strangers.proved.push_back(id);
        }
    }

    /// Makes room for one more session whose peer has only greeted. Returns false if there is none: the peer has to
    /// repeat its greeting later.
    pub(super) fn make_room<W: Routes<A>>(
        &mut self,
        domain: &mut DomainState<A>,
        wire: &mut W,
        now: Instant,
    ) -> bool {
        let (most, least_age) = match self.common.ids.names_places() {
            false => (GREETED, Duration::ZERO),
            true => (GREETED_BY_PLACE, ANSWER_TIME),
        };
        while self.strangers.greeted.len() >= most
            && let Some(&id) = self.strangers.greeted.front()
        {
            let session = &self.sessions[id];
            let is_proved = session.is_proved || !session.is_idle();
            let is_young = now.saturating_duration_since(session.last_contact) < least_age;
            if !is_proved && is_young && !self.is_in_vector(domain, &session.addr) {
                return false;
            }
            self.strangers.greeted.pop_front();
            self.sessions[id].is_listed = false;
            if self.is_in_vector(domain, &self.sessions[id].addr) {
                continue;
            }
            if !is_proved {
                self.forget(domain, wire, id);
            } else if self.make_room_proved(domain, wire, now) {
                self.list_proved(id);
            } else {
                self.list_greeted(id);
                return false;
            }
        }
        true
    }

    /// Makes room for one more session whose peer has proved its address, and forgets some that are not in use.
    fn make_room_proved<W: Routes<A>>(
        &mut self,
        domain: &mut DomainState<A>,
        wire: &mut W,
        now: Instant,
    ) -> bool {
        for _ in 0..CHECKS {
            let Some(id) = self.strangers.proved.pop_front() else {
                return true;
            };
            if self.is_in_vector(domain, &self.sessions[id].addr) {
                self.sessions[id].is_listed = false;
            } else if self.is_dispensable(domain, now, id) {
                // A peer of this library then drops its side of the session, too.
                self.with(domain, wire, now, id, |session, cx| session.part(cx));
                self.forget(domain, wire, id);
            } else {
                self.strangers.proved.push_back(id);
            }
        }
        self.strangers.proved.len() < MOST
    }

    /// Whether a proved session may be forgotten.
    fn is_dispensable(&self, domain: &DomainState<A>, now: Instant, id: usize) -> bool {
        let session = &self.sessions[id];
        let srx = &domain.srxs[domain.eps[self.ep].srx];
        if !session.is_idle() || srx.share_of(id as u64) > 0 {
            return false;
        }
        let count = self.strangers.proved.len() + 1;
        let is_quiet = now.saturating_duration_since(session.last_contact) > QUIET;
        is_quiet && (count > MANY || !session.is_up()) || count >= MOST
    }

    fn forget<W: Routes<A>>(&mut self, domain: &mut DomainState<A>, wire: &mut W, id: usize) {
        let mut session: Session<A> = self.sessions.remove(id);
        session.stop_greeting(&mut self.common);
        self.by_addr.remove(&session.addr);
        domain.session_removed(self.ep, &session.addr);
        self.by_route.remove(&session.route);
        wire.drop_route(session.route);
    }
}

/// Most sessions whose peers have only greeted.
const GREETED: usize = 256;
/// The same if the session cannot be made again from its first packet.
const GREETED_BY_PLACE: usize = 16 << 10;
/// Time that a peer has to use the answer to its greeting if its session cannot be made again.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Proved sessions (about 1 KiB each) that are kept however quiet they are.
const MANY: usize = 16 << 10;
/// Most proved sessions.
const MOST: usize = 64 << 10;
/// Proved sessions that are checked for each new one.
const CHECKS: usize = 4;
/// A session without a packet for this long is quiet. It is longer than two generations of numbers, so that the number
/// of a forgotten session is not given again.
const QUIET: Duration = GENERATION.saturating_mul(3);
