// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Reports of pending operations: which peer they wait for, and since when; as text and as numbers for `fi_top`. They
//! are collected under the domain lock, change nothing, and cost nothing unless requested.
//!
//! This file defines the data. `gather` collects it, `text` and `json` write it, `dump` decides when and where to.
//! `peer::stall` reports stalled peers without a request.

pub mod dump;
pub mod gather;
mod json;
pub mod late;
mod text;

use core::fmt;
use core::time::Duration;

use crate::domain_state::TxOp;
use crate::srx::Envelope;
use abi::{FI_EP_DGRAM, FI_EP_MSG, FI_EP_RDM, fi_ep_type};
use object::ops::transfer::What;
use sync::stats::EpStats;

/// The report of a domain.
pub struct DomainReport {
    pub number: u64,
    pub provider: String,
    pub name: String,
    /// None if a thread stayed inside a call for too long.
    pub endpoints: Option<Vec<EpReport>>,
}

pub struct EpReport {
    pub address: String,
    pub ep_type: u32,
    pub enabled: bool,
    pub part: Part,
    /// Operations in flight, and their limit.
    pub transmits: usize,
    pub most_transmits: usize,
    /// The statistics. Contexts of a scalable endpoint share those of the endpoint.
    pub stats: Option<EpStats>,
    pub receives: Listed<Receive>,
    pub kept: Listed<Kept>,
    pub kept_bytes: usize,
    pub peers: Vec<Peer>,
}

/// The part of an endpoint that a report covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Whole,
    /// A scalable endpoint, without its contexts.
    Scalable,
    /// A context, by its index.
    Receive(usize),
    Transmit(usize),
    /// Operations in flight of closed transmit contexts.
    Closed,
}

/// The first items of a list, and their total number.
pub struct Listed<T> {
    pub first: Vec<T>,
    pub count: usize,
}

/// Most items of each kind per endpoint in a report.
const MOST: usize = 64;

impl<T> Listed<T> {
    pub fn of(all: impl Iterator<Item = T>) -> Listed<T> {
        let mut listed = Listed {
            first: Vec::new(),
            count: 0,
        };
        all.for_each(|one| listed.add(one));
        listed
    }

    pub fn add(&mut self, one: T) {
        self.count += 1;
        if self.first.len() < MOST {
            self.first.push(one);
        }
    }
}

/// A posted receive.
pub struct Receive {
    pub tagged: bool,
    pub tag: u64,
    pub ignore: u64,
    pub len: usize,
    pub from: Option<Source>,
    /// Lower bound of the age.
    pub age: Option<Duration>,
}

/// A message that no receive has taken.
pub struct Kept {
    pub tagged: bool,
    pub tag: u64,
    pub len: u64,
    pub from: Option<Source>,
}

/// A sender: its index in the address vector, and the address there.
pub struct Source {
    pub fi_addr: u64,
    pub address: Option<String>,
}

/// A connection.
#[derive(Default)]
pub struct Peer {
    pub address: String,
    pub fi_addr: Option<u64>,
    pub state: &'static str,
    pub is_up: bool,
    pub is_opening: bool,
    pub link: &'static str,
    pub is_memory: bool,
    /// Bytes sent and received on the connection, if known.
    pub sent: Option<u64>,
    pub received: Option<u64>,
    /// A value that changes while bytes of a long transfer move in either direction.
    pub moved: u64,
    /// Failed attempts to connect, and the error of the last one.
    pub attempts: u32,
    pub last_error: Option<i32>,
    pub notes: Vec<&'static str>,
    pub waits: Vec<Wait>,
    pub waits_count: usize,
    pub oldest: Option<Duration>,
}

/// An operation that waits for a peer.
pub struct Wait {
    pub what: String,
    pub len: u64,
    pub tag: Option<u64>,
    pub stage: &'static str,
    /// Lower bound of the age.
    pub age: Option<Duration>,
}

/// Kind of a pending operation.
#[derive(Clone, Copy)]
pub enum Waiter {
    Transmit(What),
    Receive,
    /// fi_connect, or fi_accept if the peer has to prove a key.
    Connection,
}

impl fmt::Display for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Waiter::Transmit(What::Msg) => "send",
            Waiter::Transmit(What::Tagged) => "tagged send",
            Waiter::Transmit(What::Write) => "write",
            Waiter::Transmit(What::Read) => "read",
            Waiter::Transmit(What::Atomic) => "atomic operation",
            Waiter::Transmit(What::AtomicFetch) => "fetching atomic operation",
            Waiter::Receive => "receive",
            Waiter::Connection => "connection attempt",
        })
    }
}

/// The event for which an operation waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The connection, or operations posted before.
    Turn,
    /// The peer or the network must accept the bytes.
    Room,
    /// A receive of the peer.
    Match,
    /// The peer's answer.
    Answer,
    /// Bytes that the peer sends.
    Bytes,
}

impl Stage {
    pub fn words(self) -> &'static str {
        match self {
            Stage::Turn => "waits for the connection, or behind others",
            Stage::Room => "the peer does not take its bytes",
            Stage::Match => "the peer has no receive for it",
            Stage::Answer => "the peer does not answer",
            Stage::Bytes => "the peer does not send its bytes",
        }
    }
}

impl Wait {
    /// Makes the entry of an initiated operation.
    pub fn of(op: &TxOp, tag: Option<u64>, stage: Stage, age: Option<Duration>) -> Wait {
        Wait {
            what: Waiter::Transmit(op.what).to_string(),
            len: op.len as u64,
            tag: tag.filter(|_| op.what == What::Tagged),
            stage: stage.words(),
            age,
        }
    }

    /// Makes the entry of a message whose bytes have not all arrived.
    pub fn receive(envelope: &Envelope, age: Option<Duration>) -> Wait {
        Wait {
            what: Waiter::Receive.to_string(),
            len: envelope.len,
            tag: (envelope.what == What::Tagged).then_some(envelope.tag),
            stage: Stage::Bytes.words(),
            age,
        }
    }
}

impl Peer {
    pub fn add(&mut self, wait: Wait) {
        self.waits_count += 1;
        self.oldest = self.oldest.max(wait.age);
        if self.waits.len() < MOST {
            self.waits.push(wait);
        }
    }
}

/// The name of an endpoint type, as fi_info prints it.
pub fn type_name(ep_type: u32) -> &'static str {
    match fi_ep_type(ep_type) {
        FI_EP_MSG => "msg",
        FI_EP_DGRAM => "dgram",
        FI_EP_RDM => "rdm",
        _ => "of an unknown type",
    }
}
