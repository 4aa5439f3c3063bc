// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connections between the objects of a domain. Only the handle that added an object to its table, and handles to which
//! that handle was bound, use its index.

use super::DomainState;
use crate::ep_state::EpState;

impl<A> DomainState<A> {
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
        let own = self.srxs.remove(own);
        let shared = &mut self.srxs[srx];
        shared.eps += 1;
        shared.context_bits = shared.context_bits.max(own.context_bits);
    }

    /// The endpoint that reports operations of the receive context with this index that belong to no endpoint. A shared
    /// context has no completion queue, so any endpoint that uses the context and has one reports.
    pub fn reporter(&self, srx: usize) -> Option<usize> {
        let reports = |(_, ep): &(usize, &EpState)| ep.srx == srx && ep.rx_cq.is_some();
        self.eps.iter().find(reports).map(|(ep, _)| ep)
    }
}
