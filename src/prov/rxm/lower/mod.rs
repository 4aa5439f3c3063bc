// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The objects of the provider below: it executes the requests of sessions and yields completions and events.
//!
//! - `domain`: fabric and domain, with the limits of the provider; `link`: the endpoints of connections
//! - `posted`: receives; `wire`: the requests of sessions; `regions`: registered memory
//! - `counts`: accesses of peers to memory, from the counters of the provider below, which `tally` reads

mod counts;
mod domain;
mod link;
mod posted;
mod regions;
mod tally;
mod wire;

use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

pub use self::domain::{LowerDomain, LowerFabric};
pub use self::link::Link;
pub use self::posted::put_packet;
use self::regions::Regions;
use self::tally::{Accesses, RegionTally};
pub use self::wire::random;
use super::HEAD_SIZE;
use super::proto::HEADER;
use super::session::{Ended, FOR_ANSWERS, flight};
use abi::*;
use base::Result;
use base::info::Info;
use client::layer::{Block, Operations, Pool};
use client::{Cq, Ep, PassiveEp};
use engine::clock::Monotonic;
use engine::reactor::{Reactor, Token};

pub struct Lower {
    pub domain: LowerDomain,
    pub reactor: Reactor<Due>,
    pub ops: Operations<Flight>,
    /// Pools for incoming packets, for headers, and for copied messages.
    pub packets: Pool,
    heads: Pool,
    copies: Pool,
    pub eps: Vec<Option<Box<Endpoint>>>,
    /// The connection of each session.
    links: Vec<Link>,
    /// Sessions by the numbers of their endpoints below.
    by_link: HashMap<usize, usize>,
    /// Sessions without a receive below.
    pub dry: Vec<usize>,
    /// Endpoints below that are to be closed, with their sessions.
    closing: Vec<(Arc<Ep>, usize)>,
    /// Results of closing them.
    ended: VecDeque<Ended>,
    regions: Regions,
    /// Counters of regions, and whether any accesses of peers are counted.
    tallies: Vec<RegionTally>,
    pub is_counting: bool,
}

/// An operation below.
pub enum Flight {
    /// A receive of one connection.
    Packet { id: usize, ep: usize, arrival: u64 },
    /// A receive of a context that connections share.
    SharedPacket { ep: usize },
    /// A receive of a shared context that takes many packets.
    SharedBlock { ep: usize },
    /// An operation of a session.
    Operation(flight::Flight),
}

/// The objects of an endpoint.
pub struct Endpoint {
    pub listener: Arc<PassiveEp>,
    pub cq: Arc<Cq>,
    pub shared_rx: Option<Arc<Ep>>,
    /// Number of posted receives of the shared context, and the intended number.
    pub posted: usize,
    pub wanted: usize,
    /// Free blocks, if each receive takes many packets.
    blocks: Vec<Block>,
    /// Counters of peers' accesses to local memory.
    accesses: Accesses,
}

/// The purpose of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    Session(usize),
    /// A check for operations that wait too long.
    Look,
}

/// Kinds of descriptors.
const CQ: u32 = 1;
const EQ: u32 = 2;
const CNTR: u32 = 3;

/// Maximum of bytes that are gathered on the stack.
pub const SHORT: usize = 256;
/// Slots at most: for headers; copies.
const HEADS: usize = 1 << 20;
const COPIES: usize = 2048;
/// Bytes of copies, where slots are small.
const COPIED: usize = 32 << 20;

impl Lower {
    pub fn open(fabric: &LowerFabric, info: &Info) -> Result<Lower> {
        let domain = LowerDomain::open(fabric, info)?;
        let eager = HEADER + domain.params.eager;
        let pool = |size, access, limit| Pool::new(domain.registrar.clone(), size, access, limit);
        let most_copies = COPIES.max(COPIED / eager) + FOR_ANSWERS;
        Ok(Lower {
            ops: domain.with(|info| Ok(Operations::new(info)))?,
            packets: pool(eager, FI_RECV, usize::MAX),
            heads: pool(HEAD_SIZE, FI_SEND, HEADS),
            copies: pool(eager, FI_SEND | FI_WRITE | FI_READ, most_copies),
            reactor: Reactor::new(Monotonic)?,
            eps: Vec::new(),
            links: Vec::new(),
            by_link: HashMap::new(),
            dry: Vec::new(),
            closing: Vec::new(),
            ended: VecDeque::new(),
            regions: Regions::default(),
            tallies: Vec::new(),
            is_counting: false,
            domain,
        })
    }

    #[inline]
    pub fn endpoint(&self, ep: usize) -> Option<&Endpoint> {
        self.eps.get(ep)?.as_deref()
    }

    pub fn endpoint_mut(&mut self, ep: usize) -> Option<&mut Endpoint> {
        self.eps.get_mut(ep)?.as_deref_mut()
    }

    /// Opens the objects of an endpoint.
    pub fn open_ep(&mut self, ep: usize, info: &Info) -> Result {
        let endpoint = Endpoint {
            listener: self.domain.listener(info)?,
            cq: self.domain.queue()?,
            shared_rx: self.domain.shared_rx()?,
            posted: 0,
            wanted: self.domain.first_receives(),
            blocks: Vec::new(),
            accesses: Accesses::default(),
        };
        for fd in endpoint.cq.fds()? {
            watch(&self.reactor, fd, Token::new(CQ, ep))?;
        }
        if self.eps.len() <= ep {
            self.eps.resize_with(ep + 1, || None);
        }
        self.eps[ep] = Some(Box::new(endpoint));
        self.watch_events()
    }

    /// Closes the objects of an endpoint, whose sessions are over.
    pub fn close_ep(&mut self, ep: usize) {
        let Some(endpoint) = self.eps.get_mut(ep).and_then(Option::take) else {
            return;
        };
        if let Some(context) = endpoint.shared_rx {
            self.closing.push((context, usize::MAX));
        }
        // No later poll reads this queue.
        self.ops.read_empty(&endpoint.cq);
        self.close_ended();
    }

    /// Returns the endpoint with this listener.
    pub fn listening(&self, listener: usize) -> Option<usize> {
        let is_meant = |ep: &Option<Box<Endpoint>>| {
            ep.as_ref()
                .is_some_and(|ep| ep.listener.number() == listener)
        };
        self.eps.iter().position(is_meant)
    }

    /// The queue of events may be ready by other descriptors than before.
    pub fn watch_events(&self) -> Result {
        let mut fds = self.domain.eq.fds()?.into_iter();
        fds.try_for_each(|fd| watch(&self.reactor, fd, Token::new(EQ, 0)))
    }

    pub fn now(&self) -> Instant {
        self.reactor.now()
    }
}

/// Adds a descriptor to the set, unless it is in there already.
fn watch(reactor: &Reactor<Due>, fd: BorrowedFd<'_>, token: Token) -> Result {
    match reactor.add(fd, token, true, false) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        result => Ok(result?),
    }
}
