// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! All sessions of a domain, and their lookup. A state machine without I/O.
//!
//! `requests` decides about requests of peers to connect, `addresses` follows changes of address vectors, `contexts`
//! closes contexts of scalable endpoints.

mod addresses;
mod contexts;
mod requests;

use std::collections::HashMap;
use std::time::Instant;

use slab::Slab;

pub use self::requests::Reply;
use super::port::Port;
use super::session::flight::{Flight, Kind};
use super::session::{Cause, Common, Cx, Ended, LANES, Over, Session, State, Wire, id_of};
use super::state::StateOf;
use base::{Error, Result};
use engine::address::ip::Addr;
use engine::domain_state::TxOp;
use engine::peer::pacing::STARTS;
use engine::report::Peer;
use engine::srx::Claimed;

pub struct Sessions {
    table: Slab<Session>,
    ports: Vec<Option<Box<Port>>>,
    pub common: Common,
}

impl Sessions {
    pub fn new(common: Common) -> Sessions {
        Sessions {
            table: Slab::new(),
            ports: Vec::new(),
            common,
        }
    }

    pub fn add_port(&mut self, ep: usize) {
        if self.ports.len() <= ep {
            self.ports.resize_with(ep + 1, || None);
            self.common.waiting.resize(ep + 1, [0; LANES]);
        }
        self.ports[ep] = Some(Box::new(Port::new()));
        self.common.waiting[ep] = [0; LANES];
    }

    /// The endpoint listens at this address from now on.
    pub fn listen(&mut self, ep: usize, own: Option<Addr>) {
        if let Some(port) = self.port_mut(ep) {
            port.own = own;
        }
    }

    #[inline]
    fn port(&self, ep: usize) -> Option<&Port> {
        self.ports.get(ep)?.as_deref()
    }

    fn port_mut(&mut self, ep: usize) -> Option<&mut Port> {
        self.ports.get_mut(ep)?.as_deref_mut()
    }

    pub fn get(&self, id: usize) -> Option<&Session> {
        self.table.get(id)
    }

    /// Whether there is a session with this index that is not over.
    pub fn is_live(&self, id: usize) -> bool {
        let session = self.table.get(id);
        session.is_some_and(|session| session.state() != State::Over)
    }

    /// Returns the indices of the sessions of an endpoint.
    pub fn ids(&self, ep: usize) -> Vec<usize> {
        self.port(ep)
            .map_or_else(Vec::new, |port| port.sessions.clone())
    }

    /// Returns the sessions of an endpoint.
    fn of_endpoint(&self, ep: usize) -> impl Iterator<Item = &Session> {
        let port = self.port(ep).into_iter();
        port.flat_map(|port| port.sessions.iter().filter_map(|&id| self.table.get(id)))
    }

    /// Returns the session of a destination, if its connection is up.
    #[inline]
    pub fn usable(&self, ep: usize, dest: u64) -> Option<usize> {
        let id = self.port(ep)?.session_of(dest)?;
        let session = self.table.get(id)?;
        session.is_up().then_some(id)
    }

    /// Returns the session of a connection below, unless the connection is over.
    #[inline]
    pub fn find(&self, arrival: u64) -> Option<&Session> {
        let session = self.table.get(id_of(arrival))?;
        let is_its = session.link().arrival() == arrival;
        (is_its && session.state() != State::Over).then_some(session)
    }

    /// Returns the session for an address of the endpoint's vector, and creates it if there is none.
    pub fn find_peer(&mut self, domain: &mut StateOf, ep: usize, dest: u64) -> Result<usize> {
        let av = domain.eps[ep].av.ok_or(Error::NOAV)?;
        let &peer = domain.avs[av].get(dest).ok_or(Error::INVAL)?;
        let known = self.port(ep).ok_or(Error::INVAL)?.by_addr.get(&peer);
        let id = match known {
            Some(&id) => id,
            None => self.add(domain, ep, peer, (dest, false)),
        };
        let port = self.ports.get_mut(ep).and_then(Option::as_deref_mut);
        let port = port.ok_or(Error::INVAL)?;
        port.assign(dest, id, self.table[id].listed_mut());
        Ok(id)
    }

    /// Adds a session. `beside`: another session with this peer exists, because the endpoint connects to itself.
    fn add(
        &mut self,
        domain: &mut StateOf,
        ep: usize,
        peer: Addr,
        (fi_addr, beside): (u64, bool),
    ) -> usize {
        domain.session_added(ep, &peer);
        let own = self.port(ep).and_then(|port| port.own);
        let entry = self.table.vacant_entry();
        let id = entry.key();
        let mut session = Session::new(id, ep, own, peer, fi_addr);
        if let Some(port) = self.ports.get_mut(ep).and_then(Option::as_deref_mut) {
            match beside {
                true => port.receive_only.push(id),
                false => drop(port.by_addr.insert(peer, id)),
            }
            session.set_place(port.sessions.len());
            port.sessions.push(id);
        }
        entry.insert(session);
        id
    }

    /// Takes the error of a failed connection to the peer, which no operation has reported.
    pub fn take_error(&mut self, ep: usize, peer: &Addr, now: Instant) -> Option<Error> {
        self.port_mut(ep)?.unreachable.take(peer, now)
    }

    /// Calls a session.
    #[inline]
    pub fn with<W: Wire, R>(
        &mut self,
        domain: &mut StateOf,
        wire: &mut W,
        id: usize,
        call: impl FnOnce(&mut Session, &mut Cx<'_, W>) -> R,
    ) -> Option<R> {
        let session = self.table.get_mut(id)?;
        let common = &mut self.common;
        #[rustfmt::skip]
        let done = call(session, &mut Cx { domain, wire, common });
        if !self.common.over.is_empty() {
            self.settle(domain, wire);
        }
        Some(done)
    }

    /// Handles a packet that came over a connection below.
    #[inline]
    pub fn arrived<W: Wire>(
        &mut self,
        domain: &mut StateOf,
        wire: &mut W,
        arrival: u64,
        bytes: &[u8],
    ) {
        self.with(domain, wire, id_of(arrival), |session, cx| {
            session.arrived(cx, arrival, bytes);
        });
    }

    /// Handles the completion of an operation below.
    #[inline]
    pub fn landed<W: Wire>(
        &mut self,
        domain: &mut StateOf,
        wire: &mut W,
        flight: Flight,
        error: Option<Error>,
    ) {
        let Flight { id, kind } = flight;
        self.with(domain, wire, id, |session, cx| {
            session.landed(cx, kind, error);
            if let Some(error) = error {
                session.end_later(cx, error);
            }
        });
    }

    /// Handles an announced message that has matched a receive or was discarded.
    pub fn claimed<W: Wire>(&mut self, domain: &mut StateOf, wire: &mut W, claimed: Claimed) {
        let id = claimed.envelope.token as usize;
        self.with(domain, wire, id, |session, cx| session.claimed(cx, claimed));
    }

    /// Handles waiting packets of all sessions, as far as there is room.
    pub fn take_waiting<W: Wire>(&mut self, domain: &mut StateOf, wire: &mut W) {
        for id in core::mem::take(&mut self.common.stalled) {
            self.with(domain, wire, id, |session, cx| session.take_waiting(cx));
        }
    }

    /// Passes queued operations of all sessions to the wire, as far as there is room.
    pub fn send_held<W: Wire>(&mut self, domain: &mut StateOf, wire: &mut W) {
        for id in core::mem::take(&mut self.common.held) {
            self.with(domain, wire, id, |session, cx| session.send_held(cx));
        }
    }

    /// Gives peers credits for posted receives.
    pub fn give_credits<W: Wire>(&mut self, domain: &mut StateOf, wire: &mut W) {
        while let Some((id, count)) = wire.take_due_credits() {
            self.with(domain, wire, id, |session, cx| {
                session.give_credits(cx, count)
            });
        }
    }

    /// Closes an endpoint: posted operations are dropped silently, as fi_endpoint(3) requires for fi_close.
    pub fn close_port<W: Wire>(&mut self, domain: &mut StateOf, wire: &mut W, ep: usize) {
        for id in self.ids(ep) {
            self.with(domain, wire, id, |session, cx| session.drop_all(cx));
        }
        if let Some(port) = self.ports.get_mut(ep) {
            *port = None;
        }
    }

    /// Removes sessions that have ended from the tables.
    #[cold]
    fn settle<W: Wire>(&mut self, domain: &mut StateOf, wire: &mut W) {
        let all = core::mem::take(&mut self.common.over);
        for Over { id, cause } in &all {
            match *cause {
                Cause::Lost => self.keep_source(domain, *id),
                Cause::Unreachable(Some((error, now))) => {
                    let link = self.table[*id].link();
                    let (ep, peer) = (link.ep(), *link.peer());
                    let limit = self.common.settings.conn_timeout;
                    if let Some(port) = self.port_mut(ep) {
                        port.unreachable.insert(peer, error, now, limit);
                    }
                }
                Cause::Unreachable(None) | Cause::Closed => {}
            }
            let session = &mut self.table[*id];
            let listed = core::mem::take(session.listed_mut());
            let (ep, peer) = (session.link().ep(), *session.link().peer());
            domain.session_removed(ep, &peer);
            if let Some(port) = self.port_mut(ep) {
                port.unlist(&peer, *id, listed);
            }
        }
        self.end_closed(domain, wire);
        all.iter().for_each(|over| self.retire(wire, over.id));
    }

    /// Handles the results of closing connections below.
    pub fn end_closed<W: Wire>(&mut self, domain: &mut StateOf, wire: &mut W) {
        while let Some(ended) = wire.take_ended() {
            match ended {
                Ended::Operation(Flight { id, kind }) => {
                    if let Some(session) = self.table.get_mut(id) {
                        session.ended(domain, kind, Some(Error::CONNRESET));
                    }
                }
                Ended::Closed(id) => self.retire(wire, id),
            }
        }
    }

    /// Has some sessions connect that have waited for their turn.
    pub fn take_turns<W: Wire>(&mut self, domain: &mut StateOf, wire: &mut W, now: Instant) {
        for _ in 0..STARTS {
            let Some(id) = self.common.pacing.take_next() else {
                break;
            };
            self.with(domain, wire, id, |session, cx| session.take_turn(cx, now));
        }
    }

    /// Removes a session from the table if it is over and nothing of it is left below.
    fn retire<W: Wire>(&mut self, wire: &W, id: usize) {
        let is_over = |session: &Session| session.state() == State::Over;
        if !self.table.get(id).is_some_and(is_over) || wire.is_closing(id) {
            return;
        }
        let session = self.table.remove(id);
        let (ep, at) = (session.link().ep(), session.link().place());
        let Some(port) = self.ports.get_mut(ep).and_then(Option::as_deref_mut) else {
            return;
        };
        // Another endpoint may have the index of a closed one by now.
        if port.sessions.get(at) == Some(&id) {
            port.sessions.swap_remove(at);
            if let Some(&moved) = port.sessions.get(at) {
                self.table[moved].set_place(at);
            }
        }
    }

    /// Removes an operation of which nothing was posted below; fi_cancel(3).
    pub fn take_unsent<W: Wire>(
        &mut self,
        domain: &mut StateOf,
        wire: &mut W,
        ep: usize,
        context: usize,
    ) -> Option<TxOp> {
        // Sessions whose connections are up are in this list if they have such operations.
        let held = (0..self.common.held.len()).find_map(|at| {
            let id = *self.common.held.get(at)?;
            self.with(domain, wire, id, |session, cx| {
                session.take_unsent(cx, ep, context)
            })?
        });
        if held.is_some() || self.common.deferred == 0 {
            return held;
        }
        let is_deferring = |session: &Session| session.outgoing().is_deferring();
        let deferring = self
            .table
            .iter()
            .filter(|(_, session)| is_deferring(session));
        let ids: Vec<usize> = deferring.map(|(id, _)| id).collect();
        ids.into_iter().find_map(|id| {
            self.with(domain, wire, id, |session, cx| {
                session.take_unsent(cx, ep, context)
            })?
        })
    }

    /// Whether accepted operations without a completion have not left.
    pub fn owes<W: Wire>(&self, wire: &W, ep: Option<usize>) -> bool {
        match ep {
            // Operations may belong to a context of the endpoint.
            Some(ep) => self.any_owes(wire, self.of_endpoint(ep), |session| {
                session.link().ep() == ep
            }),
            None => self.any_owes(wire, self.table.iter().map(|(_, session)| session), |_| {
                true
            }),
        }
    }

    /// Does the same for these sessions, which `is_one` recognizes.
    fn any_owes<'a, W: Wire>(
        &self,
        wire: &W,
        sessions: impl Iterator<Item = &'a Session>,
        is_one: impl Fn(&Session) -> bool,
    ) -> bool {
        let mut are_below = false;
        for session in sessions {
            if session.outgoing().owes() {
                return true;
            }
            are_below |= session.outgoing().is_below();
        }
        let is_owed = |flight: &Flight| {
            let session = self.table.get(flight.id).filter(|session| is_one(session));
            session.is_some_and(|session| session.outgoing().is_unreported_below(&flight.kind))
        };
        are_below && wire.flights().any(is_owed)
    }

    /// Describes the sessions of an endpoint for reports.
    pub fn snapshots<W: Wire>(&self, wire: &W, ep: usize, now: Instant) -> Vec<Peer> {
        let mut below: HashMap<usize, Vec<&Kind>> = HashMap::new();
        for flight in wire.flights() {
            below.entry(flight.id).or_default().push(&flight.kind);
        }
        let snapshot = |session: &Session| {
            let below = below.get(&session.link().id()).into_iter().flatten();
            let age = |stamp| self.common.stall_clock.age(stamp, now);
            session.snapshot(below.copied(), age)
        };
        self.of_endpoint(ep).map(snapshot).collect()
    }

    /// Whether no session is left.
    #[cfg(any(test, feature = "testing"))]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}
