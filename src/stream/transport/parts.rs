// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The parts of a transport (`engine::transport::parts`), implemented for streams. The work of each is in the file of
//! its name, or in the provider.

use core::ffi::c_void;
use core::time::Duration;
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::connector::Connector;
use crate::ep::Ep;
use crate::proto::MAX_ATOMIC;
use crate::session::State;
use crate::transport::{DomainOf, Stream};
use abi::{fi_collective_op, fid_pep};
use base::Result;
use base::info::Info;
use engine::coll::Shape;
use engine::fabric::FabricShared;
use engine::flusher::Held;
use engine::transport::{
    Atomics, Batches, Connects, Contexts, Drains, Groups, Listener, Membership, Multicast,
};
use object::ops::atomic::Atomic;
use object::ops::collective::Collective;

impl<N: Connector> Connects for Stream<N> {
    fn open_pep(
        fabric: &Arc<FabricShared<Stream<N>>>,
        info: Info,
        context: *mut c_void,
    ) -> Result<*mut fid_pep> {
        N::open_pep(fabric, info, context)
    }

    fn peer(&self, ep: usize) -> Result<Vec<u8>> {
        self.peer_name(ep)
    }

    fn connect(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        addr: Option<&[u8]>,
        param: &[u8],
    ) -> Result {
        self.connect_msg(domain, ep, addr, param)
    }

    fn listener(&self, ep: usize) -> Listener {
        let conn = self.peers.find_ep(ep).and_then(Ep::conn);
        let Some(conn) = conn.and_then(|id| self.peers.get(id)) else {
            return Listener::Unknown;
        };
        match conn.session.state {
            State::Requested | State::Proving | State::Sharing => Listener::Accepted,
            State::Connecting if N::is_on_this_host(conn) => Listener::Silent,
            _ => Listener::Unknown,
        }
    }

    fn accept(&mut self, domain: &mut DomainOf<N>, ep: usize, param: &[u8]) -> Result {
        self.call_connector(domain, |connector, desk| connector.accept(desk, ep, param))
    }

    fn shutdown(&mut self, domain: &mut DomainOf<N>, ep: usize) -> Result {
        self.shutdown_msg(domain, ep)
    }

    fn socket(&self, ep: usize) -> Result<RawFd> {
        self.socket_of(ep)
    }
}

impl<N: Connector> Contexts for Stream<N> {
    const OF_DATAGRAMS: bool = true;

    fn close_tx_context(
        &mut self,
        domain: &mut DomainOf<N>,
        port: usize,
        ep: usize,
        successor: usize,
    ) {
        if self.is_inherited() {
            return;
        }
        self.leave_transmits(domain, port, ep, successor);
    }

    fn close_rx_context(&mut self, domain: &mut DomainOf<N>, port: usize, ep: usize) {
        if self.is_inherited() {
            return;
        }
        self.leave_receives(domain, port, ep);
    }
}

impl<N: Connector> Multicast for Stream<N> {}

impl<N: Connector> Groups for Stream<N> {
    const COLLECTIVES: bool = true;

    fn open_group(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        membership: &Membership<'_>,
    ) -> Result<u64> {
        self.open_collective(domain, ep, membership)
    }

    fn join_group(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        group: u64,
        token: (usize, usize),
        alone: bool,
    ) {
        self.join_collective(domain, ep, group, token, alone);
    }

    fn leave_group(&mut self, domain: &mut DomainOf<N>, ep: usize, group: u64) {
        if self.is_inherited() {
            return;
        }
        self.leave_collective(domain, ep, group);
    }

    fn shape(
        &self,
        domain: &DomainOf<N>,
        ep: usize,
        what: fi_collective_op,
        group: u64,
        root: u64,
    ) -> Result<Shape> {
        self.shape_of(domain, ep, what, group, root)
    }

    fn collect(&mut self, domain: &mut DomainOf<N>, ep: usize, call: Collective) -> Result {
        self.start_collective(domain, ep, call)
    }
}

impl<N: Connector> Atomics for Stream<N> {
    const ATOMIC_SIZE: usize = MAX_ATOMIC;

    fn atomic(
        &mut self,
        domain: &mut DomainOf<N>,
        port: usize,
        ep: usize,
        atomic: &mut Atomic<'_>,
    ) -> Result {
        self.post_atomic(domain, port, ep, atomic)
    }
}

impl<N: Connector> Batches for Stream<N> {
    fn held_back(&self) -> Option<&Arc<Held>> {
        Some(&self.common.held_back)
    }

    fn end_holding(&self) {
        if !self.holds_back_frames() {
            self.common.held_back.end();
        }
    }

    #[inline]
    fn hold(&mut self) {
        if self.holds_back_frames() {
            self.common.hold();
        }
    }

    #[inline]
    fn must_flush(&self) -> bool {
        self.common.is_unserved && !self.common.dirty.is_empty()
    }

    #[inline]
    fn flush(&mut self, domain: &mut DomainOf<N>) {
        if !self.common.dirty.is_empty() {
            self.flush_dirty(domain);
            // A peer may have waited for this, and perhaps no event will make this side poll again.
            while !self.common.stalled.is_empty() {
                self.retry_stalled(domain);
                if self.common.dirty.is_empty() {
                    break;
                }
                self.flush_dirty(domain);
            }
            if !self.common.held.is_empty() {
                self.retry_held(domain);
            }
        }
    }

    #[inline]
    fn holds_back(&self) -> bool {
        !self.common.dirty.is_empty()
    }
}

impl<N: Connector> Drains for Stream<N> {
    fn close_limit(&self) -> Duration {
        self.common.limits.close
    }

    fn owes(&self, ep: Option<usize>, patient: bool) -> bool {
        self.is_at_home() && self.owes_peers(ep, patient)
    }

    fn leave_memory(&mut self, domain: &mut DomainOf<N>) {
        Stream::leave_memory(self, domain);
    }

    fn tell_lost(&self, ep: Option<usize>) {
        Stream::tell_lost(self, ep);
    }
}
