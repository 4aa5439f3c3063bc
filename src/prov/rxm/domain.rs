// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The transport of a domain: what the engine calls.

use core::time::Duration;
use std::ffi::CStr;
use std::sync::Arc;

use super::info::{MAX_RX, MAX_TX};
use super::lower::{Lower, LowerFabric, random};
use super::proto::{HEADER, MAX_PLACES};
use super::session::{Common, MOST_ATOMIC, Wire, copies_left, most_of};
use super::sessions::Sessions;
use super::state::{Rxm, StateOf};
use super::{HEAD_SIZE, SOURCE};
use abi::*;
use base::info::Info;
use base::log::{Source, Subsys, log_warn};
use base::{Caps, Error, Result};
use client::Completion;
use engine::address::ip::{self, Addr, Format};
use engine::cntr::Counter;
use engine::coll::messages::{self, Messages};
use engine::domain_state::TxOp;
use engine::peer::handover::Handover;
use engine::peer::post::{post, post_atomic, post_from};
use engine::peer::retry::Jitter;
use engine::peer::stall;
use engine::report::Peer;
use engine::srx::{Claimed, Envelope};
use engine::strangers::fi_addr_of;
use engine::transport::*;
use object::ops::atomic::{Atomic, Family};
use object::ops::mr::MrRequest;
use object::ops::transfer::{OneTx, Tx};
use sync::Serialized;
use sys::addr;
use sys::event::SharedFd;

impl Addressing for Rxm {
    type Addr = Addr;
    type Format = Format;
}

impl Connects for Rxm {}

impl Contexts for Rxm {
    fn close_tx_context(&mut self, domain: &mut StateOf, port: usize, ep: usize, successor: usize) {
        // Handle completions first, so that no connection has to end for an operation that is complete.
        self.drive(domain);
        let handover = Handover::new(ep, successor);
        self.sessions
            .leave_transmits(domain, &mut self.lower, port, handover);
        self.close_ended(domain);
    }

    fn close_rx_context(&mut self, domain: &mut StateOf, port: usize, ep: usize) {
        self.drive(domain);
        self.sessions
            .leave_receives(domain, &mut self.lower, port, ep);
        self.close_ended(domain);
    }
}

impl Groups for Rxm {
    const COLLECTIVES: bool = true;

    fn identity(addr: &Addr) -> Vec<u8> {
        ip::identity(addr)
    }

    fn own_rank(&self, ep: usize, members: &[Addr]) -> Result<usize> {
        let own = addr::from_bytes(&self.name(ep)?).ok_or(Error::INVAL)?;
        ip::rank_among(own, members)
    }

    fn groups_moved(&mut self, domain: &mut StateOf, _ep: usize) {
        messages::poll(self, domain);
    }
}

impl Multicast for Rxm {}

impl Atomics for Rxm {
    const ATOMIC_SIZE: usize = MOST_ATOMIC;

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
        post_atomic(self, domain, port, ep, atomic)
    }
}

impl Prepares for Rxm {}
impl Queues for Rxm {}

impl Batches for Rxm {
    /// A loadable provider below gets FI_MORE, and may have deferred the operation.
    fn start_deferred(&mut self, _domain: &mut StateOf, _port: usize) {
        self.lower.flush();
    }
}

impl Drains for Rxm {
    fn close_limit(&self) -> Duration {
        self.lower.domain.params.close_timeout
    }

    fn owes(&self, ep: Option<usize>, _patient: bool) -> bool {
        self.sessions.owes(&self.lower, ep)
    }
}

impl Transport for Rxm {
    type Fabric = LowerFabric;

    const SOURCE: &'static Source = &SOURCE;
    const CQ_SIZE: usize = 1024;
    const CQ_DATA_SIZE: usize = size_of::<u64>();
    const CONNECTS_TO_PEERS: bool = true;
    const HMEM: bool = true;
    const COPIES: bool = true;

    fn prov_name(fabric: &LowerFabric) -> &'static CStr {
        fabric.prov_name
    }

    fn open(fabric: &LowerFabric, info: &Info, _: Serialized) -> Result<Rxm> {
        let lower = Lower::open(fabric, info)?;
        let clock = stall::Clock::new(lower.domain.params.stall_report);
        let common = Common::new(
            lower.domain.settings(),
            clock,
            random()?.max(1),
            Jitter::new(),
        );
        Ok(Rxm {
            lower,
            sessions: Sessions::new(common),
            next_look: None,
            batch: (0..BATCH).map(|_| Completion::default()).collect(),
            polls: 0,
            until_attend: 0,
            messages: Messages::default(),
        })
    }

    fn reads_descs(&self) -> bool {
        self.lower.domain.registrar.wants_local()
    }

    fn format(&self) -> Format {
        Format
    }

    fn poll_fd(&self) -> SharedFd {
        self.lower.reactor.shared()
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
        self.report_peers(ep)
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
            || info.tx.inject_size > self.lower.domain.params.eager
            || iovs.iter().any(|&limit| limit > MAX_PLACES)
        {
            return Err(Error::INVAL);
        }
        self.lower.open_ep(ep, info)?;
        self.sessions.add_port(ep);
        Ok(())
    }

    fn enable_ep(&mut self, domain: &mut StateOf, ep: usize) -> Result {
        self.lower.count_accesses(domain, ep, &[])?;
        let endpoint = self.lower.endpoint(ep).ok_or(Error::INVAL)?;
        endpoint.listener.listen()?;
        let own = addr::from_bytes(&endpoint.listener.name()?).map(addr::canonical);
        self.sessions.listen(ep, own);
        let limit = self.lower.domain.settings().saved;
        messages::open(self, domain, ep, limit)
    }

    fn close_ep(&mut self, domain: &mut StateOf, ep: usize) {
        self.sessions.close_port(domain, &mut self.lower, ep);
        self.lower.close_ep(ep);
        self.sessions.end_closed(domain, &mut self.lower);
        self.messages.close(domain, ep);
    }

    fn name(&self, ep: usize) -> Result<Vec<u8>> {
        self.lower.endpoint(ep).ok_or(Error::INVAL)?.listener.name()
    }

    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result {
        self.lower
            .endpoint(ep)
            .ok_or(Error::INVAL)?
            .listener
            .set_name(addr)
    }

    #[inline]
    fn transmit_one(&mut self, domain: &mut StateOf, ep: usize, tx: &OneTx) -> bool {
        self.post_short(domain, ep, tx)
    }

    fn transmit(&mut self, domain: &mut StateOf, ep: usize, tx: &mut Tx<'_>) -> Result {
        post(self, domain, ep, tx)
    }

    fn transmit_from(
        &mut self,
        domain: &mut StateOf,
        port: usize,
        ep: usize,
        tx: &mut Tx<'_>,
    ) -> Result {
        post_from(self, domain, port, ep, tx)
    }

    fn source(envelope: &Envelope) -> u64 {
        fi_addr_of(envelope.source)
    }

    fn tx_room(&mut self, _ep: usize, inject: usize, _caps: Caps) -> usize {
        match HEADER + inject <= HEAD_SIZE {
            true => self.lower.heads_left(),
            false => copies_left(&self.lower),
        }
    }

    fn cancel(&mut self, domain: &mut StateOf, ep: usize, context: usize) -> Option<TxOp> {
        let lower = &mut self.lower;
        self.sessions.take_unsent(domain, lower, ep, context)
    }

    fn claim(&mut self, domain: &mut StateOf, claimed: Claimed) {
        self.sessions.claimed(domain, &mut self.lower, claimed);
    }

    fn register(&mut self, domain: &mut StateOf, request: MrRequest<'_>) -> Result<Registration> {
        self.lower.register_both(domain, request)
    }

    fn count_region(
        &mut self,
        domain: &mut StateOf,
        region: &MrRegion,
        counter: &Arc<Counter>,
    ) -> Result {
        self.lower.count_below(domain, region, counter)
    }

    fn region_closed(&mut self, domain: &mut StateOf, region: &Arc<MrRegion>) {
        // A counter may be bound to one that goes on.
        if region.is_closed() {
            self.lower.forget_region(domain, region);
        }
    }

    fn counts_accesses(&mut self, domain: &mut StateOf) {
        for ep in 0..self.lower.places() {
            if domain.eps.get(ep).is_none() || self.lower.endpoint(ep).is_none() {
                continue;
            }
            let peers = self.sessions.ids(ep);
            if let Err(error) = self.lower.count_accesses(domain, ep, &peers) {
                log_warn!(
                    &SOURCE,
                    Subsys::EpCtrl,
                    "accesses of peers are not counted: {error}"
                );
            }
        }
    }

    fn av_inserted(&mut self, domain: &mut StateOf, ep: usize, index: u64) {
        self.sessions.learn_address(domain, ep, index);
    }

    fn av_removed(&mut self, domain: &mut StateOf, ep: usize, index: u64, addr: &Addr) {
        self.sessions.forget_address(domain, ep, index, addr);
    }
}

/// Completions that are read at a time.
const BATCH: usize = 16;
