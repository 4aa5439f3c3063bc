// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The objects of the provider below, and an endpoint there as the wire of one of our endpoints.
//!
//! All endpoints below complete to one queue, because the kernel refuses more than a few levels of epoll sets that wait
//! for epoll sets (epoll_ctl(2), EINVAL).

use core::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use super::fabric::LowerFabric;
use super::info;
use super::port::Routes;
use super::proto::MAX_NAME;
use super::session::{From, Wire};
use abi::*;
use base::info::Info;
use base::{Caps, Error, Result};
use client::layer::{self, Failed, Loan, Operations, Pool, Registrar, Slot, with_descriptors};
use client::with_entry;
use client::{Av, AvAttr, Completion, Cq, CqAttr, Domain, Ep, Fabric};
use engine::address::mixed::{Addr, Format};
use engine::transport::Address;
use object::ops::options::{OPT_MORE_FOLLOWS, OPT_UNREACHABLE};

pub struct LowerDomain {
    pub fabric: Arc<Fabric>,
    pub cq: Arc<Cq>,
    av: Arc<Av>,
    ops: Operations<Op>,
    sends: Pool,
    receives: Pool,
    domain: Arc<Domain>,
    /// The provider below is part of this library, not a plug-in.
    is_ours: bool,
    /// The entry below, without addresses.
    entry: Info,
    pub mtu: usize,
    pub format: Format,
    prefix: usize,
    /// The provider below reports where datagrams come from.
    pub tells_source: bool,
    /// The provider below also reports the addresses of sources without a route.
    pub tells_strangers: bool,
    /// How many sessions use an address below.
    routes: HashMap<u64, usize>,
    /// A poll is under way, whose packets leave together at its end; and the endpoints that have sent any.
    is_deferring: bool,
    deferred: Vec<usize>,
    /// Source address of endpoints that name none themselves.
    source: Option<Vec<u8>>,
}

/// An operation below. A receive has the number of the endpoint of this layer that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Op {
    Send,
    Receive(usize),
}

/// An endpoint below.
pub struct LowerEp {
    id: usize,
    ep: Arc<Ep>,
    posted: usize,
    wanted: usize,
    /// The endpoint is in `LowerDomain::deferred`.
    is_deferred: Cell<bool>,
}

/// A packet for an endpoint.
pub struct Arrived {
    pub ep: usize,
    pub from: From<Addr>,
    slot: Slot,
    len: usize,
}

impl Arrived {
    pub fn bytes(&self) -> &[u8] {
        &self.slot.bytes()[..self.len]
    }
}

/// An error entry of the queue below.
pub enum Failure {
    /// A packet from an address without a route: FI_EADDRNOTAVAIL of fi_cq(3).
    Arrived(Arrived),
    /// A receive of this endpoint failed.
    Receive(usize),
    /// A packet could not be sent.
    Send,
}

/// An endpoint below with the domain state that it shares.
pub struct Line<'a> {
    pub lower: &'a mut LowerDomain,
    pub ep: &'a LowerEp,
}

impl LowerDomain {
    pub fn open(lower: &LowerFabric, info: &Info) -> Result<LowerDomain> {
        let fits = |entry: &&Info| entry.domain.name == info.domain.name;
        let mut found = lower.entries.iter().filter(fits);
        let same = found
            .clone()
            .find(|entry| entry.addr_format == info.addr_format);
        let mut entry = same.or_else(|| found.next()).ok_or(Error::NODATA)?.clone();
        let source = entry.src_addr.take();
        entry.dest_addr = None;
        // One thread at a time, but not always the same, calls from within the domain above.
        (entry.domain.threading, entry.domain.progress) = (FI_THREAD_SAFE.0, FI_PROGRESS_MANUAL.0);
        entry.domain.control_progress = FI_PROGRESS_MANUAL.0;
        let is_ours = entry.made.take().is_none();
        let open = |below: client::Info<'_>| {
            let domain = Domain::open_thread_safe(&lower.fabric, below)?;
            Ok((
                Registrar::new(&domain, below),
                Operations::new(below),
                domain,
            ))
        };
        let (registrar, ops, domain) = with_entry(&entry, open)?;
        let cq = with_descriptors(|wait_obj| {
            let attr = CqAttr {
                size: COMPLETIONS,
                format: FI_CQ_FORMAT_MSG,
                wait_obj,
                ..CqAttr::default()
            };
            Cq::open(&domain, &attr)
        })?;
        let mtu = info::mtu(&entry);
        let caps = entry.caps | entry.rx.caps;
        let pool = |access, limit| Pool::new(registrar.clone(), mtu, access, limit);
        let receives = pool(FI_RECV, usize::MAX);
        Ok(LowerDomain {
            fabric: lower.fabric.clone(),
            cq,
            av: Av::open(&domain, &AvAttr::default())?,
            ops,
            sends: pool(FI_SEND, entry.tx.size.clamp(1, SENDS)),
            prefix: receives.prefix(),
            receives,
            domain,
            mtu,
            format: Format::of(entry.addr_format),
            tells_source: caps.contains(Caps::SOURCE),
            tells_strangers: caps.contains(Caps::SOURCE | Caps::SOURCE_ERR),
            routes: HashMap::new(),
            is_deferring: false,
            deferred: Vec::new(),
            is_ours,
            entry,
            source,
        })
    }

    /// Opens an endpoint below for one of ours with this entry.
    pub fn endpoint(&self, id: usize, info: &Info) -> Result<LowerEp> {
        let mut entry = self.entry.clone();
        // Greetings contain the address of the endpoint, so the endpoint is bound to one address.
        entry.src_addr = info.src_addr.clone().or_else(|| self.source.clone());
        let ep = with_entry(&entry, |info| Ep::open(&self.domain, info))?;
        ep.bind(&self.cq, FI_TRANSMIT | FI_RECV)?;
        ep.bind(&self.av, 0)?;
        let wanted = entry.rx.size.clamp(1, RECEIVES);
        #[rustfmt::skip]
        let endpoint = LowerEp { id, ep, posted: 0, wanted, is_deferred: Cell::new(false) };
        Ok(endpoint)
    }

    pub fn enable(&mut self, endpoint: &mut LowerEp) -> Result {
        endpoint.ep.enable()?;
        if self.is_ours {
            // The packets of a message are posted in one go.
            let _ = endpoint.ep.setopt(OPT_MORE_FOLLOWS, 1u8);
        }
        self.replenish(endpoint);
        (endpoint.posted > 0).then_some(()).ok_or(Error::NOMEM)
    }

    /// Posts receives until the wanted number is posted or the provider below refuses one.
    #[inline]
    pub fn replenish(&mut self, endpoint: &mut LowerEp) {
        while endpoint.posted < endpoint.wanted
            && let Ok(slot) = self.receives.take()
            && self.post(endpoint, slot)
        {}
    }

    fn post(&mut self, endpoint: &mut LowerEp, slot: Slot) -> bool {
        let (op, any) = (Op::Receive(endpoint.id), FI_ADDR_UNSPEC);
        match self.ops.recv(&endpoint.ep, slot, any, op) {
            Ok(()) => {
                endpoint.posted += 1;
                true
            }
            Err(Failed { loan, .. }) => {
                if let Loan::Slot(slot, _) = loan {
                    self.receives.put(slot);
                }
                false
            }
        }
    }

    /// Ends the operation below that this completion reports. Returns the packet if it was a receive.
    #[inline]
    pub fn ended(&mut self, done: &mut Completion) -> Option<Arrived> {
        let (op, Loan::Slot(slot, _)) = self.ops.end(core::mem::take(&mut done.context))? else {
            return None;
        };
        let Op::Receive(ep) = op else {
            self.sends.put(slot);
            return None;
        };
        let from = match (self.tells_source, done.src) {
            (false, _) => From::Untold,
            (true, FI_ADDR_NOTAVAIL) => From::UnknownSender(None),
            (true, route) => From::Route(route),
        };
        let len = done.size().saturating_sub(self.prefix).min(slot.room());
        #[rustfmt::skip]
        let arrived = Arrived { ep, from, slot, len };
        Some(arrived)
    }

    /// Posts the buffer of a packet that was read again.
    #[inline]
    pub fn give_back(&mut self, arrived: Arrived, endpoint: Option<&mut LowerEp>) {
        match endpoint {
            Some(endpoint) => {
                endpoint.posted -= 1;
                self.post(endpoint, arrived.slot);
            }
            None => self.receives.put(arrived.slot),
        }
    }

    /// Takes an error entry from the queue below.
    #[cold]
    pub fn failed(&mut self) -> Option<Failure> {
        let failed = self.cq.readerr().ok()?;
        let (op, Loan::Slot(slot, _)) = self.ops.end(failed.context)? else {
            return None;
        };
        let Op::Receive(ep) = op else {
            self.sends.put(slot);
            return Some(Failure::Send);
        };
        if failed.error == Error::ADDRNOTAVAIL && self.tells_source {
            let from = From::UnknownSender(Addr::from_bytes(&failed.err_data));
            let len = failed.len.saturating_sub(self.prefix).min(slot.room());
            #[rustfmt::skip]
            let arrived = Arrived { ep, from, slot, len };
            return Some(Failure::Arrived(arrived));
        }
        self.receives.put(slot);
        Some(Failure::Receive(ep))
    }

    /// Whether the queue below may contain completions of closed endpoints.
    #[inline]
    pub fn has_gone(&self) -> bool {
        self.ops.has_gone()
    }

    /// Begins a poll. Its packets leave together, as far as the provider below has room for them.
    #[inline]
    pub fn defer(&mut self) {
        self.is_deferring = self.is_ours;
    }

    /// Ends what `defer` has begun. `start` starts the packets of an endpoint.
    #[inline]
    pub fn end_deferral(&mut self, start: impl FnMut(usize)) {
        self.is_deferring = false;
        self.deferred.drain(..).for_each(start);
    }

    /// Called when the queue below was read empty.
    #[inline]
    pub fn read_empty(&mut self) {
        self.ops.read_empty(&self.cq);
    }

    pub fn close(&mut self, endpoint: LowerEp) {
        self.sends.forget(&endpoint.ep);
        self.receives.forget(&endpoint.ep);
        let Ok(closed) = layer::close(endpoint.ep) else {
            return;
        };
        for (op, loan) in self.ops.closed([(closed, Some(&*self.cq))]) {
            match (op, loan) {
                (Op::Send, Loan::Slot(slot, _)) => self.sends.put(slot),
                (Op::Receive(_), Loan::Slot(slot, _)) => self.receives.put(slot),
                _ => {}
            }
        }
    }
}

impl LowerEp {
    /// Starts the packets that the provider below has deferred.
    pub fn start_deferred(&self) {
        // A provider below that does not have the call starts its operations by itself.
        self.is_deferred.set(false);
        let _ = self.ep.tx_flush();
    }

    pub fn name(&self) -> Result<Vec<u8>> {
        self.ep.name()
    }

    pub fn set_name(&self, addr: &[u8]) -> Result {
        self.ep.set_name(addr)
    }

    /// Counts a posted receive that failed.
    pub fn lost_receive(&mut self) {
        self.posted -= 1;
    }
}

impl Wire for Line<'_> {
    #[inline]
    fn send(&mut self, to: u64, more: bool, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let Ok(mut slot) = self.lower.sends.take() else {
            return false;
        };
        let len = write(slot.bytes_mut());
        if self.lower.is_deferring && !self.ep.is_deferred.replace(true) {
            self.lower.deferred.push(self.ep.id);
        }
        let flags = match more || self.lower.is_deferring {
            true => FI_MORE | FI_COMPLETION,
            false => 0,
        };
        let loan = Loan::Slot(slot, len);
        let sent = self
            .lower
            .ops
            .send(&self.ep.ep, loan, to, None, flags, Op::Send);
        let Err(Failed { error, loan, .. }) = sent else {
            return true;
        };
        if let Loan::Slot(slot, _) = loan {
            self.lower.sends.put(slot);
        }
        // A packet that the provider below cannot send counts as lost, as on a network.
        error != Error::AGAIN
    }

    fn mtu(&self) -> usize {
        self.lower.mtu
    }
}

impl Routes<Addr> for Line<'_> {
    fn route(&mut self, addr: &Addr) -> Result<u64> {
        let route = self.lower.av.insert(&addr.to_bytes())?;
        *self.lower.routes.entry(route).or_default() += 1;
        Ok(route)
    }

    fn drop_route(&mut self, route: u64) {
        let Some(users) = self.lower.routes.get_mut(&route) else {
            return;
        };
        *users -= 1;
        if *users == 0 {
            self.lower.routes.remove(&route);
            // If the address vector refuses to remove the address, the vector only keeps one entry too many.
            let _ = self.lower.av.remove(&mut [route]);
        }
    }

    fn take_unreachable(&mut self) -> Option<u64> {
        if !self.lower.is_ours {
            return None;
        }
        let route: usize = self.ep.ep.getopt(OPT_UNREACHABLE).ok()?;
        Some(route as u64)
    }

    fn addr_of(&self, route: u64) -> Option<Addr> {
        Addr::from_bytes(&self.lower.av.lookup(route).ok()?)
    }

    fn parse_name(&self, name: &[u8; MAX_NAME]) -> Option<Addr> {
        self.lower.format.address_in(name)
    }
}

/// Receives that an endpoint has posted below. While no thread polls, the kernel keeps further packets.
const RECEIVES: usize = 256;
/// Packets of a domain that are in flight below.
const SENDS: usize = 512;
/// Entries of the queue below.
const COMPLETIONS: usize = 8192;
