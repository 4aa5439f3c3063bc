// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Datagram endpoints (FI_EP_DGRAM): their addresses, and the places of their entries.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;

use super::adapter::Adapter;
use super::names::{self, NameServer, Registered};
use super::params::Params;
use super::place::Place;
use abi::*;
use base::info::{Hints, Info, Query, Refusal, Value};
use base::{Error, Result};
use engine::address::ib_ud::{self, Addr};
use engine::address::mixed;
use engine::domain_state::DomainState;
use engine::transport::Address;
use sys::verbs::{Destination, Device, Gid, Pair};

/// The end of the names of domains for datagrams.
pub const SUFFIX: &str = "-dgram";

/// Bytes before each received message: a global header, or nothing of meaning.
pub const PREFIX: usize = 40;

/// The port, the key, and the index of the partition of all datagram endpoints.
pub const PORT: u8 = 1;
pub const KEY: u32 = 0x1111_1111;
pub const PKEY_INDEX: u16 = 0;

/// The part of an endpoint that only those for datagrams have.
pub struct Datagrams {
    /// Without a queue pair until the endpoint is enabled.
    pub local: Addr,
    pub pair: Option<Pair>,
    /// The name for the name server that the application requested.
    service: Option<i32>,
    registered: Option<Registered>,
    /// Destinations by their index in the address vector, with the address that the index had.
    peers: Vec<Option<(Addr, Destination)>>,
}

impl Datagrams {
    pub fn new(info: &Info) -> Result<Datagrams> {
        let src = info.src_addr.as_deref();
        let service = src.map(service_in).transpose()?;
        Ok(Datagrams {
            local: Addr::default(),
            pair: None,
            service: service.map(i32::from),
            registered: None,
            peers: Vec::new(),
        })
    }

    /// The address, all zeros until the endpoint is enabled.
    pub fn name(&self) -> Vec<u8> {
        self.local.to_bytes()
    }

    pub fn register(&mut self, server: NameServer) {
        self.registered = server.register(self.service, &self.local);
    }

    /// The destination at this index, if messages were sent there before and the index has the same address.
    #[inline]
    pub fn known(
        &self,
        domain: &DomainState<mixed::Addr>,
        ep: usize,
        index: u64,
    ) -> Option<&Destination> {
        let (known, destination) = self.peers.get(index as usize)?.as_ref()?;
        match domain.avs[domain.eps[ep].av?].get(index)? {
            mixed::Addr::Ud(addr) if addr == known => Some(destination),
            _ => None,
        }
    }

    /// Keeps a destination for `known`.
    pub fn keep(&mut self, index: u64, addr: Addr, destination: Destination) {
        let index = index as usize;
        if self.peers.len() <= index {
            self.peers.resize(index + 1, None);
        }
        self.peers[index] = Some((addr, destination));
    }
}

/// The service in a source address, which may have nothing else.
fn service_in(bytes: &[u8]) -> Result<u16> {
    let bytes: &[u8; ib_ud::LEN] = bytes.try_into().map_err(|_| Error::INVAL)?;
    Ok(u16::from_ne_bytes([bytes[24], bytes[25]]))
}

/// A source address with nothing but a service.
fn of_service(service: u16) -> Vec<u8> {
    let mut bytes = Addr::default().to_bytes();
    ib_ud::set_service(&mut bytes, service);
    bytes
}

/// The address of a new queue pair of a device.
pub fn local(device: Device, own_gid: u8, pair: u32) -> io::Result<Addr> {
    let port = device.port(PORT)?;
    Ok(Addr {
        gid: device.gid(PORT, own_gid.into())?,
        pair,
        lid: port.lid,
        pkey: device.pkey(PORT, PKEY_INDEX)?,
        service: 0,
        service_level: port.sm_sl,
    })
}

/// The index of the own identifier. Routers of Ethernet forward only datagrams between identifiers of RoCE v2 with an
/// address of IP.
pub fn own_gid(adapter: &Adapter, params: &Params) -> u8 {
    const ETHERNET: u8 = 2;
    if let Some(index) = params.gid_idx {
        return u8::try_from(index).unwrap_or(0);
    }
    let Ok(port) = adapter.device.port(PORT) else {
        return 0;
    };
    if port.link_layer != ETHERNET {
        return 0;
    }
    let is_usable = |&index: &u8| {
        let gid = adapter.device.gid(PORT, index.into());
        gid.is_ok_and(|gid| is_routable(&gid)) && is_second_version(&adapter.name, index)
    };
    let count = u8::try_from(port.gid_tbl_len).unwrap_or(u8::MAX);
    (0..count).find(is_usable).unwrap_or(0)
}

/// Whether an identifier is neither empty nor of the local link.
fn is_routable(gid: &Gid) -> bool {
    let is_link_local = gid[0] == 0xfe && gid[1] & 0xc0 == 0x80;
    gid[8..] != [0; 8] && !is_link_local
}

fn is_second_version(device: &str, index: u8) -> bool {
    let path = format!("/sys/class/infiniband/{device}/ports/{PORT}/gid_attrs/types/{index}");
    fs::read_to_string(path).is_ok_and(|text| text.trim() == "RoCE v2")
}

/// The addresses of the entries for a query.
pub struct Ends {
    src: Vec<u8>,
    dest: Option<Vec<u8>>,
}

impl Ends {
    pub fn of(query: &Query, params: &Params) -> core::result::Result<Ends, Refusal> {
        let nothing = Hints::default();
        let hints = query.hints.unwrap_or(&nothing);
        let given = |bytes: &Option<Vec<u8>>| bytes.clone().filter(|it| it.len() == ib_ud::LEN);
        let is_source = query.flags & FI_SOURCE != 0;
        let service = service_of(query)?;
        let src = match is_source && query.service.is_some() {
            true => of_service(service as u16),
            false => given(&hints.src_addr).unwrap_or_else(|| of_service(0)),
        };
        let dest = match query.node {
            Some(node) if !is_source => Some(resolve(node, service, params)?),
            _ => given(&hints.dest_addr),
        };
        Ok(Ends { src, dest })
    }

    pub fn at(&self, adapter: &Adapter) -> Place {
        let name = format!("{}{SUFFIX}", adapter.name);
        Place {
            domain: CString::new(name).unwrap_or_default(),
            ..Place::of(adapter, Some(self.src.clone()), self.dest.clone())
        }
    }
}

fn text(text: Option<&CStr>) -> String {
    text.unwrap_or_default().to_string_lossy().into_owned()
}

fn service_of(query: &Query) -> core::result::Result<i32, Refusal> {
    let Some(service) = query.service else {
        return Ok(names::ANY);
    };
    let number = service.to_str().ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        let wanted = Value::Text(text(Some(service)));
        Refusal::new("service", wanted, Value::from("a number"))
    })
}

/// The address that a name server has for a service.
fn resolve(node: &CStr, service: i32, params: &Params) -> core::result::Result<Vec<u8>, Refusal> {
    let refused = |reason: &str| {
        let wanted = Value::Text(text(Some(node)));
        Refusal::new("node", wanted, Value::from(reason))
    };
    let server = NameServer::of(params);
    let server = server.ok_or_else(|| refused("FI_VERBS_DGRAM_USE_NAME_SERVER is not set"))?;
    let found = server.query(&node.to_string_lossy(), service);
    match found {
        Ok(Some(name)) => Ok(name.to_vec()),
        Ok(None) => Err(refused("its name server has no such service")),
        Err(error) => Err(refused(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_of_the_local_link_are_not_routable() {
        let mut gid = [0; 16];
        assert!(!is_routable(&gid));
        gid[15] = 1;
        assert!(is_routable(&gid));
        (gid[0], gid[1]) = (0xfe, 0x80);
        assert!(!is_routable(&gid));
        gid[0] = 0x20;
        assert!(is_routable(&gid));
    }

    #[test]
    fn a_source_address_may_have_only_a_service() {
        assert_eq!(service_in(&of_service(4711)), Ok(4711));
        assert_eq!(service_in(&[0; 16]), Err(Error::INVAL));
    }
}
