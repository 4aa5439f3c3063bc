// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The local address in the fabric (`-s`), in the form that fi_getinfo(3) takes.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use crate::control::Address;
use abi::{FI_EADDRNOTAVAIL, FI_SOCKADDR_IN, FI_SOCKADDR_IN6};
use calls::failure::{Failure, Result};

/// Resolves the host `name` with any port; IPv6 is preferred only if `ipv6` is set.
pub fn resolve(name: &str, ipv6: bool) -> Result<Address> {
    let doing = || format!("source address {name}");
    let found = (name, 0)
        .to_socket_addrs()
        .map_err(|error| Failure::system(doing(), &error))?;
    let found: Vec<SocketAddr> = found.collect();
    // A numeric address has one family; a name may have both.
    let chosen = found.iter().find(|address| address.is_ipv6() == ipv6);
    chosen
        .or(found.first())
        .map(|address| encode(*address))
        .ok_or_else(|| Failure::new(doing(), FI_EADDRNOTAVAIL))
}

/// `struct sockaddr_in` or `struct sockaddr_in6`.
fn encode(address: SocketAddr) -> Address {
    let port = address.port().to_be_bytes();
    let (format, family, rest) = match address.ip() {
        IpAddr::V4(ip) => {
            let padding = [0; 8];
            let rest = [&port[..], &ip.octets(), &padding].concat();
            (FI_SOCKADDR_IN, libc::AF_INET, rest)
        }
        IpAddr::V6(ip) => {
            let scope = match address {
                SocketAddr::V6(address) => address.scope_id().to_ne_bytes(),
                SocketAddr::V4(_) => [0; 4],
            };
            let flow = [0; 4];
            let rest = [&port[..], &flow, &ip.octets(), &scope].concat();
            (FI_SOCKADDR_IN6, libc::AF_INET6, rest)
        }
    };
    let family = (family as u16).to_ne_bytes();
    Address {
        format,
        bytes: [&family[..], &rest].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_layout_of_the_system() {
        let v4 = encode("127.0.0.1:258".parse().unwrap());
        assert_eq!(v4.format, FI_SOCKADDR_IN);
        assert_eq!(v4.bytes, [2, 0, 1, 2, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(v4.bytes.len(), size_of::<libc::sockaddr_in>());

        let v6 = encode("[::1]:0".parse().unwrap());
        assert_eq!(v6.format, FI_SOCKADDR_IN6);
        assert_eq!(v6.bytes.len(), size_of::<libc::sockaddr_in6>());
        assert_eq!((v6.bytes[0], v6.bytes[23]), (10, 1));
    }
}
