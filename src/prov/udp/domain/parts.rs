// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The optional parts of a transport that udp has: batches, drains, groups.

use core::time::Duration;
use std::sync::Arc;

use super::super::SOURCE;
use super::super::group::{self, Group};
use super::{CLOSE_LIMIT, Domain, SOCKET};
use base::log::{Subsys, log_warn};
use base::{Caps, Error, Result};
use engine::address::ip::{Addr, Format};
use engine::domain_state::DomainState;
use engine::flusher::Held;
use engine::reactor::Token;
use engine::transport::{
    Addressing, Atomics, Batches, Connects, Contexts, Drains, Groups, Multicast, Prepares, Queues,
};

impl Addressing for Domain {
    type Addr = Addr;
    type Format = Format;
}

impl Connects for Domain {}
impl Contexts for Domain {}
impl Groups for Domain {}
impl Atomics for Domain {}

impl Prepares for Domain {}
impl Queues for Domain {}

impl Batches for Domain {
    #[inline]
    fn holds_back(&self) -> bool {
        !self.holding.is_empty()
    }

    #[inline]
    fn must_flush(&self) -> bool {
        self.is_unserved && self.holds_back()
    }

    #[inline]
    fn flush(&mut self, _domain: &mut DomainState<Addr>) {
        if !self.holding.is_empty() && !self.birth.is_here() {
            self.forget_inherited();
        }
        let eps = &mut self.eps;
        self.holding.retain(|id| {
            let ep = eps.get_mut(&id);
            ep.is_some_and(|ep| !ep.flush())
        });
        self.end_holding();
    }

    fn held_back(&self) -> Option<&Arc<Held>> {
        Some(&self.held)
    }

    fn end_holding(&self) {
        if !self.holds_back() {
            self.held.end();
        }
    }
}

impl Drains for Domain {
    fn close_limit(&self) -> Duration {
        CLOSE_LIMIT
    }

    fn owes(&self, ep: Option<usize>, _patient: bool) -> bool {
        let owes = match ep {
            Some(ep) => self.holding.contains(ep),
            None => !self.holding.is_empty(),
        };
        owes && self.birth.is_here()
    }

    fn report_lost(&self, ep: Option<usize>) {
        for (id, endpoint) in &self.eps {
            let count = endpoint.outbox.len();
            if count > 0 && ep.is_none_or(|ep| ep == *id) {
                log_warn!(
                    &SOURCE,
                    Subsys::EpData,
                    "endpoint {id}: {count} datagrams are lost, the kernel took none of them"
                );
            }
        }
    }
}

impl Multicast for Domain {
    fn join_multicast(
        &mut self,
        _domain: &mut DomainState<Addr>,
        ep: usize,
        group: &Addr,
        sides: Caps,
    ) -> Result<u64> {
        self.attach();
        let endpoint = self.eps.get_mut(&ep).ok_or(Error::INVAL)?;
        let address = group::address(self.joined);
        self.joined += 1;
        if let Some(socket) = endpoint.join(address, group, sides)? {
            // If the endpoint is paused, none of its sockets is watched.
            let is_watched = !self.paused.contains(ep);
            let token = Token::new(SOCKET, ep);
            self.reactor.add(socket, token, is_watched, false)?;
        }
        Ok(address)
    }

    fn leave_multicast(&mut self, _domain: &mut DomainState<Addr>, ep: usize, group: u64) {
        self.attach();
        let endpoint = self.eps.get_mut(&ep);
        let left = endpoint.and_then(|endpoint| endpoint.groups.remove(&group));
        if let Some(socket) = left.as_ref().and_then(Group::socket) {
            self.reactor.remove(socket);
        }
    }
}
