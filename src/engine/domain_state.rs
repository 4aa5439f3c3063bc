// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The engine's state of one domain, under the domain lock.

mod coll;
mod count;
mod cq;
mod device;
pub mod peers;
mod post;
mod receive;
mod tables;
mod transmit;
mod watchers;

use std::collections::VecDeque;
use std::sync::Arc;

use slab::Slab;

use crate::av::AvTable;
use crate::cntr::Counter;
use crate::coll::Groups;
use crate::ep_state::EpState;
use crate::mr::MrTable;
use crate::peer::loss::Losses;
use crate::peer_index::PeerIndex;
use crate::report::late::LateReceives;
use crate::srx::{Outcome, Srx};
use crate::stats::Stats;
use crate::transport::Address;
use crate::trigger::Triggers;

pub use self::cq::CqState;
use self::peers::Peers;
pub use self::receive::{AdapterDone, AdapterReceive, Sender};
pub use self::transmit::TxOp;
use self::watchers::Watchers;
pub use crate::srx::MessageInfo;
use object::ops::credits::CreditHandler;
use sync::lock::Waiters;

/// The regions of a domain; a counter may be bound to each.
pub type Regions = MrTable<Arc<Counter>>;

pub struct DomainState<A> {
    pub cqs: Slab<CqState>,
    pub avs: Slab<AvTable<A>>,
    /// Number of addresses that were removed from any vector: an index that was looked up before may be another peer's.
    pub removals: u64,
    pub(crate) peer_index: PeerIndex,
    /// Endpoints, and contexts of endpoints.
    pub eps: Slab<EpState>,
    /// Receive contexts: an endpoint's own ones, and shared ones.
    pub srxs: Slab<Srx>,
    pub mrs: Regions,
    pub watchers: Watchers,
    /// Threads that wait for the lock.
    pub waiters: Waiters,
    /// The progress thread runs.
    pub auto: bool,
    /// Operations that wait for counters.
    pub triggers: Triggers,
    /// Queues that belong to other providers.
    pub peers: Peers,
    /// Groups that endpoints have joined, and their collectives.
    pub groups: Groups<A>,
    /// Sends credits to peers.
    pub credits: Option<CreditHandler>,
    outcomes: VecDeque<Outcome>,
    /// Set while operations fail because a peer was lost.
    pub losses: Losses,
    /// Counters of the endpoints that other processes can read.
    pub stats: Stats,
    pub(crate) late: LateReceives,
}

impl<A: Address> DomainState<A> {
    pub fn new(mrs: Regions) -> DomainState<A> {
        DomainState {
            cqs: Slab::new(),
            avs: Slab::new(),
            removals: 0,
            peer_index: PeerIndex::default(),
            eps: Slab::new(),
            srxs: Slab::new(),
            mrs,
            watchers: Watchers::default(),
            waiters: Waiters::default(),
            auto: false,
            triggers: Triggers::default(),
            peers: Peers::default(),
            groups: Groups::default(),
            credits: None,
            outcomes: VecDeque::new(),
            losses: Losses::default(),
            stats: Stats::default(),
            late: LateReceives::default(),
        }
    }
}
