// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One peer of an endpoint: the connection below, and what waits for it.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::flight::Post;
use super::proto::{ConnId, Message};
use crate::abi::FI_ADDR_NOTAVAIL;
use crate::base::Error;
use crate::engine::address::ip::Addr;
use crate::engine::connect_clock::ConnectClock;
use crate::engine::srx::{Envelope, RecvOp, Slot as Kept};
use crate::engine::strangers::new_source;
use crate::ffi::client::Ep;
use crate::ffi::layer::Registrar;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is under way; the next operation connects.
    Idle,
    /// We have asked.
    Connecting,
    /// The peer has asked, and was accepted.
    Accepted,
    Up,
    /// Only what is under way below is waited for.
    Over,
}

pub struct Conn {
    pub ep: usize,
    /// Where the peer listens.
    pub peer: Addr,
    /// In the endpoint's vector.
    pub fi_addr: u64,
    /// What matching calls the peer while it is in none.
    unnamed: u64,
    pub state: State,
    pub link: Option<Arc<Ep>>,
    /// For memory that this connection uses.
    pub registrar: Option<Registrar>,
    /// Name that the peer writes into its packets: random, so that no other process guesses it.
    pub name: u32,
    /// Number by which completions below name this connection. Each endpoint below has another one; 0 without one.
    pub arrival: u64,
    /// What the peer calls the connection, and its process.
    pub remote: ConnId,
    /// Receives only: the second half of a connection to oneself.
    pub receive_only: bool,
    /// Time that the peer has left to accept a connection.
    pub clock: ConnectClock,
    /// Points in time of the attempt under way and of the next one, and attempts that have failed.
    pub attempt_at: Option<Instant>,
    pub retry_at: Option<Instant>,
    pub attempts: u32,
    pub last_error: Error,
    /// The application was told to come again.
    pub is_wanted: bool,
    /// It is only to be seen whether the peer's host is there.
    pub is_look: bool,
    /// What the provider below had no room for.
    pub held: VecDeque<Post>,
    /// Packets that wait, of each `Lane`.
    pub inbox: [VecDeque<Box<[u8]>>; LANES],
    /// Bytes that those packets take, of each `Lane`.
    pub waiting: [usize; LANES],
    /// Nothing is received from the peer because too much of what it sent waits.
    pub is_paused: bool,
    /// Messages that come in segments, by their senders' names.
    pub coming: HashMap<u64, Coming>,
    /// Receives of this connection alone that are posted below.
    pub posted: usize,
    /// There are none, and more are posted as soon as there is room.
    pub is_dry: bool,
}

/// Packets that wait keep their order among those of their kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Messages that the receive queue has no room for, and all that came before the connection was up.
    Messages,
    /// Atomic operations whose answers there are no slots for.
    Atomics,
}

pub const LANES: usize = 2;

impl Lane {
    pub const ALL: [Lane; LANES] = [Lane::Messages, Lane::Atomics];
}

/// A message that comes in segments.
pub struct Coming {
    pub sink: Sink,
    pub message: Message,
    /// The next segment, and the bytes that have come.
    pub number: u32,
    pub have: u64,
}

pub enum Sink {
    Recv(Box<RecvOp>, Envelope),
    /// In the receive queue of this number.
    Kept(usize, Kept),
    /// Its receive is gone.
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

    /// What matching calls the peer.
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

    /// How long to wait before the next attempt.
    pub fn pause(&self) -> Duration {
        let pause = FIRST_PAUSE * (1 << self.attempts.min(DOUBLINGS));
        pause.min(LONGEST_PAUSE)
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const DOUBLINGS: u32 = 9;
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
