// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The transport: the endpoints of a domain, each over an endpoint of the provider below, and the loop that takes
//! packets from that provider.

mod agenda;
mod parts;
mod post;

use core::time::Duration;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::time::Instant;

use self::agenda::Agenda;
pub use self::agenda::Entry;
use super::SOURCE;
use super::endpoint::{Endpoint, check};
use super::fabric::LowerFabric;
use super::lower::{Arrived, Failure, Line, LowerDomain, LowerEp};
use super::params::Params;
use super::port::{Port, Routes};
use super::session::{Cx, Ids, Session};
use base::info::Info;
use base::log::{Source, Subsys, log_info};
use base::{Error, Result};
use client::Completion;
use engine::address::mixed::{Addr, Format};
use engine::clock::Monotonic;
use engine::domain_state::{DomainState, TxOp};
use engine::peer::post::post;
use engine::peer::stall::{self, attend_with};
use engine::reactor::{Reactor, Token};
use engine::report::Peer;
use engine::srx::{Claimed, Envelope};
use engine::strangers::fi_addr_of;
use engine::transport::*;
use object::ops::transfer::Tx;
use sync::Serialized;
use sys::event::SharedFd;
use sys::random::unpredictable;

type State = DomainState<Addr>;

pub struct Rxd {
    params: &'static Params,
    /// Declared before `lower`, so that the endpoints close before the objects that they are opened on.
    eps: BTreeMap<usize, Endpoint>,
    lower: LowerDomain,
    agenda: Agenda,
    /// Only deadlines are registered here, no descriptors; the deadline is its own token.
    reactor: Reactor<Instant>,
    stall_clock: stall::Clock,
    polls: u32,
    /// Buffer into which completions are read.
    batch: Vec<Completion>,
}

impl Rxd {
    /// Makes progress once. Returns whether any packet arrived.
    fn poll(&mut self, domain: &mut State) -> bool {
        let now = self.reactor.now();
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(ATTEND_EVERY) {
            attend_with(self, domain, now, |rxd| &mut rxd.stall_clock);
        }
        self.lower.defer();
        let taken = self.take(domain, now);
        let turn = self.agenda.begin_turn(&mut self.eps, now);
        for &id in &turn {
            let Some(endpoint) = self.eps.get_mut(&id) else {
                continue;
            };
            let common = &mut endpoint.port.common;
            (common.is_busy, common.is_behind) = (taken > 0, taken >= MOST);
            endpoint.settle(&mut self.lower, domain, now);
            let common = &mut endpoint.port.common;
            (common.is_busy, common.is_behind) = (false, false);
            self.agenda.note(id, endpoint);
        }
        self.agenda.end_turn(turn);
        self.start_deferred();
        taken > 0
    }

    /// Starts the packets of a poll, which leave together.
    fn start_deferred(&mut self) {
        let eps = &self.eps;
        self.lower.end_deferral(|id| {
            if let Some(endpoint) = eps.get(&id) {
                endpoint.below.start_deferred();
            }
        });
    }

    /// Takes packets from the queue below. Returns the number of completions.
    fn take(&mut self, domain: &mut State, now: Instant) -> usize {
        let mut taken = 0;
        let mut batch = std::mem::take(&mut self.batch);
        while taken < MOST {
            let count = match self.lower.cq.read_from(&mut batch) {
                Ok(count) => count,
                Err(Error::AVAIL) => {
                    self.failed(domain, now);
                    taken += 1;
                    continue;
                }
                Err(_) => {
                    self.lower.read_empty();
                    break;
                }
            };
            for done in &mut batch[..count] {
                if let Some(arrived) = self.lower.ended(done) {
                    self.take_packet(domain, now, arrived);
                }
            }
            taken += count;
            // The slots of closed endpoints are released once the queue was seen empty.
            if count < batch.len() && !self.lower.has_gone() {
                break;
            }
        }
        self.batch = batch;
        taken
    }

    #[inline]
    fn take_packet(&mut self, domain: &mut State, now: Instant, arrived: Arrived) {
        let Some(endpoint) = self.eps.get_mut(&arrived.ep) else {
            return self.lower.give_back(arrived, None);
        };
        let port = &mut endpoint.port;
        let mut line = Line {
            lower: &mut self.lower,
            ep: &endpoint.below,
        };
        port.take(domain, &mut line, now, &arrived.from, arrived.bytes());
        self.agenda.note(arrived.ep, endpoint);
        self.lower.give_back(arrived, Some(&mut endpoint.below));
    }

    /// Sends each peer the notice that the endpoint closes. The notice is sent several times because no acknowledgement
    /// shows whether one was lost. Reading the queue below frees send slots.
    #[cold]
    fn part(&mut self, domain: &mut State, port: &mut Port<Addr>, below: &LowerEp) {
        let now = self.reactor.now();
        let mut patience = PATIENCE;
        self.lower.defer();
        for id in port.ids() {
            // A peer that has nothing in flight needs the notice least.
            let copies = if port.is_idle(id) { 1 } else { LAST_WORDS };
            for _ in 0..copies {
                loop {
                    let mut line = Line {
                        lower: &mut self.lower,
                        ep: below,
                    };
                    if port.part(domain, &mut line, now, id) || patience == 0 {
                        break;
                    }
                    if self.take(domain, now) == 0 {
                        patience -= 1;
                    }
                }
            }
        }
        self.lower.end_deferral(|_| ());
        below.start_deferred();
    }

    /// Handles an error entry of the queue below.
    #[cold]
    fn failed(&mut self, domain: &mut State, now: Instant) {
        match self.lower.failed() {
            Some(Failure::Arrived(arrived)) => self.take_packet(domain, now, arrived),
            Some(Failure::Receive(ep)) => {
                if let Some(endpoint) = self.eps.get_mut(&ep) {
                    endpoint.below.lost_receive();
                    self.lower.replenish(&mut endpoint.below);
                }
            }
            Some(Failure::Send) | None => {}
        }
    }

    /// Calls a session of an endpoint.
    fn with<R>(
        &mut self,
        domain: &mut State,
        ep: usize,
        id: usize,
        call: impl FnOnce(&mut Session<Addr>, &mut Cx<'_, Addr, Line<'_>>) -> R,
    ) -> Option<R> {
        let now = self.reactor.now();
        let endpoint = self.eps.get_mut(&ep)?;
        let mut line = Line {
            lower: &mut self.lower,
            ep: &endpoint.below,
        };
        let result = endpoint.port.with(domain, &mut line, now, id, call);
        self.agenda.note(ep, endpoint);
        result
    }

    /// Arms the timer that wakes a blocked thread for the next deadline.
    fn arm(&mut self, domain: &State) {
        let now = self.reactor.now();
        let is_blocked = |id| {
            self.eps
                .get(id)
                .is_some_and(|ep: &Endpoint| ep.port.is_blocked())
        };
        // The provider below does not report when it has room again, so the send is retried.
        let retry = self.agenda.waiting().iter().any(is_blocked);
        let retry = retry.then_some(now + RETRY);
        let next = [retry, self.agenda.earliest()].into_iter().flatten();
        let next = next.chain(self.stall_clock.wakes(domain)).min();
        if let Some(next) = next
            && self
                .reactor
                .earliest()
                .is_none_or(|earliest| next < earliest)
        {
            self.reactor.schedule(next, next);
        }
    }

    /// Called after something was posted or taken.
    fn posted(&mut self, domain: &State) {
        if domain.watchers.may_sleep() {
            self.arm(domain);
        }
    }

    /// Has the endpoints go on for whose work no packet or deadline will come. `thorough`: no poll may follow.
    fn settle_waiting(&mut self, domain: &mut State, thorough: bool) {
        for ep in self.agenda.waiting().to_vec() {
            if let Some(endpoint) = self.eps.get_mut(&ep) {
                endpoint.port.common.is_thorough = thorough;
            }
            self.settle(domain, ep);
            if let Some(endpoint) = self.eps.get_mut(&ep) {
                endpoint.port.common.is_thorough = false;
            }
        }
    }

    fn settle(&mut self, domain: &mut State, ep: usize) {
        let now = self.reactor.now();
        if let Some(endpoint) = self.eps.get_mut(&ep).filter(|endpoint| endpoint.is_enabled) {
            endpoint.settle(&mut self.lower, domain, now);
            self.agenda.note(ep, endpoint);
        }
    }
}

impl Transport for Rxd {
    type Fabric = LowerFabric;

    const SOURCE: &'static Source = &SOURCE;
    const CQ_SIZE: usize = 1024;
    const CQ_DATA_SIZE: usize = size_of::<u64>();
    const HMEM: bool = true;

    fn prov_name(fabric: &LowerFabric) -> &'static CStr {
        fabric.prov_name
    }

    fn open(fabric: &LowerFabric, info: &Info, _: Serialized) -> Result<Rxd> {
        let (lower, reactor) = (LowerDomain::open(fabric, info)?, Reactor::new(Monotonic)?);
        for fd in lower.cq.fds()? {
            reactor.add(fd, Token::new(QUEUE, 0), true, false)?;
        }
        Ok(Rxd {
            params: fabric.params,
            eps: BTreeMap::new(),
            lower,
            agenda: Agenda::default(),
            reactor,
            stall_clock: stall::Clock::new(fabric.params.stall_report),
            polls: 0,
            batch: (0..BATCH).map(|_| Completion::default()).collect(),
        })
    }

    fn format(&self) -> Format {
        self.lower.format
    }

    fn poll_fd(&self) -> SharedFd {
        self.reactor.shared()
    }

    fn progress(&mut self, domain: &mut State) {
        self.poll(domain);
        self.posted(domain);
    }

    fn progress_all(&mut self, domain: &mut State) {
        loop {
            while self.poll(domain) {}
            // Unless `trywait` returns FI_EAGAIN, new completions below make our descriptor readable.
            if self.lower.fabric.trywait(&[&*self.lower.cq]) != Err(Error::AGAIN) {
                break;
            }
        }
        self.settle_waiting(domain, true);
        let now = self.reactor.now();
        attend_with(self, domain, now, |rxd| &mut rxd.stall_clock);
        while self.reactor.next_due(now).is_some() {}
        self.arm(domain);
        self.reactor.set_timer();
    }

    fn peers(&self, ep: usize) -> Vec<Peer> {
        let now = self.reactor.now();
        let sessions = self.eps.get(&ep).map(|endpoint| endpoint.port.sessions());
        let all = sessions.into_iter().flatten();
        all.map(|session| session.tell(now, |stamp| self.stall_clock.age(stamp, now)))
            .collect()
    }

    fn open_ep(&mut self, _domain: &mut State, ep: usize, info: &Info) -> Result {
        check(info, self.lower.mtu)?;
        let below = self.lower.endpoint(ep, info).inspect_err(|error| {
            log_info!(&SOURCE, Subsys::EpCtrl, "endpoint not opened: {error}");
        })?;
        let ids = Ids::new(&unpredictable()?, !self.lower.tells_strangers);
        let port = Port::new(ep, below.name()?, self.params.settings(), ids);
        let is_enabled = false;
        #[rustfmt::skip]
        self.eps.insert(ep, Endpoint { port, below, is_enabled, entry: Entry::default() });
        Ok(())
    }

    fn enable_ep(&mut self, _domain: &mut State, ep: usize) -> Result {
        let endpoint = self.eps.get_mut(&ep).ok_or(Error::INVAL)?;
        self.lower.enable(&mut endpoint.below)?;
        endpoint.is_enabled = true;
        endpoint.port.common.name = endpoint.below.name()?;
        Ok(())
    }

    fn close_ep(&mut self, domain: &mut State, ep: usize) {
        let Some(Endpoint {
            mut port,
            below,
            is_enabled,
            ..
        }) = self.eps.remove(&ep)
        else {
            return;
        };
        if is_enabled {
            self.part(domain, &mut port, &below);
        }
        port.end(domain);
        let mut line = Line {
            lower: &mut self.lower,
            ep: &below,
        };
        port.sessions()
            .for_each(|session| line.drop_route(session.route));
        self.lower.close(below);
        // No later call may read the queue below. Buffers of the endpoint are free again when it was read empty; some
        // providers report each receive as cancelled.
        while self.take(domain, self.reactor.now()) >= MOST {}
    }

    fn name(&self, ep: usize) -> Result<Vec<u8>> {
        self.eps.get(&ep).ok_or(Error::INVAL)?.below.name()
    }

    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result {
        let endpoint = self.eps.get_mut(&ep).ok_or(Error::INVAL)?;
        endpoint.below.set_name(addr)?;
        endpoint.port.common.name = endpoint.below.name()?;
        Ok(())
    }

    fn transmit(&mut self, domain: &mut State, ep: usize, tx: &mut Tx<'_>) -> Result {
        post(self, domain, ep, tx)
    }

    fn cancel(&mut self, _domain: &mut State, ep: usize, context: usize) -> Option<TxOp> {
        self.eps.get_mut(&ep)?.port.take_unsent(ep, context)
    }

    fn source(envelope: &Envelope) -> u64 {
        fi_addr_of(envelope.source)
    }

    fn claim(&mut self, domain: &mut State, claimed: Claimed) {
        let (ep, id) = (claimed.envelope.ep, claimed.envelope.token as usize);
        self.with(domain, ep, id, |session, cx| session.deliver(cx, claimed));
        self.settle(domain, ep);
    }

    fn room_again(&mut self, domain: &mut State) {
        self.settle_waiting(domain, false);
    }

    fn av_inserted(&mut self, domain: &mut State, ep: usize, index: u64) {
        let av = domain.eps[ep].av;
        if let Some(addr) = av.and_then(|av| domain.avs[av].get(index).copied())
            && let Some(endpoint) = self.eps.get_mut(&ep)
        {
            endpoint.port.rename(domain, &addr, Some(index));
        }
    }

    fn av_removed(&mut self, domain: &mut State, ep: usize, _index: u64, addr: &Addr) {
        if let Some(endpoint) = self.eps.get_mut(&ep) {
            endpoint.port.rename(domain, addr, None);
        }
    }
}

/// Number of polls between two checks for a pending report request: `peer::stall`.
const ATTEND_EVERY: u32 = 256;
/// Kind of the reactor token of the queue below.
const QUEUE: u32 = 1;
/// Completions read by one call.
const BATCH: usize = 16;
/// Most completions taken by one poll, so that other work gets its turn.
const MOST: usize = 256;
/// Copies of the notice that an endpoint closes, sent to each peer with which anything is in flight.
const LAST_WORDS: usize = 3;
/// Polls without a packet, for all peers of an endpoint together, after which the notice is no longer retried.
const PATIENCE: u32 = 1000;
/// Time between two tries to send while the provider below has no room.
const RETRY: Duration = Duration::from_millis(1);
