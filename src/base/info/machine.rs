// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! For tests of providers over IP: a fixed network configuration.

use std::ffi::CString;
use std::net::{IpAddr, SocketAddr};

use super::ip;
use sys::netif::Address;
use sys::resolve::{Family, Question};

/// eth0 with one IPv4 and two IPv6 addresses, lo with one each; one name, and routes that lead through eth0.
pub struct Machine;

/// Number of usable addresses.
pub const A: usize = 5;

impl ip::Network for Machine {
    fn addresses(&self) -> Vec<Address> {
        [
            ("eth0", "192.0.2.2", 24),
            ("eth0", "fd00::2", 64),
            ("eth0", "2001:db8::2", 32),
            ("lo", "127.0.0.1", 32),
            ("lo", "::1", 128),
        ]
        .map(|(interface, addr, prefix)| {
            let addr: IpAddr = addr.parse().unwrap();
            Address {
                interface: CString::new(interface).unwrap(),
                addr: (addr, 0).into(),
                prefix,
                speed: 100,
                inward: false,
                point_to_point: false,
                loopback: addr.is_loopback(),
            }
        })
        .into()
    }

    fn resolve(&self, question: &Question) -> Result<SocketAddr, String> {
        let node = match (question.node, question.passive, question.family) {
            (Some(node), ..) if node == c"peer" => "198.51.100.7",
            (Some(node), ..) => node.to_str().unwrap(),
            (None, true, Family::V6) => "::",
            (None, true, _) => "0.0.0.0",
            (None, false, Family::V4) => "127.0.0.1",
            (None, false, _) => "::1",
        };
        let ip: IpAddr = node.parse().map_err(|_| "unknown name".to_owned())?;
        let service = question.service.map_or("0", |port| port.to_str().unwrap());
        let port: u16 = service.parse().map_err(|_| "unknown service".to_owned())?;
        Ok((ip, port).into()).filter_family(question.family)
    }

    fn source_for(&self, dest: &SocketAddr) -> Option<SocketAddr> {
        let source = match dest {
            SocketAddr::V4(_) if dest.ip().is_loopback() => "127.0.0.1:0",
            SocketAddr::V4(_) => "192.0.2.2:0",
            SocketAddr::V6(_) if dest.ip().is_loopback() => "[::1]:0",
            SocketAddr::V6(_) => return None,
        };
        Some(source.parse().unwrap())
    }
}

trait FilterFamily {
    fn filter_family(self, family: Family) -> Self;
}

impl FilterFamily for Result<SocketAddr, String> {
    fn filter_family(self, family: Family) -> Self {
        self.and_then(|addr| match family.includes(&addr) {
            true => Ok(addr),
            false => Err("no such address".to_owned()),
        })
    }
}
