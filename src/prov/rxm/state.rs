// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The state of a domain: its tables, protected by the domain lock. The other files have the operations.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

use slab::Slab;

use super::conn::Conn;
use super::endpoint::Endpoint;
use super::flight::{Asked, Fetch, Flight, Group, Parked, Send};
use super::lower::LowerDomain;
use super::tally::RegionTally;
use base::{Error, Result};
use client::layer::{Operations, Pool};
use client::{Completion, Ep, Mr};
use engine::address::ip::Addr;
use engine::domain_state::DomainState;
use engine::reactor::{Reactor, Token};
use engine::report::patience::Patience;

/// The engine's state of an rxm domain.
pub type StateOf = DomainState<Addr>;

pub struct Rxm {
    pub(super) lower: LowerDomain,
    pub(super) reactor: Reactor<Due>,
    pub(super) patience: Patience,
    /// A pending deadline of `Due::Look`.
    pub(super) next_look: Option<Instant>,
    pub(super) eps: Vec<Option<Box<Endpoint>>>,
    pub(super) conns: Slab<Conn>,
    /// Connections by the numbers of their endpoints below.
    pub(super) by_link: HashMap<usize, usize>,
    /// Number of endpoints below that were opened so far: see `Conn::arrival`.
    pub(super) links: u32,
    pub(super) pid: u32,
    pub(super) ops: Operations<Flight>,
    /// Pools for incoming packets, for headers, and for copied messages.
    pub(super) packets: Pool,
    pub(super) heads: Pool,
    pub(super) copies: Pool,
    pub(super) groups: Slab<Group>,
    pub(super) sends: Slab<Send>,
    pub(super) fetches: Slab<Fetch>,
    pub(super) parked: Slab<Parked>,
    /// Atomic operations that wait for their answers.
    pub(super) asked: Slab<Asked>,
    /// Number of the next message.
    pub(super) messages: u32,
    /// Connections with data that waits for room below, or for room in the receive queue.
    pub(super) held: Vec<usize>,
    pub(super) stalled: Vec<usize>,
    /// Connections without a receive below.
    pub(super) dry: Vec<usize>,
    pub(super) ending: Vec<Ending>,
    /// Endpoints below that are to be closed, with their connections.
    pub(super) closing: Vec<(Arc<Ep>, usize)>,
    /// Regions below by their keys.
    pub(super) regions: HashMap<u64, Arc<Mr>>,
    /// Buffer for completions.
    pub(super) batch: Vec<Completion>,
    pub(super) polls: u32,
    /// Ignore the limit on unexpected messages for this packet.
    pub(super) is_forced: bool,
    /// Whether a receive has completed in this poll, and whether the poll must nevertheless leave nothing for the next
    /// one.
    pub(super) has_matched: bool,
    pub(super) is_thorough: bool,
    /// Number of attempts to connect in progress.
    pub(super) connecting: usize,
    /// Counters of regions, and whether any accesses of peers are counted.
    pub(super) tallies: Vec<RegionTally>,
    pub(super) is_counting: bool,
}

/// A connection that has ended below. Another connection may get its index before the end is handled here, so
/// `Conn::arrival` identifies it as well.
pub struct Ending {
    pub id: usize,
    pub arrival: u64,
    pub error: Error,
}

/// The purpose of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    Conn(usize),
    /// A check for operations that wait too long.
    Look,
}

/// Kinds of descriptors.
pub const CQ: u32 = 1;
pub const EQ: u32 = 2;
pub const CNTR: u32 = 3;

/// Adds a descriptor to the set, unless it is in there already.
pub fn watch(reactor: &Reactor<Due>, fd: RawFd, token: Token) -> Result {
    match reactor.add(fd, token, true, false) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        result => Ok(result?),
    }
}
