// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What two endpoints owe each other: a state machine without I/O. Operations, packets and times go in; packets leave
//! by the wire that it is given, completions go to the domain.
//!
//! `greet` is how the two get to know each other, `send` what leaves, with `out` and `window`, `receive` what comes, in
//! its order, `incoming` and `target` what becomes of it, `loss` how it ends, and `tell` what who looks on is
//! told.
#![forbid(unsafe_code)]

mod greet;
mod incoming;
mod loss;
mod out;
mod post;
mod receive;
mod rtt;
mod send;
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
use self::receive::ReceiveState;
use self::send::SendState;
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

/// Who has sent a packet, as the wire knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    Route(u64),
    /// None that has a route.
    Stranger,
    /// The wire does not tell.
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
    pub ids: Ids,
}

/// Numbers by which peers are to call this side. Nobody can guess them.
pub struct Ids(u64);

impl Ids {
    pub fn new(seed: u64) -> Ids {
        Ids(seed)
    }

    /// For the session at this place.
    pub fn next(&mut self, place: usize) -> u32 {
        loop {
            // splitmix64
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            let id = ((z ^ z >> 31) as u32) << PLACE_BITS | place as u32;
            if id >> PLACE_BITS != 0 {
                return id;
            }
        }
    }

    /// The place that a number means.
    pub fn place(id: u32) -> usize {
        (id & ((1 << PLACE_BITS) - 1)) as usize
    }
}

const PLACE_BITS: u32 = 20;
/// Sessions of an endpoint.
pub const PLACES: usize = 1 << PLACE_BITS;

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
    /// Something came that only the peer can have sent.
    pub is_proved: bool,
}

impl<A: Address> Session<A> {
    /// `own_id` is what the peer is to call this side.
    pub fn new(
        id: usize,
        ep: usize,
        addr: A,
        route: u64,
        source: u64,
        own_id: u32,
        settings: &Settings,
    ) -> Self {
        Session {
            id,
            ep,
            addr,
            route,
            source,
            greeting: Greeting::new(own_id),
            tx: SendState::new(settings.window),
            rx: ReceiveState::default(),
            timer: None,
            is_proved: false,
        }
    }

    /// A packet of the peer that is no greeting; its number for this side was found right.
    pub fn take<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, packet: &Packet<'_>, bytes: &[u8]) {
        self.is_proved = true;
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
            self.silence(cx);
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

    /// Whether the peer can have sent a packet that came from there.
    pub fn is_from(&self, from: From) -> bool {
        match from {
            From::Route(route) => route == self.route,
            From::Stranger => false,
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
