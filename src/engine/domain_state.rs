// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What the engine keeps for one domain, under the domain's lock.
#![forbid(unsafe_code)]

mod coll;
mod count;
mod cq;
pub mod peers;
mod post;
mod receive;
mod tables;
mod transmit;

use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use slab::Slab;

use crate::engine::av::AvTable;
use crate::engine::cntr::Counter;
use crate::engine::ep_state::EpState;
use crate::engine::mr::MrTable;
use crate::engine::srx::{Outcome, Srx};
use crate::engine::stats::Stats;
use crate::engine::transport::Address;
use crate::engine::trigger::Triggers;
use crate::engine::wait::Wait;
use crate::hmem::{Host, Memory};

pub use self::cq::CqState;
use self::peers::Peers;
pub use self::receive::Sender;
pub use self::transmit::TxOp;
pub use crate::engine::srx::MessageInfo;

/// The regions of a domain; a counter may be bound to each.
pub type Regions = MrTable<Arc<Counter>>;

pub struct DomainState<A, M: Memory = Host> {
    cqs: Slab<CqState>,
    avs: Slab<AvTable<A>>,
    eps: Slab<EpState>,
    srxs: Slab<Srx<M>>,
    pub mrs: Regions,
    /// What may be parked on the transport's descriptor without saying so each time: wait objects, event queues, the
    /// progress thread. While there is none, what is ready need not show on it.
    pub watchers: usize,
    /// Wait objects among them.
    waits: usize,
    /// Wait objects that a thread is parked on, or may be without saying so.
    armed: Arc<AtomicUsize>,
    /// Other threads may wait for the lock.
    pub contended: bool,
    /// A thread of ours makes progress.
    pub auto: bool,
    /// Operations that wait for counters.
    pub triggers: Triggers<M>,
    /// Queues that other providers own.
    pub peers: Peers,
    outcomes: VecDeque<Outcome<M>>,
    /// While a peer is lost: what that does to operations.
    pub loss: Option<Loss>,
    /// What endpoints count for others to read.
    pub stats: Stats,
}

/// What the errors of operations say that fail with a peer, and how many there are.
pub struct Loss {
    pub why: Arc<CStr>,
    pub failed: usize,
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

    /// A wait object that belongs to the domain from now on.
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

    /// Whether a thread may be parked that relies on the transport's descriptor.
    pub fn may_sleep(&self) -> bool {
        // Relaxed: whoever arms does so under the lock, and has polled before.
        self.watchers > self.waits || self.armed.load(Ordering::Relaxed) > 0
    }
}
