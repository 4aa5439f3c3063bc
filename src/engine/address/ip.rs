// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Addresses of endpoints over IP: IPv4 and IPv6 socket addresses.

use std::ffi::CString;
use std::net::SocketAddr;

use super::{Address, AddressFormat};
use base::{Error, Result};
use object::AddrForm;
use sys::resolve::{Family, Question, resolve};
use sys::{addr, netif};

/// Where an endpoint takes connections or datagrams, in canonical form.
pub type Addr = SocketAddr;

impl Address for Addr {
    fn from_bytes(bytes: &[u8]) -> Option<Addr> {
        let addr = addr::canonical(addr::from_bytes(bytes)?);
        (!addr.ip().is_unspecified()).then_some(addr)
    }

    fn to_bytes(&self) -> Vec<u8> {
        addr::to_bytes(self)
    }
}

/// Returns the rank of the endpoint with this address among the members; FI_EINVAL if it is not one.
pub fn rank_among(local: Addr, members: &[Addr]) -> Result<usize> {
    let own = addr::canonical(local);
    if let Some(rank) = members.iter().position(|member| *member == own) {
        return Ok(rank);
    }
    let rank = own.ip().is_unspecified().then(|| {
        let ours = netif::addresses();
        let is_ours = |member: &Addr| {
            let mut addresses = ours.iter().map(|address| address.addr.ip());
            member.port() == own.port() && addresses.any(|ip| ip == member.ip())
        };
        members.iter().position(is_ours)
    });
    rank.flatten().ok_or(Error::INVAL)
}

/// The bytes by which all members of a group identify this address.
pub fn identity(addr: &Addr) -> Vec<u8> {
    let ip = match addr {
        SocketAddr::V4(v4) => v4.ip().to_ipv6_mapped(),
        SocketAddr::V6(v6) => *v6.ip(),
    };
    let mut bytes = ip.octets().to_vec();
    bytes.extend_from_slice(&addr.port().to_be_bytes());
    bytes
}

/// The address format follows from the family at the beginning of the bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Format;

impl AddressFormat for Format {
    type Addr = Addr;

    fn form(&self) -> AddrForm {
        AddrForm::Socket
    }

    fn text(&self, bytes: &[u8]) -> String {
        match addr::from_bytes(bytes) {
            Some(addr @ SocketAddr::V4(_)) => format!("fi_sockaddr_in://{addr}"),
            Some(addr @ SocketAddr::V6(_)) => format!("fi_sockaddr_in6://{addr}"),
            None => String::new(),
        }
    }

    fn parse(&self, text: &str) -> Option<Addr> {
        let (format, addr) = text.split_once("://")?;
        let addr: SocketAddr = addr.parse().ok()?;
        let named = match addr {
            SocketAddr::V4(_) => "fi_sockaddr_in",
            SocketAddr::V6(_) => "fi_sockaddr_in6",
        };
        let fits = format == named && !addr.ip().is_unspecified();
        fits.then(|| addr::canonical(addr))
    }

    fn resolve(&self, node: &str, service: &str) -> Result<Addr> {
        let (node_c, service_c) = (c_text(node)?, c_text(service)?);
        // getaddrinfo(3) takes numbers that are no port.
        let digits = service.bytes().all(|byte| byte.is_ascii_digit());
        if digits && service.parse::<u16>().is_err() {
            return Err(Error::INVAL);
        }
        let found = resolve(&Question {
            node: Some(&node_c),
            service: Some(&service_c),
            family: Family::Any,
            passive: false,
            datagram: false,
        });
        found.map(addr::canonical).map_err(|_| Error::INVAL)
    }
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_back() {
        for addr in ["127.0.0.1:80", "[fe80::1]:9"] {
            let addr: Addr = addr.parse().unwrap();
            assert_eq!(Format.parse(&Format.text(&addr.to_bytes())), Some(addr));
        }
        for wrong in [
            "127.0.0.1:80",
            "fi_sockaddr_in6://127.0.0.1:80",
            "fi_sockaddr_in://[::1]:80",
            "fi_sockaddr_in://127.0.0.1",
            "fi_sockaddr_in://0.0.0.0:80",
            "fi_sockaddr_in://127.0.0.1:80 ",
        ] {
            assert_eq!(Format.parse(wrong), None);
        }
    }
}
