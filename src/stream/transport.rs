// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The state of one domain, and the calls that the engine makes on it.
//!
//! - `post` passes an operation to its session, `context` does so for contexts of scalable endpoints, `prepared` for
//!   work requests. `settle` calls a session, and then does the work that the session leaves to the stream. `coll`
//!   connects collectives with sessions.
//! - `progress` polls. `traffic` has the connections and what polls them: it reads and writes links, and it finds out
//!   which sessions end.
//! - `connected` calls the connector and carries out its actions. `attempt` repeats attempts to connect. `endpoint`
//!   closes endpoints.
//! - `disconnect` ends connections, and `drain` delivers what is still owed before an endpoint ends.

mod attempt;
mod batches;
mod coll;
mod connected;
mod context;
mod disconnect;
mod drain;
mod endpoint;
mod post;
mod prepared;
mod progress;
mod room;
mod settle;
mod traffic;
mod turns;

use std::sync::Arc;

use self::room::Room;
use self::turns::Turns;

use crate::connector::Connector;
use crate::peers::Peers;
use crate::poller::Poller;
use crate::session::common::Common;
use crate::session::groups::HEADROOM;
use crate::shm_host::{FastPoll, ShmHost};
use base::info::Info;
use base::log::Source;
use base::settings::Settings;
use base::{Caps, Error, Result};
use engine::auth::Key;
use engine::domain_state::{DomainState, TxOp};
use engine::peer::post::{post, post_from};
use engine::report::Peer;
use engine::srx::{Claimed, Envelope};
use engine::strangers::fi_addr_of;
use engine::transport::{Address, Addressing, MrRegion, Multicast, Transport};
use object::ops::transfer::{OneTx, OneWrite, Tx};
use sync::{Children, Serialized};
use sys::event::SharedFd;
use sys::fork::Birth;

pub type DomainOf<N> = DomainState<<N as Connector>::Addr>;

/// The endpoints of one domain and their connections.
pub struct Stream<N: Connector> {
    /// The process that opened the domain; a child must not use its rings and sockets.
    birth: Birth,
    connector: N,
    traffic: Traffic<N>,
    /// The number of the next poll that checks for a report request.
    attend_at: u64,
}

/// The connections of a domain with what polls them, except for making and ending them.
struct Traffic<N: Connector> {
    /// State that the sessions of all peers share.
    common: Common,
    poller: Poller,
    peers: Peers<N>,
    shm: ShmHost,
    /// Connections that wait for a descriptor.
    room: Room,
    turns: Turns,
}

impl<N: Connector> Stream<N> {
    /// Whether this process is a forked child of the one that opened the domain. The child inherits the parent's rings,
    /// sockets and epoll set but must only close them: `children_may`.
    fn is_inherited(&self) -> bool {
        self.traffic.has_shm() && !self.is_at_home()
    }

    /// Whether this is the process that opened the domain.
    fn is_at_home(&self) -> bool {
        self.birth.is_here()
    }
}

impl<N: Connector> Addressing for Stream<N> {
    type Addr = N::Addr;
    type Format = N::Format;
}

impl<N: Connector> Transport for Stream<N> {
    type Fabric = N::Params;

    const SOURCE: &'static Source = N::SOURCE;
    const CQ_SIZE: usize = N::CQ_SIZE;
    const CQ_DATA_SIZE: usize = 8;
    const AUTH_KEY_SIZE: usize = N::AUTH_KEY_SIZE;
    const AUTH_KEYS: usize = N::AUTH_KEYS;
    const SHARES_MEMORY: bool = N::MAY_SHARE;
    const CONNECTS_TO_PEERS: bool = true;
    const HMEM: bool = N::HMEM;
    const KNOWS_CUDA: bool = N::KNOWS_CUDA;

    fn provider(params: &N::Params) -> &'static Source {
        N::provider(params)
    }

    fn offers_auto_progress(params: &N::Params) -> bool {
        !N::limits(params).no_progress_thread
    }

    fn format(&self) -> N::Format {
        N::Format::default()
    }

    /// If a domain has only sockets, a child may continue to use it as far as that works.
    fn children_may(&self) -> Children {
        match self.traffic.has_shm() {
            true => Children::Close,
            false => Children::Go,
        }
    }

    fn open(params: &N::Params, _info: &Info, _: Serialized) -> Result<Stream<N>> {
        let limits = N::limits(params);
        Ok(Stream {
            birth: Birth::here(),
            connector: N::open(params)?,
            traffic: Traffic {
                common: Common::new(N::provider(params), limits),
                poller: Poller::new()?,
                peers: Peers::default(),
                shm: ShmHost::new(N::provider(params), limits),
                room: Room::default(),
                turns: Turns::new(),
            },
            attend_at: 0,
        })
    }

    fn peers(&self, ep: usize) -> Vec<Peer> {
        self.traffic.peers.snapshot(ep, &self.traffic.common.waits)
    }

    fn poll_fd(&self) -> SharedFd {
        self.traffic.poller.shared()
    }

    // Programs that wait poll again and again, usually without result, so the empty case is handled without a call.
    #[inline(always)]
    fn progress(&mut self, domain: &mut DomainOf<N>) {
        if !self.traffic.has_shm() {
            return self.poll_sockets(domain);
        }
        match self.traffic.poll_fast(domain) {
            FastPoll::Nothing => {
                self.traffic.common.polls = self.traffic.common.polls.wrapping_add(1);
                if self.traffic.poller.is_spin_due() {
                    self.traffic.wait_a_moment(domain);
                    self.settle(domain);
                }
            }
            FastPoll::NewsOf(id) => {
                self.traffic.common.polls = self.traffic.common.polls.wrapping_add(1);
                self.traffic.poller.spin_found();
                self.traffic.read_ring(domain, id);
                self.settle(domain);
            }
            FastPoll::Unclear => self.poll_rings(domain),
        }
    }

    fn poll_wide(&mut self) {
        self.traffic.poller.call_epoll_next();
    }

    fn take_ready(&mut self, domain: &mut DomainOf<N>) {
        if self.traffic.has_shm() {
            self.traffic.read_rings(domain);
            self.settle(domain);
        }
    }

    fn progress_all(&mut self, domain: &mut DomainOf<N>) {
        // A thread may sleep next, until more comes.
        let grace_from = std::mem::replace(&mut self.traffic.common.grace_from, u64::MAX);
        self.poll_all(domain);
        self.traffic.common.grace_from = grace_from;
        self.attend(domain);
    }

    fn open_ep(&mut self, _core: &mut DomainOf<N>, ep: usize, info: &Info) -> Result {
        let endpoint = self.connector.open_ep(ep, info)?;
        self.traffic.peers.insert_ep(ep, endpoint);
        Ok(())
    }

    fn enable_ep(&mut self, domain: &mut DomainOf<N>, ep: usize) -> Result {
        if domain.eps[ep].caps.contains(Caps::COLLECTIVE) {
            let limit = self.traffic.common.limits.saved_bytes;
            domain.groups.open_lane(ep, limit, HEADROOM);
        }
        if let Some(listener) = &self.traffic.peers.ep(ep)?.listener {
            self.traffic.poller.add_listener(listener, ep)?;
        }
        Ok(())
    }

    fn set_keys(&mut self, ep: usize, keys: Vec<Key>) -> Result {
        self.connector
            .set_keys(&mut self.traffic.peers.ep_mut(ep)?.own, keys)
    }

    fn close_ep(&mut self, domain: &mut DomainOf<N>, ep: usize) {
        match self.is_inherited() {
            false => self.close_endpoint(domain, ep),
            // Sends nothing to peers, and leaves the epoll set alone because the parent shares it.
            true => {
                domain.groups.forget(ep);
                self.traffic.peers.drop_ep(domain, ep);
            }
        }
    }

    #[inline]
    fn transmit_one(&mut self, domain: &mut DomainOf<N>, ep: usize, tx: &OneTx) -> bool {
        let posted = self.traffic.post_one(domain, ep, tx);
        self.settle(domain);
        posted
    }

    #[inline]
    fn write_one(&mut self, domain: &mut DomainOf<N>, ep: usize, write: &OneWrite) -> bool {
        let posted = self.traffic.write_one(domain, ep, write);
        self.settle(domain);
        posted
    }

    #[inline]
    fn transmit(&mut self, domain: &mut DomainOf<N>, ep: usize, tx: &mut Tx<'_>) -> Result {
        post(self, domain, ep, tx)
    }

    fn transmit_from(
        &mut self,
        domain: &mut DomainOf<N>,
        port: usize,
        ep: usize,
        tx: &mut Tx<'_>,
    ) -> Result {
        post_from(self, domain, port, ep, tx)
    }

    fn counts_accesses(&mut self, domain: &mut DomainOf<N>) {
        if self.is_inherited() {
            return;
        }
        // Later peers get a new directory if the endpoint that they connect to counts no accesses.
        for at in self.traffic.shm.withdraw_all() {
            self.traffic.wait_for_users(at);
            self.settle(domain);
        }
    }

    fn claim(&mut self, domain: &mut DomainOf<N>, claimed: Claimed) {
        let id = claimed.envelope.token as usize;
        let Some(conn) = self.traffic.peers.get(id) else {
            return;
        };
        let is_graced = conn.session.rx.is_graced();
        self.with(domain, id, |session, cx| session.deliver(cx, claimed));
        // Without the delay the bytes would have been here already.
        if is_graced && self.traffic.peers.contains(id) {
            self.traffic.read_conn(domain, id);
            self.settle(domain);
        }
    }

    #[inline]
    fn source(envelope: &Envelope) -> u64 {
        fi_addr_of(envelope.source)
    }

    fn region_opened(&mut self, _core: &mut DomainOf<N>, region: &MrRegion) {
        self.traffic.shm.region_opened(region);
    }

    fn region_closed(&mut self, domain: &mut DomainOf<N>, region: &Arc<MrRegion>) {
        // The directory that peers see belongs to the parent.
        if self.is_inherited() {
            return;
        }
        if let Some(at) = self.traffic.shm.withdraw(region) {
            self.traffic.wait_for_users(at);
            self.settle(domain);
        }
        if region.is_closed() {
            self.traffic.end_accesses(region);
            self.settle(domain);
        }
    }

    fn looked_up(&self, addr: &N::Addr) -> Vec<u8> {
        self.connector.looked_up(addr)
    }

    fn room_again(&mut self, domain: &mut DomainOf<N>) {
        self.traffic.retry_stalled(domain);
        self.settle(domain);
    }

    fn name(&self, ep: usize) -> Result<Vec<u8>> {
        Ok(self.traffic.peers.ep(ep)?.local.to_bytes())
    }

    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result {
        self.connector
            .rename_ep(self.traffic.peers.ep_mut(ep)?, addr)
    }

    fn tx_room(&mut self, ep: usize, inject: usize, caps: Caps) -> usize {
        self.traffic.peers.room_of(ep, inject, caps)
    }

    fn cancel(&mut self, domain: &mut DomainOf<N>, ep: usize, context: usize) -> Option<TxOp> {
        let state = &domain.eps[ep];
        match state.tx_pending {
            0 => None,
            _ => self.traffic.peers.take_unsent(state.port(ep), ep, context),
        }
    }

    fn av_inserted(&mut self, domain: &mut DomainOf<N>, ep: usize, index: u64) {
        for id in self.traffic.peers.learn_address(domain, ep, index) {
            self.disconnect(domain, id, Error::KEYREJECTED);
        }
    }

    fn av_removed(&mut self, domain: &mut DomainOf<N>, ep: usize, index: u64, addr: &N::Addr) {
        // All connections with the peer stay open because the peer may use them.
        let with_peer = self.traffic.peers.forget_address(domain, ep, index, addr);
        if Settings::get().av_remove_cleanup {
            for id in with_peer {
                // Does nothing if the end of one connection has ended another.
                self.disconnect(domain, id, Error::CANCELED);
            }
        }
    }

    fn set_firewalled(&mut self, ep: usize, on: bool) -> Result {
        self.connector
            .set_firewalled(&mut self.traffic.peers.ep_mut(ep)?.own, on)
    }

    fn permit_sharing(&mut self, ep: usize, on: bool) -> Result {
        self.connector
            .permit_sharing(&mut self.traffic.peers.ep_mut(ep)?.own, on)
    }
}

impl<N: Connector> Multicast for Stream<N> {}
