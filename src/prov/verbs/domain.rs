// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The transport: the endpoints of one domain at one device. Its parts: `completions` polls, `post` posts, `receives`
//! receives, `queues` opens completion queues, `connect` handles events of the connection manager, `drain` waits before
//! a close, `regions` registers memory, `parts` has the other optional traits.

mod completions;
mod connect;
mod datagrams;
mod drain;
mod parts;
mod post;
mod queues;
mod receives;
mod regions;

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::Arc;

use super::SOURCE;
use super::adapter::{Adapter, adapters, format_of};
use super::datagram::{Datagrams, SUFFIX};
use super::ep::{Ep, State};
use super::health::{Failure, Health, health_of};
use super::pep;
use super::request::{Request, refusal_text};
use super::ticket::{Holder, PLACES};
use super::{params, place};
use abi::*;
use base::info::Info;
use base::iovec::IOV_LIMIT;
use base::log::{Source, Subsys, log_info};
use base::{Error, Result};
use engine::address::mixed::{Addr, Format};
use engine::clock::Monotonic;
use engine::domain_state::{DomainState, TxOp};
use engine::id_set::IdSet;
use engine::mr::Region;
use engine::mr::cache::Cache;
use engine::reactor::{Reactor, Token};
use engine::report::dump;
use engine::report::gather::attend;
use engine::transport::{DomainStateOf, MrRegion, Registration, Transport};
use object::handle;
use object::ops::mr::MrRequest;
use object::ops::transfer::{OneTx, OneWrite, Tx};
use rustc_hash::FxBuildHasher;
use sync::Children;
use sync::Serialized;
use sys::event::SharedFd;
use sys::verbs::{self, CompletionQueue, EventChannel, Id, Pair, ProtectionDomain, SharedReceives};

use self::datagrams::Unconnected;
use self::regions::Registered;

pub struct Domain {
    adapter: &'static Adapter,
    protection: Arc<ProtectionDomain>,
    /// The events of the endpoints' connections.
    channel: Arc<EventChannel>,
    reactor: Reactor<()>,
    /// What the device reports, and how much of that this domain has handled.
    health: Arc<Health>,
    health_seen: u64,
    /// By their number in `DomainState::eps`.
    eps: Vec<Option<Box<Ep>>>,
    /// By their number in `DomainState::cqs`.
    queues: Vec<Option<Queue>>,
    /// By their number in `DomainState::srxs`.
    shared: Vec<Option<Shared>>,
    /// The endpoints of queue pairs with a shared receive context, by the number of the pair.
    pairs: HashMap<u32, usize, FxBuildHasher>,
    /// Set if its endpoints are of the type FI_EP_DGRAM.
    unconnected: Option<Unconnected>,
    /// By the place of the handle's region.
    regions: HashMap<usize, Registered, FxBuildHasher>,
    /// Regions that the application has closed.
    cache: Cache<verbs::Region>,
    generation: u16,
    /// Number of endpoints that wait for an event of the connection manager.
    awaiting: usize,
    /// Endpoints with requests that FI_MORE has deferred.
    holding: IdSet,
    polls: u32,
}

/// The adapter's part of a completion queue.
pub struct Queue {
    queue: Arc<CompletionQueue>,
    /// Entries of the queues of all its endpoints.
    reserved: usize,
    /// Requests that have not completed. Each may need an entry.
    used: usize,
    /// Endpoints with a shared receive context, whose receives are not among those requests.
    sharing: usize,
}

/// The adapter's part of a shared receive context.
pub struct Shared {
    queue: Arc<SharedReceives>,
    size: usize,
    receives: slab::Slab<engine::domain_state::AdapterReceive>,
}

/// Number of polls between two reads of connection events, if none is awaited, and two checks for report requests.
const EVENTS_EVERY: u32 = 256;

/// The kind of tokens of the event channel, and of the channel of a completion queue.
const EVENTS: u32 = 1;
const COMPLETIONS: u32 = 2;
/// Reports of the device.
const NOTICES: u32 = 3;

impl Domain {
    #[inline]
    fn ep(&self, ep: usize) -> Result<&Ep> {
        self.eps
            .get(ep)
            .and_then(Option::as_deref)
            .ok_or(Error::INVAL)
    }

    #[inline]
    fn ep_mut(&mut self, ep: usize) -> Result<&mut Ep> {
        let endpoint = self.eps.get_mut(ep).and_then(Option::as_deref_mut);
        endpoint.ok_or(Error::INVAL)
    }

    /// The endpoint of an event or a completion, unless it was closed.
    #[inline]
    fn holder(&mut self, holder: Holder) -> Option<&mut Ep> {
        let endpoint = self.ep_mut(holder.place).ok()?;
        (endpoint.holder == holder).then_some(endpoint)
    }

    fn poll_events(&mut self, domain: &mut DomainState<Addr>) {
        while let Some(event) = EventChannel::next(&self.channel) {
            self.handle_event(domain, event);
        }
        self.read_notices(domain);
    }

    /// Ends the connections that the device has reported as failed.
    fn read_notices(&mut self, domain: &mut DomainState<Addr>) {
        self.health.read(self.adapter.device, &self.adapter.name);
        let number_of = |ep: &Option<Box<Ep>>| ep.as_deref()?.any_pair().map(Pair::number);
        let eps = &self.eps;
        let is_own = |pair| eps.iter().any(|ep| number_of(ep) == Some(pair));
        let news = self.health.news(&mut self.health_seen, is_own);
        for failure in news {
            for ep in 0..self.eps.len() {
                let number = number_of(&self.eps[ep]);
                let is_meant = match failure {
                    Failure::Pair(pair) => number == Some(pair),
                    Failure::Device => number.is_some(),
                };
                if is_meant {
                    self.end_failed(domain, ep);
                }
            }
        }
    }

    /// See `report::gather`.
    #[cold]
    fn attend(&self, domain: &mut DomainState<Addr>) {
        if attend(self, domain, self.reactor.now()) {
            dump::request_dump_here();
        }
    }

    fn check(&self, info: &Info) -> Result {
        let inline = match (fi_ep_type(info.ep.ep_type), &self.unconnected) {
            (FI_EP_MSG, None) => self.adapter.inline,
            (FI_EP_DGRAM, Some(_)) => self.adapter.datagram_inline.unwrap_or(0),
            (FI_EP_RDM, _) => return Err(Error::NOSYS),
            _ => return Err(Error::INVAL),
        };
        let device = &self.adapter.attributes;
        let most = usize::try_from(device.max_qp_wr).unwrap_or(0);
        let fits = info.tx.size.max(info.rx.size) <= most
            && info.tx.inject_size <= inline
            && info.tx.iov_limit.max(info.rx.iov_limit) <= IOV_LIMIT
            && info.tx.rma_iov_limit <= 1;
        fits.then_some(()).ok_or(Error::INVAL)
    }

    /// The identifier of a new endpoint: that of the request or passive endpoint in its info, or a new one.
    fn identifier(&self, info: &Info, holder: Holder) -> Result<(Id, State)> {
        let token = holder.token();
        if info.handle == 0 {
            let address = info.dest_addr.as_deref().or(info.src_addr.as_deref());
            let space = place::space_of(address.unwrap_or_default());
            return Ok((Id::new(Some(&self.channel), space, token)?, State::Idle));
        }
        let (mut id, state) = match pep::take_bound(info.handle) {
            Some(id) => (id?, State::Idle),
            None => (
                handle::take::<Request>(info.handle)?.into_id()?,
                State::Requested,
            ),
        };
        if state == State::Requested && id.device() != Some(self.adapter.device) {
            return Err(Error::INVAL);
        }
        id.migrate(&self.channel, token)?;
        Ok((id, state))
    }
}

/// The adapter of a domain with this name, and whether the endpoints are of the type FI_EP_DGRAM.
fn find(name: &[u8]) -> Option<(&'static Adapter, bool)> {
    let whole = |name: &[u8]| {
        let mut all = adapters(params()).iter();
        all.find(|adapter| adapter.name.as_bytes().eq_ignore_ascii_case(name))
    };
    if let Some(adapter) = whole(name) {
        return Some((adapter, false));
    }
    let (device, suffix) = name.split_at_checked(name.len().checked_sub(SUFFIX.len())?)?;
    let adapter = whole(device).filter(|_| suffix.eq_ignore_ascii_case(SUFFIX.as_bytes()))?;
    Some((adapter, true))
}

impl Transport for Domain {
    type Fabric = ();

    const SOURCE: &'static Source = &SOURCE;
    const CQ_SIZE: usize = 1024;
    const CQ_DATA_SIZE: usize = size_of::<u32>();
    const TAKES_BUFFERS: bool = true;
    const EVENTS_CAN_WAIT: bool = true;

    fn event_text(number: i32) -> Option<&'static CStr> {
        refusal_text(number)
    }

    /// The adapter moves data without a thread. Any call that drives the domain makes progress with connections.
    fn offers_auto_progress(_fabric: &()) -> bool {
        false
    }

    fn open(_fabric: &(), info: &Info, _: Serialized) -> Result<Domain> {
        let name = info.domain.name.as_deref().ok_or(Error::INVAL)?.to_bytes();
        let (adapter, is_datagram) = find(name).ok_or(Error::NODATA)?;
        let protection = ProtectionDomain::new(adapter.device)?;
        let channel = Arc::new(EventChannel::new()?);
        let reactor = Reactor::new(Monotonic)?;
        let health = health_of(adapter.device);
        reactor.add(&*channel, Token::new(EVENTS, 0), true, false)?;
        if let Ok(notices) = adapter.device.notices() {
            reactor.add(notices, Token::new(NOTICES, 0), true, false)?;
        }
        Ok(Domain {
            adapter,
            protection,
            channel,
            reactor,
            health_seen: health.changes(),
            health,
            eps: Vec::new(),
            queues: Vec::new(),
            shared: Vec::new(),
            pairs: HashMap::default(),
            unconnected: is_datagram.then(|| Unconnected::new(adapter)),
            regions: HashMap::default(),
            cache: Cache::default(),
            generation: 0,
            awaiting: 0,
            holding: IdSet::default(),
            polls: 0,
        })
    }

    fn format(&self) -> Format {
        match self.unconnected {
            None => Format::Ip,
            Some(_) => Format::Ud,
        }
    }

    const HMEM: bool = true;
    const READS_DEVICES: bool = true;

    fn reads_descs(&self) -> bool {
        true
    }

    fn children_may(&self) -> Children {
        Children::Close
    }

    fn poll_fd(&self) -> SharedFd {
        self.reactor.shared()
    }

    #[inline]
    fn progress(&mut self, domain: &mut DomainState<Addr>) {
        for queue in 0..self.queues.len() {
            self.poll_queue(domain, queue);
        }
        self.polls = self.polls.wrapping_add(1);
        let is_due = self.polls.is_multiple_of(EVENTS_EVERY);
        if self.awaiting > 0 || is_due {
            self.poll_events(domain);
        }
        if is_due {
            self.attend(domain);
            self.cache.drop_changed();
        }
    }

    /// The completions of other queues are taken by their readers, and by `post` when it needs room.
    #[inline]
    fn progress_queue(&mut self, domain: &mut DomainState<Addr>, cq: usize) {
        self.poll_queue(domain, cq);
        let polls = self.polls.wrapping_add(1);
        if self.awaiting > 0 || polls.is_multiple_of(EVENTS_EVERY) {
            return self.progress(domain);
        }
        self.polls = polls;
    }

    fn progress_all(&mut self, domain: &mut DomainState<Addr>) {
        for queue in 0..self.queues.len() {
            self.arm_queue(queue);
            while self.poll_queue(domain, queue) {}
        }
        self.poll_events(domain);
        self.attend(domain);
    }

    fn open_ep(&mut self, _domain: &mut DomainState<Addr>, ep: usize, info: &Info) -> Result {
        self.check(info)?;
        if ep >= PLACES {
            return Err(Error::NOSPC);
        }
        self.generation = Holder::next_generation(self.generation);
        let holder = Holder {
            place: ep,
            generation: self.generation,
        };
        let mut endpoint = Ep::new(holder, info);
        match &self.unconnected {
            None => {
                let (id, state) = self.identifier(info, holder)?;
                (endpoint.id, endpoint.state) = (Some(id), state);
            }
            Some(_) => endpoint.datagrams = Some(Datagrams::new(info)?),
        }
        let state = endpoint.state;
        log_info!(
            &SOURCE,
            Subsys::EpCtrl,
            "endpoint {ep} at {}: {}",
            self.adapter.name,
            state.words()
        );
        if self.eps.len() <= ep {
            self.eps.resize_with(ep + 1, || None);
        }
        self.eps[ep] = Some(Box::new(endpoint));
        Ok(())
    }

    fn enable_ep(&mut self, domain: &mut DomainState<Addr>, ep: usize) -> Result {
        let state = &domain.eps[ep];
        // A missing queue is replaced by the other one.
        let send = state.tx_cq.or(state.rx_cq).ok_or(Error::NOCQ)?;
        let receive = state.rx_cq.unwrap_or(send);
        let shared = state.shares_receives.then_some(state.srx);
        let endpoint = self.ep_mut(ep)?;
        (endpoint.send_queue, endpoint.receive_queue) = (send, receive);
        endpoint.shared = shared;
        match endpoint.state {
            State::Requested => self.create_pair(ep),
            _ if endpoint.datagrams.is_some() => self.open_pair(ep),
            _ => Ok(()),
        }
    }

    fn close_ep(&mut self, domain: &mut DomainState<Addr>, ep: usize) {
        self.end_ep(domain, ep);
    }

    fn name(&self, ep: usize) -> Result<Vec<u8>> {
        let endpoint = self.ep(ep)?;
        if let Some(datagrams) = &endpoint.datagrams {
            return Ok(datagrams.name());
        }
        let local = endpoint.id.as_ref().map(Id::local).unwrap_or_default();
        Ok(match local.is_empty() {
            true => endpoint.src.clone().unwrap_or_default(),
            false => local,
        })
    }

    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result {
        let endpoint = self.ep_mut(ep)?;
        // The number of a queue pair cannot be chosen.
        if endpoint.datagrams.is_some() {
            return Err(Error::NOSYS);
        }
        if endpoint.state != State::Idle {
            return Err(Error::OPBADSTATE);
        }
        let old = endpoint.src.as_deref();
        if !place::is_address(addr) || old.is_some_and(|old| format_of(old) != format_of(addr)) {
            return Err(Error::INVAL);
        }
        endpoint.src = Some(addr.to_vec());
        Ok(())
    }

    fn reach(&mut self, _domain: &mut DomainState<Addr>, addr: &Addr) -> Result {
        self.find_way(addr).map(|_| ())
    }

    #[inline]
    fn transmit_one(&mut self, domain: &mut DomainState<Addr>, ep: usize, tx: &OneTx) -> bool {
        self.send_short(domain, ep, tx)
    }

    #[inline]
    fn write_one(&mut self, domain: &mut DomainState<Addr>, ep: usize, write: &OneWrite) -> bool {
        self.write_short(domain, ep, write)
    }

    fn transmit(&mut self, domain: &mut DomainState<Addr>, ep: usize, tx: &mut Tx<'_>) -> Result {
        self.send(domain, ep, tx)
    }

    fn cancel(&mut self, _: &mut DomainState<Addr>, _: usize, _: usize) -> Option<TxOp> {
        None
    }

    fn register(
        &mut self,
        domain: &mut DomainStateOf<Self>,
        request: MrRequest<'_>,
    ) -> Result<Registration> {
        self.register_memory(domain, request)
    }

    fn region_opened(&mut self, _domain: &mut DomainStateOf<Self>, region: &MrRegion) {
        if region.is_closed() {
            self.end_region(region);
        }
    }

    fn region_closed(&mut self, _domain: &mut DomainStateOf<Self>, region: &Arc<MrRegion>) {
        if Region::is_closed(region) {
            self.end_region(region);
        }
    }
}
