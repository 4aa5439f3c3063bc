// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What tests of transports need: the state of an endpoint with one queue, as the C calls would make it.

use std::sync::Arc;

use crate::cq_ring::Ring;
use crate::domain_state::{CqState, DomainState, Regions};
use crate::ep_state::{EpState, Role};
use crate::srx::Srx;
use crate::transport::Address;
use crate::wait::Wait;
use abi::{FI_ADDR_NOTAVAIL, FI_EP_RDM, FI_WAIT_NONE};
use base::rights::KeyPolicy;
use base::{Caps, OpFlags};
use sync::stats::EpStats;

/// Numbers that look random and are the same for the same seed (splitmix64).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.draw() % n as u64) as usize
    }

    /// True once in `n` calls, on average.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// True for `n` of a thousand calls, on average.
    pub fn per_mille(&mut self, n: u32) -> bool {
        self.below(1000) < n as usize
    }
}

/// Returns the state of a domain with a completion queue and an enabled RDM endpoint, and their numbers.
pub fn domain<A: Address>(caps: Caps, tx_size: usize) -> (DomainState<A>, usize, usize) {
    domain_with_queue(caps, tx_size, 64)
}

/// The same with a completion queue of `cq_size` entries.
pub fn domain_with_queue<A: Address>(
    caps: Caps,
    tx_size: usize,
    cq_size: usize,
) -> (DomainState<A>, usize, usize) {
    let mut domain = DomainState::new(Regions::new(KeyPolicy::default()));
    let cq = domain.cqs.insert(CqState {
        ring: Ring::new(6, cq_size, false),
        wait: Arc::new(
            Wait::new(FI_WAIT_NONE, None, &[]).expect("a wait object without a descriptor"),
        ),
        signal: Default::default(),
        last_error: None,
        owner: None,
    });
    let srx = domain.srxs.insert(Srx::new());
    let ep = domain.eps.insert(EpState {
        role: Role::Endpoint,
        fid: 0,
        context: 0,
        ep_type: FI_EP_RDM.0,
        caps,
        tx_cq: Some(cq),
        rx_cq: Some(cq),
        rx_implied: OpFlags::empty(),
        cntrs: Default::default(),
        behind: None,
        av: None,
        hides_source: false,
        user_ids: false,
        eq: None,
        srx,
        shares_receives: false,
        checks_receives: false,
        ended: None,
        contexts: Vec::new(),
        more_follows: false,
        peer_number: FI_ADDR_NOTAVAIL,
        is_paused: false,
        enabled: true,
        orders_access: false,
        tx_size,
        tx_pending: 0,
        stats: EpStats::hidden(),
    });
    (domain, cq, ep)
}

/// A completion or an error entry.
#[derive(Clone, Debug)]
pub struct Completion {
    pub len: usize,
    pub data: u64,
    pub tag: u64,
    /// 0 on success.
    pub error: i32,
}

/// Reads all entries of a completion queue, each with its context.
pub fn read_queue(ring: &mut Ring) -> Vec<(usize, Completion)> {
    let mut entries: Vec<[u64; 6]> = Vec::new();
    let mut all = Vec::new();
    loop {
        entries.clear();
        let mut take = |words: &[u64]| entries.extend(words.as_chunks::<6>().0);
        let n = ring.read_into(64, &mut take, None);
        for &[context, _, len, _, data, tag] in &entries {
            let (len, error) = (len as usize, 0);
            #[rustfmt::skip]
            all.push((context as usize, Completion { len, data, tag, error }));
        }
        if n > 0 {
            continue;
        }
        let Some(failed) = ring.pop_err() else {
            return all;
        };
        let completion = Completion {
            len: failed.len,
            data: failed.data,
            tag: failed.tag,
            error: failed.err,
        };
        all.push((failed.context, completion));
    }
}
