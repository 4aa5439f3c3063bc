// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The objects of the provider below: it executes the requests of sessions and yields completions and events.
//!
//! - `domain`: fabric and domain, with the limits of the provider; `queues`: its completion queues
//! - `link`: the endpoints of connections; `posted`: receives; `wire`: the requests of sessions
//! - `regions`: registered memory
//! - `counts`: accesses of peers to memory, from the counters of the provider below, which `tally` reads

mod counts;
mod domain;
mod link;
mod posted;
mod queues;
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
use self::posted::SharedRx;
pub use self::posted::put_packet;
pub use self::queues::Queue;
use self::regions::Regions;
use self::tally::{Accesses, RegionTally};
pub use self::wire::random;
use super::HEAD_SIZE;
use super::proto::HEADER;
use super::session::{Ended, FOR_ANSWERS, flight};
use abi::*;
use base::Result;
use base::info::Info;
use client::layer::{Operations, Pool};
use client::{Ep, PassiveEp};
use engine::clock::Monotonic;
use engine::reactor::{Reactor, Token};

pub struct Lower {
    pub domain: LowerDomain,
    pub reactor: Reactor<Due>,
    pub ops: Operations<Flight>,
    /// Pools for incoming packets, for headers, and for copied messages.
    pub packets: Pool,
    /// Maximum of posted receives for single packets: their completions may use half of a queue.
    most_packets: usize,
    heads: Pool,
    copies: Pool,
    /// Completion queues: one, unless completions below may not name their connection.
    pub queues: Vec<Queue>,
    /// The receive context that all connections share, from the first connection on.
    shared_rx: Option<SharedRx>,
    eps: Vec<Option<Box<Endpoint>>>,
    /// Number of open endpoints.
    open_eps: usize,
    /// Endpoints by the numbers of their listeners.
    by_listener: HashMap<usize, usize>,
    /// The connection of each session.
    links: Vec<Link>,
    /// Sessions by the numbers of their endpoints below.
    by_link: HashMap<usize, usize>,
    /// Sessions with too few receives below.
    pub dry: VecDeque<usize>,
    /// Sessions whose peers have to get to know of posted receives.
    due: Vec<usize>,
    /// Sessions with operations that FI_MORE has deferred below.
    deferred: Vec<usize>,
    /// Endpoints below that are to be closed, with their sessions.
    closing: Vec<(Arc<Ep>, usize)>,
    /// Set if `closing` has entries that were not tried yet.
    pub is_closing: bool,
    /// Results of closing them.
    ended: VecDeque<Ended>,
    regions: Regions,
    /// Counters of regions, endpoints with counters, and whether any accesses of peers are counted.
    tallies: Vec<RegionTally>,
    counted: Vec<usize>,
    pub is_counting: bool,
}

/// An operation below.
pub enum Flight {
    /// A receive of one connection.
    Packet { id: usize, ep: usize, arrival: u64 },
    /// A receive of the context that connections share.
    SharedPacket,
    /// A receive of the shared context that takes many packets.
    SharedBlock,
    /// An operation of a session.
    Operation(flight::Flight),
}

/// The objects of an endpoint.
pub struct Endpoint {
    pub listener: Arc<PassiveEp>,
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

/// Maximum length of a packet that is copied to be sent without a completion, which is cheaper up to some kilobytes.
const MOST_INJECTED: usize = HEADER + 4096;
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
        let mut lower = Lower {
            ops: domain.with(|info| Ok(Operations::new(info)))?,
            packets: pool(eager, FI_RECV, usize::MAX),
            most_packets: usize::MAX,
            heads: pool(HEAD_SIZE, FI_SEND, HEADS),
            copies: pool(eager, FI_SEND | FI_WRITE | FI_READ, most_copies),
            reactor: Reactor::new(Monotonic)?,
            queues: Vec::new(),
            shared_rx: None,
            eps: Vec::new(),
            open_eps: 0,
            by_listener: HashMap::new(),
            links: Vec::new(),
            by_link: HashMap::new(),
            dry: VecDeque::new(),
            due: Vec::new(),
            deferred: Vec::new(),
            closing: Vec::new(),
            is_closing: false,
            ended: VecDeque::new(),
            regions: Regions::default(),
            tallies: Vec::new(),
            counted: Vec::new(),
            is_counting: false,
            domain,
        };
        lower.open_queue()?;
        Ok(lower)
    }

    /// Returns the number of open endpoints.
    pub fn open_eps(&self) -> usize {
        self.open_eps
    }

    /// Returns the number of places of endpoints, some of which may be empty.
    pub fn places(&self) -> usize {
        self.eps.len()
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
            accesses: Accesses::default(),
        };
        self.open_queue_of(ep)?;
        if self.eps.len() <= ep {
            self.eps.resize_with(ep + 1, || None);
        }
        self.by_listener.insert(endpoint.listener.number(), ep);
        self.eps[ep] = Some(Box::new(endpoint));
        self.open_eps += 1;
        self.watch_events()
    }

    /// Closes the objects of an endpoint, whose sessions are over.
    pub fn close_ep(&mut self, ep: usize) {
        let Some(endpoint) = self.eps.get_mut(ep).and_then(Option::take) else {
            return;
        };
        self.by_listener.remove(&endpoint.listener.number());
        if endpoint.accesses.has() != (false, false) {
            self.counted.retain(|&other| other != ep);
        }
        self.open_eps -= 1;
        if self.open_eps == 0
            && let Some(shared) = self.shared_rx.take()
        {
            self.closing.push((shared.context, usize::MAX));
        }
        self.close_ended();
        self.close_queue_of(ep);
    }

    /// Returns the endpoint with this listener.
    pub fn listening(&self, listener: usize) -> Option<usize> {
        self.by_listener.get(&listener).copied()
    }

    /// The queue of events may be ready by other descriptors than before. That of a built-in provider gets its last
    /// descriptor with the first passive endpoint. Another attempt to add that one would cost a search through all
    /// listeners behind it: epoll_ctl(2) looks for loops.
    fn watch_events(&self) -> Result {
        if self.domain.is_ours && self.open_eps > 1 {
            return Ok(());
        }
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
