// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The optional parts of a transport that verbs has: connections, queues in the adapter, atomics, batches.

use core::ffi::c_void;
use std::sync::Arc;

use super::super::pep::Pep;
use super::super::private;
use super::Domain;
use abi::*;
use base::info::{Info, RxAttr};
use base::{Error, Result};
use engine::address::mixed::{Addr, Format};
use engine::domain_state::DomainState;
use engine::fabric::FabricShared;
use engine::transport::{
    Addressing, Atomics, Batches, Connects, Contexts, Groups, Multicast, NewQueue, Prepares, Queues,
};
use object::ops::atomic::{Atomic, Family};
use object::ops::transfer::Rx;
use sys::verbs::Id;

impl Addressing for Domain {
    type Addr = Addr;
    type Format = Format;
}

impl Contexts for Domain {}
impl Groups for Domain {}
impl Multicast for Domain {}
impl Prepares for Domain {}

impl Connects for Domain {
    const CM_DATA_SIZE: usize = private::MOST;

    fn open_pep(
        fabric: &Arc<FabricShared<Self>>,
        info: Info,
        context: *mut c_void,
    ) -> Result<*mut fid_pep> {
        Pep::open(fabric, info, context)
    }

    fn peer(&self, ep: usize) -> Result<Vec<u8>> {
        self.check_connects()?;
        let endpoint = self.ep(ep)?;
        let peer = endpoint.id.as_ref().map(Id::peer).unwrap_or_default();
        match peer.is_empty() {
            true => Err(Error::NOTCONN),
            false => Ok(peer),
        }
    }

    fn connect(
        &mut self,
        _domain: &mut DomainState<Addr>,
        ep: usize,
        addr: Option<&[u8]>,
        param: &[u8],
    ) -> Result {
        self.check_connects()?;
        self.begin_connect(ep, addr, param)
    }

    fn accept(&mut self, _domain: &mut DomainState<Addr>, ep: usize, param: &[u8]) -> Result {
        self.check_connects()?;
        self.accept_request(ep, param)
    }

    fn shutdown(&mut self, domain: &mut DomainState<Addr>, ep: usize) -> Result {
        self.check_connects()?;
        self.flush_ep(domain, ep);
        self.disconnect(ep)
    }
}

impl Queues for Domain {
    const POSTS_RECEIVES: bool = true;
    /// Accesses of peers cannot be counted.
    const COUNTS: bool = false;

    fn open_cq(&mut self, cq: usize, new: &NewQueue) -> Result {
        self.open_queue(cq, new)
    }

    fn close_cq(&mut self, cq: usize) {
        self.close_queue(cq);
    }

    fn open_srx(&mut self, srx: usize, attr: &RxAttr) -> Result {
        self.open_shared(srx, attr)
    }

    fn close_srx(&mut self, srx: usize) {
        self.close_shared(srx);
    }

    #[inline]
    fn receive(&mut self, domain: &mut DomainState<Addr>, ep: usize, rx: &mut Rx) -> Result {
        self.post_receive(domain, ep, rx)
    }

    const CREDITS: bool = true;

    fn has_credits(&self, domain: &DomainState<Addr>, ep: usize) -> bool {
        let state = &domain.eps[ep];
        state.ep_type == FI_EP_MSG.0 && !state.shares_receives
    }

    fn enable_credits(&mut self, ep: usize, threshold: u64) {
        if let Ok(endpoint) = self.ep_mut(ep) {
            endpoint.credits.enable(threshold);
        }
    }

    fn add_credits(&mut self, ep: usize, count: u64) {
        if let Ok(endpoint) = self.ep_mut(ep) {
            endpoint.credits.add(count);
        }
    }

    #[inline]
    fn take_due_credits(&mut self, ep: usize) -> Option<u64> {
        self.ep_mut(ep).ok()?.credits.take_due()
    }

    fn keep_credits(&mut self, ep: usize, count: u64) {
        if let Ok(endpoint) = self.ep_mut(ep) {
            endpoint.credits.keep(count);
        }
    }

    fn receive_shared(&mut self, _: &mut DomainState<Addr>, srx: usize, rx: &mut Rx) -> Result {
        self.post_shared(srx, rx)
    }
}

impl Atomics for Domain {
    const ATOMIC_SIZE: usize = size_of::<u64>();

    /// The adapter adds and compares integers of 8 bytes. It writes and reads those, and floating-point numbers, as a
    /// whole. One element at a time.
    fn most_of(family: Family, datatype: fi_datatype, op: fi_op) -> usize {
        let is_word = matches!(datatype, FI_INT64 | FI_UINT64);
        let is_moved = is_word || matches!(datatype, FI_FLOAT | FI_DOUBLE);
        let fits = match (family, op) {
            (Family::Base, FI_ATOMIC_WRITE) | (Family::Fetch, FI_ATOMIC_READ) => is_moved,
            (Family::Fetch, FI_SUM) | (Family::Compare, FI_CSWAP) => is_word,
            _ => false,
        };
        match (fits, datatype) {
            (false, _) => 0,
            (true, FI_FLOAT) => size_of::<f32>(),
            (true, _) => size_of::<u64>(),
        }
    }

    fn atomic(
        &mut self,
        domain: &mut DomainState<Addr>,
        _port: usize,
        ep: usize,
        atomic: &mut Atomic<'_>,
    ) -> Result {
        self.post_atomic(domain, ep, atomic)
    }
}

impl Batches for Domain {
    #[inline]
    fn holds_back(&self) -> bool {
        !self.holding.is_empty()
    }

    #[inline]
    fn flush(&mut self, domain: &mut DomainState<Addr>) {
        for ep in self.holding.take() {
            self.flush_ep(domain, ep);
        }
    }
}
