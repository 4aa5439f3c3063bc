// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Addresses as text, `fi_sockaddr_in://10.0.0.1:7471`: fi_av(3), `fi_av_straddr`, and fi_getinfo(3), `addr_format`.
//!
//! Sizes and offsets are those of the C structs of the formats.
#![forbid(unsafe_code)]

use core::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use abi::*;

/// Returns the text of an address; empty for formats without one, and for addresses that are too short for their
/// format.
///
/// The text of an opaque format (MLX, UCX) is its place in memory, which the caller passes as `place`.
pub fn straddr(format: u32, address: &[u8], place: usize) -> Vec<u8> {
    if format == FI_ADDR_STR {
        return string(address).to_vec();
    }
    formatted(format, address, place)
        .unwrap_or_default()
        .into_bytes()
}

fn formatted(format: u32, address: &[u8], place: usize) -> Option<String> {
    let at = Fields(address);
    let text = match format {
        FI_SOCKADDR | FI_SOCKADDR_IP => return socket(address),
        FI_SOCKADDR_IN => ipv4(at)?,
        FI_SOCKADDR_IN6 => ipv6(at)?,
        FI_SOCKADDR_IB => infiniband(at)?,
        FI_ADDR_PSMX2 => format!("fi_addr_psmx2://{:x}:{:x}", at.u64(0)?, at.u64(8)?),
        FI_ADDR_PSMX3 => {
            let mut text = format!("fi_addr_psmx3://{:x}", at.u64(0)?);
            for offset in [8, 16, 24] {
                write!(text, ":{:x}", at.u64(offset)?).ok()?;
            }
            text
        }
        FI_ADDR_IB_UD => format!(
            "fi_addr_ib_ud://{}:{:x}/{:x}/{:x}/{:x}",
            ip6(at.bytes(0)?),
            at.u32(16)?,
            at.u16(20)?,
            at.u16(22)?,
            at.bytes::<1>(26)?[0],
        ),
        FI_ADDR_EFA => format!(
            "fi_addr_efa://[{}]:{}:{}",
            ip6(at.bytes(0)?),
            at.u16(16)?,
            at.u32(20)?
        ),
        FI_ADDR_OPX => format!("fi_addr_opx://{:016x}", at.u64(0)?),
        FI_ADDR_CXI => format!("fi_addr_cxi://{:#010x}", at.u32(0)?),
        FI_ADDR_MLX => format!("fi_addr_mlx://{place:#x}"),
        FI_ADDR_UCX => format!("fi_addr_ucx://{place:#x}"),
        _ => return None,
    };
    Some(text)
}

/// Formats a `struct sockaddr`, whose family determines its format.
fn socket(address: &[u8]) -> Option<String> {
    let at = Fields(address);
    match i32::from(at.u16(0)?) {
        AF_INET => ipv4(at),
        AF_INET6 => ipv6(at),
        AF_IB => infiniband(at),
        _ => None,
    }
}

fn ipv4(at: Fields) -> Option<String> {
    let port = u16::from_be_bytes(at.bytes(2)?);
    Some(format!(
        "fi_sockaddr_in://{}:{port}",
        Ipv4Addr::from(at.bytes::<4>(4)?)
    ))
}

fn ipv6(at: Fields) -> Option<String> {
    let port = u16::from_be_bytes(at.bytes(2)?);
    Some(format!("fi_sockaddr_in6://[{}]:{port}", ip6(at.bytes(8)?)))
}

/// Formats an address with partition key, port space and scope.
fn infiniband(at: Fields) -> Option<String> {
    let partition = u16::from_be_bytes(at.bytes(2)?);
    let service = u64::from_be_bytes(at.bytes(24)?);
    let scope = u64::from_be_bytes(at.bytes(40)?);
    Some(format!(
        "fi_sockaddr_ib://[{}]:{partition:#x}:{:#x}:{:#x}",
        ip6(at.bytes(8)?),
        (service >> 16) & 0xfff,
        scope & 0xff,
    ))
}

/// Formats an address as the C library's `inet_ntop` does: an embedded IPv4 address is printed as one, `::10.0.0.1`.
fn ip6(bytes: [u8; 16]) -> String {
    let [high @ .., a, b, c, d] = bytes;
    if high == [0; 12] && (a, b) != (0, 0) {
        return format!("::{}", Ipv4Addr::new(a, b, c, d));
    }
    Ipv6Addr::from(bytes).to_string()
}

/// Returns the bytes before the terminating zero.
fn string(address: &[u8]) -> &[u8] {
    let end = address.iter().position(|byte| *byte == 0);
    &address[..end.unwrap_or(address.len())]
}

/// Reads fields of a struct in the machine's byte order.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(self, offset: usize) -> Option<[u8; N]> {
        self.0.get(offset..offset + N)?.try_into().ok()
    }

    fn u16(self, offset: usize) -> Option<u16> {
        self.bytes(offset).map(u16::from_ne_bytes)
    }

    fn u32(self, offset: usize) -> Option<u32> {
        self.bytes(offset).map(u32::from_ne_bytes)
    }

    fn u64(self, offset: usize) -> Option<u64> {
        self.bytes(offset).map(u64::from_ne_bytes)
    }
}

/// Address families of Linux.
const AF_INET: i32 = 2;
const AF_INET6: i32 = 10;
const AF_IB: i32 = 27;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(format: u32, address: &[u8]) -> String {
        String::from_utf8(straddr(format, address, 0)).unwrap()
    }

    #[test]
    fn a_socket_address_says_what_it_is() {
        let v4 = [2, 0, 0x1d, 0x2f, 192, 168, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut v6 = [0; 28];
        v6[..4].copy_from_slice(&[10, 0, 0x1d, 0x2f]);
        v6[23] = 1;
        for format in [FI_SOCKADDR, FI_SOCKADDR_IP, FI_SOCKADDR_IN] {
            assert_eq!(text(format, &v4), "fi_sockaddr_in://192.168.1.2:7471");
        }
        for format in [FI_SOCKADDR, FI_SOCKADDR_IP, FI_SOCKADDR_IN6] {
            assert_eq!(text(format, &v6), "fi_sockaddr_in6://[::1]:7471");
        }
        assert_eq!(text(FI_SOCKADDR, &[1, 0, b'/', 0]), "");
    }

    #[test]
    fn a_short_address_has_no_text() {
        let bytes = [2; 64];
        for (format, needed) in [
            (FI_SOCKADDR_IN, 8),
            (FI_SOCKADDR_IN6, 24),
            (FI_SOCKADDR_IB, 48),
            (FI_ADDR_PSMX2, 16),
            (FI_ADDR_IB_UD, 27),
            (FI_ADDR_EFA, 24),
            (FI_ADDR_PSMX3, 32),
            (FI_ADDR_OPX, 8),
            (FI_ADDR_CXI, 4),
        ] {
            assert_ne!(text(format, &bytes[..needed]), "", "{format}");
            for short in 0..needed {
                assert_eq!(text(format, &bytes[..short]), "", "{format} {short}");
            }
        }
        assert_eq!(text(FI_SOCKADDR, &[]), "");
        assert_eq!(text(FI_SOCKADDR, &[2]), "");
        assert_eq!(text(FI_SOCKADDR, &[2, 0, 1]), "");
    }

    #[test]
    fn a_string_ends_at_its_zero_or_its_size() {
        assert_eq!(text(FI_ADDR_STR, b"fi_shm://1\0rest"), "fi_shm://1");
        assert_eq!(text(FI_ADDR_STR, b"fi_shm://1"), "fi_shm://1");
        assert_eq!(text(FI_ADDR_STR, b""), "");
    }
}
