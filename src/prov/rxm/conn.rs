// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One peer of an endpoint: the connection below, and the operations and packets that wait for it.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::flight::Post;
use super::proto::{ConnId, Message};
use abi::FI_ADDR_NOTAVAIL;
use base::Error;
use client::Ep;
use client::layer::Registrar;
use engine::address::ip::Addr;
use engine::connect_clock::ConnectClock;
use engine::srx::{Envelope, RecvOp, Slot as Kept};
use engine::strangers::new_source;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No attempt is in progress; the next operation starts one.
    Idle,
    /// This side has sent a request.
    Connecting,
    /// The peer's request was accepted.
    Accepted,
    Up,
    /// The connection has ended; only operations in flight below are still outstanding.
    Over,
}

pub struct Conn {
    pub ep: usize,
    /// Address of the peer's listener.
    pub peer: Addr,
    /// Index in the endpoint's address vector.
    pub fi_addr: u64,
    /// Source number for matching while the peer is in no address vector.
    unnamed: u64,
    pub state: State,
    pub link: Option<Arc<Ep>>,
    /// Registers memory for this connection.
    pub registrar: Option<Registrar>,
    /// Index that the peer writes into its packets: random, so that no other process can guess it.
    pub name: u32,
    /// Number by which completions below identify this connection. Each endpoint below has a different one; 0 means
    /// none.
    pub arrival: u64,
    /// Index of the connection at the peer, and the peer's process.
    pub remote: ConnId,
    /// Receives only: the second half of an endpoint's connection to itself.
    pub receive_only: bool,
    /// Time that the peer has left to accept a connection.
    pub clock: ConnectClock,
    /// Start of the current attempt, start of the next attempt, and number of failed attempts.
    pub attempt_at: Option<Instant>,
    pub retry_at: Option<Instant>,
    pub attempts: u32,
    pub last_error: Error,
    /// An operation returned -FI_EAGAIN and waits for this connection.
    pub is_wanted: bool,
    /// The connection attempt only tests whether the peer's host is alive.
    pub is_look: bool,
    /// Operations that the provider below had no room for.
    pub held: VecDeque<Post>,
    /// Packets that wait, for each `Lane`.
    pub inbox: [VecDeque<Box<[u8]>>; LANES],
    /// Bytes of those packets, for each `Lane`.
    pub waiting: [usize; LANES],
    /// Receiving from the peer is paused because too many of its packets wait.
    pub is_paused: bool,
    /// Messages that arrive in segments, by the numbers of their senders.
    pub coming: HashMap<u64, Coming>,
    /// Number of receives below that belong to this connection alone.
    pub posted: usize,
    /// Set while there are none; more are posted as soon as there is room.
    pub is_dry: bool,
}

/// Kinds of waiting packets. Packets of one kind stay in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Messages without room in the receive queue, and all packets that came before the connection was up.
    Messages,
    /// Atomic operations whose answers have no free slot.
    Atomics,
}

pub const LANES: usize = 2;

impl Lane {
    pub const ALL: [Lane; LANES] = [Lane::Messages, Lane::Atomics];
}

/// A message that arrives in segments.
pub struct Coming {
    pub sink: Sink,
    pub message: Message,
    /// Number of the next segment, and bytes received so far.
    pub number: u32,
    pub have: u64,
}

pub enum Sink {
    Recv(Box<RecvOp>, Envelope),
    /// Kept in the receive queue with this number.
    Kept(usize, Kept),
    /// The receive is gone.
    Dropped,
}

impl Conn {
    pub fn new(ep: usize, peer: Addr, fi_addr: u64) -> Conn {
        Conn {
            ep,
            peer,
            fi_addr,
            unnamed: new_source(),
            state: State::Idle,
            link: None,
            registrar: None,
            name: 0,
            arrival: 0,
            remote: ConnId::default(),
            receive_only: false,
            clock: ConnectClock::default(),
            attempt_at: None,
            retry_at: None,
            attempts: 0,
            last_error: Error::TIMEDOUT,
            is_wanted: false,
            is_look: false,
            held: VecDeque::new(),
            inbox: Default::default(),
            waiting: [0; LANES],
            is_paused: false,
            coming: HashMap::new(),
            posted: 0,
            is_dry: false,
        }
    }

    /// Returns the source number by which matching identifies the peer.
    #[inline]
    pub fn source(&self) -> u64 {
        match self.fi_addr {
            FI_ADDR_NOTAVAIL => self.unnamed,
            known => known,
        }
    }

    /// Whether packets wait.
    pub fn has_waiting(&self) -> bool {
        self.inbox.iter().any(|lane| !lane.is_empty())
    }

    /// Returns the pause before the next attempt.
    pub fn pause(&self) -> Duration {
        let pause = FIRST_PAUSE * (1 << self.attempts.min(DOUBLINGS));
        pause.min(LONGEST_PAUSE)
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const DOUBLINGS: u32 = 9;
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
