// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Socket addresses as the bytes of C's `sockaddr_in` and `sockaddr_in6` (ip(7), ipv6(7)).
#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The bytes of the C struct for this address.
pub fn to_bytes(addr: &SocketAddr) -> Vec<u8> {
    match addr {
        SocketAddr::V4(addr) => {
            let mut bytes = Vec::with_capacity(IN_SIZE);
            bytes.extend((libc::AF_INET as u16).to_ne_bytes());
            bytes.extend(addr.port().to_be_bytes());
            bytes.extend(addr.ip().octets());
            bytes.resize(IN_SIZE, 0);
            bytes
        }
        SocketAddr::V6(addr) => {
            let mut bytes = Vec::with_capacity(IN6_SIZE);
            bytes.extend((libc::AF_INET6 as u16).to_ne_bytes());
            bytes.extend(addr.port().to_be_bytes());
            bytes.extend(addr.flowinfo().to_be_bytes());
            bytes.extend(addr.ip().octets());
            bytes.extend(addr.scope_id().to_ne_bytes());
            bytes
        }
    }
}

/// `None` if the family is neither IPv4 nor IPv6, or the bytes are too few for it. More bytes are fine.
pub fn from_bytes(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(part(bytes, 0)?));
    let port = u16::from_be_bytes(part(bytes, 2)?);
    match family {
        libc::AF_INET if bytes.len() >= IN_SIZE => {
            let ip = Ipv4Addr::from(part::<4>(bytes, 4)?);
            Some(SocketAddrV4::new(ip, port).into())
        }
        libc::AF_INET6 if bytes.len() >= IN6_SIZE => {
            let flow = u32::from_be_bytes(part(bytes, 4)?);
            let ip = Ipv6Addr::from(part::<16>(bytes, 8)?);
            let scope = u32::from_ne_bytes(part(bytes, 24)?);
            Some(SocketAddrV6::new(ip, port, flow, scope).into())
        }
        _ => None,
    }
}

/// The address all of whose bits are zero: any local one.
pub fn any(addr: &SocketAddr) -> SocketAddr {
    match addr {
        SocketAddr::V4(_) => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0).into(),
        SocketAddr::V6(_) => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0).into(),
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

const IN_SIZE: usize = size_of::<libc::sockaddr_in>();
const IN6_SIZE: usize = size_of::<libc::sockaddr_in6>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_to_c_and_back() {
        for text in ["192.0.2.1:7471", "[fe80::1%4]:65535", "[::]:0", "0.0.0.0:0"] {
            let addr: SocketAddr = text.parse().unwrap();
            assert_eq!(from_bytes(&to_bytes(&addr)), Some(addr));
        }
    }

    #[test]
    fn the_bytes_are_those_of_c() {
        let bytes = to_bytes(&"192.0.2.1:258".parse().unwrap());
        assert_eq!(bytes[2..], [1, 2, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[..2], (libc::AF_INET as u16).to_ne_bytes());
        let bytes = to_bytes(&"[2001:db8::1%7]:258".parse().unwrap());
        assert_eq!(bytes.len(), 28);
        assert_eq!(bytes[2..12], [1, 2, 0, 0, 0, 0, 0x20, 0x01, 0x0d, 0xb8]);
        assert_eq!(bytes[24..], 7u32.to_ne_bytes());
    }

    #[test]
    fn short_and_foreign_addresses_are_none() {
        let mut bytes = to_bytes(&"192.0.2.1:7471".parse().unwrap());
        for len in 0..bytes.len() {
            assert_eq!(from_bytes(&bytes[..len]), None);
        }
        bytes[0] = 77;
        assert_eq!(from_bytes(&bytes), None);
    }
}
