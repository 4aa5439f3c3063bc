// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The transport: endpoints that have an endpoint of each rail.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::SOURCE;
use super::address::{Addr, Format, Part};
use super::book::Way;
use super::fabric::Links;
use super::held::{Cx, Flight, Held, State};
use super::info::Limits;
use super::note;
use super::rails::{self, Here, Rail, RailEp, number_of};
use super::regions::Regions;
use super::stripes::{OFFERED, Stripes};
use abi::*;
use base::info::Info;
use base::log::{Source, Subsys, log_warn};
use base::{Caps, Error, Result};
use client::layer::{self, Operations, Pool};
use client::owner::{Desk, EntryId};
use client::with_entry;
use engine::clock::Monotonic;
use engine::coll::messages::{self, Messages};
use engine::domain_state::TxOp;
use engine::peer::post::post;
use engine::reactor::{Reactor, Token};
use engine::report::Peer;
use engine::srx::{Claimed, Envelope};
use engine::strangers::fi_addr_of;
use engine::transport::*;
use object::ops::mr::MrRequest;
use object::ops::transfer::{OneTx, Tx};
use sync::Serialized;
use sys::event::SharedFd;

/// A domain over a link.
pub struct Linked {
    /// The fields are in the order in which they are closed: endpoints, regions, rails, what the peers held.
    pub(super) eps: Endpoints,
    pub(super) regions: Regions,
    pub(super) rails: Vec<Rail>,
    pub(super) held: Held,
    pub(super) desk: Desk,
    pub(super) reactor: Reactor<Instant>,
    pub(super) here: Here,
    disable_shm: bool,
    /// Bytes from which on a message goes over several rails; 0: none does.
    pub(super) stripe_size: usize,
    /// Places of addresses that were removed, whose endpoints may still have offers for this one.
    retired: VecDeque<Vec<Vec<fi_addr_t>>>,
    pub(super) polls: u32,
    /// Collectives.
    pub(super) messages: Messages<Addr>,
    /// The rail that has brought something last, and how often it has brought nothing since.
    pub(super) busy: Option<usize>,
    pub(super) quiet: u32,
    pub(super) limits: Limits,
}

/// The endpoints of a domain by their numbers.
#[derive(Default)]
pub struct Endpoints(Vec<Option<Endpoint>>);

impl Endpoints {
    #[inline]
    pub fn get(&self, ep: usize) -> Option<&Endpoint> {
        self.0.get(ep)?.as_ref()
    }

    pub fn get_mut(&mut self, ep: usize) -> Option<&mut Endpoint> {
        self.0.get_mut(ep)?.as_mut()
    }

    fn insert(&mut self, ep: usize, endpoint: Endpoint) {
        if self.0.len() <= ep {
            self.0.resize_with(ep + 1, || None);
        }
        self.0[ep] = Some(endpoint);
    }

    fn remove(&mut self, ep: usize) -> Option<Endpoint> {
        self.0.get_mut(ep)?.take()
    }

    #[inline]
    pub fn all(&self) -> impl Iterator<Item = &Endpoint> {
        self.0.iter().flatten()
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        let all = self.0.iter().enumerate();
        all.filter_map(|(ep, endpoint)| endpoint.as_ref().map(|_| ep))
    }
}

pub struct Endpoint {
    pub rails: Vec<RailEp>,
    /// The rail of the next peer.
    pub next: usize,
    pub is_enabled: bool,
}

impl Linked {
    /// The rails' state, and what their calls need.
    #[inline]
    pub(super) fn split<'a>(
        &'a mut self,
        domain: &'a mut State,
    ) -> (&'a mut Desk, Cx<'a>, &'a Endpoints) {
        let held = &mut self.held;
        (&mut self.desk, Cx { held, domain }, &self.eps)
    }

    /// Closes the endpoints below. Their peers return what they hold.
    fn close(&mut self, domain: &mut State, ep: usize) {
        let Some(endpoint) = self.eps.remove(ep) else {
            return;
        };
        let (desk, mut cx, _) = self.split(domain);
        let closed: Vec<_> = desk.enter(&mut cx, || {
            let close = |RailEp { ep, rx, cq }: RailEp| {
                let closed = layer::close(ep).ok();
                drop(rx);
                closed.map(|closed| (closed, cq))
            };
            endpoint.rails.into_iter().filter_map(close).collect()
        });
        let ended = closed.into_iter().map(|(closed, _)| (closed, None));
        drop(self.held.ops.closed(ended));
        self.held.stripes.close(ep);
        self.held.drop_receives(domain, ep);
        self.held.clear_routes(ep);
    }

    /// The name of an endpoint.
    pub(super) fn own_name(&self, ep: usize) -> Result<Addr> {
        let endpoint = self.eps.get(ep).ok_or(Error::INVAL)?;
        rails::name(&self.rails, &endpoint.rails, &self.here)
    }

    /// Inserts an address into the vectors of the rails that lead there.
    fn insert(&mut self, domain: &mut State, addr: &Addr) -> Result {
        if self.held.book.number(addr).is_some() {
            return Ok(());
        }
        let is_near = !self.disable_shm && self.here.shares_memory_with(addr);
        let (rails, here) = (&self.rails, &self.here);
        let mut cx = Cx {
            held: &mut self.held,
            domain,
        };
        let insert = || {
            let of_rail = |(at, rail): (usize, &Rail)| {
                let parts = addr.name().parts.iter().enumerate();
                let is_here = here.is_host_of(addr);
                let leading = parts.filter(|(_, part)| {
                    (!rail.is_shm || is_near)
                        && (is_here || !part.is_loopback())
                        && rail.leads_to(part)
                });
                let way = |(number, part): (usize, &Part)| {
                    Ok(Way {
                        rail: at,
                        part: number,
                        place: rail.av.insert(&part.bytes)?,
                        is_near: rail.is_near(part),
                    })
                };
                leading.map(way).collect::<Vec<Result<Way>>>()
            };
            let all = rails.iter().enumerate();
            all.flat_map(of_rail).collect::<Vec<Result<Way>>>()
        };
        let inserted = self.desk.enter(&mut cx, insert);
        let mut error = Error::HOSTUNREACH;
        let mut ways = Vec::new();
        for result in inserted {
            match result {
                Ok(way) => ways.push(way),
                Err(failed) => error = failed,
            }
        }
        // The part in the rail's subnet comes before others in reach.
        ways.sort_by_key(|way| (way.rail, !way.is_near));
        if ways.is_empty() {
            log_warn!(&SOURCE, Subsys::Av, "no rail leads to {addr}: {error}");
            return Err(error);
        }
        self.held.book.insert(addr.clone(), self.rails.len(), ways);
        Ok(())
    }

    /// Removes an address that is in no vector any more.
    fn remove(&mut self, domain: &mut State, addr: &Addr) {
        if domain.avs.iter().any(|(_, av)| av.find(addr).is_some()) {
            return;
        }
        let Some(known) = self.held.book.remove(addr) else {
            return;
        };
        self.held.forget_places(&known.places, addr);
        let mut places = known.places;
        if addr.name().origin.is_some() && self.rails.iter().any(|rail| rail.stripes) {
            self.retired.push_back(places);
            if self.retired.len() <= RETIRED {
                return;
            }
            places = self.retired.pop_front().unwrap_or_default();
        }
        let rails = &self.rails;
        let mut cx = Cx {
            held: &mut self.held,
            domain,
        };
        self.desk.enter(&mut cx, || {
            for (rail, places) in rails.iter().zip(&mut places) {
                // If the vector refuses, it has an address too many.
                let _ = rail.av.remove(places);
            }
        });
    }
}

impl Transport for Linked {
    type Fabric = Links;

    const SOURCE: &'static Source = &SOURCE;
    const CQ_SIZE: usize = 1024;
    const CQ_DATA_SIZE: usize = size_of::<u64>();
    const HMEM: bool = true;
    const FORWARDS_ATOMICS: bool = true;

    fn open(fabric: &Links, info: &Info, serialized: Serialized) -> Result<Linked> {
        let named = |link: &&super::info::Link| Some(&link.domain) == info.domain.name.as_ref();
        let link = fabric.links.iter().find(named).ok_or(Error::NODATA)?;
        let rails = rails::open(link, info, serialized)?;
        let reactor = Reactor::new(Monotonic)?;
        for rail in &rails {
            for fd in rail.fds()? {
                match reactor.add(fd, Token::new(RAIL, 0), true, false) {
                    Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                    result => result?,
                }
            }
        }
        let here = Here::new(&rails);
        let face = rails.iter().find(|rail| rail.stripes).or(rails.first());
        let face = face.ok_or(Error::NODATA)?.registrar.clone();
        let notes = Pool::new(face, note::LEN, FI_SEND, NOTES);
        let first = link.rails.first().ok_or(Error::NODATA)?;
        let ops = with_entry(first, |info| Ok(Operations::new(info)))?;
        Ok(Linked {
            eps: Endpoints::default(),
            regions: Regions::default(),
            held: Held::new(ops, rails.len(), Stripes::new(here.nonce), notes),
            desk: Desk::new(),
            reactor,
            here,
            disable_shm: fabric.disable_shm || !link.has_shm(),
            stripe_size: fabric.stripe_size,
            retired: VecDeque::new(),
            limits: Limits::of(link),
            polls: 0,
            messages: Messages::default(),
            busy: None,
            quiet: 0,

            rails,
        })
    }

    fn format(&self) -> Format {
        Format
    }

    fn peers(&self, ep: usize) -> Vec<Peer> {
        self.report_peers(ep)
    }

    fn poll_fd(&self) -> SharedFd {
        self.reactor.shared()
    }

    #[inline]
    fn progress(&mut self, domain: &mut State) {
        self.poll(domain);
    }

    fn progress_all(&mut self, domain: &mut State) {
        self.poll_all(domain);
    }

    fn open_ep(&mut self, _domain: &mut State, ep: usize, info: &Info) -> Result {
        match fi_ep_type(info.ep.ep_type) {
            FI_EP_RDM => {}
            FI_EP_MSG | FI_EP_DGRAM => return Err(Error::NOSYS),
            _ => return Err(Error::INVAL),
        }
        if !self.limits.permit(info) {
            return Err(Error::INVAL);
        }
        let name = match info.src_addr.as_deref() {
            Some(bytes) => Some(Addr::from_bytes(bytes).ok_or(Error::INVAL)?),
            None => None,
        };
        let open = |(at, rail): (usize, &Rail)| {
            rail.endpoint(&self.desk, number_of(ep, at), info, name.as_ref())
        };
        let rails: Result<Vec<RailEp>> = self.rails.iter().enumerate().map(open).collect();
        let endpoint = Endpoint {
            rails: rails?,
            next: ep,
            is_enabled: false,
        };
        self.eps.insert(ep, endpoint);
        Ok(())
    }

    fn enable_ep(&mut self, domain: &mut State, ep: usize) -> Result {
        let (desk, mut cx, eps) = self.split(domain);
        let endpoint = eps.get(ep).ok_or(Error::INVAL)?;
        desk.enter(&mut cx, || {
            endpoint.rails.iter().try_for_each(|rail| rail.ep.enable())
        })?;
        if let Some(endpoint) = self.eps.get_mut(ep) {
            endpoint.is_enabled = true;
        }
        messages::open(self, domain, ep, KEPT)
    }

    fn close_ep(&mut self, domain: &mut State, ep: usize) {
        self.close(domain, ep);
        self.messages.close(domain, ep);
    }

    fn name(&self, ep: usize) -> Result<Vec<u8>> {
        self.own_name(ep).map(|addr| addr.to_bytes())
    }

    fn name_within(&self, ep: usize, room: usize) -> Result<Vec<u8>> {
        let addr = self.own_name(ep)?;
        let whole = addr.to_bytes();
        Ok(match addr.short_form() {
            Some(short) if whole.len() > room && short.len() <= room => short,
            _ => whole,
        })
    }

    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result {
        let endpoint = self.eps.get(ep).ok_or(Error::INVAL)?;
        let addr = Addr::from_bytes(addr).ok_or(Error::INVAL)?;
        rails::set_name(&self.rails, &endpoint.rails, &addr)
    }

    fn tx_room(&mut self, ep: usize, _inject: usize, _caps: Caps) -> usize {
        let rails = self.eps.get(ep).map_or(&[][..], |endpoint| &endpoint.rails);
        let room = rails.iter().filter_map(|rail| rail.ep.tx_size_left().ok());
        room.min().unwrap_or(usize::MAX)
    }

    /// The provider below reports the operation if it can be cancelled.
    fn cancel(&mut self, domain: &mut State, ep: usize, context: usize) -> Option<TxOp> {
        let is_it =
            |flight: &Flight| matches!(flight, Flight::Of { op, .. } if op.is_named(ep, context));
        let below = self.held.ops.context_of(is_it)?;
        let (desk, mut cx, eps) = self.split(domain);
        let endpoint = eps.get(ep)?;
        desk.enter(&mut cx, || {
            for rail in &endpoint.rails {
                // The rail that does not have the operation does nothing.
                let _ = rail.ep.cancel(below);
            }
        });
        None
    }

    #[inline]
    fn transmit_one(&mut self, domain: &mut State, ep: usize, tx: &OneTx) -> bool {
        self.post_short(domain, ep, tx)
    }

    fn transmit(&mut self, domain: &mut State, ep: usize, tx: &mut Tx<'_>) -> Result {
        post(self, domain, ep, tx)
    }

    #[inline]
    fn source(envelope: &Envelope) -> u64 {
        fi_addr_of(envelope.source)
    }

    fn claim(&mut self, domain: &mut State, claimed: Claimed) {
        let Claimed { envelope, recv } = claimed;
        if envelope.note & OFFERED != 0 {
            let number = (envelope.note & !OFFERED) as usize;
            match recv {
                Some(recv) => self.held.begin_reading(number, recv),
                None => drop(self.held.stripes.drop_offer(number, Ok(()))),
            }
            return self.work(domain);
        }
        let entry = EntryId(envelope.note as usize);
        let queued = self.held.queued_at(entry);
        let at = queued.map(rails::ep_and_rail);
        let rail_ep = at.and_then(|(ep, rail)| self.eps.get(ep)?.rails.get(rail));
        let Some(rail_ep) = rail_ep else {
            if let Some(recv) = recv {
                domain.receive_failed(envelope.ep, &recv, envelope.what, Error::CONNRESET);
            }
            return;
        };
        let Some(recv) = recv else {
            let mut cx = Cx {
                held: &mut self.held,
                domain,
            };
            if rail_ep.rx.discard(&mut self.desk, &mut cx, entry).is_ok() {
                self.held.forget(entry);
            }
            return;
        };
        self.held.take(entry, recv, envelope);
        let mut cx = Cx {
            held: &mut self.held,
            domain,
        };
        let has_started = rail_ep.rx.start(&mut self.desk, &mut cx, entry);
        if !has_started && let Some(recv) = self.held.take_back(entry) {
            domain.receive_failed(envelope.ep, &recv, envelope.what, Error::IO);
        }
    }

    fn register(&mut self, domain: &mut State, request: MrRequest<'_>) -> Result<Registration> {
        self.register_all(domain, request)
    }

    fn region_closed(&mut self, _domain: &mut State, region: &Arc<MrRegion>) {
        // A counter may be bound to one that goes on.
        if region.is_closed() {
            self.regions.remove(region);
        }
    }

    fn reach(&mut self, domain: &mut State, addr: &Addr) -> Result {
        self.insert(domain, addr)
    }

    fn address_joined(&mut self, domain: &mut State, av: usize, _index: u64) {
        self.held.name_strangers(domain, av);
    }

    fn address_left(&mut self, domain: &mut State, av: usize, index: u64, addr: &Addr) {
        let bound: Vec<usize> = self.eps.numbers().collect();
        for ep in bound {
            if domain.eps.get(ep).is_some_and(|state| state.av == Some(av)) {
                self.held.unname(domain, ep, index, addr);
                self.held.set_route(ep, index as usize, None);
            }
        }
        self.remove(domain, addr);
    }
}

/// Bytes of frames of collectives that have not begun here, at most.
const KEPT: usize = 16 << 20;
/// Notes on the way at most.
const NOTES: usize = 1 << 16;
/// Removed addresses that are kept.
const RETIRED: usize = 256;

/// The kind of the rails' descriptors.
const RAIL: u32 = 1;

/// The time between two polls of a rail without a descriptor, while a thread sleeps.
pub(super) const LOOK: Duration = Duration::from_micros(100);
