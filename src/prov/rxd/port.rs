// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! All sessions of an endpoint, and the choice of the session that a packet belongs to. A state machine without I/O.
//!
//! A packet belongs to the session of its source address, if it carries the number that this session gave its peer. An
//! unknown peer that sends a greeting gets a session; `strangers` limits how many of those there are.

mod strangers;

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Instant;

use rustc_hash::FxBuildHasher;
use slab::Slab;

use self::strangers::UnknownSenders;
use super::proto::{Cts, MAX_NAME, Packet, Rts};
use super::session::{
    Caller, Common, Cx, From, Ids, Names, PLACES, Rtt, Senders, Session, Settings, Wire,
};
use base::{Error, Result};
use engine::domain_state::{DomainState, TxOp};
use engine::peer::pacing::{Pacing, Range};
use engine::peer::retry::Jitter;
use engine::strangers::new_source;
use engine::transport::Address;

/// Handles of the provider below for addresses.
pub trait Routes<A>: Wire {
    /// Returns the handle of this address; makes one if there is none.
    fn route(&mut self, addr: &A) -> Result<u64>;
    /// Releases a handle that `route` returned.
    fn drop_route(&mut self, route: u64);
    /// Returns the handle of an address that was reported as unreachable since the last call.
    fn take_unreachable(&mut self) -> Option<u64>;
    /// Returns the address behind a handle.
    fn addr_of(&self, route: u64) -> Option<A>;
    /// Returns the address in a name that is padded with zeros.
    fn parse_name(&self, name: &[u8; MAX_NAME]) -> Option<A>;
}

pub struct Port<A> {
    ep: usize,
    sessions: Slab<Session<A>>,
    by_addr: HashMap<A, usize>,
    by_route: HashMap<u64, usize, FxBuildHasher>,
    pub common: Common,
    strangers: UnknownSenders,
}

impl<A: Address> Port<A> {
    /// `name` is the endpoint's address in greetings.
    pub fn new(ep: usize, name: Vec<u8>, settings: Settings, mut ids: Ids) -> Port<A> {
        let seed = ids.another(&name, 0);
        Port {
            ep,
            sessions: Slab::new(),
            by_addr: HashMap::new(),
            by_route: HashMap::default(),
            common: Common {
                settings,
                name,
                acks: Vec::new(),
                is_busy: false,
                blocked: Vec::new(),
                stalled: VecDeque::new(),
                sending: Vec::new(),
                promised: 0,
                timers: BinaryHeap::new(),
                early: 0,
                answers: 0,
                has_silent: false,
                is_behind: false,
                is_thorough: false,
                ids,
                jitter: Jitter::of_seed(seed.into()),
                rtt: Rtt::default(),
                senders: Senders::default(),
                pacing: Pacing::new(GREETINGS),
            },
            strangers: UnknownSenders::default(),
        }
    }

    /// The session with this peer; a new one if there is none.
    pub fn session<W: Routes<A>>(
        &mut self,
        domain: &mut DomainState<A>,
        wire: &mut W,
        now: Instant,
        addr: &A,
    ) -> Result<usize> {
        if let Some(&id) = self.by_addr.get(addr) {
            return Ok(id);
        }
        if self.sessions.len() >= PLACES {
            return Err(Error::NOMEM);
        }
        let route = wire.route(addr)?;
        let place = self.sessions.vacant_entry();
        let id = place.key();
        let av = domain.eps[self.ep].av;
        let source = av.and_then(|av| domain.avs[av].find(addr));
        // The number is never reused: messages of a forgotten stranger may still wait for a receive.
        let source = source.unwrap_or_else(new_source);
        let own_id = self.common.ids.first(now, &addr.to_bytes(), id);
        #[rustfmt::skip]
        let names = Names { route, source, own_id };
        let settings = &self.common.settings;
        let session = Session::new(id, self.ep, addr.clone(), names, now, settings);
        place.insert(session);
        self.by_addr.insert(addr.clone(), id);
        self.by_route.insert(route, id);
        domain.session_added(self.ep, addr);
        Ok(id)
    }

    /// Calls a session.
    pub fn with<W: Wire, R>(
        &mut self,
        domain: &mut DomainState<A>,
        wire: &mut W,
        now: Instant,
        id: usize,
        call: impl FnOnce(&mut Session<A>, &mut Cx<'_, A, W>) -> R,
    ) -> Option<R> {
        let session = self.sessions.get_mut(id)?;
        let common = &mut self.common;
        #[rustfmt::skip]
        let mut cx = Cx { domain, wire, common, now };
        Some(call(session, &mut cx))
    }

    /// Takes a packet.
    pub fn take<W: Routes<A>>(
        &mut self,
        domain: &mut DomainState<A>,
        wire: &mut W,
        now: Instant,
        from: &From<A>,
        bytes: &[u8],
    ) {
        let Ok(packet) = Packet::decode(bytes) else {
            return;
        };
        let (own_id, seq) = match &packet {
            Packet::Rts(rts) => return self.take_rts(domain, wire, now, from, rts),
            Packet::Cts(cts) => return self.take_cts(domain, wire, now, from, cts),
            Packet::Ack(ack) => (ack.peer, None),
            Packet::Op(head, ..) => (head.peer, Some(head.seq)),
            Packet::Data(head, _) | Packet::Answer(head, _) | Packet::Void(head, _) => {
                (head.peer, Some(head.seq.max(1)))
            }
        };
        let known = match self.find(from, own_id) {
            None if seq == Some(0) => self.recall(domain, wire, now, from, own_id),
            known => known,
        };
        let Some(id) = known else {
            return;
        };
        match self.sessions[id].caller(own_id, seq) {
            Caller::Unknown => return,
            Caller::Known => {}
            Caller::Anew => {
                self.with(domain, wire, now, id, |session, cx| {
                    session.restart_session(cx)
                });
            }
        }
        self.with(domain, wire, now, id, |session, cx| {
            session.take(cx, &packet, bytes)
        });
    }

    /// The session of a packet that carries this number. The source address selects it; the number only confirms it.
    #[inline]
    fn find(&self, from: &From<A>, own_id: u32) -> Option<usize> {
        let id = match from {
            From::Route(route) => *self.by_route.get(route)?,
            From::UnknownSender(addr) => *self.by_addr.get(addr.as_ref()?)?,
            From::Untold => self.common.ids.place(own_id)?,
        };
        let session = self.sessions.get(id)?;
        session.is_from(from).then_some(id)
    }

    /// The address of a source, if the provider below reports it.
    fn addr_of<W: Routes<A>>(&self, wire: &W, from: &From<A>) -> Option<A> {
        match from {
            From::Route(route) => match self.by_route.get(route) {
                Some(&id) => Some(self.sessions[id].addr.clone()),
                None => wire.addr_of(*route),
            },
            From::UnknownSender(addr) => addr.clone(),
            From::Untold => None,
        }
    }

    fn take_rts<W: Routes<A>>(
        &mut self,
        domain: &mut DomainState<A>,
        wire: &mut W,
        now: Instant,
        from: &From<A>,
        rts: &Rts<'_>,
    ) {
        // The address in the greeting counts only if the source is not reported, because a sender can write any address
        // there.
        let told = self.addr_of(wire, from);
        let Some(addr) = told.or_else(|| match from {
            From::Route(_) => None,
            From::UnknownSender(_) | From::Untold => wire.parse_name(rts.name),
        }) else {
            return;
        };
        let id = match self.by_addr.get(&addr) {
            // Packets of a known peer arrive by its route.
            Some(_) if *from == From::UnknownSender(None) => return,
            Some(&id) => id,
            None => {
                let is_known = self.is_in_vector(domain, &addr);
                if !is_known && !self.make_room(domain, wire, now) {
                    return;
                }
                let Ok(id) = self.session(domain, wire, now, &addr) else {
                    return;
                };
                if !is_known {
                    self.list_greeted(id);
                }
                id
            }
        };
        self.with(domain, wire, now, id, |session, cx| {
            session.take_rts(cx, rts)
        });
    }

    fn take_cts<W: Wire>(
        &mut self,
        domain: &mut DomainState<A>,
        wire: &mut W,
        now: Instant,
        from: &From<A>,
        cts: &Cts,
    ) {
        if let Some(id) = self.find(from, cts.echo)
            && self.sessions[id].own_id() == cts.echo
        {
            self.with(domain, wire, now, id, |session, cx| {
                session.take_cts(cx, cts)
            });
        }
    }

    /// Called after packets were taken: handles deadlines, retries and acknowledgements.
    pub fn settle<W: Routes<A>>(
        &mut self,
        domain: &mut DomainState<A>,
        wire: &mut W,
        now: Instant,
    ) {
        while let Some(&Reverse((at, id))) = self.common.timers.peek()
            && at <= now
        {
            // The answer may be among the packets that were not read yet.
            if self.common.is_behind && now.saturating_duration_since(at) < BEHIND {
                break;
            }
            self.common.timers.pop();
            self.with(domain, wire, now, id, |session, cx| session.tick(cx, at));
        }
        while let Some(id) = self.common.pacing.take_next() {
            self.with(domain, wire, now, id, |session, cx| {
                session.greet_in_turn(cx)
            });
        }
        if std::mem::take(&mut self.common.has_silent) {
            self.record_unreachable(wire);
        }
        self.retry_stalled(domain, wire, now);
        for id in std::mem::take(&mut self.common.blocked) {
            self.with(domain, wire, now, id, |session, cx| session.unblock(cx));
        }
        self.acknowledge(domain, wire, now);
    }

    /// Marks sessions whose peers were reported as unreachable.
    #[cold]
    fn record_unreachable<W: Routes<A>>(&mut self, wire: &mut W) {
        while let Some(route) = wire.take_unreachable() {
            if let Some(&id) = self.by_route.get(&route) {
                self.sessions[id].silence.is_unreachable = true;
            }
        }
    }

    /// Retries packets that waited for room in queues or memory.
    pub fn retry_stalled<W: Wire>(
        &mut self,
        domain: &mut DomainState<A>,
        wire: &mut W,
        now: Instant,
    ) {
        if self.common.stalled.is_empty() {
            return;
        }
        let mut vain = 0;
        for _ in 0..self.common.stalled.len() {
            let Some(id) = self.common.stalled.pop_front() else {
                return;
            };
            if self.with(domain, wire, now, id, |session, cx| session.go_on(cx)) == Some(true) {
                self.common.stalled.push_back(id);
                vain += 1;
                if vain == VAIN && !self.common.is_thorough {
                    return;
                }
            }
        }
    }

    fn acknowledge<W: Wire>(&mut self, domain: &mut DomainState<A>, wire: &mut W, now: Instant) {
        if self.common.acks.is_empty() {
            return;
        }
        let mut acks = std::mem::take(&mut self.common.acks);
        acks.retain(|&id| {
            self.with(domain, wire, now, id, |session, cx| session.acknowledge(cx)) == Some(true)
        });
        // Sending completes nothing, so no session was added to the list meanwhile.
        self.common.acks = acks;
    }

    /// When `settle` has to be called at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        self.common.timers.peek().map(|&Reverse((at, _))| at)
    }

    /// Whether something waits for room on the wire.
    pub fn is_blocked(&self) -> bool {
        !self.common.blocked.is_empty() || !self.common.acks.is_empty()
    }

    /// Whether the peer of a session has answered.
    #[inline]
    pub fn is_up(&self, id: usize) -> bool {
        self.sessions.get(id).is_some_and(Session::is_up)
    }

    /// Whether nothing is in flight with the peer of a session.
    pub fn is_idle(&self, id: usize) -> bool {
        self.sessions.get(id).is_none_or(Session::is_idle)
    }

    /// Whether work is pending for which no packet or deadline will come.
    #[inline]
    pub fn waits(&self) -> bool {
        self.is_blocked() || !self.common.stalled.is_empty() || self.common.pacing.is_ready()
    }

    pub fn ids(&self) -> Vec<usize> {
        self.sessions.iter().map(|(id, _)| id).collect()
    }

    /// Notifies the peer of a session, once, that the endpoint is closed, and acknowledges the packets that arrived.
    /// Returns false if the wire has no room.
    pub fn part<W: Wire>(
        &mut self,
        domain: &mut DomainState<A>,
        wire: &mut W,
        now: Instant,
        id: usize,
    ) -> bool {
        let told = self.with(domain, wire, now, id, |session, cx| session.part(cx));
        told.unwrap_or(true)
    }

    /// Records in the domain that the endpoint is closed.
    pub fn end(&self, domain: &mut DomainState<A>) {
        for addr in self.by_addr.keys() {
            domain.session_removed(self.ep, addr);
        }
    }

    /// Drops all references to memory of the application, which may be freed now.
    pub fn release_memory(&mut self) {
        self.sessions
            .iter_mut()
            .for_each(|(_, session)| session.release_memory());
    }

    /// Whether a session uses this route.
    #[cfg(any(test, feature = "testing"))]
    pub fn knows(&self, route: u64) -> bool {
        self.by_route.contains_key(&route)
    }

    pub fn sessions(&self) -> impl Iterator<Item = &Session<A>> {
        self.sessions.iter().map(|(_, session)| session)
    }

    /// The address was inserted into the endpoint's vector at `index`, or removed from it: renames the source of the
    /// peer's messages.
    pub fn rename(&mut self, domain: &mut DomainState<A>, addr: &A, index: Option<u64>) {
        let Some(&id) = self.by_addr.get(addr) else {
            return;
        };
        let session = &mut self.sessions[id];
        let to = index.unwrap_or_else(new_source);
        let before = std::mem::replace(&mut session.source, to);
        match index {
            Some(_) => domain.rename_source(self.ep, before, to),
            None => {
                domain.forget_source(self.ep, before, to, addr);
                self.list_proved(id);
            }
        }
    }

    /// Removes an operation of which no packet was sent; fi_cancel(3).
    pub fn take_unsent(&mut self, ep: usize, context: usize) -> Option<TxOp> {
        let (mut at, mut found) = (0, None);
        while found.is_none()
            && let Some(&id) = self.common.sending.get(at)
        {
            if let Some(session) = self.sessions.get_mut(id)
                && session.is_sending()
            {
                found = session.take_unsent(ep, context);
                at += 1;
            } else {
                self.common.sending.swap_remove(at);
            }
        }
        let is_promised = found.as_ref().is_some_and(TxOp::is_promised);
        self.common.promised -= usize::from(is_promised);
        found
    }
}

/// Greetings that may be unanswered.
const GREETINGS: Range = Range {
    first: 32,
    least: 4,
    most: 1024,
    fast: Duration::from_millis(20),
    slow: Duration::from_millis(100),
};
/// Sessions that a poll may visit without finding room for their packets. They take turns.
const VAIN: usize = 16;
/// While there are packets that were not read, deadlines wait for so long: without an end, a peer that sends more than
/// can be read would keep all others from being sent anything again.
const BEHIND: Duration = Duration::from_secs(1);
