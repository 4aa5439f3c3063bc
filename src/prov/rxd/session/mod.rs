// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What two endpoints owe each other: a state machine without I/O. Operations, packets and times go in; packets leave
//! by the wire that it is given, completions go to the domain.
//!
//! `greet` is the handshake, `ids` the numbers by which peers call each other. `send` is what leaves, with `out` and
//! `window`; `receive` is what arrives, in its order, and `incoming` and `target` carry it out. `loss` ends a session,
//! and `tell` makes its snapshot for reports.
#![forbid(unsafe_code)]

mod greet;
mod ids;
mod incoming;
mod loss;
mod out;
mod post;
mod receive;
mod rtt;
pub mod send;
mod silence;
mod sink;
mod target;
mod tell;
#[cfg(test)]
pub mod tests;
pub mod window;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

pub use self::greet::Caller;
use self::greet::Greeting;
pub use self::ids::{GENERATION, Ids, PLACES};
use self::receive::ReceiveState;
use self::send::SendState;
use self::silence::Silence;
use crate::engine::domain_state::{DomainState, Sender};
use crate::engine::strangers::fi_addr_of;
use crate::engine::transport::Address;
use crate::prov::rxd::proto::{Head, Packet};

/// Brings packets to peers, and may lose them.
pub trait Wire {
    /// A packet for a peer: `write` gets `mtu` bytes, and says how many it has used. `more`: another one follows at
    /// once. False: there is no room now.
    fn send(&mut self, to: u64, more: bool, write: impl FnOnce(&mut [u8]) -> usize) -> bool;
    /// Bytes of a packet.
    fn mtu(&self) -> usize;
}

/// Source of a packet, as the provider below reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum From<A> {
    Route(u64),
    /// A source without a route, with its address if the provider below reports that.
    Stranger(Option<A>),
    /// The provider below reports no sources.
    Untold,
}

/// What the sessions of an endpoint share.
pub struct Common {
    pub settings: Settings,
    /// The address of the endpoint, as peers are told.
    pub name: Vec<u8>,
    /// Sessions that have to acknowledge something; that have something to send and found no room; that have to wait
    /// until there is room for what has come.
    pub acks: Vec<usize>,
    /// Packets have come just now.
    pub is_busy: bool,
    pub blocked: Vec<usize>,
    pub stalled: Vec<usize>,
    /// Those that are no longer right are skipped when they come up.
    pub timers: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Packets that came out of their order, of all sessions.
    pub early: usize,
    /// Bytes that answers of all sessions take, until their peers acknowledge them.
    pub answers: usize,
    /// A peer let a timeout pass: reports about unreachable peers are read.
    pub has_silent: bool,
    pub ids: Ids,
}

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Packets that may be under way to a peer, and that a peer may have under way.
    pub window: u32,
    /// Packets are sent again.
    pub retry: bool,
    /// Bytes that messages without a receive may take.
    pub saved: usize,
    /// What only this library knows is said to peers. A test may do without.
    pub extended: bool,
}

/// What is around a session during a call.
pub struct Cx<'a, A: Address, W> {
    pub domain: &'a mut DomainState<A>,
    pub wire: &'a mut W,
    pub common: &'a mut Common,
    pub now: Instant,
}

pub struct Session<A> {
    /// By which the endpoint's table knows it, and the endpoint.
    pub id: usize,
    pub ep: usize,
    pub addr: A,
    /// What the wire calls the peer, and what matching does.
    pub route: u64,
    pub source: u64,
    greeting: Greeting,
    tx: SendState,
    rx: ReceiveState,
    /// The deadline that stands in the list of all.
    timer: Option<Instant>,
    /// A packet arrived that carries a number only the peer can know.
    pub is_proved: bool,
    /// Time of the last packet of the peer, greetings included.
    pub last_contact: Instant,
    pub silence: Silence,
    /// The session is in one of the endpoint's lists of strangers.
    pub is_listed: bool,
}

/// Numbers that a session begins with.
pub struct Names {
    /// The peer at the provider below.
    pub route: u64,
    /// The peer in matching.
    pub source: u64,
    /// This side in packets of the peer.
    pub own_id: u32,
}

impl<A: Address> Session<A> {
    pub fn new(
        id: usize,
        ep: usize,
        addr: A,
        names: Names,
        now: Instant,
        settings: &Settings,
    ) -> Self {
        Session {
            id,
            ep,
            addr,
            route: names.route,
            source: names.source,
            greeting: Greeting::new(names.own_id),
            tx: SendState::new(settings.window),
            rx: ReceiveState::default(),
            timer: None,
            is_proved: false,
            last_contact: now,
            silence: Silence::default(),
            is_listed: false,
        }
    }

    /// A packet of the peer that is no greeting; its number for this side was found right.
    pub fn take<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, packet: &Packet<'_>, bytes: &[u8]) {
        self.is_proved = true;
        self.last_contact = cx.now;
        self.silence = Silence::default();
        self.rx.heard = Some(cx.now);
        match packet {
            Packet::Rts(_) | Packet::Cts(_) => {}
            Packet::Ack(ack) => self.take_ack(cx, ack),
            Packet::Op(head, ..)
            | Packet::Data(head, _)
            | Packet::Answer(head, _)
            | Packet::Void(head, _) => self.take_numbered(cx, *head, packet, bytes),
        }
        self.arm(cx);
    }

    /// A deadline has come.
    pub fn tick<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, at: Instant) {
        if self.timer != Some(at) {
            return;
        }
        self.timer = None;
        let now = cx.now;
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        if is_due(self.greeting.deadline()) {
            self.greet_again(cx);
        }
        if is_due(self.send_deadline()) {
            self.unanswered(cx);
        }
        if is_due(self.probe_deadline()) {
            self.probe(cx);
        }
        self.arm(cx);
    }

    /// Has the next deadline come up.
    pub fn arm<W>(&mut self, cx: &mut Cx<'_, A, W>) {
        let all = [
            self.greeting.deadline(),
            self.send_deadline(),
            self.probe_deadline(),
        ];
        let Some(next) = all.into_iter().flatten().min() else {
            return;
        };
        if self.timer.is_none_or(|timer| next < timer) {
            self.timer = Some(next);
            cx.common.timers.push(Reverse((next, self.id)));
        }
    }

    /// Whether the peer can have sent a packet with this source.
    pub fn is_from(&self, from: &From<A>) -> bool {
        match from {
            From::Route(route) => *route == self.route,
            // The packet arrived before the peer had a route.
            From::Stranger(addr) => addr.as_ref() == Some(&self.addr),
            From::Untold => true,
        }
    }

    fn head(&self, seq: u64) -> Head {
        Head {
            peer: self.greeting.peer_id(),
            seq,
        }
    }

    fn sender(&self) -> Sender<'_, A> {
        Sender {
            fi_addr: fi_addr_of(self.source),
            addr: Some(&self.addr),
        }
    }

    /// Nothing was ever acknowledged, nor has anything come.
    fn is_untouched(&self) -> bool {
        self.tx.window.acked() == 0 && self.rx.next == 0
    }

    /// Nothing is under way in either direction.
    pub fn is_idle(&self) -> bool {
        self.tx.is_empty() && self.rx.is_empty()
    }
}
