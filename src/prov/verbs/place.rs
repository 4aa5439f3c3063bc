// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Places of entries: converts node, service and addresses of fi_getinfo(3) to devices and addresses.

use core::time::Duration;
use std::ffi::{CStr, CString};
use std::net::SocketAddr;

use super::adapter::{Adapter, format_of};
use super::ib;
use super::recent::Recent;
use abi::*;
use base::info::{Hints, Info, Query, Refusal, Value};
use sys::addr;
use sys::resolve::{self, Family, Question};
use sys::verbs::{Device, Id, PortSpace};

/// A place at which an endpoint can be opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub domain: CString,
    pub fabric: CString,
    pub src: Option<Vec<u8>>,
    pub dest: Option<Vec<u8>>,
}

impl Place {
    pub fn of(adapter: &Adapter, src: Option<Vec<u8>>, dest: Option<Vec<u8>>) -> Place {
        Place {
            domain: CString::new(adapter.name.as_str()).unwrap_or_default(),
            fabric: adapter.fabric.clone(),
            src,
            dest,
        }
    }
}

impl base::info::Place for Place {
    fn domain(&self) -> &CStr {
        &self.domain
    }

    fn fabric(&self) -> &CStr {
        &self.fabric
    }

    fn apply(&self, info: &mut Info) {
        let either = self.src.as_deref().or(self.dest.as_deref());
        info.addr_format = either.map_or(0, format_of);
        info.src_addr.clone_from(&self.src);
        info.dest_addr.clone_from(&self.dest);
        info.domain.name = Some(self.domain.clone());
        info.fabric.name = Some(self.fabric.clone());
    }
}

/// The addresses of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// Any address of each device.
    Everywhere,
    /// A port of all addresses of a device; one entry for each device.
    Port(Vec<u8>),
    /// A port of all addresses of all devices: one entry for a passive endpoint.
    Listener(Vec<u8>),
    /// An address of this host.
    At { device: Device, src: Vec<u8> },
    /// The way to a peer.
    Way {
        device: Device,
        src: Vec<u8>,
        dest: Vec<u8>,
    },
}

/// Time limit for finding the device that leads to an address.
const RESOLVE: Duration = Duration::from_millis(2000);

impl Wanted {
    /// Finds the devices for the addresses of a query. The reason for a failure is that of all entries.
    pub fn of(query: &Query) -> Result<Wanted, Refusal> {
        let nothing = Hints::default();
        let hints = query.hints.unwrap_or(&nothing);
        let is_source = query.flags & FI_SOURCE != 0;
        if hints.addr_format == FI_SOCKADDR_IB {
            return Wanted::of_infiniband(query, hints, is_source);
        }
        let is_named = query.node.is_some() || query.service.is_some();
        let family = family_of(hints);
        let named = match is_named {
            false => None,
            true => Some(resolve_name(
                query,
                family,
                is_source || query.node.is_none(),
            )?),
        };
        if query.node.is_none() && is_named {
            let any = named.unwrap_or_default();
            return match is_source {
                true => Ok(Wanted::Listener(any)),
                false if hints.dest_addr.is_some() => Wanted::at_or_to(hints, None),
                false => Ok(Wanted::Port(any)),
            };
        }
        match named {
            Some(src) if is_source && is_any(&src) => Ok(Wanted::Listener(src)),
            Some(src) if is_source => bound(&src),
            Some(dest) => Wanted::at_or_to(hints, Some(dest)),
            None => Wanted::at_or_to(hints, None),
        }
    }

    /// Addresses of AF_IB have a text form instead of names, and no wildcard.
    fn of_infiniband(query: &Query, hints: &Hints, is_source: bool) -> Result<Wanted, Refusal> {
        let service = query
            .service
            .and_then(|text| text.to_str().ok()?.parse().ok());
        let Some(node) = query.node else {
            let with_service = |bytes: &Option<Vec<u8>>, is_meant: bool| {
                let bytes = bytes.as_deref()?;
                let port = service.filter(|_| is_meant);
                Some(port.map_or_else(|| bytes.to_vec(), |port| ib::with_port(bytes, port)))
            };
            let given = Hints {
                src_addr: with_service(&hints.src_addr, is_source),
                dest_addr: with_service(&hints.dest_addr, !is_source),
                ..Hints::default()
            };
            return Wanted::at_or_to(&given, None);
        };
        let text = node.to_string_lossy();
        let parsed = ib::parse(&text, service);
        let address = parsed.ok_or_else(|| refusal("node", text.into_owned(), "no address"))?;
        match is_source {
            true => bound(&address),
            false => Wanted::at_or_to(hints, Some(address)),
        }
    }

    /// By the addresses in the hints, or to a named peer.
    fn at_or_to(hints: &Hints, named: Option<Vec<u8>>) -> Result<Wanted, Refusal> {
        let dest = named.or_else(|| hints.dest_addr.clone());
        match (dest, &hints.src_addr) {
            (Some(dest), src) => way(src.as_deref(), &dest),
            (None, Some(src)) if is_any(src) && port_of(src) != 0 => {
                Ok(Wanted::Listener(src.clone()))
            }
            (None, Some(src)) => bound(src),
            (None, None) => Ok(Wanted::Everywhere),
        }
    }

    /// The places at one device.
    pub fn at(&self, adapter: &Adapter) -> Vec<Place> {
        let place = |src, dest| Place::of(adapter, src, dest);
        match self {
            Wanted::Everywhere => {
                let all = adapter.addresses.iter();
                all.map(|src| place(Some(src.clone()), None)).collect()
            }
            // Without an address there are no connected endpoints.
            _ if adapter.addresses.is_empty() => Vec::new(),
            Wanted::Port(any) => vec![place(Some(any.clone()), None)],
            Wanted::Listener(_) => Vec::new(),
            Wanted::At { device, src } if *device == adapter.device => {
                vec![place(Some(src.clone()), None)]
            }
            Wanted::Way { device, src, dest } if *device == adapter.device => {
                vec![place(Some(src.clone()), Some(dest.clone()))]
            }
            Wanted::At { .. } | Wanted::Way { .. } => Vec::new(),
        }
    }
}

/// The family of the addresses that names are resolved to. Without a format it is IPv4.
fn family_of(hints: &Hints) -> Family {
    match hints.addr_format {
        0 | FI_SOCKADDR_IN => Family::V4,
        FI_SOCKADDR_IN6 => Family::V6,
        _ => {
            let given = hints.src_addr.as_deref().or(hints.dest_addr.as_deref());
            match given.and_then(addr::from_bytes) {
                Some(SocketAddr::V4(_)) => Family::V4,
                Some(SocketAddr::V6(_)) => Family::V6,
                None => Family::Any,
            }
        }
    }
}

fn refusal(field: &'static str, wanted: String, reason: &str) -> Refusal {
    Refusal::new(field, Value::Text(wanted), Value::from(reason))
}

fn resolve_name(query: &Query, family: Family, passive: bool) -> Result<Vec<u8>, Refusal> {
    let found = resolve::resolve(&Question {
        node: query.node,
        service: query.service,
        family,
        passive,
        datagram: false,
    });
    let text = |text: Option<&CStr>| text.unwrap_or_default().to_string_lossy().into_owned();
    let wanted = || format!("{}:{}", text(query.node), text(query.service));
    match found {
        Ok(addr) => Ok(addr::to_bytes(&addr)),
        Err(error) => Err(refusal("node", wanted(), &error)),
    }
}

/// Whether this is an address of a family that endpoints have.
pub fn is_address(bytes: &[u8]) -> bool {
    addr::from_bytes(bytes).is_some() || ib::is_address(bytes)
}

/// Whether this is the address of all interfaces.
pub fn is_any(bytes: &[u8]) -> bool {
    addr::from_bytes(bytes).is_some_and(|addr| addr.ip().is_unspecified())
}

fn port_of(bytes: &[u8]) -> u16 {
    addr::from_bytes(bytes).map_or(0, |addr| addr.port())
}

/// The port space of connections between addresses of this family.
pub fn space_of(bytes: &[u8]) -> PortSpace {
    match ib::is_address(bytes) {
        true => PortSpace::Ib,
        false => PortSpace::Tcp,
    }
}

fn shown(bytes: &[u8]) -> String {
    match addr::from_bytes(bytes) {
        Some(addr) => addr.to_string(),
        None => format!("{bytes:02x?}"),
    }
}

/// The addresses of a question to the kernel, and its answer.
type Ways = Recent<(Option<Vec<u8>>, Option<Vec<u8>>), Result<Wanted, Refusal>>;

static RECENT: Ways = Recent::new();

/// Makes the next query ask the kernel again.
pub fn forget_recent() {
    RECENT.forget();
}

/// The device that has this address. Loopback addresses belong to no device, and restrict nothing.
fn bound(src: &[u8]) -> Result<Wanted, Refusal> {
    let bind = || {
        let id = Id::new(None, space_of(src), 0)?;
        id.bind(src).map(|()| id)
    };
    RECENT.get_or((Some(src.to_vec()), None), |_| match bind() {
        Ok(id) => Ok(match id.device() {
            None => Wanted::Everywhere,
            Some(device) => Wanted::At {
                device,
                src: src.to_vec(),
            },
        }),
        Err(error) => Err(refusal("src_addr", shown(src), &error.to_string())),
    })
}

/// The device that leads to a peer. Blocks until the kernel has found out.
fn way(src: Option<&[u8]>, dest: &[u8]) -> Result<Wanted, Refusal> {
    let question = (src.map(<[u8]>::to_vec), Some(dest.to_vec()));
    RECENT.get_or(question, |_| new_way(src, dest))
}

fn new_way(src: Option<&[u8]>, dest: &[u8]) -> Result<Wanted, Refusal> {
    let resolve = || {
        let id = Id::new(None, space_of(dest), 0)?;
        id.resolve_address(src, dest, RESOLVE).map(|()| id)
    };
    let id = resolve().map_err(|error| refusal("dest_addr", shown(dest), &error.to_string()))?;
    let device = id.device();
    let device = device.ok_or_else(|| refusal("dest_addr", shown(dest), "no RDMA device"))?;
    let src = match src {
        Some(src) => src.to_vec(),
        None => without_port(id.local()),
    };
    Ok(Wanted::Way {
        device,
        src,
        dest: id.peer(),
    })
}

fn without_port(bytes: Vec<u8>) -> Vec<u8> {
    match addr::from_bytes(&bytes) {
        Some(addr) => addr::to_bytes(&(addr.ip(), 0).into()),
        None => bytes,
    }
}
