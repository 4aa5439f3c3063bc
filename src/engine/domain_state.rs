// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The engine's state of one domain, under the domain lock.

mod coll;
mod count;
mod cq;
pub mod peers;
mod post;
mod receive;
mod tables;
mod transmit;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use slab::Slab;

use crate::av::AvTable;
use crate::cntr::Counter;
use crate::ep_state::EpState;
use crate::mr::MrTable;
use crate::peer::loss::Loss;
use crate::srx::{Outcome, Srx};
use crate::stats::Stats;
use crate::transport::Address;
use crate::trigger::Triggers;
use crate::wait::Wait;
use hmem::{Host, Memory};

pub use self::cq::CqState;
use self::peers::Peers;
pub use self::receive::Sender;
pub use self::transmit::TxOp;
pub use crate::srx::MessageInfo;

/// The regions of a domain; a counter may be bound to each.
pub type Regions = MrTable<Arc<Counter>>;

pub struct DomainState<A, M: Memory = Host> {
    cqs: Slab<CqState>,
    avs: Slab<AvTable<A>>,
    eps: Slab<EpState>,
    srxs: Slab<Srx<M>>,
    pub mrs: Regions,
    /// Objects on which a thread may block at any time without notice: wait objects, event queues, the progress thread.
    /// While there is none, the transport's descriptor need not become readable.
    pub watchers: usize,
    /// Number of wait objects in `watchers`.
    waits: usize,
    /// Wait objects on which a thread blocks, or may block without notice.
    armed: Arc<AtomicUsize>,
    /// Other threads may compete for the lock.
    pub contended: bool,
    /// The progress thread runs.
    pub auto: bool,
    /// Operations that wait for counters.
    pub triggers: Triggers<M>,
    /// Queues that belong to other providers.
    pub peers: Peers,
    outcomes: VecDeque<Outcome<M>>,
    /// Set while operations fail because a peer was lost.
    pub(crate) loss: Option<Loss>,
    /// Counters of the endpoints that other processes can read.
    pub stats: Stats,
}

impl<A: Address, M: Memory> DomainState<A, M> {
    pub fn new(mrs: Regions) -> DomainState<A, M> {
        DomainState {
            cqs: Slab::new(),
            avs: Slab::new(),
            eps: Slab::new(),
            srxs: Slab::new(),
            mrs,
            watchers: 0,
            contended: false,
            auto: false,
            waits: 0,
            armed: Arc::default(),
            triggers: Triggers::default(),
            peers: Peers::default(),
            outcomes: VecDeque::new(),
            loss: None,
            stats: Stats::default(),
        }
    }

    /// Adds the wait object to those of the domain.
    pub fn add_wait(&mut self, wait: Wait) -> Wait {
        let sleeps = usize::from(wait.can_sleep());
        self.watchers += sleeps;
        self.waits += sleeps;
        wait.counted(self.armed.clone())
    }

    pub fn remove_wait(&mut self, can_sleep: bool) {
        self.watchers -= usize::from(can_sleep);
        self.waits -= usize::from(can_sleep);
    }

    /// Whether a thread may be blocked on the transport's descriptor.
    pub fn may_sleep(&self) -> bool {
        // Relaxed: a thread arms the wait object under the lock, after it has polled.
        self.watchers > self.waits || self.armed.load(Ordering::Relaxed) > 0
    }
}
