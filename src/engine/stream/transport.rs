// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The state of one domain, and the calls that the engine makes on it. What each does is in `ep`, `tx`, `rx` and `progress`,
//! or the provider's.
#![forbid(unsafe_code)]

use core::ffi::c_void;
use core::time::Duration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
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
use crate::engine::flusher::Held;
use crate::engine::srx::{Claimed, Envelope};
use crate::engine::stream::board::Board;
use crate::engine::stream::coll::Groups;
use crate::engine::stream::conn::Conn;
use crate::engine::stream::ep::{Ep, Eps};
use crate::engine::stream::linger::Linger;
use crate::engine::stream::meeting::Guest;
use crate::engine::stream::net::Net;
use crate::engine::stream::proto::MAX_ATOMIC;
use crate::engine::stream::shared::Glance;
use crate::engine::stream::stall::Waits;
use crate::engine::transport::{Address, Membership, MrRegion, Transport};
use crate::ffi::ops::atomic::Atomic;
use crate::ffi::ops::collective::Collective;
use crate::ffi::ops::transfer::{OneTx, Tx};
use crate::hmem::Host;
use crate::sync::Children;
use crate::sys::event::{Epoll, Timer};
use crate::sys::fork::Birth;

pub type Core<N> = EngineCore<<N as Net>::Addr>;

/// What the provider's settings say of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest tagged message that is kept when nobody has asked for it.
    pub saved_size: usize,
    /// Bytes of such messages that are kept for each receive context.
    pub saved_bytes: usize,
    /// No progress thread, although progress is automatic.
    pub no_progress_thread: bool,
    /// The kernel may copy from process to process.
    pub copies: bool,
    /// How long somebody who wants to share memory may take to say who it is.
    pub greeting: Duration,
    /// How long the end of an endpoint, or of the process, waits for peers to take what was accepted for them.
    pub close: Duration,
    /// After that an operation that waits for its peer fails, and is reported; zero: never.
    pub op_timeout: Duration,
    pub stall_report: Duration,
    /// Bytes of each ring with a peer; if not given, it depends on how many peers there are.
    pub ring_size: Option<usize>,
}

/// The endpoints of one domain and their connections.
pub struct Stream<N: Net> {
    /// Who opened it: a child has no part in rings and sockets.
    birth: Birth,
    pub(crate) params: N::Params,
    pub(crate) limits: Limits,
    /// What the provider keeps.
    pub(crate) own: N::Domain,
    pub(crate) epoll: Epoll,
    pub(crate) timer: Timer,
    /// Deadlines, earliest first; those that no longer hold are skipped when they come up.
    pub(crate) deadlines: BinaryHeap<Reverse<(Instant, Due)>>,
    /// By the endpoint's number in `core.eps`.
    pub(crate) eps: Eps<N>,
    pub(crate) conns: Slab<Conn<N>>,
    /// Connections that are read without asking epoll.
    pub(crate) hot: Vec<usize>,
    /// Connections over shared memory that are looked at directly, and those without room for what is queued.
    pub(crate) ducts: Vec<usize>,
    pub(crate) full: Vec<usize>,
    /// Connections over shared memory, all of them.
    pub(crate) shared: usize,
    /// Those who have come to share memory with us and not said who they are.
    pub(crate) guests: Slab<Guest>,
    /// What peers that share memory with us know of registered memory; once there is one.
    pub(crate) board: Option<Board>,
    /// Whoever writes to shared memory rings the bell.
    pub(crate) dozing: bool,
    /// The timer is to go off at once, whatever the deadlines are: see `end_sleep`.
    pub(super) is_urgent: bool,
    /// Peers that share memory know that this side may sleep.
    pub(super) expects_sleep: bool,
    /// Connections with frames to be written.
    pub(crate) dirty: Vec<usize>,
    /// Since when there are any, for the thread that flushes them; and whether there is no such thread.
    pub(super) held_back: Arc<Held>,
    pub(super) is_unserved: bool,
    /// Connections with operations that wait for others to complete.
    pub(crate) held: Vec<usize>,
    /// Connections that are not read because the unexpected messages reached their limit, or the queue its brim.
    pub(crate) stalled: Vec<usize>,
    /// Where sockets are read to; small messages are taken from here.
    pub(crate) scratch: Box<[u8]>,
    /// Staging buffers not in use.
    pub(crate) buffers: Vec<Vec<u8>>,
    /// Groups that endpoints have joined, and their collectives.
    pub(crate) groups: Groups<N::Addr>,
    /// Counts calls of `progress`.
    pub(crate) look: u64,
    /// While above zero only epoll is asked; see `progress`.
    pub(crate) wide: u32,
    /// The connection that had news last, and how many guesses of the next one came true, in a row; see `progress`.
    pub(crate) last: usize,
    pub(crate) sure: u32,
    /// Whether a look at shared memory that finds nothing waits a moment.
    pub(super) linger: Linger,
    /// Operations that wait.
    pub(super) waits: Waits,
    /// A look at what peers have acknowledged is due.
    pub(crate) watches_peers: bool,
}

/// What a deadline is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Due {
    Conn(usize),
    Handshake(usize),
    Guest(usize),
    Listener(usize),
    /// Peers that have not acknowledged what they were sent.
    Peers,
    /// Operations that wait.
    Waits,
}

impl<N: Net> Stream<N> {
    /// Makes the timer go off for the earliest deadline.
    pub fn schedule(&mut self, at: Instant, due: Due) {
        let earlier = self
            .deadlines
            .peek()
            .is_none_or(|Reverse((first, _))| at < *first);
        self.deadlines.push(Reverse((at, due)));
        if earlier && !self.is_urgent {
            self.timer
                .set(Some(at.saturating_duration_since(Instant::now())));
        }
    }

    /// Whether there are connections over shared memory.
    #[inline(always)]
    pub(super) fn has_ducts(&self) -> bool {
        N::DUCTS || N::MAY_SHARE && self.shared > 0
    }

    /// A child has its parent's rings, sockets and epoll set before it, and no part in any of them. It comes here only to close
    /// what it has of them: `children_may`.
    pub fn is_inherited(&self) -> bool {
        self.has_ducts() && !self.is_at_home()
    }

    /// Whether this is the process that opened the domain.
    pub fn is_at_home(&self) -> bool {
        self.birth.is_here()
    }

    pub fn ep(&self, ep: usize) -> Result<&Ep<N>> {
        self.eps.get(ep).ok_or(Error::INVAL)
    }

    pub fn ep_mut(&mut self, ep: usize) -> Result<&mut Ep<N>> {
        self.eps.get_mut(ep).ok_or(Error::INVAL)
    }
}

/// Bytes that one read takes from a socket at most.
const SCRATCH: usize = 64 * 1024;

impl<N: Net> Transport for Stream<N> {
    type Addr = N::Addr;
    type Memory = Host;
    type Fabric = N::Params;

    const SOURCE: &'static Source = N::SOURCE;
    const CQ_SIZE: usize = N::CQ_SIZE;
    const CQ_DATA_SIZE: usize = 8;
    const AUTH_KEY_SIZE: usize = N::AUTH_KEY_SIZE;
    const AUTH_KEYS: usize = N::AUTH_KEYS;
    const ATOMIC_SIZE: usize = MAX_ATOMIC;
    const SHARES_MEMORY: bool = N::MAY_SHARE;
    const HMEM: bool = N::HMEM;

    fn provider(params: &N::Params) -> &'static Source {
        N::provider(params)
    }

    fn offers_auto_progress(params: &N::Params) -> bool {
        !N::limits(params).no_progress_thread
    }

    /// Of a domain that has only sockets a child may make what it can.
    fn children_may(&self) -> Children {
        match self.has_ducts() {
            true => Children::Close,
            false => Children::Go,
        }
    }

    fn open(params: &N::Params) -> Result<Stream<N>> {
        let epoll = Epoll::new()?;
        let timer = Timer::new()?;
        epoll.add(timer.as_raw_fd(), super::progress::TIMER, true, false)?;
        let limits = N::limits(params);
        Ok(Stream {
            birth: Birth::here(),
            params: params.clone(),
            waits: Waits::new(limits.op_timeout, limits.stall_report),
            limits,
            own: N::open(params)?,
            epoll,
            timer,
            deadlines: BinaryHeap::new(),
            eps: Eps::default(),
            conns: Slab::new(),
            hot: Vec::new(),
            ducts: Vec::new(),
            full: Vec::new(),
            shared: 0,
            guests: Slab::new(),
            board: None,
            dozing: true,
            is_urgent: false,
            expects_sleep: false,
            dirty: Vec::new(),
            held_back: Held::new(),
            is_unserved: false,
            held: Vec::new(),
            stalled: Vec::new(),
            scratch: vec![0; SCRATCH].into_boxed_slice(),
            buffers: Vec::new(),
            groups: Groups::default(),
            look: 1,
            wide: 0,
            last: usize::MAX,
            sure: 0,
            linger: Linger::new(),
            watches_peers: false,
        })
    }

    fn open_pep(
        fabric: &Arc<FabricShared<Stream<N>>>,
        info: Info,
        context: *mut c_void,
    ) -> Result<*mut fid_pep> {
        N::open_pep(fabric, info, context)
    }

    fn poll_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    // Programs that wait look again and again, and mostly there is nothing: that is found out without a call.
    #[inline(always)]
    fn progress(&mut self, core: &mut Core<N>) {
        if !self.has_ducts() {
            return self.look(core);
        }
        match self.glance(core) {
            Glance::Nothing => {
                self.look = self.look.wrapping_add(1);
                if self.linger.is_due() {
                    self.wait_a_moment(core);
                }
            }
            Glance::NewsOf(id) => {
                self.look = self.look.wrapping_add(1);
                self.linger.found();
                self.read_duct(core, id);
            }
            Glance::Unclear => self.look(core),
        }
    }

    fn take_at_hand(&mut self, core: &mut Core<N>) {
        if self.has_ducts() {
            self.read_ducts(core);
        }
    }

    fn progress_all(&mut self, core: &mut Core<N>) {
        self.look_everywhere(core);
    }

    fn held_back(&self) -> &Arc<Held> {
        &self.held_back
    }

    fn end_holding(&self) {
        if !self.holds_back_frames() {
            self.held_back.end();
        }
    }

    #[inline]
    fn must_flush(&self) -> bool {
        self.is_unserved && !self.dirty.is_empty()
    }

    #[inline]
    fn flush(&mut self, core: &mut Core<N>) {
        if !self.dirty.is_empty() {
            self.flush_dirty(core);
            // A peer may have waited for that, and nothing may come that tells to look again.
            while !self.stalled.is_empty() {
                self.retry_stalled(core);
                if self.dirty.is_empty() {
                    break;
                }
                self.flush_dirty(core);
            }
            if !self.held.is_empty() {
                self.retry_held(core);
            }
        }
    }

    #[inline]
    fn holds_back(&self) -> bool {
        !self.dirty.is_empty()
    }

    fn open_ep(&mut self, _core: &mut Core<N>, ep: usize, info: &Info) -> Result {
        N::open_ep(self, ep, info)
    }

    fn enable_ep(&mut self, _core: &mut Core<N>, ep: usize) -> Result {
        N::enable_ep(self, ep)
    }

    fn set_keys(&mut self, ep: usize, keys: Vec<Key>) -> Result {
        N::set_keys(self, ep, keys)
    }

    fn close_limit(&self) -> Duration {
        self.limits.close
    }

    fn owes(&self, ep: Option<usize>, patient: bool) -> bool {
        self.is_at_home() && self.owes_peers(ep, patient)
    }

    fn leave_memory(&mut self, core: &mut Core<N>) {
        Stream::leave_memory(self, core);
    }

    fn tell_lost(&self, ep: Option<usize>) {
        Stream::tell_lost(self, ep);
    }

    fn close_ep(&mut self, core: &mut Core<N>, ep: usize) {
        match self.is_inherited() {
            false => self.close_endpoint(core, ep),
            true => self.leave_endpoint(ep),
        }
    }

    #[inline]
    fn transmit_one(&mut self, core: &mut Core<N>, ep: usize, tx: &OneTx) -> bool {
        self.post_one(core, ep, tx)
    }

    #[inline]
    fn transmit(&mut self, core: &mut Core<N>, ep: usize, tx: Tx<'_>) -> Result {
        self.post(core, ep, tx)
    }

    fn atomic(&mut self, core: &mut Core<N>, port: usize, ep: usize, atomic: Atomic<'_>) -> Result {
        self.post_atomic(core, port, ep, atomic)
    }

    fn transmit_from(&mut self, core: &mut Core<N>, port: usize, ep: usize, tx: Tx<'_>) -> Result {
        self.post_from(core, port, ep, tx)
    }

    fn close_tx_context(&mut self, core: &mut Core<N>, port: usize, ep: usize, heir: usize) {
        if self.is_inherited() {
            return;
        }
        self.leave_transmits(core, port, ep, heir);
    }

    fn close_rx_context(&mut self, core: &mut Core<N>, port: usize, ep: usize) {
        if self.is_inherited() {
            return;
        }
        self.leave_receives(core, port, ep);
    }

    fn counts_accesses(&mut self, core: &mut Core<N>) {
        self.hide_regions(core);
    }

    fn claim(&mut self, core: &mut Core<N>, claimed: Claimed) {
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

    fn region_opened(&mut self, _core: &mut Core<N>, region: &MrRegion) {
        if let Some(board) = &mut self.board {
            board.publish(region);
        }
    }

    fn region_closed(&mut self, core: &mut Core<N>, region: &Arc<MrRegion>) {
        // What peers know of is the parent's.
        if self.is_inherited() {
            return;
        }
        let withdrawn = self.board.as_mut().and_then(|board| board.withdraw(region));
        if let Some(at) = withdrawn {
            self.wait_for_users(core, at);
        }
        if region.is_closed() {
            self.end_accesses(core, region);
        }
    }

    fn looked_up(&self, addr: &N::Addr) -> Vec<u8> {
        N::looked_up(self, addr)
    }

    fn room_again(&mut self, core: &mut Core<N>) {
        self.retry_stalled(core);
    }

    fn name(&self, ep: usize) -> Result<Vec<u8>> {
        Ok(self.ep(ep)?.local.to_bytes())
    }

    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result {
        N::set_name(self, ep, addr)
    }

    fn peer(&self, ep: usize) -> Result<Vec<u8>> {
        N::peer(self, ep)
    }

    fn tx_room(&mut self, ep: usize, inject: usize, caps: u64) -> usize {
        self.room_of(ep, inject, caps)
    }

    fn cancel(&mut self, core: &mut Core<N>, ep: usize, context: usize) {
        self.cancel_waiting(core, ep, context);
    }

    fn socket(&self, ep: usize) -> Result<RawFd> {
        N::socket(self, ep)
    }

    fn connect(
        &mut self,
        core: &mut Core<N>,
        ep: usize,
        addr: Option<&[u8]>,
        param: &[u8],
    ) -> Result {
        N::connect(self, core, ep, addr, param)
    }

    fn accept(&mut self, core: &mut Core<N>, ep: usize, param: &[u8]) -> Result {
        N::accept(self, core, ep, param)
    }

    fn shutdown(&mut self, core: &mut Core<N>, ep: usize) -> Result {
        N::shutdown(self, core, ep)
    }

    const COLLECTIVES: bool = true;

    fn open_group(
        &mut self,
        core: &mut Core<N>,
        ep: usize,
        membership: &Membership<'_>,
    ) -> Result<u64> {
        self.open_collective(core, ep, membership)
    }

    fn join_group(
        &mut self,
        core: &mut Core<N>,
        ep: usize,
        group: u64,
        token: (usize, usize),
        alone: bool,
    ) {
        self.join_collective(core, ep, group, token, alone);
    }

    fn leave_group(&mut self, core: &mut Core<N>, ep: usize, group: u64) {
        if self.is_inherited() {
            return;
        }
        self.leave_collective(core, ep, group);
    }

    fn shape(
        &self,
        core: &Core<N>,
        ep: usize,
        what: fi_collective_op,
        group: u64,
        root: u64,
    ) -> Result<Shape> {
        self.shape_of(core, ep, what, group, root)
    }

    fn collect(&mut self, core: &mut Core<N>, ep: usize, call: Collective) -> Result {
        self.start_collective(core, ep, call)
    }

    fn av_inserted(&mut self, core: &mut Core<N>, av: usize, index: u64) {
        self.learn_address(core, av, index);
    }

    fn av_removed(&mut self, core: &mut Core<N>, av: usize, index: u64, addr: &N::Addr) {
        self.forget_address(core, av, index, addr);
    }

    fn set_firewalled(&mut self, ep: usize, on: bool) -> Result {
        N::set_firewalled(self, ep, on)
    }

    fn permit_sharing(&mut self, ep: usize, on: bool) -> Result {
        N::permit_sharing(self, ep, on)
    }
}
