// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Selects the addresses from the other side's list that may be tried.
//!
//! The other side gets the result of each attempt, so a doctor that tried every address would scan networks for
//! strangers. A doctor tries the addresses at which the other side was found, and addresses that share a subnet of this
//! host with them: the other side can reach these by itself. It never tries other addresses of this host, because a
//! firewall does not see such connections, and no other loopback addresses, because a tunnel or a proxy can let
//! strangers connect from loopback.

use std::net::IpAddr;

use calls::link::{self, Link, Subnet};

/// The addresses that may be tried.
pub struct Scope {
    /// The addresses at which the other side was found.
    met: Vec<IpAddr>,
    /// Addresses of this host.
    own: Vec<IpAddr>,
    /// Subnets of this host, without loopback.
    subnets: Vec<Subnet>,
}

impl Scope {
    pub fn of(met: impl IntoIterator<Item = IpAddr>) -> Scope {
        Scope::over(&link::all(), met)
    }

    fn over(links: &[Link], met: impl IntoIterator<Item = IpAddr>) -> Scope {
        let outer = links.iter().filter(|link| !link.is_loopback);
        Scope {
            met: met.into_iter().map(|ip| ip.to_canonical()).collect(),
            own: links
                .iter()
                .flat_map(|link| link.addresses.clone())
                .collect(),
            subnets: outer.flat_map(|link| link.subnets.clone()).collect(),
        }
    }

    pub fn contains(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let shares = |subnet: &Subnet| {
            subnet.contains(ip) && self.met.iter().any(|&met| subnet.contains(met))
        };
        self.met.contains(&ip)
            || !self.own.contains(&ip) && !ip.is_loopback() && self.subnets.iter().any(shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(address: &str, mask: &str) -> Link {
        let [address, mask] = [address, mask].map(|text| text.parse().unwrap());
        Link {
            is_loopback: address == IpAddr::from([127, 0, 0, 1]),
            addresses: vec![address],
            subnets: vec![Subnet { address, mask }],
            ..Link::default()
        }
    }

    fn scope(met: &str) -> Scope {
        let links = [
            link("127.0.0.1", "255.0.0.0"),
            link("192.0.2.1", "255.255.255.0"),
            link("10.1.0.1", "255.255.0.0"),
            link("2001:db8::1", "ffff:ffff:ffff:ffff::"),
        ];
        Scope::over(&links, [met.parse().unwrap()])
    }

    #[test]
    fn only_the_visitor_and_its_subnet_are_tried() {
        let tries = |met: &str, ip: &str| scope(met).contains(ip.parse().unwrap());
        for (met, ip) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("192.0.2.7", "::ffff:192.0.2.8"),
            ("192.0.2.7", "192.0.2.8"),
            ("198.51.100.1", "198.51.100.1"),
            ("2001:db8::7", "2001:db8::8"),
            ("127.0.0.1", "127.0.0.1"),
            ("192.0.2.1", "192.0.2.1"),
        ] {
            assert!(tries(met, ip), "{met} {ip}");
        }
        for (met, ip) in [
            ("192.0.2.7", "10.1.0.7"),
            ("192.0.2.7", "198.51.100.1"),
            ("192.0.2.7", "169.254.169.254"),
            ("192.0.2.7", "192.0.2.1"),
            ("192.0.2.7", "127.0.0.1"),
            ("192.0.2.7", "0.0.0.0"),
            ("192.0.2.7", "2001:db8::8"),
            ("198.51.100.1", "198.51.100.2"),
            ("127.0.0.1", "127.0.0.9"),
            ("127.0.0.1", "192.0.2.1"),
            ("127.0.0.1", "::1"),
            ("2001:db8::7", "2001:db8:0:1::7"),
        ] {
            assert!(!tries(met, ip), "{met} {ip}");
        }
    }
}
