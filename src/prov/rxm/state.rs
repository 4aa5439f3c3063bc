// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What is kept for a domain: its tables, under the domain's lock. What is done stands in the other files.
#![forbid(unsafe_code)]

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
use crate::base::{Error, Result};
use crate::engine::address::ip::Addr;
use crate::engine::domain_state::DomainState;
use crate::engine::reactor::{Reactor, Token};
use crate::engine::report::patience::Patience;
use crate::ffi::client::{Completion, Ep, Mr};
use crate::ffi::layer::{Operations, Pool};

/// What the engine keeps for a domain of ours.
pub type StateOf = DomainState<Addr>;

pub struct Rxm {
    pub(super) lower: LowerDomain,
    pub(super) reactor: Reactor<Due>,
    pub(super) patience: Patience,
    /// A deadline of `Due::Look` that is to come.
    pub(super) next_look: Option<Instant>,
    pub(super) eps: Vec<Option<Box<Endpoint>>>,
    pub(super) conns: Slab<Conn>,
    /// By the numbers of their endpoints below.
    pub(super) by_link: HashMap<usize, usize>,
    /// Endpoints below that were opened so far: see `Conn::arrival`.
    pub(super) links: u32,
    pub(super) pid: u32,
    pub(super) ops: Operations<Flight>,
    /// For packets that come in; for headers; for messages that are copied.
    pub(super) packets: Pool,
    pub(super) heads: Pool,
    pub(super) copies: Pool,
    pub(super) groups: Slab<Group>,
    pub(super) sends: Slab<Send>,
    pub(super) fetches: Slab<Fetch>,
    pub(super) parked: Slab<Parked>,
    /// Atomic operations that wait for their answers.
    pub(super) asked: Slab<Asked>,
    /// What goes with the next name of a message.
    pub(super) messages: u32,
    /// Connections where something waits for room below, or for the receive queue.
    pub(super) held: Vec<usize>,
    pub(super) stalled: Vec<usize>,
    /// Connections without a receive below.
    pub(super) dry: Vec<usize>,
    pub(super) ending: Vec<Ending>,
    /// Endpoints below that are to be closed, with the connections that they were of.
    pub(super) closing: Vec<(Arc<Ep>, usize)>,
    /// Regions below by their keys.
    pub(super) regions: HashMap<u64, Arc<Mr>>,
    /// Where completions are read to.
    pub(super) batch: Vec<Completion>,
    pub(super) polls: u32,
    /// What comes is kept, whatever is kept already.
    pub(super) is_forced: bool,
    /// A receive has completed in this look; and whether nothing is left for the next one all the same.
    pub(super) has_matched: bool,
    pub(super) is_thorough: bool,
    /// How many connections are being made.
    pub(super) connecting: usize,
    /// Counters of regions, and whether accesses of peers are counted at all.
    pub(super) tallies: Vec<RegionTally>,
    pub(super) is_counting: bool,
}

/// A connection that has ended below. Others may have its place in the table before it ends here, so that it is named
/// by its `Conn::arrival`, too.
pub struct Ending {
    pub id: usize,
    pub arrival: u64,
    pub error: Error,
}

/// What a deadline is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    Conn(usize),
    /// Who lets operations wait.
    Look,
}

/// What descriptors are of.
pub const CQ: u32 = 1;
pub const EQ: u32 = 2;
pub const CNTR: u32 = 3;

/// Has a descriptor in the set; some are there already.
pub fn watch(reactor: &Reactor<Due>, fd: RawFd, token: Token) -> Result {
    match reactor.add(fd, token, true, false) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        result => Ok(result?),
    }
}
