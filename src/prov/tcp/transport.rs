// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The state of one tcp domain, and the calls that the engine makes on it. What each does is in `ep`, `connect`, `tx`,
//! `rx` and `progress`.
#![forbid(unsafe_code)]

use core::ffi::c_void;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use slab::Slab;

use crate::abi::{FI_ADDR_NOTAVAIL, fi_collective_op, fid_pep};
use crate::base::info::Info;
use crate::base::log::Source;
use crate::base::{Error, Result};
use crate::engine::auth::Key;
use crate::engine::coll::Shape;
use crate::engine::core::Core as EngineCore;
use crate::engine::fabric::FabricShared;
use crate::engine::srx::{Claimed, Envelope};
use crate::engine::transport::{Membership, Transport};
use crate::ffi::ops::atomic::Atomic;
use crate::ffi::ops::collective::Collective;
use crate::ffi::ops::transfer::Tx;
use crate::prov::tcp::accept::Handshake;
use crate::prov::tcp::addr::Addr;
use crate::prov::tcp::coll::Groups;
use crate::prov::tcp::conn::Conn;
use crate::prov::tcp::ep::{Ep, Eps};
use crate::prov::tcp::params::Params;
use crate::prov::tcp::proto::MAX_ATOMIC;
use crate::prov::tcp::{SOURCE, pep};
use crate::sys::event::{Epoll, Timer};

pub type Core = EngineCore<Addr>;

/// The endpoints of one domain and their connections.
pub struct Tcp {
    pub(super) params: Params,
    pub(super) epoll: Epoll,
    pub(super) timer: Timer,
    /// Deadlines, earliest first; those that no longer hold are skipped when they come up.
    pub(super) deadlines: BinaryHeap<Reverse<(Instant, Due)>>,
    /// By the endpoint's number in `core.eps`.
    pub(super) eps: Eps,
    pub(super) conns: Slab<Conn>,
    /// Accepted sockets whose request has not come in yet.
    pub(super) handshakes: Slab<Handshake>,
    /// Connections that are read without asking epoll.
    pub(super) hot: Vec<usize>,
    /// Connections with frames to be written.
    pub(super) dirty: Vec<usize>,
    /// Connections with operations that wait for others to complete.
    pub(super) held: Vec<usize>,
    /// Connections that are not read because the unexpected messages reached their limit, or the queue its brim.
    pub(super) stalled: Vec<usize>,
    /// Where sockets are read to; small messages are taken from here.
    pub(super) scratch: Box<[u8]>,
    /// Staging buffers not in use.
    pub(super) buffers: Vec<Vec<u8>>,
    /// Groups that endpoints have joined, and their collectives.
    pub(super) groups: Groups,
    /// Counts calls of `progress`.
    pub(super) look: u64,
    /// While above zero only epoll is asked; see `progress`.
    pub(super) wide: u32,
    /// The connection that had news last, and how many guesses of the next one came true, in a row; see `progress`.
    pub(super) last: usize,
    pub(super) sure: u32,
    /// A look at what peers have acknowledged is due.
    pub(super) watches_peers: bool,
    /// What we call our process in connection exchanges.
    pub(super) pid: u32,
}

/// What a deadline is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Due {
    Conn(usize),
    Handshake(usize),
    Listener(usize),
    /// Peers that have not acknowledged what they were sent.
    Peers,
}

impl Tcp {
    /// Makes the timer go off for the earliest deadline.
    pub(super) fn schedule(&mut self, at: Instant, due: Due) {
        let earlier = self
            .deadlines
            .peek()
            .is_none_or(|Reverse((first, _))| at < *first);
        self.deadlines.push(Reverse((at, due)));
        if earlier {
            self.timer
                .set(Some(at.saturating_duration_since(Instant::now())));
        }
    }

    pub(super) fn ep(&self, ep: usize) -> Result<&Ep> {
        self.eps.get(ep).ok_or(Error::INVAL)
    }

    pub(super) fn ep_mut(&mut self, ep: usize) -> Result<&mut Ep> {
        self.eps.get_mut(ep).ok_or(Error::INVAL)
    }
}

/// Bytes that one read takes from a socket at most.
const SCRATCH: usize = 64 * 1024;

impl Transport for Tcp {
    type Addr = Addr;
    type Fabric = Params;

    const SOURCE: &'static Source = &SOURCE;
    const CQ_SIZE: usize = 1024;
    const CQ_DATA_SIZE: usize = 8;
    const AUTH_KEY_SIZE: usize = 256;
    const AUTH_KEYS: usize = 64;
    const ATOMIC_SIZE: usize = MAX_ATOMIC;

    fn offers_auto_progress(params: &Params) -> bool {
        !params.disable_auto_progress
    }

    fn open(params: &Params) -> Result<Tcp> {
        let epoll = Epoll::new()?;
        let timer = Timer::new()?;
        epoll.add(timer.as_raw_fd(), super::progress::TIMER, true, false)?;
        Ok(Tcp {
            params: params.clone(),
            epoll,
            timer,
            deadlines: BinaryHeap::new(),
            eps: Eps::default(),
            conns: Slab::new(),
            handshakes: Slab::new(),
            hot: Vec::new(),
            dirty: Vec::new(),
            held: Vec::new(),
            stalled: Vec::new(),
            scratch: vec![0; SCRATCH].into_boxed_slice(),
            buffers: Vec::new(),
            groups: Groups::default(),
            look: 1,
            wide: 0,
            last: usize::MAX,
            sure: 0,
            watches_peers: false,
            pid: super::connect::process_id(),
        })
    }

    fn open_pep(
        fabric: &Arc<FabricShared<Tcp>>,
        info: Info,
        context: *mut c_void,
    ) -> Result<*mut fid_pep> {
        pep::Pep::open(fabric, info, context)
    }

    fn poll_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    #[inline]
    fn progress(&mut self, core: &mut Core) {
        self.look(core);
    }

    fn progress_all(&mut self, core: &mut Core) {
        self.look_everywhere(core);
    }

    #[inline]
    fn flush(&mut self, core: &mut Core) {
        if !self.dirty.is_empty() {
            self.flush_dirty(core);
            if !self.held.is_empty() {
                self.retry_held(core);
            }
        }
    }

    #[inline]
    fn holds_back(&self) -> bool {
        !self.dirty.is_empty()
    }

    fn open_ep(&mut self, _core: &mut Core, ep: usize, info: &Info) -> Result {
        self.open_endpoint(ep, info)
    }

    fn enable_ep(&mut self, _core: &mut Core, ep: usize) -> Result {
        self.enable_endpoint(ep)
    }

    fn set_keys(&mut self, ep: usize, keys: Vec<Key>) -> Result {
        let endpoint = self.ep_mut(ep)?;
        endpoint.keys = Some(keys);
        endpoint.keys_of_av = true;
        Ok(())
    }

    fn close_ep(&mut self, core: &mut Core, ep: usize) {
        self.close_endpoint(core, ep);
    }

    #[inline]
    fn transmit(&mut self, core: &mut Core, ep: usize, tx: &Tx<'_>) -> Result {
        self.post(core, ep, tx)
    }

    fn atomic(&mut self, core: &mut Core, port: usize, ep: usize, atomic: &Atomic<'_>) -> Result {
        self.post_atomic(core, port, ep, atomic)
    }

    fn transmit_from(&mut self, core: &mut Core, port: usize, ep: usize, tx: &Tx<'_>) -> Result {
        self.post_from(core, port, ep, tx)
    }

    fn close_tx_context(&mut self, core: &mut Core, port: usize, ep: usize, heir: usize) {
        self.leave_transmits(core, port, ep, heir);
    }

    fn close_rx_context(&mut self, core: &mut Core, port: usize, ep: usize) {
        self.leave_receives(core, port, ep);
    }

    fn claim(&mut self, core: &mut Core, claimed: Claimed) {
        self.bring(core, claimed);
    }

    #[inline]
    fn source(envelope: &Envelope) -> u64 {
        // Sources without an address have the top bit, see `ep::unknown_source`.
        match envelope.source >> 63 {
            0 => envelope.source,
            _ => FI_ADDR_NOTAVAIL,
        }
    }

    fn room_again(&mut self, core: &mut Core) {
        self.retry_stalled(core);
    }

    fn name(&self, ep: usize) -> Result<Vec<u8>> {
        self.ep(ep)?.name()
    }

    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result {
        self.rename_endpoint(ep, addr)
    }

    fn peer(&self, ep: usize) -> Result<Vec<u8>> {
        self.peer_name(ep)
    }

    fn cancel(&mut self, core: &mut Core, ep: usize, context: usize) {
        self.cancel_waiting(core, ep, context);
    }

    fn socket(&self, ep: usize) -> Result<RawFd> {
        self.socket_of(ep)
    }

    fn connect(&mut self, core: &mut Core, ep: usize, addr: Option<&[u8]>, param: &[u8]) -> Result {
        self.connect_msg(core, ep, addr, param)
    }

    fn accept(&mut self, core: &mut Core, ep: usize, param: &[u8]) -> Result {
        self.accept_msg(core, ep, param)
    }

    fn shutdown(&mut self, core: &mut Core, ep: usize) -> Result {
        self.shutdown_msg(core, ep)
    }

    const COLLECTIVES: bool = true;

    fn open_group(
        &mut self,
        core: &mut Core,
        ep: usize,
        membership: &Membership<'_>,
    ) -> Result<u64> {
        self.open_collective(core, ep, membership)
    }

    fn join_group(
        &mut self,
        core: &mut Core,
        ep: usize,
        group: u64,
        token: (usize, usize),
        alone: bool,
    ) {
        self.join_collective(core, ep, group, token, alone);
    }

    fn leave_group(&mut self, core: &mut Core, ep: usize, group: u64) {
        self.leave_collective(core, ep, group);
    }

    fn shape(
        &self,
        core: &Core,
        ep: usize,
        what: fi_collective_op,
        group: u64,
        root: u64,
    ) -> Result<Shape> {
        self.shape_of(core, ep, what, group, root)
    }

    fn collect(&mut self, core: &mut Core, ep: usize, call: &Collective) -> Result {
        self.start_collective(core, ep, call)
    }

    fn av_inserted(&mut self, core: &mut Core, av: usize, index: u64) {
        self.learn_address(core, av, index);
    }

    fn av_removed(&mut self, core: &mut Core, av: usize, index: u64, addr: &Addr) {
        self.forget_address(core, av, index, addr);
    }

    fn set_firewalled(&mut self, ep: usize, on: bool) -> Result {
        self.ep_mut(ep)?.firewalled = on;
        Ok(())
    }
}

/// The address that a wildcard listener of this kind binds to.
pub(super) fn any_address(v6: bool) -> SocketAddr {
    match v6 {
        true => SocketAddr::from(([0u16; 8], 0)),
        false => SocketAddr::from(([0u8; 4], 0)),
    }
}
