// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The protocol state between two endpoints: a state machine without I/O. Calls pass in operations, packets and times.
//! Packets leave by the `Wire` that each call passes; completions go to the domain.
//!
//! `greet` is the handshake, `ids` the numbers that peers put into their packets. `send` sends packets, with `out` and
//! `window`; `receive` puts arriving packets in order, and `incoming` and `target` process them. `loss` ends a session,
//! and `tell` makes its snapshot for reports.

mod greet;
mod ids;
mod incoming;
mod loss;
mod out;
mod post;
mod receive;
mod rtt;
pub mod send;
mod senders;
mod silence;
mod sink;
mod target;
mod tell;
#[cfg(test)]
pub mod tests;
pub mod window;

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

pub use self::greet::Caller;
use self::greet::Greeting;
pub use self::ids::{GENERATION, Ids, PLACES};
use self::receive::ReceiveState;
pub use self::rtt::Rtt;
use self::send::SendState;
pub use self::senders::Senders;
use self::silence::Silence;
use crate::rxd::proto::{Head, Packet};
use engine::domain_state::{DomainState, Sender};
use engine::peer::pacing::Pacing;
use engine::peer::retry::Jitter;
use engine::strangers::fi_addr_of;
use engine::transport::Address;

/// Sends packets to peers. Packets may get lost.
pub trait Wire {
    /// Sends a packet to a peer. `write` gets a buffer of `mtu` bytes and returns the number of bytes used. `more`:
    /// another packet follows at once. Returns false if there is no room now.
    fn send(&mut self, to: u64, more: bool, write: impl FnOnce(&mut [u8]) -> usize) -> bool;
    /// Size of a packet in bytes.
    fn mtu(&self) -> usize;
}

/// Source of a packet, as the provider below reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum From<A> {
    Route(u64),
    /// A source without a route, with its address if the provider below reports that.
    UnknownSender(Option<A>),
    /// The provider below reports no sources.
    Untold,
}

/// State that all sessions of an endpoint share.
pub struct Common {
    pub settings: Settings,
    /// The address of the endpoint, as greetings contain it.
    pub name: Vec<u8>,
    /// Sessions that may owe an acknowledgement. See also `blocked`: sessions with packets to send that found no room
    /// on the wire; `stalled`: sessions whose next received packet waits for a free resource; `sending`: sessions with
    /// operations or answers that are not acknowledged. A session stays in a list until that is looked through;
    /// `Listed` says where it is.
    pub acks: Vec<usize>,
    /// The endpoint has just received packets.
    pub is_busy: bool,
    pub blocked: Vec<usize>,
    pub stalled: VecDeque<usize>,
    pub sending: Vec<usize>,
    /// Operations in flight that the application may consider done.
    pub promised: usize,
    /// Deadlines. An entry that its session has replaced is skipped when it is due.
    pub timers: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Packets of all sessions that arrived out of order and are kept.
    pub early: usize,
    /// Bytes used by answers of all sessions until their peers acknowledge them.
    pub answers: usize,
    /// A peer did not answer within a timeout, so reports about unreachable peers are read.
    pub has_silent: bool,
    /// Packets have arrived that were not read yet.
    pub is_behind: bool,
    /// No poll may follow for a long time, so all sessions that can go on have to.
    pub is_thorough: bool,
    pub ids: Ids,
    pub jitter: Jitter,
    /// Times in which peers have answered greetings.
    pub rtt: Rtt,
    pub senders: Senders,
    pub pacing: Pacing,
}

/// The lists of `Common` that contain a session.
#[derive(Default)]
pub struct Listed {
    acks: bool,
    blocked: bool,
    stalled: bool,
    sending: bool,
    /// The session waits in `Pacing`.
    greeting: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Packets that may be in flight to a peer, and from a peer.
    pub window: u32,
    /// Lost packets are sent again.
    pub retry: bool,
    /// Most bytes of unexpected messages.
    pub saved: usize,
    /// Extensions of this library are announced to peers. Tests may turn them off.
    pub extended: bool,
}

/// The surroundings of a session during a call.
pub struct Cx<'a, A: Address, W> {
    pub domain: &'a mut DomainState<A>,
    pub wire: &'a mut W,
    pub common: &'a mut Common,
    pub now: Instant,
}

pub struct Session<A> {
    /// Index of the session in the endpoint's table, and the endpoint.
    pub id: usize,
    pub ep: usize,
    pub addr: A,
    /// Handles of the peer: `route` at the provider below, `source` in message matching.
    pub route: u64,
    pub source: u64,
    greeting: Greeting,
    tx: SendState,
    rx: ReceiveState,
    listed: Listed,
    /// The deadline of this session in `Common::timers`.
    timer: Option<Instant>,
    /// The last deadline was postponed, because it was noticed late.
    was_late: bool,
    /// The peer has proved its address: a packet arrived with a number that only the peer can know.
    pub is_proved: bool,
    /// Time of the last packet of the peer, greetings included.
    pub last_contact: Instant,
    pub silence: Silence,
    /// The session is in one of the endpoint's lists of strangers.
    pub is_listed: bool,
}

/// The initial numbers of a session.
pub struct Names {
    /// Handle of the peer at the provider below.
    pub route: u64,
    /// Source of the peer in message matching.
    pub source: u64,
    /// The number that the peer puts into its packets.
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
            tx: SendState::new(settings.window, names.own_id),
            rx: ReceiveState::default(),
            listed: Listed::default(),
            timer: None,
            was_late: false,
            is_proved: false,
            last_contact: now,
            silence: Silence::default(),
            is_listed: false,
        }
    }

    /// Handles a packet other than a greeting, after its number was found right.
    pub fn take<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, packet: &Packet<'_>, bytes: &[u8]) {
        self.is_proved = true;
        self.last_contact = cx.now;
        self.silence = Silence::default();
        self.rx.heard = Some(cx.now);
        self.was_late = false;
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

    /// Handles a deadline that has come.
    pub fn tick<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, at: Instant) {
        if self.timer != Some(at) {
            return;
        }
        self.timer = None;
        let now = cx.now;
        // If this endpoint was not polled in time, its peers on the same processors may not have been, either; and
        // there may be answers that were not read. A retransmission would delay all of them more.
        let late = now.saturating_duration_since(at);
        if late >= LATE && !std::mem::replace(&mut self.was_late, true) {
            let by = late + late.min(GRACE);
            self.greeting.postpone(by);
            self.tx.window.postpone(by);
            return self.arm(cx);
        }
        self.was_late = false;
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

    /// Registers the next deadline.
    pub fn arm<W>(&mut self, cx: &mut Cx<'_, A, W>) {
        self.tx.window.expect(&cx.common.rtt);
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
            From::UnknownSender(addr) => addr.as_ref() == Some(&self.addr),
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

    /// Whether no packet was acknowledged or received yet.
    fn is_untouched(&self) -> bool {
        self.tx.window.acked() == 0 && self.rx.next == 0
    }

    /// Whether nothing is in flight in either direction.
    pub fn is_idle(&self) -> bool {
        self.tx.is_empty() && self.rx.is_empty()
    }
}

/// A deadline that is noticed so much later is postponed, once: to as much later again, at most `GRACE`.
const LATE: Duration = Duration::from_millis(1);
const GRACE: Duration = Duration::from_millis(500);
