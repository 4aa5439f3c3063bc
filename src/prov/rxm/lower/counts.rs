// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Counters of peers' accesses to memory. The provider below handles those accesses, so its counters count them; they
//! are bound to its regions and endpoints (fi_mr(3), FI_RMA_EVENT of fi_endpoint(3)). Progress copies their values to
//! the application's counters. Atomic operations are messages, and counted where they are carried out.

use std::sync::Arc;

use super::tally::{Accesses, RegionTally, Tally};
use super::{CNTR, Lower, watch};
use crate::rxm::state::StateOf;
use abi::*;
use base::{Error, Result};
use client::layer::with_descriptors;
use client::{AnyHandle, Cntr, CntrAttr};
use engine::cntr::Counter;
use engine::ep_state::Event;
use engine::reactor::Token;
use engine::transport::MrRegion;

impl Lower {
    fn open_tally(&self, bytes: bool) -> Result<Tally> {
        let events = match bytes {
            true => FI_CNTR_EVENTS_BYTES,
            false => FI_CNTR_EVENTS_COMP,
        };
        let below = with_descriptors(|wait_obj| {
            Cntr::open(&self.domain.domain, &CntrAttr { events, wait_obj })
        })?;
        for fd in below.fds()? {
            watch(&self.reactor, fd, Token::new(CNTR, 0))?;
        }
        Ok(Tally::new(below, bytes))
    }

    /// Binds an application counter to a region that peers access through the provider below.
    pub fn count_below(
        &mut self,
        domain: &mut StateOf,
        region: &MrRegion,
        counter: &Arc<Counter>,
    ) -> Result {
        let Some(below) = self.regions.get(region).cloned() else {
            return Ok(());
        };
        let is_known = |known: &&RegionTally| Arc::ptr_eq(&known.counter, counter);
        if let Some(known) = self.tallies.iter().find(is_known) {
            return below.bind(&known.tally.below, FI_REMOTE_WRITE);
        }
        let tally = self.open_tally(counter.counts_bytes())?;
        below.bind(&tally.below, FI_REMOTE_WRITE)?;
        let counter = counter.clone();
        self.tallies.push(RegionTally { counter, tally });
        self.is_counting = true;
        self.carry_of_regions(domain);
        Ok(())
    }

    /// Handles the end of a region: counters below that were bound to it alone are closed, too.
    pub fn forget_region(&mut self, domain: &mut StateOf, region: &MrRegion) {
        if self.is_counting {
            self.carry_of_regions(domain);
        }
        self.regions.remove(region);
        // A region holds a reference to its counters.
        self.tallies
            .retain(|known| Arc::strong_count(&known.tally.below) > 1);
    }

    /// Starts to count for the counters that the application has bound to an endpoint, also for connected peers, whose
    /// sessions are `peers`.
    pub fn count_accesses(&mut self, domain: &mut StateOf, ep: usize, peers: &[usize]) -> Result {
        let bytes_of = |event| domain.eps[ep].bound(event).map(|cntr| cntr.counts_bytes());
        let (read, written) = (bytes_of(Event::RemoteRead), bytes_of(Event::RemoteWrite));
        let endpoint = self.endpoint(ep).ok_or(Error::INVAL)?;
        let (has_read, has_written) = endpoint.accesses.has();
        if let (Some(bytes), false) = (read, has_read) {
            let tally = self.open_tally(bytes)?;
            self.bind_to_links(peers, &tally.below, FI_REMOTE_READ)?;
            self.counts_at(ep)?.read = Some(tally);
        }
        if let (Some(bytes), false) = (written, has_written) {
            let (tally, messages) = (self.open_tally(bytes)?, self.open_tally(bytes)?);
            self.bind_to_links(peers, &tally.below, FI_REMOTE_WRITE)?;
            for &id in peers {
                if let Some(link) = self.links.get_mut(id)
                    && let Some(registrar) = link.registrar.take()
                {
                    link.registrar = Some(registrar.counting(&messages.below));
                }
            }
            let accesses = self.counts_at(ep)?;
            (accesses.written, accesses.messages) = (Some(tally), Some(messages.below));
        }
        Ok(())
    }

    /// Records that an endpoint has counters, which are returned.
    fn counts_at(&mut self, ep: usize) -> Result<&mut Accesses> {
        self.is_counting = true;
        let endpoint = self.eps.get_mut(ep).and_then(Option::as_deref_mut);
        let accesses = &mut endpoint.ok_or(Error::INVAL)?.accesses;
        if accesses.has() == (false, false) {
            self.counted.push(ep);
        }
        Ok(accesses)
    }

    fn bind_to_links(&self, peers: &[usize], cntr: &Arc<Cntr>, flags: u64) -> Result {
        let links = peers.iter().filter_map(|&id| self.links.get(id));
        let mut links = links.filter_map(|link| link.below.as_ref());
        links.try_for_each(|link| link.bind(cntr, flags))
    }

    /// Records a write with CQ data, which was counted when its data came.
    pub fn note_counted(&mut self, ep: usize, len: usize) {
        if let Some(endpoint) = self.endpoint_mut(ep)
            && let Some(tally) = &endpoint.accesses.written
        {
            endpoint.accesses.counted += if tally.bytes { len as u64 } else { 1 };
        }
    }

    /// Reads the counters of endpoints. Returns whether there are any; then completions of writes that are counted must
    /// be handled before `carry_counts`, because a write with data is counted when its completion is handled.
    pub fn read_counts(&mut self) -> bool {
        for at in 0..self.counted.len() {
            if let Some(endpoint) = self.endpoint_mut(self.counted[at]) {
                endpoint.accesses.look();
            }
        }
        !self.counted.is_empty()
    }

    /// Updates the application's counters.
    pub fn carry_counts(&mut self, domain: &mut StateOf) {
        self.carry_of_regions(domain);
        for at in 0..self.counted.len() {
            let ep = self.counted[at];
            let Some(endpoint) = self.endpoint_mut(ep) else {
                continue;
            };
            let [read, written] = endpoint.accesses.news();
            for (event, news) in [(Event::RemoteRead, read), (Event::RemoteWrite, written)] {
                let bound = domain.eps.get(ep).and_then(|ep| ep.bound(event));
                if let (1.., Some(counter)) = (news, bound.cloned()) {
                    domain.count_more(&counter, news);
                }
            }
        }
    }

    fn carry_of_regions(&mut self, domain: &mut StateOf) {
        for RegionTally { counter, tally } in &mut self.tallies {
            tally.look();
            let news = tally.news(|| 0);
            if news > 0 {
                domain.count_more(counter, news);
            }
        }
    }

    /// Returns whether all counters will signal this library's descriptor for later events.
    pub fn counts_may_sleep(&self) -> bool {
        let of_regions = self.tallies.iter().map(|known| &known.tally.below);
        let endpoints = self.counted.iter().filter_map(|&ep| self.endpoint(ep));
        let of_endpoints = endpoints.flat_map(|endpoint| endpoint.accesses.all());
        let all = of_regions.chain(of_endpoints);
        let all: Vec<&dyn AnyHandle> = all.map(|cntr| &**cntr as &dyn AnyHandle).collect();
        self.domain.fabric.trywait(&all) != Err(Error::AGAIN)
    }
}
