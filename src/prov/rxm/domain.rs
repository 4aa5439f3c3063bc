// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The transport of a domain: what the engine calls.

use core::time::Duration;
use std::collections::HashMap;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use slab::Slab;

use super::atomic::{MOST, most_of};
use super::conn::LANES;
use super::endpoint::Endpoint;
use super::info::{MAX_RX, MAX_TX};
use super::lower::{LowerDomain, LowerFabric};
use super::proto::{HEADER, MAX_CONTEXTS, MAX_PLACES, RENDEZVOUS_SIZE};
use super::send::FOR_ANSWERS;
use super::state::{CQ, EQ, Rxm, StateOf, watch};
use super::tally::Accesses;
use super::{HEAD_SIZE, SOURCE};
use abi::*;
use base::info::Info;
use base::log::Source;
use base::{Caps, Error, Result};
use client::Completion;
use client::layer::{Operations, Pool};
use engine::address::ip::{Addr, Format};
use engine::clock::Monotonic;
use engine::cntr::Counter;
use engine::reactor::{Reactor, Token};
use engine::report::Peer;
use engine::report::patience::Patience;
use engine::srx::{Claimed, Envelope};
use engine::strangers::{Strangers, fi_addr_of};
use engine::transport::*;
use engine::unreachable::Unreachable;
use hmem::Host;
use object::ops::atomic::{Atomic, Family};
use object::ops::mr::MrRequest;
use object::ops::transfer::{OneTx, Tx};
use sys::addr;
use sys::random::unpredictable;

impl Addressing for Rxm {
    type Addr = Addr;
    type Format = Format;
    type Memory = Host;
}

impl Connects for Rxm {}

impl Contexts for Rxm {
    fn close_tx_context(&mut self, domain: &mut StateOf, port: usize, ep: usize, successor: usize) {
        self.leave_transmits(domain, port, ep, successor);
    }

    fn close_rx_context(&mut self, domain: &mut StateOf, port: usize, ep: usize) {
        self.leave_receives(domain, port, ep);
    }
}

impl Groups for Rxm {}
impl Multicast for Rxm {}

impl Atomics for Rxm {
    const ATOMIC_SIZE: usize = MOST;

    fn most_of(family: Family, datatype: fi_datatype, op: fi_op) -> usize {
        most_of(family, datatype, op)
    }

    fn atomic(
        &mut self,
        domain: &mut StateOf,
        port: usize,
        ep: usize,
        atomic: &mut Atomic<'_>,
    ) -> Result {
        self.post_atomic(domain, port, ep, atomic)
    }
}

impl Prepares for Rxm {}

impl Batches for Rxm {
    /// A loadable provider below gets FI_MORE, and may have deferred the operation.
    fn start_deferred(&mut self, _domain: &mut StateOf, port: usize) {
        let conns = self.conns.iter().filter(|(_, conn)| conn.ep == port);
        for link in conns.filter_map(|(_, conn)| conn.link.as_ref()) {
            // A provider below that does not have the call starts its operations by itself.
            let _ = link.tx_flush();
        }
    }
}

impl Drains for Rxm {
    fn close_limit(&self) -> Duration {
        self.lower.params.close_timeout
    }

    fn owes(&self, ep: Option<usize>, _patient: bool) -> bool {
        self.owes_peers(ep)
    }
}

impl Transport for Rxm {
    type Fabric = LowerFabric;

    const SOURCE: &'static Source = &SOURCE;
    const CQ_SIZE: usize = 1024;
    const CQ_DATA_SIZE: usize = size_of::<u64>();

    fn prov_name(fabric: &LowerFabric) -> &'static CStr {
        fabric.prov_name
    }

    fn open(fabric: &LowerFabric, info: &Info) -> Result<Rxm> {
        let lower = LowerDomain::open(fabric, info)?;
        let pid = random()?;
        let reactor = Reactor::new(Monotonic)?;
        let eager = HEADER + lower.params.eager;
        let pool = |size, access, limit| Pool::new(lower.registrar.clone(), size, access, limit);
        let (packets, heads, copies) = (
            pool(eager, FI_RECV, usize::MAX),
            pool(HEADER + RENDEZVOUS_SIZE, FI_SEND, HEADS),
            pool(
                eager,
                FI_SEND | FI_WRITE | FI_READ,
                COPIES.max(COPIED / eager) + FOR_ANSWERS,
            ),
        );
        Ok(Rxm {
            ops: lower.with(|info| Ok(Operations::new(info)))?,
            packets,
            heads,
            copies,
            reactor,
            patience: Patience::new(lower.params.stall_report),
            next_look: None,
            eps: Vec::new(),
            conns: Slab::new(),
            by_link: HashMap::new(),
            links: 0,
            pid: pid.max(1),
            groups: Slab::new(),
            sends: Slab::new(),
            fetches: Slab::new(),
            parked: Slab::new(),
            asked: Slab::new(),
            messages: 0,
            held: Vec::new(),
            stalled: Vec::new(),
            ending: Vec::new(),
            dry: Vec::new(),
            closing: Vec::new(),
            regions: HashMap::new(),
            batch: (0..BATCH).map(|_| Completion::default()).collect(),
            polls: 0,
            is_forced: false,
            has_matched: false,
            is_thorough: false,
            connecting: 0,
            tallies: Vec::new(),
            is_counting: false,
            lower,
        })
    }

    fn format(&self) -> Format {
        Format
    }

    fn poll_fd(&self) -> RawFd {
        self.reactor.as_raw_fd()
    }

    fn progress(&mut self, domain: &mut StateOf) {
        self.poll(domain);
    }

    fn progress_all(&mut self, domain: &mut StateOf) {
        self.drive_all(domain);
        self.attend(domain);
        self.arm_look(domain);
    }

    fn peers(&self, ep: usize) -> Vec<Peer> {
        self.tell_peers(ep)
    }

    fn open_ep(&mut self, _domain: &mut StateOf, ep: usize, info: &Info) -> Result {
        match fi_ep_type(info.ep.ep_type) {
            FI_EP_RDM => {}
            FI_EP_MSG | FI_EP_DGRAM => return Err(Error::NOSYS),
            _ => return Err(Error::INVAL),
        }
        let iovs = [info.tx.iov_limit, info.tx.rma_iov_limit, info.rx.iov_limit];
        if info.tx.size > MAX_TX
            || info.rx.size > MAX_RX
            || info.tx.inject_size > self.lower.params.eager
            || iovs.iter().any(|&limit| limit > MAX_PLACES)
        {
            return Err(Error::INVAL);
        }
        let endpoint = Endpoint {
            listener: self.lower.listener(info)?,
            cq: self.lower.queue()?,
            shared_rx: self.lower.shared_rx()?,
            own: None,
            peers: Vec::new(),
            by_addr: HashMap::new(),
            receive_only: Vec::new(),
            unreachable: Unreachable::new(),
            strangers: Strangers::new(),
            posted: 0,
            wanted: self.lower.first_receives(),
            blocks: Vec::new(),
            waiting: [0; LANES],
            accesses: Accesses::default(),
        };
        for fd in endpoint.cq.fds()? {
            watch(&self.reactor, fd, Token::new(CQ, ep))?;
        }
        self.add_endpoint(ep, endpoint);
        self.watch_events()
    }

    fn enable_ep(&mut self, domain: &mut StateOf, ep: usize) -> Result {
        self.count_accesses(domain, ep)?;
        self.post_shared(ep)?;
        let endpoint = self.endpoint_mut(ep).ok_or(Error::INVAL)?;
        endpoint.listener.listen()?;
        endpoint.own = addr::from_bytes(&endpoint.listener.name()?).map(addr::canonical);
        Ok(())
    }

    fn close_ep(&mut self, domain: &mut StateOf, ep: usize) {
        self.close_endpoint(domain, ep);
    }

    fn name(&self, ep: usize) -> Result<Vec<u8>> {
        self.endpoint(ep).ok_or(Error::INVAL)?.listener.name()
    }

    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result {
        self.endpoint(ep)
            .ok_or(Error::INVAL)?
            .listener
            .set_name(addr)
    }

    #[inline]
    fn transmit_one(&mut self, domain: &mut StateOf, ep: usize, tx: &OneTx) -> bool {
        self.post_short(domain, ep, tx)
    }

    fn transmit(&mut self, domain: &mut StateOf, ep: usize, tx: &mut Tx<'_>) -> Result {
        self.post(domain, ep, tx)
    }

    fn transmit_from(
        &mut self,
        domain: &mut StateOf,
        port: usize,
        ep: usize,
        tx: &mut Tx<'_>,
    ) -> Result {
        let to = domain.destination(port, tx.dest, MAX_CONTEXTS)?;
        self.post_to(domain, port, ep, tx, to)
    }

    fn source(envelope: &Envelope) -> u64 {
        fi_addr_of(envelope.source)
    }

    fn tx_room(&mut self, _ep: usize, inject: usize, _caps: Caps) -> usize {
        match HEADER + inject <= HEAD_SIZE {
            true => self.heads.left(),
            false => self.copies_left(),
        }
    }

    fn cancel(&mut self, domain: &mut StateOf, ep: usize, context: usize) {
        self.cancel_held(domain, ep, context);
    }

    fn claim(&mut self, domain: &mut StateOf, claimed: Claimed) {
        self.claimed(domain, claimed);
    }

    fn register(&mut self, domain: &mut StateOf, request: MrRequest<'_>) -> Result<Registration> {
        self.register_both(domain, request)
    }

    fn count_region(
        &mut self,
        domain: &mut StateOf,
        region: &MrRegion,
        counter: &Arc<Counter>,
    ) -> Result {
        self.count_below(domain, region, counter)
    }

    fn region_closed(&mut self, domain: &mut StateOf, region: &Arc<MrRegion>) {
        // A counter may be bound to one that goes on.
        if region.is_closed() {
            self.forget_region(domain, region.key);
        }
    }

    fn counts_accesses(&mut self, domain: &mut StateOf) {
        self.count_all(domain);
    }

    fn av_inserted(&mut self, domain: &mut StateOf, av: usize, index: u64) {
        self.learn_address(domain, av, index);
    }

    fn av_removed(&mut self, domain: &mut StateOf, av: usize, index: u64, addr: &Addr) {
        self.forget_address(domain, av, index, addr);
    }
}

/// Slots at most: for headers; copies.
const HEADS: usize = 1 << 20;
const COPIES: usize = 2048;
/// Bytes of copies, where slots are small.
const COPIED: usize = 32 << 20;
/// Completions that are read at a time.
const BATCH: usize = 16;

impl Rxm {
    /// The queue of events may be ready by other descriptors than before.
    pub(super) fn watch_events(&self) -> Result {
        let mut fds = self.lower.eq.fds()?.into_iter();
        fds.try_for_each(|fd| watch(&self.reactor, fd, Token::new(EQ, 0)))
    }
}

/// A number that no other process can guess.
pub(super) fn random() -> Result<u32> {
    let bytes = unpredictable().map_err(Error::from)?;
    let (words, _) = bytes.as_chunks();
    Ok(u32::from_ne_bytes(words[0]))
}
