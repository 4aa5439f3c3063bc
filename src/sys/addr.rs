// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Socket addresses in the layout of C: `struct sockaddr_in` and `struct sockaddr_in6`, byte for byte.
//!
//! Trusted with: reading the family of an address that a C caller passed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

const V4_LEN: usize = size_of::<libc::sockaddr_in>();
const V6_LEN: usize = size_of::<libc::sockaddr_in6>();
/// `struct sockaddr_ib` of rdma-core.
const IB_LEN: usize = 48;

/// Returns the number of bytes of the address at this place, by its family; 0 for NULL or a family that is neither
/// IP nor InfiniBand.
///
/// # Safety
/// `addr` must be NULL or point to a `struct sockaddr` (at least its family, two bytes).
pub unsafe fn len_at(addr: *const u8) -> usize {
    if addr.is_null() {
        return 0;
    }
    // SAFETY: promised by the caller; it need not be aligned.
    let family = unsafe { addr.cast::<u16>().read_unaligned() };
    match i32::from(family) {
        libc::AF_INET => V4_LEN,
        libc::AF_INET6 => V6_LEN,
        libc::AF_IB => IB_LEN,
        _ => 0,
    }
}

/// Decodes the address in `bytes`; `None` if it is too short or of another family.
pub fn from_bytes(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    match i32::from(family) {
        libc::AF_INET if bytes.len() >= V4_LEN => {
            let ip: [u8; 4] = bytes[4..8].try_into().ok()?;
            Some(SocketAddrV4::new(Ipv4Addr::from(ip), port).into())
        }
        libc::AF_INET6 if bytes.len() >= V6_LEN => {
            let flow = u32::from_ne_bytes(bytes[4..8].try_into().ok()?);
            let ip: [u8; 16] = bytes[8..24].try_into().ok()?;
            let scope = u32::from_ne_bytes(bytes[24..28].try_into().ok()?);
            Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope).into())
        }
        _ => None,
    }
}

/// Encodes the address as the C struct, with zeros as padding and flow label.
pub fn to_bytes(addr: &SocketAddr) -> Vec<u8> {
    let mut bytes = vec![
        0;
        match addr {
            SocketAddr::V4(_) => V4_LEN,
            SocketAddr::V6(_) => V6_LEN,
        }
    ];
    let family = match addr {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&addr.port().to_be_bytes());
    match addr {
        SocketAddr::V4(v4) => bytes[4..8].copy_from_slice(&v4.ip().octets()),
        SocketAddr::V6(v6) => {
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
        }
    }
    bytes
}

/// Reduces an address to the fields that identify a peer: family, IP, port and scope. An IPv4-mapped IPv6 address
/// becomes the IPv4 address.
pub fn canonical(addr: SocketAddr) -> SocketAddr {
    match addr {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(IpAddr::V4(v4), v6.port()),
            None => SocketAddrV6::new(*v6.ip(), v6.port(), 0, v6.scope_id()).into(),
        },
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_to_c_and_back() {
        for text in ["127.0.0.1:80", "10.1.2.3:65535", "[::1]:7", "[fe80::1]:9"] {
            let addr: SocketAddr = text.parse().unwrap();
            let bytes = to_bytes(&addr);
            // SAFETY: a whole address.
            assert_eq!(unsafe { len_at(bytes.as_ptr()) }, bytes.len());
            assert_eq!(from_bytes(&bytes), Some(addr));
        }
    }

    #[test]
    fn short_and_foreign_addresses_are_none() {
        let bytes = to_bytes(&"127.0.0.1:80".parse().unwrap());
        assert_eq!(from_bytes(&bytes[..15]), None);
        assert_eq!(from_bytes(&[]), None);
        assert_eq!(from_bytes(&[libc::AF_UNIX as u8, 0, 0, 0]), None);
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { len_at(core::ptr::null()) }, 0);
    }
}
