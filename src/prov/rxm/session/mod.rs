// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The protocol state between an endpoint and one peer: a state machine without I/O. Calls pass in operations, packets,
//! connection events and times. Requests to the provider below leave by the `Wire` that each call passes; completions
//! go to the domain.
//!
//! - `link`: the two ends of the session and the connection below
//! - `connection`: attempts to connect, with `verdict` for simultaneous ones; `connecting` carries its steps out
//! - `outgoing`: operations of this side, and passing them to the wire; `operations` calls it
//! - `incoming`: messages of the peer; `packets` decodes packets and calls it, `atomic` serves atomic operations
//! - `inbox`: packets that wait
//! - `loss`: the end of the session
//! - `flight`: operations in flight below, and operations that need several below

mod atomic;
mod connecting;
mod connection;
pub mod flight;
mod inbox;
mod incoming;
mod link;
mod loss;
mod operations;
mod outgoing;
mod packets;
mod tell;
#[cfg(test)]
mod tests;
mod verdict;
mod wire;

use core::time::Duration;
use std::time::Instant;

pub use self::atomic::{MOST as MOST_ATOMIC, most_of};
use self::connection::ATTEMPTS;
use self::connection::Connection;
pub use self::connection::State;
use self::inbox::Inbox;
pub use self::inbox::LANES;
use self::incoming::Incoming;
use self::link::Link;
pub use self::loss::is_silence;
use self::outgoing::Outgoing;
pub use self::outgoing::{FOR_ANSWERS, copies_left, put_slots};
pub use self::verdict::{Known, Verdict, decide};
pub use self::wire::{Ended, Place, Posted, Wire, threshold_of};
use super::port::Listed;
use super::state::StateOf;
use base::{Error, OpFlags};
use engine::address::ip::Addr;
use engine::peer::pacing::Pacing;
use engine::peer::retry::Jitter;
use engine::peer::stall;

/// Settings of all sessions, and limits of the provider below.
#[derive(Clone, Copy)]
pub struct Settings {
    /// Maximum size of a message in one packet, and in segments.
    pub eager: usize,
    pub segmented: usize,
    /// Senders write announced messages; otherwise receivers read them.
    pub rendezvous_write: bool,
    /// Most bytes of unexpected messages.
    pub saved: usize,
    pub conn_timeout: Duration,
    /// Whether the provider below is built in, not a plug-in.
    pub is_ours: bool,
    /// Maximum of bytes that are sent without a completion.
    pub inject: usize,
    /// Maximum number of local and of remote pieces of one operation below, and its maximum length.
    pub pieces: usize,
    pub remotes: usize,
    pub longest: usize,
    /// Maximum of receives in one queue below.
    pub receives: usize,
    /// Whether local operations need registered memory.
    pub wants_local: bool,
    /// Flags of operations that are passed to operations below.
    pub flags: OpFlags,
}

/// State that all sessions of a domain share.
pub struct Common {
    pub settings: Settings,
    /// A packet that is sent without a completion is put together here: `Settings::inject` bytes.
    staging: Box<[u8]>,
    pub stall_clock: stall::Clock,
    /// Distinguishes this process from an earlier one at the same address.
    pub pid: u32,
    /// Number of endpoints below that were opened so far: see `Link::arrival`.
    links: u32,
    /// Number of the last message.
    messages: u32,
    /// Random part of the pauses between attempts to connect.
    jitter: Jitter,
    /// Number of attempts to connect in progress.
    pub connecting: usize,
    pub pacing: Pacing,
    /// Sessions with operations that wait for room below, or with packets that wait for room in the receive queue. Some
    /// may have none any more.
    pub held: Vec<usize>,
    pub stalled: Vec<usize>,
    /// Number of operations that wait for a connection.
    pub deferred: usize,
    /// Connections that have ended below. The packets that have arrived are handled before the end.
    pub ending: Vec<Ending>,
    /// Sessions that have ended, and are to be removed from the tables.
    pub over: Vec<Over>,
    /// Bytes of waiting packets of each endpoint, for each `Lane`.
    pub waiting: Vec<[usize; LANES]>,
    /// Ignore the limit on unexpected messages for this packet.
    is_forced: bool,
    /// Whether a receive has completed in this poll, and whether the poll must nevertheless leave nothing for the next
    /// one.
    pub has_matched: bool,
    pub is_thorough: bool,
}

/// A connection that has ended below. Another session may get its index before the end is handled, so
/// `Link::arrival` identifies it as well.
pub struct Ending {
    pub id: usize,
    pub arrival: u64,
    pub error: Error,
}

/// A session that has ended.
pub struct Over {
    pub id: usize,
    pub cause: Cause,
}

/// Why a session has ended.
#[derive(Clone, Copy, Debug)]
pub enum Cause {
    /// The connection is lost.
    Lost,
    /// The endpoint is closed.
    Closed,
    /// No connection came about; with the error and its time if the next operation for the peer has to report that.
    Unreachable(Option<(Error, Instant)>),
}

/// The surroundings of a session during a call.
pub struct Cx<'a, W> {
    pub domain: &'a mut StateOf,
    pub wire: &'a mut W,
    pub common: &'a mut Common,
}

pub struct Session {
    link: Link,
    connection: Connection,
    /// Packets that wait.
    inbox: Inbox,
    outgoing: Outgoing,
    incoming: Incoming,
}

impl Common {
    pub fn new(settings: Settings, stall_clock: stall::Clock, pid: u32, jitter: Jitter) -> Common {
        Common {
            settings,
            staging: vec![0; settings.inject].into(),
            stall_clock,
            pid,
            links: 0,
            messages: 0,
            jitter,
            connecting: 0,
            pacing: Pacing::new(ATTEMPTS),
            held: Vec::new(),
            stalled: Vec::new(),
            deferred: 0,
            ending: Vec::new(),
            over: Vec::new(),
            waiting: Vec::new(),
            is_forced: false,
            has_matched: false,
            is_thorough: false,
        }
    }

    /// Returns a number for the connection below of the session `id`, which no earlier connection at that index had.
    fn next_arrival(&mut self, id: usize) -> u64 {
        self.links = self.links.wrapping_add(1);
        (u64::from(self.links) & SERIAL) << INDEX | id as u64
    }

    /// Returns a number for a message that no other message in flight has.
    fn next_message(&mut self) -> u64 {
        self.messages = self.messages.wrapping_add(1);
        u64::from(self.messages)
    }
}

/// Bits of `Link::arrival` that hold the session's index in the table.
const INDEX: u32 = 32;
/// Bits that hold a serial number: no arrival equals the source number of an unknown sender.
const SERIAL: u64 = (1 << 30) - 1;

/// Returns the index of the session in a number of a connection below.
#[inline]
pub const fn id_of(arrival: u64) -> usize {
    (arrival & ((1 << INDEX) - 1)) as usize
}

impl Session {
    pub fn new(id: usize, ep: usize, own: Option<Addr>, peer: Addr, fi_addr: u64) -> Session {
        Session {
            link: Link::new(id, ep, own, peer, fi_addr),
            connection: Connection::default(),
            inbox: Inbox::default(),
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
        }
    }

    #[inline]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Moves the session to another place in `Port::sessions`.
    pub fn set_place(&mut self, place: usize) {
        self.link.set_place(place);
    }

    /// Returns which entries of `Port::peers` name the session.
    pub fn listed_mut(&mut self) -> &mut Listed {
        self.link.listed_mut()
    }

    /// Handles a change of the peer's index in the address vector.
    pub fn set_fi_addr(&mut self, fi_addr: u64) {
        self.link.set_fi_addr(fi_addr);
    }

    #[inline]
    pub fn state(&self) -> State {
        self.connection.state()
    }

    /// Whether the connection is up and no operation waits for it.
    pub fn is_ready(&self) -> bool {
        self.is_up() && !self.outgoing.is_deferring()
    }

    #[inline]
    pub fn is_up(&self) -> bool {
        self.state() == State::Up
    }
}
