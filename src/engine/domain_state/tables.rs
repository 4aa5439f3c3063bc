// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The objects of a domain by index. Only the handle that added an object, and handles to which that handle was bound,
//! use its index.

use super::{CqState, DomainState};
use crate::av::AvTable;
use crate::ep_state::EpState;
use crate::srx::Srx;

impl<A> DomainState<A> {
    /// An endpoint, or a context of one.
    #[inline(always)]
    pub fn ep(&self, id: usize) -> &EpState {
        &self.eps[id]
    }

    #[inline(always)]
    pub fn ep_mut(&mut self, id: usize) -> &mut EpState {
        &mut self.eps[id]
    }

    /// Binds an address vector to an endpoint, or to a context of one. If addresses contain contexts (fi_rx_addr(3)), a
    /// receive may name a context of its source, so the fast path for receives, which uses addresses unchanged, is
    /// disabled.
    pub fn bind_av(&mut self, id: usize, av: usize) {
        let table = &self.avs[av];
        let ep = &mut self.eps[id];
        ep.av = Some(av);
        ep.user_ids = table.has_user_ids();
        ep.checks_receives |= table.context_bits > 0;
        self.srxs[ep.srx].context_bits = table.context_bits;
    }

    /// Binds a shared receive context to an endpoint. All endpoints of that context share an address vector.
    pub fn bind_rx_queue(&mut self, id: usize, srx: usize) {
        let own = std::mem::replace(&mut self.eps[id].srx, srx);
        let own = self.remove_rx_queue(own);
        let shared = &mut self.srxs[srx];
        shared.eps += 1;
        shared.context_bits = shared.context_bits.max(own.context_bits);
    }

    pub fn add_ep(&mut self, ep: EpState) -> usize {
        self.eps.insert(ep)
    }

    pub fn remove_ep(&mut self, id: usize) -> EpState {
        self.eps.remove(id)
    }

    /// Like `ep`, for an endpoint that may be closed.
    #[inline(always)]
    pub fn find_ep(&self, id: usize) -> Option<&EpState> {
        self.eps.get(id)
    }

    pub fn eps(&self) -> impl Iterator<Item = (usize, &EpState)> {
        self.eps.iter()
    }

    /// The endpoint that reports operations of the receive context with this index that belong to no endpoint. A shared
    /// context has no completion queue, so any endpoint that uses the context and has one reports.
    pub fn reporter(&self, srx: usize) -> Option<usize> {
        let reports = |(_, ep): &(usize, &EpState)| ep.srx == srx && ep.rx_cq.is_some();
        self.eps.iter().find(reports).map(|(ep, _)| ep)
    }

    pub fn eps_mut(&mut self) -> impl Iterator<Item = &mut EpState> {
        self.eps.iter_mut().map(|(_, ep)| ep)
    }

    /// The receive context with this index: an endpoint's own, or a shared one.
    #[inline(always)]
    pub fn rx_queue(&self, id: usize) -> &Srx {
        &self.srxs[id]
    }

    #[inline(always)]
    pub fn rx_queue_mut(&mut self, id: usize) -> &mut Srx {
        &mut self.srxs[id]
    }

    pub fn add_rx_queue(&mut self, rx_queue: Srx) -> usize {
        self.srxs.insert(rx_queue)
    }

    pub fn remove_rx_queue(&mut self, id: usize) -> Srx {
        self.srxs.remove(id)
    }

    pub fn rx_queues(&self) -> impl Iterator<Item = &Srx> {
        self.srxs.iter().map(|(_, srx)| srx)
    }

    pub fn rx_queues_mut(&mut self) -> impl Iterator<Item = &mut Srx> {
        self.srxs.iter_mut().map(|(_, srx)| srx)
    }

    /// A completion queue.
    #[inline(always)]
    pub fn cq(&self, id: usize) -> &CqState {
        &self.cqs[id]
    }

    #[inline(always)]
    pub fn cq_mut(&mut self, id: usize) -> &mut CqState {
        &mut self.cqs[id]
    }

    pub fn add_cq(&mut self, cq: CqState) -> usize {
        self.cqs.insert(cq)
    }

    pub fn remove_cq(&mut self, id: usize) -> CqState {
        self.cqs.remove(id)
    }

    /// An address vector.
    #[inline(always)]
    pub fn av(&self, id: usize) -> &AvTable<A> {
        &self.avs[id]
    }

    #[inline(always)]
    pub fn av_mut(&mut self, id: usize) -> &mut AvTable<A> {
        &mut self.avs[id]
    }

    pub fn add_av(&mut self, av: AvTable<A>) -> usize {
        self.avs.insert(av)
    }

    pub fn remove_av(&mut self, id: usize) -> AvTable<A> {
        self.avs.remove(id)
    }
}
