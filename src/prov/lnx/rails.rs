// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The objects of the providers below: for each rail a domain with an address vector, for each endpoint an endpoint on
//! every rail, which receives as a peer.

use core::net::IpAddr;
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::address::{Addr, Origin, Part, tag_of};
use super::info::{Link, is_shm, provider_of};
use abi::*;
use base::flags::flags;
use base::info::Info;
use base::log::{Subsys, log_warn};
use base::{Caps, Error, MrMode, Result, params};
use client::layer::{Registrar, with_descriptors};
use client::owner::{self, Desk, PeerRx};
use client::{Av, AvAttr, Cq, CqAttr, Domain, Ep, Fabric, with_entry};
use sync::Serialized;
use sys::user::effective_uid;
use sys::{addr, host, random};

use super::SOURCE;

/// A rail of a domain.
pub struct Rail {
    /// A queue that completes nothing: threads sleep on its descriptors. None if the provider has none.
    wake: Option<Arc<Cq>>,
    pub av: Arc<Av>,
    pub registrar: Registrar,
    /// For the memory of messages that peers read.
    pub exposing: Registrar,
    domain: Arc<Domain>,
    fabric: Arc<Fabric>,
    entry: Info,
    pub is_shm: bool,
    /// Part of this library, not loaded.
    pub is_ours: bool,
    /// Large messages may be read over this rail, together with others: `stripes`.
    pub stripes: bool,
}

/// An endpoint on one rail. The fields are in the order in which they are closed.
pub struct RailEp {
    pub ep: Arc<Ep>,
    pub rx: PeerRx,
    pub cq: Arc<Cq>,
}

/// The numbers of queues and contexts: the endpoint of lnx, and the rail.
#[inline]
pub const fn number_of(ep: usize, rail: usize) -> usize {
    ep << RAIL_BITS | rail
}

#[inline]
pub const fn ep_and_rail(number: usize) -> (usize, usize) {
    (number >> RAIL_BITS, number & ((1 << RAIL_BITS) - 1))
}

const RAIL_BITS: u32 = 16;

/// Opens the rails of a link, for a domain with these attributes.
pub fn open(link: &Link, info: &Info, serialized: Serialized) -> Result<Vec<Rail>> {
    if link.rails.len() >= 1 << RAIL_BITS {
        return Err(Error::INVAL);
    }
    let open = |entry: &Info| {
        let rail = Rail::open(entry, info, serialized)?;
        if rail.is_shm {
            rail.probe()?;
        }
        Ok(rail)
    };
    let open = |entry: &Info| match open(entry) {
        // The network serves peers on this host, too.
        Err(error) if is_shm(entry) && link.rails.len() > 1 => {
            log_warn!(
                &SOURCE,
                Subsys::Domain,
                "no shared memory: {error}; peers on this host are reached through the network"
            );
            None
        }
        opened => Some(opened),
    };
    link.rails.iter().filter_map(open).collect()
}

impl Rail {
    fn open(entry: &Info, above: &Info, serialized: Serialized) -> Result<Rail> {
        let mut entry = entry.clone();
        // Peers name memory as the application does.
        if above
            .domain
            .mr_mode
            .intersects(flags!(MrMode: BASIC | VIRT_ADDR))
        {
            entry.domain.mr_mode |= MrMode::VIRT_ADDR;
        }
        // Rails with FI_HMEM find out which memory a device has.
        let device = above.caps & Caps::HMEM;
        for caps in [&mut entry.caps, &mut entry.tx.caps, &mut entry.rx.caps] {
            *caps |= device;
        }
        if !device.is_empty() {
            entry.domain.mr_mode |= MrMode::HMEM;
        }
        // One thread at a time, but not always the same, calls from within the domain above.
        (entry.domain.threading, entry.domain.progress) =
            (FI_THREAD_DOMAIN.0, FI_PROGRESS_MANUAL.0);
        entry.domain.control_progress = FI_PROGRESS_MANUAL.0;
        // Each operation has its own flags.
        (entry.tx.op_flags, entry.rx.op_flags) = Default::default();
        let is_ours = entry.made.take().is_none();
        let stripes = is_ours && !is_shm(&entry) && entry.caps.contains(READS);
        let opened = with_entry(&entry, |info| {
            let fabric = Fabric::open(info)?;
            let domain = Domain::open_serialized(&fabric, info, serialized)?;
            Ok((Registrar::new(&domain, info), domain, fabric))
        });
        let (registrar, domain, fabric) = opened.inspect_err(|error| {
            let name = provider_of(&entry).to_string_lossy();
            let domain = entry
                .domain
                .name
                .as_deref()
                .unwrap_or_default()
                .to_string_lossy();
            log_warn!(
                &SOURCE,
                Subsys::Domain,
                "domain {domain} of {name}: {error}"
            );
        })?;
        let wake = with_descriptors(|wait_obj| {
            let attr = CqAttr {
                format: FI_CQ_FORMAT_CONTEXT,
                wait_obj,
                ..CqAttr::default()
            };
            Cq::open(&domain, &attr)
        });
        Ok(Rail {
            wake: wake.ok(),
            av: Av::open(&domain, &AvAttr::default())?,
            domain,
            fabric,
            is_shm: is_shm(&entry),
            stripes: stripes && !registrar.wants_local(),
            // The provider below uses the keys of the other one.
            exposing: registrar.clone().with_keys_from(KEYS),
            registrar,
            is_ours,
            entry,
        })
    }

    /// Whether endpoints can be opened.
    fn probe(&self) -> Result {
        with_entry(&self.entry, |info| Ep::open(&self.domain, info)).map(drop)
    }

    /// Opens an endpoint for an endpoint of lnx, as a peer of `desk`'s owner.
    pub fn endpoint(
        &self,
        desk: &Desk,
        number: usize,
        above: &Info,
        name: Option<&Addr>,
    ) -> Result<RailEp> {
        let (_, at) = ep_and_rail(number);
        let cq = owner::open_cq(&self.domain, desk, number)?;
        let mut entry = self.entry.clone();
        limit_accesses(&mut entry, above, self.stripes);
        if let Some(part) = name.and_then(|name| self.part_of(at, name)) {
            entry.src_addr = Some(part.bytes.clone());
        }
        let (rx, ep) = with_entry(&entry, |info| {
            let attr = info.rx().ok_or(Error::INVAL)?;
            let rx = PeerRx::open(&self.domain, desk, number, attr)?;
            Ok((rx, Ep::open(&self.domain, info)?))
        })?;
        ep.bind(&cq, FI_TRANSMIT | FI_RECV)?;
        ep.bind(&self.av, 0)?;
        ep.bind(&rx.context, 0)?;
        Ok(RailEp { ep, rx, cq })
    }

    /// The descriptors that tell of events; none if the provider has none.
    pub fn fds(&self) -> Result<Vec<BorrowedFd<'_>>> {
        self.wake.as_ref().map_or(Ok(Vec::new()), |wake| wake.fds())
    }

    pub fn can_wake(&self) -> bool {
        self.wake.is_some()
    }

    /// Whether the descriptors will tell of later events. If not, there is something to do first.
    pub fn may_sleep(&self) -> bool {
        let again = |wake: &Arc<Cq>| self.fabric.trywait(&[&**wake]) == Err(Error::AGAIN);
        !self.wake.as_ref().is_some_and(again)
    }

    /// Whether the part of a name is in the subnet of this rail.
    pub fn is_near(&self, part: &Part) -> bool {
        let subnet = str::from_utf8(self.fabric_name()).ok();
        let subnet = subnet.and_then(|subnet| subnet.split_once('/'));
        let there = addr::from_bytes(&part.bytes);
        let (Some((base, bits)), Some(there)) = (subnet, there) else {
            return part.fabric == self.fabric_name();
        };
        match (base.parse(), bits.parse()) {
            (Ok(base), Ok(bits)) => shares_prefix(base, there.ip(), bits),
            _ => false,
        }
    }

    fn fabric_name(&self) -> &[u8] {
        self.entry
            .fabric
            .name
            .as_deref()
            .unwrap_or_default()
            .to_bytes()
    }

    /// Whether this rail leads to the part of a peer's name.
    pub fn leads_to(&self, part: &Part) -> bool {
        // A peer in another subnet has a fabric of another name. What may be reached has the same provider, or, of an
        // endpoint of another library, whose name does not have its provider, the same format.
        match part.provider {
            Some(tag) => tag == tag_of(provider_of(&self.entry)),
            None if self.is_shm => part.fabric.eq_ignore_ascii_case(b"shm"),
            None => part.fabric == self.fabric_name() || self.has_format_of(&part.bytes),
        }
    }

    fn has_format_of(&self, bytes: &[u8]) -> bool {
        let addr = addr::from_bytes(bytes);
        match self.entry.addr_format {
            FI_SOCKADDR_IN => addr.is_some_and(|addr| addr.is_ipv4()),
            FI_SOCKADDR_IN6 => addr.is_some_and(|addr| addr.is_ipv6()),
            _ => false,
        }
    }

    /// The part of a name that belongs to this rail, which is the one with the number `at`.
    fn part_of<'a>(&self, at: usize, addr: &'a Addr) -> Option<&'a Part> {
        let parts = &addr.name().parts;
        let leads = |part: &&Part| self.leads_to(part);
        let own = parts.get(at).filter(leads);
        own.or_else(|| parts.iter().find(leads))
    }

    fn part(&self, bytes: Vec<u8>) -> Part {
        Part {
            fabric: self.fabric_name().to_vec(),
            bytes,
            provider: Some(tag_of(provider_of(&self.entry))),
        }
    }
}

fn nonce() -> u32 {
    let bytes = random::unpredictable().unwrap_or_default();
    bytes
        .first_chunk()
        .map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// The name of an endpoint.
pub fn name(rails: &[Rail], eps: &[RailEp], here: &Here) -> Result<Addr> {
    let named = rails.iter().zip(eps);
    let parts: Result<Vec<Part>> = named
        .map(|(rail, rail_ep)| Ok(rail.part(rail_ep.ep.name()?)))
        .collect();
    Ok(Addr::new(&here.shown, parts?, here.origin, here.nonce))
}

/// Whether two addresses have the first `bits` bits in common.
fn shares_prefix(one: IpAddr, other: IpAddr, bits: u32) -> bool {
    let differ = match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => return false,
    };
    differ >= bits
}

/// Names the endpoints of the rails. One that the name does not have keeps its own.
pub fn set_name(rails: &[Rail], eps: &[RailEp], addr: &Addr) -> Result {
    let mut result = Err(Error::INVAL);
    for (at, (rail, rail_ep)) in rails.iter().zip(eps).enumerate() {
        if let Some(part) = rail.part_of(at, addr) {
            rail_ep.ep.set_name(&part.bytes)?;
            result = Ok(());
        }
    }
    result
}

/// Leaves out accesses to memory that the application does not make, or does not permit, but for those of this
/// provider.
fn limit_accesses(entry: &mut Info, above: &Info, stripes: bool) {
    let own = if stripes { READS } else { Caps::empty() };
    for (caps, wanted) in [
        (&mut entry.caps, above.caps),
        (&mut entry.tx.caps, above.tx.caps),
        (&mut entry.rx.caps, above.rx.caps),
    ] {
        *caps = *caps & !ACCESSES | *caps & (wanted | own) & ACCESSES;
    }
}

/// The capabilities that decide which accesses to memory an endpoint makes and permits.
const ACCESSES: Caps = flags!(Caps: RMA | ATOMIC | READ | WRITE | REMOTE_READ | REMOTE_WRITE);

/// The first key of memory that peers read. Applications choose small ones.
const KEYS: u64 = 1 << 48;

/// Capabilities for reads of large messages.
const READS: Caps = flags!(Caps: RMA | READ | REMOTE_READ);

/// Where this process is.
pub struct Here {
    /// The host name as other libraries may compare it.
    shown: String,
    host: String,
    origin: Option<Origin>,
    /// Shared memory is of this library.
    is_ours: bool,
    /// A random number, for the names of the domain's endpoints.
    pub nonce: u32,
}

impl Here {
    pub fn new(rails: &[Rail]) -> Here {
        let is_ours = rails.iter().any(|rail| rail.is_shm && rail.is_ours);
        let host = host::name();
        let folder = params::environment("FI_SHM_FOLDER");
        let folder = folder.map(|folder| PathBuf::from(OsString::from_vec(folder)));
        // Sockets without a folder are found within a network namespace. Without a place there would be no collectives
        // and no large messages over several rails; if the folder is missing, the name has no part for shared memory.
        let place = folder.as_deref().and_then(host::place_of);
        let place = place.or_else(host::network_namespace);
        let origin = host::boot_id()
            .zip(place)
            .map(|(boot, place)| Origin::new(boot, place, effective_uid()));
        // The shared memory of other libraries is not that of this one: their lnx must use the network.
        let shown = match is_ours {
            true => format!(
                "{}/ironfabric",
                host.get(..host.len().min(48)).unwrap_or_default()
            ),
            false => host.clone(),
        };
        Here {
            shown,
            host,
            origin,
            is_ours,
            nonce: nonce(),
        }
    }

    /// Whether an endpoint may be in the network namespace of this process.
    pub fn is_host_of(&self, addr: &Addr) -> bool {
        let name = addr.name();
        match &name.origin {
            Some(origin) => self.origin.as_ref() == Some(origin),
            None => name.host == self.host.as_bytes() || name.host == self.shown.as_bytes(),
        }
    }

    /// Whether a peer can be reached by the shared memory of this process.
    pub fn shares_memory_with(&self, addr: &Addr) -> bool {
        let name = addr.name();
        match (&name.origin, self.is_ours) {
            (Some(origin), true) => self.origin.as_ref() == Some(origin),
            (None, true) => false,
            (_, false) => name.host == self.host.as_bytes(),
        }
    }
}
