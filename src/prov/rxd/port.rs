// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! All sessions of an endpoint, and which of them a packet belongs to. A state machine without I/O, as they are.
//!
//! A packet belongs to the session whose number it has, if it comes from where that peer is. Who greets and is not
//! known gets a session; of those that have not shown that they get the answers there is a limited number, and the
//! oldest goes first.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Instant;

use slab::Slab;

use super::proto::{Cts, Packet, Rts};
use super::session::{Caller, Common, Cx, From, Ids, PLACES, Session, Settings, Wire};
use crate::base::{Error, Result};
use crate::engine::domain_state::DomainState;
use crate::engine::strangers::source_of;
use crate::engine::transport::Address;

/// Where packets come from and go to, besides.
pub trait Routes<A>: Wire {
    /// What the wire calls this address.
    fn route(&mut self, addr: &A) -> Result<u64>;
    /// Nobody needs it any more.
    fn drop_route(&mut self, route: u64);
}

pub struct Port<A> {
    ep: usize,
    sessions: Slab<Session<A>>,
    by_addr: HashMap<A, usize>,
    by_route: HashMap<u64, usize>,
    pub common: Common,
    /// Sessions of those who have greeted, and shown nothing else. Oldest first; some may have got on since.
    strangers: VecDeque<usize>,
}

impl<A: Address> Port<A> {
    /// `name` is what peers are told as the endpoint's address.
    pub fn new(ep: usize, name: Vec<u8>, settings: Settings, seed: u64) -> Port<A> {
        Port {
            ep,
            sessions: Slab::new(),
            by_addr: HashMap::new(),
            by_route: HashMap::new(),
            common: Common {
                settings,
                name,
                acks: Vec::new(),
                is_busy: false,
                blocked: Vec::new(),
                stalled: Vec::new(),
                timers: BinaryHeap::new(),
                early: 0,
                ids: Ids::new(seed),
            },
            strangers: VecDeque::new(),
        }
    }

    /// The session with this peer; a new one if there is none.
    pub fn session<W: Routes<A>>(
        &mut self,
        domain: &DomainState<A>,
        wire: &mut W,
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
        let av = domain.ep(self.ep).av;
        let source = av.and_then(|av| domain.av(av).find(addr));
        let source = source.unwrap_or(source_of(id as u64));
        let own_id = self.common.ids.next(id);
        let settings = &self.common.settings;
        place.insert(Session::new(
            id,
            self.ep,
            addr.clone(),
            route,
            source,
            own_id,
            settings,
        ));
        self.by_addr.insert(addr.clone(), id);
        self.by_route.insert(route, id);
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

    /// A packet has come.
    pub fn take<W: Routes<A>>(
        &mut self,
        domain: &mut DomainState<A>,
        wire: &mut W,
        now: Instant,
        from: From,
        bytes: &[u8],
    ) {
        // What is no packet is nobody's.
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
        let id = Ids::place(own_id);
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        if !session.is_from(from) {
            return;
        }
        match session.caller(own_id, seq) {
            Caller::Unknown => return,
            Caller::Known => {}
            Caller::Anew => {
                self.with(domain, wire, now, id, |session, cx| session.begin_anew(cx));
            }
        }
        self.with(domain, wire, now, id, |session, cx| {
            session.take(cx, &packet, bytes)
        });
    }

    fn take_rts<W: Routes<A>>(
        &mut self,
        domain: &mut DomainState<A>,
        wire: &mut W,
        now: Instant,
        from: From,
        rts: &Rts<'_>,
    ) {
        let Some(addr) = A::from_bytes(rts.name) else {
            return;
        };
        let known = self.by_addr.get(&addr).copied();
        let claims_another = match (from, known) {
            (From::Route(route), Some(id)) => self.sessions[id].route != route,
            (From::Route(route), None) => self.by_route.contains_key(&route),
            // Who is known comes by its route.
            (From::Stranger, Some(_)) => true,
            (From::Stranger, None) | (From::Untold, _) => false,
        };
        if claims_another {
            return;
        }
        let id = match known {
            Some(id) => id,
            None => {
                self.make_room(domain, wire);
                let Ok(id) = self.session(domain, wire, &addr) else {
                    return;
                };
                self.strangers.push_back(id);
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
        from: From,
        cts: &Cts,
    ) {
        let id = Ids::place(cts.echo);
        let session = self.sessions.get(id);
        if session.is_some_and(|session| session.own_id() == cts.echo && session.is_from(from)) {
            self.with(domain, wire, now, id, |session, cx| {
                session.take_cts(cx, cts)
            });
        }
    }

    /// One more may greet.
    fn make_room<W: Routes<A>>(&mut self, domain: &mut DomainState<A>, wire: &mut W) {
        while self.strangers.len() >= MAX_STRANGERS
            && let Some(id) = self.strangers.pop_front()
        {
            let av = domain.ep(self.ep).av;
            let is_known = |addr: &A| av.and_then(|av| domain.av(av).find(addr)).is_some();
            let goes = self.sessions.get(id).is_some_and(|session| {
                !session.is_proved && session.is_idle() && !is_known(&session.addr)
            });
            if goes {
                let session = self.sessions.remove(id);
                self.by_addr.remove(&session.addr);
                self.by_route.remove(&session.route);
                wire.drop_route(session.route);
                let lists = [&mut self.common.acks, &mut self.common.blocked];
                lists
                    .into_iter()
                    .for_each(|list| list.retain(|&other| other != id));
            }
        }
    }

    /// After packets have come: deadlines, what had no room, and what is owed.
    pub fn settle<W: Wire>(&mut self, domain: &mut DomainState<A>, wire: &mut W, now: Instant) {
        while let Some(&Reverse((at, id))) = self.common.timers.peek()
            && at <= now
        {
            self.common.timers.pop();
            self.with(domain, wire, now, id, |session, cx| session.tick(cx, at));
        }
        self.retry_stalled(domain, wire, now);
        for id in std::mem::take(&mut self.common.blocked) {
            self.with(domain, wire, now, id, |session, cx| session.unblock(cx));
        }
        self.acknowledge(domain, wire, now);
    }

    /// There may be room for what has come.
    pub fn retry_stalled<W: Wire>(
        &mut self,
        domain: &mut DomainState<A>,
        wire: &mut W,
        now: Instant,
    ) {
        if self.common.stalled.is_empty() {
            return;
        }
        for id in self.common.stalled.clone() {
            self.with(domain, wire, now, id, |session, cx| session.go_on(cx));
        }
    }

    fn acknowledge<W: Wire>(&mut self, domain: &mut DomainState<A>, wire: &mut W, now: Instant) {
        if self.common.acks.is_empty() {
            return;
        }
        let mut acks = std::mem::take(&mut self.common.acks);
        acks.retain(|&id| {
            self.with(domain, wire, now, id, |session, cx| session.acknowledge(cx)) == Some(false)
        });
        // Sending completes nothing, so nobody has come meanwhile.
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

    /// Whether there is more to be done than packets and deadlines bring.
    #[inline]
    pub fn waits(&self) -> bool {
        self.is_blocked() || !self.common.stalled.is_empty()
    }

    pub fn ids(&self) -> Vec<usize> {
        self.sessions.iter().map(|(id, _)| id).collect()
    }

    /// The endpoint is closed: the peer of a session is told so, once, with what has come of it. False if the wire has
    /// no room.
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

    /// The memory of the application may be gone.
    pub fn leave_memory(&mut self) {
        self.sessions
            .iter_mut()
            .for_each(|(_, session)| session.leave_memory());
    }

    /// Whether the wire calls a peer so.
    #[cfg(test)]
    pub fn knows(&self, route: u64) -> bool {
        self.by_route.contains_key(&route)
    }

    pub fn sessions(&self) -> impl Iterator<Item = &Session<A>> {
        self.sessions.iter().map(|(_, session)| session)
    }

    /// The address has come into the endpoint's vector, or left it: matching calls the peer so from now on. Nothing:
    /// as a peer that no vector has.
    pub fn rename(&mut self, domain: &mut DomainState<A>, addr: &A, index: Option<u64>) {
        let Some(&id) = self.by_addr.get(addr) else {
            return;
        };
        let session = &mut self.sessions[id];
        let to = index.unwrap_or(source_of(id as u64));
        let before = std::mem::replace(&mut session.source, to);
        match index {
            Some(_) => domain.rename_source(self.ep, before, to),
            None => domain.forget_source(self.ep, before, to, addr),
        }
    }

    /// fi_cancel(3).
    pub fn cancel<W: Wire>(
        &mut self,
        domain: &mut DomainState<A>,
        wire: &mut W,
        now: Instant,
        ep: usize,
        context: usize,
    ) {
        for id in self.ids() {
            let found = self.with(domain, wire, now, id, |session, cx| {
                session.cancel(cx, ep, context)
            });
            if found == Some(true) {
                return;
            }
        }
    }
}

/// Those who have greeted and not shown that they get answers.
const MAX_STRANGERS: usize = 256;
