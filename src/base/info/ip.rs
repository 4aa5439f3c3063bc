// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Places of the entries of a provider over IP: converts node, service and addresses of fi_getinfo(3) to a list of
//! places, each with its interface and network.
#![forbid(unsafe_code)]

use std::collections::{BTreeSet, HashSet};
use std::ffi::{CStr, CString};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use super::reason::{Refusal, Value};
use super::{Hints, Info, Query};
use crate::Caps;
use crate::log::{Source, Subsys, log_failure};
use abi::*;
use sys::addr;
use sys::netif::{self, Address};
use sys::resolve::{self, Family, Question};

/// Queries of the system's network configuration; tests replace them.
pub trait Network {
    /// Returns the addresses of this machine in order of preference, loopback last.
    fn addresses(&self) -> Vec<Address>;
    fn resolve(&self, question: &Question) -> Result<SocketAddr, String>;
    fn source_for(&self, dest: &SocketAddr) -> Option<SocketAddr>;
}

/// The real network of this machine.
pub struct System;

impl Network for System {
    fn addresses(&self) -> Vec<Address> {
        netif::addresses()
    }
    fn resolve(&self, question: &Question) -> Result<SocketAddr, String> {
        resolve::resolve(question)
    }
    fn source_for(&self, dest: &SocketAddr) -> Option<SocketAddr> {
        resolve::source_for(dest)
    }
}

/// Attributes in which the providers over IP differ.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The only interface to use.
    pub iface: Option<&'a str>,
    /// The variable that names this interface.
    pub iface_variable: &'static str,
    /// Names of domain and fabric of an entry that belongs to no interface.
    pub domain: &'static CStr,
    pub fabric: &'static CStr,
    pub datagram: bool,
}

/// The address formats of providers over IP.
pub const ADDR_FORMATS: &[u32] = &[FI_SOCKADDR_IP, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6];

/// A place at which an endpoint can be opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub domain: CString,
    pub fabric: CString,
    pub addr_format: u32,
    pub src: Option<SocketAddr>,
    pub dest: Option<SocketAddr>,
    /// Only processes of this machine can be reached.
    pub local: bool,
}

impl super::Place for Place {
    fn domain(&self) -> &CStr {
        &self.domain
    }

    fn fabric(&self) -> &CStr {
        &self.fabric
    }

    fn apply(&self, info: &mut Info) {
        info.addr_format = self.addr_format;
        info.src_addr = self.src.as_ref().map(addr::to_bytes);
        info.dest_addr = self.dest.as_ref().map(addr::to_bytes);
        info.domain.name = Some(self.domain.clone());
        info.fabric.name = Some(self.fabric.clone());
        if self.local {
            info.caps &= !Caps::REMOTE_COMM;
        }
    }
}

/// Returns all places that satisfy the addresses of the query, in order of preference. Names in the hints are ignored.
/// Fails if `site.iface` has no address, because an entry for all interfaces would use the others.
pub fn places(query: &Query, site: &Site, network: &dyn Network) -> Result<Vec<Place>, Refusal> {
    let nothing = Hints::default();
    let hints = query.hints.unwrap_or(&nothing);
    let mut addresses = network.addresses();
    if let Some(iface) = site.iface {
        let there = interfaces(&addresses);
        addresses.retain(|address| address.interface.as_bytes() == iface.as_bytes());
        if addresses.is_empty() {
            let refusal = Refusal::new(site.iface_variable, Value::from(iface), Value::Text(there));
            return Err(refusal);
        }
    }
    let finder = Finder {
        query,
        hints,
        site,
        network,
        addresses,
    };
    finder.places()
}

/// Warns that the only interface to use has no address. Once in a process for each provider, because the application
/// repeats the query for each fabric and domain.
pub fn warn_of_interface<T>(source: &'static Source, site: &Site<'_>, places: &Result<T, Refusal>) {
    static TOLD: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let iface = site.iface_variable;
    let Err(refusal) = places else {
        return;
    };
    // Releases the guard before the log's callbacks run.
    let first = || {
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        told.insert(iface)
    };
    if refusal.field == iface && first() {
        let (wanted, there) = (&refusal.wanted, &refusal.offered);
        log_failure!(
            source,
            Subsys::Fabric,
            "{iface}={wanted} is no interface with an address; there are {there}"
        );
    }
}

/// Returns the source address of an endpoint whose entry has neither source nor destination: the best address of the
/// interface that the domain is named after; else of `iface`, the only interface to use; else of any interface.
pub fn own_address(info: &Info, iface: Option<&str>) -> Option<SocketAddr> {
    if info.src_addr.is_some() || info.dest_addr.is_some() {
        return None;
    }
    let mut addresses = netif::addresses();
    addresses.retain(|address| match info.addr_format {
        FI_SOCKADDR_IN => address.addr.is_ipv4(),
        FI_SOCKADDR_IN6 => address.addr.is_ipv6(),
        _ => true,
    });
    let domain = info.domain.name.as_deref().map(CStr::to_bytes);
    let at = |name: &[u8]| {
        let mut addresses = addresses.iter();
        addresses.find(|address| address.interface.as_bytes() == name)
    };
    let found = domain.and_then(at).or_else(|| match iface {
        Some(iface) => at(iface.as_bytes()),
        None => addresses.first(),
    });
    found.map(|address| address.addr)
}

/// Returns the names of the interfaces, each once.
fn interfaces(addresses: &[Address]) -> String {
    let mut names: Vec<_> = addresses
        .iter()
        .map(|address| address.interface.to_string_lossy())
        .collect();
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names.join(", ")
}

struct Finder<'a> {
    query: &'a Query<'a>,
    hints: &'a Hints,
    site: &'a Site<'a>,
    network: &'a dyn Network,
    addresses: Vec<Address>,
}

impl Finder<'_> {
    fn places(&self) -> Result<Vec<Place>, Refusal> {
        let src = self.hinted("src_addr", self.hints.src_addr.as_deref())?;
        let dest = self.hinted("dest_addr", self.hints.dest_addr.as_deref())?;
        let named = self.query.node.is_some() || self.query.service.is_some();
        if self.query.flags & FI_SOURCE != 0 {
            if !named {
                return Err(Refusal::new(
                    "flags",
                    Value::from("FI_SOURCE without node and service"),
                    Value::from("FI_SOURCE with one of them"),
                ));
            }
            let src = self.resolve(true, dest.as_ref())?;
            return Ok(vec![self.place(Some(src), dest, dest.is_some())]);
        }
        if named {
            let dest = self.resolve(false, src.as_ref())?;
            return Ok(vec![self.towards(src, dest, src.is_some())]);
        }
        match (src, dest) {
            (None, None) => Ok(self.everywhere()),
            (Some(_), None) => Ok(vec![self.place(src, None, true)]),
            (src, Some(dest)) => Ok(vec![self.towards(src, dest, src.is_some())]),
        }
    }

    /// Returns an address of the hints. Refuses one of another family than the requested one.
    fn hinted(
        &self,
        field: &'static str,
        bytes: Option<&[u8]>,
    ) -> Result<Option<SocketAddr>, Refusal> {
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        let addr = addr::from_bytes(bytes).filter(|addr| self.family().includes(addr));
        match addr {
            Some(addr) => Ok(Some(addr)),
            None => Err(Refusal::new(
                field,
                Value::Text(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
                Value::AddrFormat(match self.family() {
                    Family::Any => FI_SOCKADDR_IP,
                    Family::V4 => FI_SOCKADDR_IN,
                    Family::V6 => FI_SOCKADDR_IN6,
                }),
            )),
        }
    }

    fn family(&self) -> Family {
        match self.hints.addr_format {
            FI_SOCKADDR_IN => Family::V4,
            FI_SOCKADDR_IN6 => Family::V6,
            _ => Family::Any,
        }
    }

    /// Resolves node and service to an address, of the family of `other` if that is given.
    fn resolve(&self, passive: bool, other: Option<&SocketAddr>) -> Result<SocketAddr, Refusal> {
        let family = match other {
            Some(SocketAddr::V4(_)) => Family::V4,
            Some(SocketAddr::V6(_)) => Family::V6,
            None => self.family(),
        };
        let question = Question {
            node: self.query.node,
            service: self.query.service,
            family,
            passive,
            datagram: self.site.datagram,
        };
        let text = |part: Option<&CStr>| part.map(|part| part.to_string_lossy().into_owned());
        let refuse = |answer: String| {
            let node = text(question.node);
            let service = text(question.service);
            let (field, wanted) = match (node, service) {
                (Some(node), None) => ("node", node),
                (Some(node), Some(service)) => ("node and service", format!("{node} {service}")),
                (None, service) => ("service", service.unwrap_or_default()),
            };
            Refusal::new(field, Value::Text(wanted), Value::Text(answer))
        };
        // fi_getinfo(3): an FI_ADDR_STR address, which providers over IP do not use.
        if text(self.query.node).is_some_and(|node| node.contains("://")) {
            return Err(refuse("names and numbers of IP".to_owned()));
        }
        self.network.resolve(&question).map_err(refuse)
    }

    /// Returns a place from which `dest` is reachable. Its source is `src`, or else the address that the routing table
    /// selects.
    fn towards(&self, src: Option<SocketAddr>, dest: SocketAddr, hinted: bool) -> Place {
        let src = src.or_else(|| self.network.source_for(&dest));
        let mut place = self.place(src, Some(dest), hinted);
        if src.is_none() {
            place.addr_format = format_of(&dest);
        }
        place
    }

    /// Returns a place with known addresses. If one is from the hints, the result has the address format of the hints.
    fn place(&self, src: Option<SocketAddr>, dest: Option<SocketAddr>, hinted: bool) -> Place {
        let (domain, fabric) = self.names(src.as_ref());
        let own = src.or(dest).as_ref().map_or(FI_SOCKADDR_IP, format_of);
        let keeps_format = hinted && self.hints.addr_format != FI_FORMAT_UNSPEC;
        Place {
            domain,
            fabric,
            addr_format: if keeps_format {
                self.hints.addr_format
            } else {
                own
            },
            src,
            dest,
            local: false,
        }
    }

    /// Returns domain and fabric of a local address.
    fn names(&self, src: Option<&SocketAddr>) -> (CString, CString) {
        let owner = src.and_then(|src| {
            let mut addresses = self.addresses.iter();
            addresses.find(|address| address.addr.ip() == src.ip())
        });
        match owner {
            Some(address) => names_of(address),
            None => (self.site.domain.into(), self.site.fabric.into()),
        }
    }

    /// Returns places for a query without addresses: each address of this machine, or one place for all of them.
    fn everywhere(&self) -> Vec<Place> {
        // A program that passes an entry of an earlier result as hints names its interface, and gets the same entry.
        let remote = self.hints.caps.contains(Caps::REMOTE_COMM);
        let named = |address: &Address| {
            let wanted = self
                .hints
                .domain
                .as_ref()
                .and_then(|attr| attr.name.as_ref());
            wanted.is_some_and(|name| {
                name.as_bytes()
                    .eq_ignore_ascii_case(address.interface.as_bytes())
            })
        };
        let places: Vec<Place> = self
            .addresses
            .iter()
            .filter(|address| self.family().includes(&address.addr))
            .filter(|address| !(remote && address.loopback) || named(address))
            .map(|address| {
                let (domain, fabric) = names_of(address);
                Place {
                    domain,
                    fabric,
                    addr_format: format_of(&address.addr),
                    src: Some(address.addr),
                    dest: None,
                    local: address.loopback && !remote,
                }
            })
            .collect();
        if places.is_empty() {
            return vec![self.place(None, None, false)];
        }
        places
    }
}

fn names_of(address: &Address) -> (CString, CString) {
    let network = CString::new(netif::network(address)).unwrap_or_default();
    (address.interface.clone(), network)
}

fn format_of(addr: &SocketAddr) -> u32 {
    match addr {
        SocketAddr::V4(_) => FI_SOCKADDR_IN,
        SocketAddr::V6(_) => FI_SOCKADDR_IN6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_without_a_source_gets_an_address_of_its_interface() {
        let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut info = Info {
            addr_format: FI_SOCKADDR_IN,
            ..Info::default()
        };
        info.domain.name = Some(c"lo".into());
        assert_eq!(own_address(&info, None), Some(loopback));
        // The name of a domain for all interfaces.
        info.domain.name = Some(c"tcp".into());
        assert_eq!(own_address(&info, Some("lo")), Some(loopback));
        assert_eq!(own_address(&info, Some("no such interface")), None);
        assert!(own_address(&info, None).is_some_and(|addr| addr.is_ipv4()));
        info.dest_addr = Some(addr::to_bytes(&loopback));
        assert_eq!(own_address(&info, Some("lo")), None);
    }
}
