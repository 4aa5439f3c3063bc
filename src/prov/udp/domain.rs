// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The transport: the endpoints of one domain, and the loop that asks their sockets for datagrams.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, RawFd};

use super::SOURCE;
use super::ep::{Ep, Received, fi_addr_of};
use crate::abi::*;
use crate::base::info::Info;
use crate::base::log::{Source, Subsys, log_info, log_warn};
use crate::base::{Error, OpFlags, Result};
use crate::engine::address::ip::{Addr, Format};
use crate::engine::clock::Monotonic;
use crate::engine::domain_state::{DomainState, TxOp};
use crate::engine::reactor::{Reactor, Token};
use crate::engine::srx::Envelope;
use crate::engine::transport::{
    Address, Addressing, Atomics, Batches, Connects, Contexts, Drains, Groups, Transport,
};
use crate::ffi::ops::transfer::Tx;
use crate::hmem::Host;
use crate::sys::datagram::MAX_DATAGRAM;
use crate::sys::event::{BATCH, Ready};

pub struct Domain {
    reactor: Reactor<()>,
    /// By the endpoint's number in `domain.eps`.
    eps: BTreeMap<usize, Ep>,
    /// Endpoints whose datagrams wait in the socket until there is room; nobody is woken for them.
    pub(super) paused: Vec<usize>,
    /// Bytes of a datagram that no receive has room for.
    rest: Box<[u8]>,
}

/// The kind of the tokens of sockets.
const SOCKET: u32 = 1;

/// Datagrams that one look takes from a socket at most: others are to have their turn.
const BURST: usize = 16;

impl Domain {
    fn ep(&self, ep: usize) -> Result<&Ep> {
        self.eps.get(&ep).ok_or(Error::INVAL)
    }

    fn receive(&mut self, domain: &mut DomainState<Addr>, id: usize) {
        let Some(ep) = self.eps.get_mut(&id) else {
            return;
        };
        for _ in 0..BURST {
            match ep.receive(domain, &mut self.rest) {
                Received::Datagram => {}
                Received::Nothing => return,
                Received::Full => return self.pause(id),
            }
        }
    }

    #[cold]
    pub(super) fn pause(&mut self, id: usize) {
        if !self.paused.contains(&id) {
            self.watch(id, false);
            self.paused.push(id);
        }
    }

    /// Whoever was paused is asked again.
    #[cold]
    fn resume(&mut self, domain: &mut DomainState<Addr>) {
        for id in std::mem::take(&mut self.paused) {
            self.watch(id, true);
            self.receive(domain, id);
        }
    }

    pub(super) fn watch(&self, id: usize, on: bool) {
        let Some(ep) = self.eps.get(&id) else {
            return;
        };
        let token = Token::new(SOCKET, id);
        if let Err(error) = self.reactor.modify(ep.socket.as_raw_fd(), token, on, false) {
            log_warn!(&SOURCE, Subsys::EpData, "endpoint {id}: epoll: {error}");
        }
    }
}

impl Addressing for Domain {
    type Addr = Addr;
    type Format = Format;
    type Memory = Host;
}

impl Connects for Domain {}
impl Contexts for Domain {}
impl Groups for Domain {}
impl Atomics for Domain {}
impl Batches for Domain {}
impl Drains for Domain {}

impl Transport for Domain {
    type Fabric = ();

    const SOURCE: &'static Source = &SOURCE;
    const CQ_SIZE: usize = 1024;

    fn open(_fabric: &(), _info: &Info) -> Result<Domain> {
        Ok(Domain {
            reactor: Reactor::new(Monotonic)?,
            eps: BTreeMap::new(),
            paused: Vec::new(),
            rest: vec![0; MAX_DATAGRAM].into(),
        })
    }

    fn format(&self) -> Format {
        Format
    }

    fn poll_fd(&self) -> RawFd {
        self.reactor.as_raw_fd()
    }

    fn progress(&mut self, domain: &mut DomainState<Addr>) {
        if !self.paused.is_empty() {
            self.resume(domain);
        }
        // Of one socket epoll would only say what reading it says.
        if let (1, Some(&only)) = (self.eps.len(), self.eps.keys().next()) {
            return self.receive(domain, only);
        }
        let mut ready = [Ready::default(); BATCH];
        let n = self.reactor.poll(&mut ready);
        for event in &ready[..n] {
            self.receive(domain, Token::of(event).id());
        }
    }

    fn open_ep(&mut self, _domain: &mut DomainState<Addr>, ep: usize, info: &Info) -> Result {
        let endpoint = Ep::open(ep, info).inspect_err(|error| {
            log_info!(&SOURCE, Subsys::EpCtrl, "endpoint not opened: {error:?}");
        })?;
        log_info!(
            &SOURCE,
            Subsys::EpCtrl,
            "endpoint {ep} on {}",
            endpoint.local
        );
        self.eps.insert(ep, endpoint);
        Ok(())
    }

    fn enable_ep(&mut self, _domain: &mut DomainState<Addr>, ep: usize) -> Result {
        let fd = self.ep(ep)?.socket.as_raw_fd();
        Ok(self.reactor.add(fd, Token::new(SOCKET, ep), true, false)?)
    }

    fn close_ep(&mut self, _domain: &mut DomainState<Addr>, ep: usize) {
        if let Some(endpoint) = self.eps.remove(&ep) {
            self.reactor.remove(endpoint.socket.as_raw_fd());
        }
        self.paused.retain(|&paused| paused != ep);
    }

    fn name(&self, ep: usize) -> Result<Vec<u8>> {
        Ok(self.ep(ep)?.local.to_bytes())
    }

    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result {
        self.eps.get_mut(&ep).ok_or(Error::INVAL)?.rename(addr)
    }

    fn transmit(&mut self, domain: &mut DomainState<Addr>, ep: usize, tx: &mut Tx<'_>) -> Result {
        check_flags(tx.flags)?;
        let endpoint = self.ep(ep)?;
        if !domain.ep(ep).enabled {
            return Err(Error::OPBADSTATE);
        }
        domain.may_post(ep)?;
        endpoint.send(domain, tx)?;
        domain.sent(ep, &TxOp::of(ep, tx));
        Ok(())
    }

    fn room_again(&mut self, domain: &mut DomainState<Addr>) {
        self.resume(domain);
    }

    fn source(envelope: &Envelope) -> u64 {
        fi_addr_of(envelope.source)
    }

    fn av_inserted(&mut self, domain: &mut DomainState<Addr>, av: usize, index: u64) {
        let Some(addr) = domain.av(av).get(index).copied() else {
            return;
        };
        for (&id, ep) in &mut self.eps {
            if domain.ep(id).av == Some(av) {
                ep.inserted(domain, &addr, index);
            }
        }
    }

    /// The index may be given to another peer: what is kept of this one has a sender that no vector knows.
    fn av_removed(&mut self, domain: &mut DomainState<Addr>, av: usize, index: u64, _addr: &Addr) {
        for &ep in self.eps.keys() {
            if domain.ep(ep).av == Some(av) {
                domain.each_srx(ep, |srx| srx.rename_source(index, FI_ADDR_NOTAVAIL));
            }
        }
    }
}

/// What no datagram can do: fi_msg(3), and fi_cq(3) on unreliable endpoints.
pub(super) fn check_flags(flags: OpFlags) -> Result {
    let has = |any| flags.intersects(any);
    if has(OpFlags::FENCE | OpFlags::TRIGGER) {
        return Err(Error::BADFLAGS);
    }
    if has(OpFlags::DELIVERY_COMPLETE | OpFlags::MATCH_COMPLETE | OpFlags::COMMIT_COMPLETE) {
        return Err(Error::OPNOTSUPP);
    }
    // There is no place for it in a datagram; cq_data_size is 0.
    match has(OpFlags::REMOTE_CQ_DATA) {
        true => Err(Error::NOSYS),
        false => Ok(()),
    }
}
