// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Addresses of a transport whose domains have one format each, but not all the same: IP, or queue pairs of RDMA
//! devices.

use core::fmt;
use std::net::SocketAddr;

use super::{Address, AddressFormat, ib_ud, ip};
use abi::FI_ADDR_IB_UD;
use base::text::address::straddr;
use base::{Error, Result};
use object::AddrForm;

/// An address of either format. Their bytes differ in length.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Addr {
    Ip(SocketAddr),
    Ud(ib_ud::Addr),
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Addr::Ip(addr) => addr.fmt(f),
            Addr::Ud(addr) => addr.fmt(f),
        }
    }
}

impl Address for Addr {
    fn from_bytes(bytes: &[u8]) -> Option<Addr> {
        match bytes.len() {
            ib_ud::LEN => ib_ud::Addr::from_bytes(bytes).map(Addr::Ud),
            _ => ip::Addr::from_bytes(bytes).map(Addr::Ip),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        match self {
            Addr::Ip(addr) => addr.to_bytes(),
            Addr::Ud(addr) => addr.to_bytes(),
        }
    }
}

/// The format of a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    #[default]
    Ip,
    Ud,
}

impl Format {
    /// The format of an entry with this `addr_format`.
    pub fn of(addr_format: u32) -> Format {
        match addr_format {
            FI_ADDR_IB_UD => Format::Ud,
            _ => Format::Ip,
        }
    }

    /// The address at the start of bytes that may be longer.
    pub fn address_in(self, bytes: &[u8]) -> Option<Addr> {
        match self {
            Format::Ip => ip::Addr::from_bytes(bytes).map(Addr::Ip),
            Format::Ud => ib_ud::Addr::from_bytes(bytes.get(..ib_ud::LEN)?).map(Addr::Ud),
        }
    }
}

impl AddressFormat for Format {
    type Addr = Addr;

    fn form(&self) -> AddrForm {
        match self {
            Format::Ip => ip::Format.form(),
            Format::Ud => AddrForm::Bytes(ib_ud::LEN),
        }
    }

    fn text(&self, bytes: &[u8]) -> String {
        match self {
            Format::Ip => ip::Format.text(bytes),
            Format::Ud => String::from_utf8_lossy(&straddr(FI_ADDR_IB_UD, bytes, 0)).into_owned(),
        }
    }

    fn parse(&self, text: &str) -> Option<Addr> {
        match self {
            Format::Ip => ip::Format.parse(text).map(Addr::Ip),
            Format::Ud => ib_ud::Addr::parse(text).map(Addr::Ud),
        }
    }

    /// Names of hosts do not lead to queue pairs.
    fn resolve(&self, node: &str, service: &str) -> Result<Addr> {
        match self {
            Format::Ip => ip::Format.resolve(node, service).map(Addr::Ip),
            Format::Ud => Err(Error::NOSYS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_decides_about_padded_bytes() {
        let ip: SocketAddr = "10.0.0.1:5".parse().unwrap();
        let ud = ib_ud::Addr {
            gid: [2, 0, 0, 9, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1],
            ..ib_ud::Addr::default()
        };
        for (format, addr) in [(Format::Ip, Addr::Ip(ip)), (Format::Ud, Addr::Ud(ud))] {
            let mut bytes = addr.to_bytes();
            assert_eq!(Addr::from_bytes(&bytes), Some(addr));
            bytes.resize(64, 0);
            assert_eq!(format.address_in(&bytes), Some(addr));
        }
        assert_eq!(Format::Ud.address_in(&[0; 31]), None);
        assert_eq!(Format::Ud.resolve("host", "1"), Err(Error::NOSYS));
    }
}
