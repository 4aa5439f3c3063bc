// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The optional parts of a transport that rxd has: batches, atomic operations, drains.

use core::time::Duration;

use super::super::info::ATOMIC_SIZE;
use super::{Rxd, State};
use abi::*;
use base::Result;
use engine::address::mixed::{Addr, Format};
use engine::peer::post::post_atomic;
use engine::transport::*;
use object::ops::atomic::{Atomic, Family};

impl Addressing for Rxd {
    type Addr = Addr;
    type Format = Format;
}

impl Connects for Rxd {}
impl Contexts for Rxd {}
impl Groups for Rxd {}
impl Prepares for Rxd {}
impl Queues for Rxd {}

impl Batches for Rxd {
    fn start_deferred(&mut self, _domain: &mut State, port: usize) {
        if let Some(endpoint) = self.eps.get(&port) {
            endpoint.below.start_deferred();
        }
    }
}
impl Multicast for Rxd {}

impl Atomics for Rxd {
    const ATOMIC_SIZE: usize = ATOMIC_SIZE;

    /// Peers of other libfabrics do not implement elements of more than eight bytes, small floating-point types and
    /// FI_DIFF, and crash if they receive such a request.
    fn most_of(_family: Family, datatype: fi_datatype, op: fi_op) -> usize {
        match datatype.0 > FI_FLOAT_COMPLEX.0 || op.0 > FI_MSWAP.0 {
            true => 0,
            false => ATOMIC_SIZE,
        }
    }

    fn atomic(
        &mut self,
        domain: &mut State,
        port: usize,
        ep: usize,
        atomic: &mut Atomic<'_>,
    ) -> Result {
        post_atomic(self, domain, port, ep, atomic)
    }
}

impl Drains for Rxd {
    fn close_limit(&self) -> Duration {
        self.params.close_timeout
    }

    fn owes(&self, ep: Option<usize>, _patient: bool) -> bool {
        let mut eps = self
            .eps
            .iter()
            .filter(|(id, _)| ep.is_none_or(|ep| ep == **id));
        eps.any(|(_, endpoint)| endpoint.owes())
    }

    fn release_memory(&mut self, domain: &mut State) {
        for (_, srx) in &mut domain.srxs {
            drop(srx.drain_posted());
        }
        let regions: Vec<_> = domain.mrs.iter().cloned().collect();
        for region in regions {
            domain.mrs.close(&region);
        }
        let eps = self.eps.values_mut();
        eps.for_each(|endpoint| endpoint.port.release_memory());
    }

    fn report_lost(&self, ep: Option<usize>) {
        let eps = self
            .eps
            .iter()
            .filter(|(id, _)| ep.is_none_or(|ep| ep == **id));
        eps.for_each(|(_, endpoint)| endpoint.report_lost(self.params.close_timeout));
    }
}
