// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The transport: the endpoints of one domain, and the loop that polls their sockets for datagrams.

mod parts;

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::SOURCE;
use super::ep::{Ep, Sent};
use super::outbox::Outbox;
use super::payload::Payload;
use super::rx::{Received, Spare};
use base::flags::flags;
use base::info::Info;
use base::log::{Source, Subsys, log_info, log_warn};
use base::{Caps, Error, OpFlags, Result};
use engine::address::ip::{Addr, Format};
use engine::clock::Monotonic;
use engine::domain_state::{DomainState, TxOp};
use engine::flusher::Held;
use engine::id_set::IdSet;
use engine::peer::check;
use engine::reactor::{Reactor, Token};
use engine::report::dump;
use engine::report::gather::attend;
use engine::srx::Envelope;
use engine::strangers::fi_addr_of;
use engine::transport::{Address, Transport};
use object::ops::transfer::{OneTx, Tx};
use sync::Serialized;
use sys::event::{BATCH, Ready, SharedFd};
use sys::fork::Birth;

pub struct Domain {
    reactor: Reactor<()>,
    /// The endpoints, by their number in `domain.eps`.
    eps: BTreeMap<usize, Ep>,
    /// The endpoint, if there is exactly one.
    only: Option<usize>,
    /// Polls that found a datagram of that endpoint since its sockets are in the epoll set; `None` if they are not.
    hits: Option<u32>,
    /// Endpoints whose datagrams wait in the socket until there is room; their sockets wake up no thread.
    pub(super) paused: IdSet,
    /// Number of groups that were ever joined.
    joined: u64,
    spare: Spare,
    /// Number of polls by the application: messages that are posted between two polls form a burst.
    polls: u64,
    /// Endpoints that hold messages back.
    holding: IdSet,
    held: Arc<Held>,
    /// Set if no thread flushes the messages that are held back.
    is_unserved: bool,
    birth: Birth,
}

/// Time limit for closing an endpoint while the kernel accepts no datagrams.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Number of polls between two checks for a report request.
const ATTEND_EVERY: u64 = 256;

/// Polls that find something before the sockets of the only endpoint leave the epoll set, where each datagram costs its
/// sender some hundred nanoseconds. They are in the set whenever a thread may sleep on it.
const DETACH: u32 = 64;

/// The kind of socket tokens.
const SOCKET: u32 = 1;

impl Domain {
    fn ep(&self, ep: usize) -> Result<&Ep> {
        self.eps.get(&ep).ok_or(Error::INVAL)
    }

    /// Returns whether there was something.
    #[inline]
    fn receive(&mut self, domain: &mut DomainState<Addr>, id: usize) -> bool {
        let Some(ep) = self.eps.get_mut(&id) else {
            return false;
        };
        match ep.receive(domain, &mut self.spare) {
            Received::Nothing => false,
            Received::Datagrams => true,
            Received::Full => {
                self.pause(id);
                true
            }
        }
    }

    /// Reads the sockets of the only endpoint, which gives the same information as epoll.
    #[inline]
    fn receive_only(&mut self, domain: &mut DomainState<Addr>, id: usize) {
        if self.hits.is_none() && domain.watchers.may_sleep() {
            self.attach();
        }
        if self.receive(domain, id)
            && let Some(hits) = &mut self.hits
        {
            *hits = (*hits + 1).min(DETACH);
            if *hits == DETACH && !domain.watchers.may_sleep() {
                self.detach(id);
            }
        }
    }

    /// Takes the sockets of the only endpoint out of the epoll set.
    #[cold]
    fn detach(&mut self, id: usize) {
        if let Some(ep) = self.eps.get(&id).filter(|_| !self.paused.contains(id)) {
            ep.sockets().for_each(|socket| self.reactor.remove(socket));
            self.hits = None;
        }
    }

    /// Puts them back.
    #[cold]
    pub(super) fn attach(&mut self) {
        if self.hits.replace(0).is_some() {
            return;
        }
        let Some((&id, ep)) = self.eps.first_key_value() else {
            return;
        };
        for socket in ep.sockets() {
            let added = self
                .reactor
                .add(socket, Token::new(SOCKET, id), true, false);
            if let Err(error) = added {
                log_warn!(&SOURCE, Subsys::EpData, "endpoint {id}: epoll: {error}");
            }
        }
    }

    /// Sends a message, which is complete then.
    #[inline]
    fn post(
        &mut self,
        domain: &mut DomainState<Addr>,
        op: &TxOp,
        dest: u64,
        payload: &impl Payload,
    ) -> Result {
        let ep = op.ep();
        if !domain.eps[ep].enabled {
            return Err(Error::OPBADSTATE);
        }
        domain.may_post(ep)?;
        if !self.holding.is_empty() && !self.birth.is_here() {
            self.forget_inherited();
        }
        let endpoint = self.eps.get_mut(&ep).ok_or(Error::INVAL)?;
        match endpoint.send(domain, payload, dest, op.flags, self.polls)? {
            Sent::Now => {}
            Sent::Later => self.hold(ep),
            Sent::BeforeNext => self.list(ep),
        }
        domain.sent(ep, op);
        Ok(())
    }

    /// See `report::gather`.
    #[cold]
    fn attend(&self, domain: &mut DomainState<Addr>) {
        if attend(self, domain, self.reactor.now()) {
            dump::request_dump_here();
        }
    }

    fn note_only(&mut self) {
        let only = self.eps.keys().next().copied();
        self.only = only.filter(|_| self.eps.len() == 1);
    }

    /// Makes the next poll flush this endpoint.
    #[inline]
    fn list(&mut self, id: usize) {
        self.holding.insert(id);
    }

    /// Records that this endpoint holds messages back.
    #[inline]
    fn hold(&mut self, id: usize) {
        self.list(id);
        if !self.held.has_begun() {
            self.is_unserved = !self.held.begin();
        }
    }

    /// In a forked child: drops the messages that were held back before the fork, because the parent sends them.
    #[cold]
    fn forget_inherited(&mut self) {
        for id in self.holding.take() {
            if let Some(ep) = self.eps.get_mut(&id) {
                ep.outbox = Outbox::default();
            }
        }
        self.birth = Birth::here();
    }

    #[cold]
    pub(super) fn pause(&mut self, id: usize) {
        self.attach();
        if self.paused.insert(id) {
            self.watch(id, false);
        }
    }

    /// Polls paused endpoints again.
    #[cold]
    fn resume(&mut self, domain: &mut DomainState<Addr>) {
        for id in self.paused.take() {
            let ep = self.eps.get_mut(&id);
            match ep.map(|ep| ep.receive(domain, &mut self.spare)) {
                Some(Received::Full) => _ = self.paused.insert(id),
                _ => self.watch(id, true),
            }
        }
    }

    pub(super) fn watch(&self, id: usize, on: bool) {
        let Some(ep) = self.eps.get(&id) else {
            return;
        };
        let token = Token::new(SOCKET, id);
        for socket in ep.sockets() {
            if let Err(error) = self.reactor.modify(socket, token, on, false) {
                log_warn!(&SOURCE, Subsys::EpData, "endpoint {id}: epoll: {error}");
            }
        }
    }
}

impl Transport for Domain {
    type Fabric = ();

    const SOURCE: &'static Source = &SOURCE;
    const CQ_SIZE: usize = 1024;

    fn open(_fabric: &(), _info: &Info, _: Serialized) -> Result<Domain> {
        Ok(Domain {
            reactor: Reactor::new(Monotonic)?,
            eps: BTreeMap::new(),
            only: None,
            hits: Some(0),
            paused: IdSet::default(),
            joined: 0,
            spare: Spare::new(),
            polls: 0,
            holding: IdSet::default(),
            held: Held::new(),
            is_unserved: false,
            birth: Birth::here(),
        })
    }

    fn format(&self) -> Format {
        Format
    }

    fn poll_fd(&self) -> SharedFd {
        self.reactor.shared()
    }

    #[inline]
    fn progress(&mut self, domain: &mut DomainState<Addr>) {
        self.polls += 1;
        if self.polls.is_multiple_of(ATTEND_EVERY) {
            self.attend(domain);
        }
        if !self.paused.is_empty() {
            self.resume(domain);
        }
        if let Some(only) = self.only {
            return self.receive_only(domain, only);
        }
        let mut ready = [Ready::default(); BATCH];
        let n = self.reactor.poll(&mut ready);
        for event in &ready[..n] {
            self.receive(domain, Token::of(event).id());
        }
    }

    fn progress_all(&mut self, domain: &mut DomainState<Addr>) {
        self.polls += 1;
        self.attend(domain);
        self.attach();
        if !self.paused.is_empty() {
            self.resume(domain);
        }
        let mut ready = [Ready::default(); BATCH];
        let n = self.reactor.poll(&mut ready);
        for event in &ready[..n] {
            let id = Token::of(event).id();
            let Some(ep) = self.eps.get_mut(&id) else {
                continue;
            };
            if event.broken {
                ep.hear();
            }
            if ep.receive_all(domain, &mut self.spare) == Received::Full {
                self.pause(id);
            }
        }
    }

    fn open_ep(&mut self, _domain: &mut DomainState<Addr>, ep: usize, info: &Info) -> Result {
        let endpoint = Ep::open(ep, info).inspect_err(|error| {
            log_info!(&SOURCE, Subsys::EpCtrl, "endpoint not opened: {error}");
        })?;
        log_info!(
            &SOURCE,
            Subsys::EpCtrl,
            "endpoint {ep} on {}",
            endpoint.local
        );
        self.attach();
        self.eps.insert(ep, endpoint);
        self.note_only();
        Ok(())
    }

    fn enable_ep(&mut self, _domain: &mut DomainState<Addr>, ep: usize) -> Result {
        let (socket, token) = (&self.ep(ep)?.socket, Token::new(SOCKET, ep));
        Ok(self.reactor.add(socket, token, true, false)?)
    }

    fn close_ep(&mut self, _domain: &mut DomainState<Addr>, ep: usize) {
        self.attach();
        if let Some(endpoint) = self.eps.remove(&ep) {
            let sockets = endpoint.sockets();
            sockets.for_each(|socket| self.reactor.remove(socket));
        }
        self.note_only();
        self.paused.remove(ep);
        self.holding.remove(ep);
    }

    fn name(&self, ep: usize) -> Result<Vec<u8>> {
        Ok(self.ep(ep)?.local.to_bytes())
    }

    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result {
        self.eps.get_mut(&ep).ok_or(Error::INVAL)?.rename(addr)
    }

    fn take_unreachable(&mut self, domain: &DomainState<Addr>, ep: usize) -> Result<u64> {
        let socket = &self.ep(ep)?.socket;
        let av = domain.eps[ep].av.ok_or(Error::NOMSG)?;
        let all = core::iter::from_fn(|| socket.take_unreachable());
        let mut known = all.filter_map(|addr| domain.avs[av].find(&addr));
        known.next().ok_or(Error::NOMSG)
    }

    #[inline]
    fn transmit_one(&mut self, domain: &mut DomainState<Addr>, ep: usize, tx: &OneTx) -> bool {
        if tx.flags.intersects(!USUAL) {
            return false;
        }
        let op = TxOp::of_one(ep, tx);
        self.post(domain, &op, tx.dest, &tx.piece).is_ok()
    }

    fn transmit(&mut self, domain: &mut DomainState<Addr>, ep: usize, tx: &mut Tx<'_>) -> Result {
        check_flags(tx.flags)?;
        self.post(
            domain,
            &TxOp::of(ep, tx, tx.iov.remaining()),
            tx.dest,
            &tx.iov,
        )
    }

    fn room_again(&mut self, domain: &mut DomainState<Addr>) {
        self.resume(domain);
    }

    fn source(envelope: &Envelope) -> u64 {
        fi_addr_of(envelope.source)
    }

    fn av_inserted(&mut self, domain: &mut DomainState<Addr>, ep: usize, index: u64) {
        let av = domain.eps[ep].av;
        if let Some(addr) = av.and_then(|av| domain.avs[av].get(index).copied())
            && let Some(endpoint) = self.eps.get_mut(&ep)
        {
            endpoint.inserted(domain, &addr, index);
        }
    }

    fn av_removed(&mut self, domain: &mut DomainState<Addr>, ep: usize, index: u64, addr: &Addr) {
        if let Some(endpoint) = self.eps.get_mut(&ep) {
            endpoint.removed(domain, addr, index);
        }
    }
}

/// Flags of messages that need no special handling.
const USUAL: OpFlags = flags!(OpFlags:
    COMPLETION | INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE | MULTICAST | MORE
);

/// Refuses flags that datagrams cannot support: fi_msg(3), and fi_cq(3) on unreliable endpoints.
pub(super) fn check_flags(flags: OpFlags) -> Result {
    check::flags(flags, Caps::empty(), UNSUPPORTED)?;
    // A datagram has no place for remote CQ data; cq_data_size is 0.
    match flags.contains(OpFlags::REMOTE_CQ_DATA) {
        true => Err(Error::NOSYS),
        false => Ok(()),
    }
}

/// Completion levels that need an answer of the receiver.
const UNSUPPORTED: OpFlags = flags!(OpFlags: DELIVERY_COMPLETE | MATCH_COMPLETE | COMMIT_COMPLETE);
