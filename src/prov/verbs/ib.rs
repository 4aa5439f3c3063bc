// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Facts of InfiniBand ports: addresses of the family AF_IB, names of fabrics, speeds.

use std::net::Ipv6Addr;

use sys::verbs::{Device, Gid, PortAttributes};

/// `AF_IB`.
pub const FAMILY: u16 = 27;
/// Bytes of a `struct sockaddr_ib`.
pub const LEN: usize = 48;

/// The upper bits of a service identifier of the port space RDMA_PS_IB.
const SERVICE: u64 = 0x13f << 16;

/// The name of the fabric of a port with this identifier.
pub fn fabric_name(gid: &Gid) -> String {
    let prefix = gid
        .first_chunk::<8>()
        .map_or(0, |prefix| u64::from_be_bytes(*prefix));
    format!("IB-0x{prefix:x}")
}

/// The addresses of a device: one for each identifier of each port, and each partition key.
pub fn addresses(device: Device, ports: u8) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for port in 1..=ports {
        let Ok(attributes) = device.port(port) else {
            continue;
        };
        let gids = u32::try_from(attributes.gid_tbl_len).unwrap_or(0);
        for gid in (0..gids).filter_map(|index| device.gid(port, index).ok()) {
            if is_zero(&gid[..8]) || is_zero(&gid[8..]) {
                continue;
            }
            let keys =
                (0..attributes.pkey_tbl_len).filter_map(|index| device.pkey(port, index).ok());
            let keys = keys.filter(|&key| key != 0);
            all.extend(keys.map(|key| address(key, &gid, port)));
        }
    }
    all
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// A `struct sockaddr_ib`; `pkey` is big-endian as the device reports it.
pub fn address(pkey: u16, gid: &Gid, port: u8) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LEN);
    bytes.extend(FAMILY.to_ne_bytes());
    bytes.extend(pkey.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(gid);
    bytes.extend(SERVICE.to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend(u64::from(port).to_ne_bytes());
    bytes
}

/// Whether the bytes are an address of this family.
pub fn is_address(bytes: &[u8]) -> bool {
    bytes.len() >= LEN && bytes.first_chunk().copied().map(u16::from_ne_bytes) == Some(FAMILY)
}

/// Parses `[GID]:PKEY:SPACE:SCOPE[:PORT]`, with the scheme or without. Numbers are in any notation of C. A service
/// replaces the port.
pub fn parse(text: &str, service: Option<u16>) -> Option<Vec<u8>> {
    let text = text.strip_prefix("fi_sockaddr_ib://").unwrap_or(text);
    let (gid, rest) = text.strip_prefix('[')?.split_once("]:")?;
    let gid: Gid = gid.parse::<Ipv6Addr>().ok()?.octets();
    let numbers: Option<Vec<u64>> = rest.split(':').map(number).collect();
    let (pkey, space, scope, port) = match *numbers? {
        [pkey, space, scope] => (pkey, space, scope, 0),
        [pkey, space, scope, port] => (pkey, space, scope, u16::try_from(port).ok()?),
        _ => return None,
    };
    let port = service.unwrap_or(port);
    let pkey = u16::try_from(pkey).ok()?.to_be();
    let mut bytes = address(pkey, &gid, 0);
    let service = (space << 16).wrapping_add(port.into());
    bytes[24..32].copy_from_slice(&service.to_be_bytes());
    if space != 0 && port != 0 {
        bytes[32..40].fill(0xff);
    }
    bytes[40..48].copy_from_slice(&scope.to_ne_bytes());
    Some(bytes)
}

/// A number in decimal, octal or hexadecimal notation.
fn number(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match (hex, text.strip_prefix('0')) {
        (Some(digits), _) => u64::from_str_radix(digits, 16).ok(),
        (None, Some(digits)) if !digits.is_empty() => u64::from_str_radix(digits, 8).ok(),
        _ => text.parse().ok(),
    }
}

/// The same address with another port.
pub fn with_port(address: &[u8], port: u16) -> Vec<u8> {
    let mut bytes = address.to_vec();
    if let Some(service) = bytes.get_mut(24..32) {
        service.copy_from_slice(&(SERVICE + u64::from(port)).to_be_bytes());
    }
    bytes
}

/// The identifier in an address.
pub fn gid_of(bytes: &[u8]) -> Option<Gid> {
    bytes.get(8..)?.first_chunk().copied()
}

/// The port in an address: the end of its service identifier.
pub fn port_of(bytes: &[u8]) -> u16 {
    let low = bytes.get(30..).and_then(|low| low.first_chunk());
    low.map_or(0, |low| u16::from_be_bytes(*low))
}

/// Bytes of a packet, from the number of an MTU.
pub fn mtu(number: u32) -> usize {
    match number {
        1..=5 => 128 << number,
        _ => 0,
    }
}

/// Speed in bits per second, from the numbers of a port's width and of its speed for each lane.
pub fn speed(port: &PortAttributes) -> usize {
    const MEGA: usize = 1_000_000;
    let lane = match port.active_speed {
        1 => 2500,
        2 => 5000,
        4 | 8 => 10_000,
        16 => 14_000,
        32 => 25_000,
        64 => 50_000,
        128 => 100_000,
        _ => 0,
    };
    let lanes = match port.active_width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 0,
    };
    lane * lanes * MEGA
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fabrics_have_no_leading_zeroes() {
        let mut gid = [0; 16];
        assert_eq!(fabric_name(&gid), "IB-0x0");
        (gid[0], gid[1], gid[7]) = (0xfe, 0x80, 1);
        assert_eq!(fabric_name(&gid), "IB-0xfe80000000000001");
        gid[0] = 0;
        assert_eq!(fabric_name(&gid), "IB-0x80000000000001");
    }

    #[test]
    fn addresses_are_parsed() {
        let text = "fi_sockaddr_ib://[fe80::1:2:c903:0:11]:0xffff:0x13f:0x1";
        let bytes = parse(text, Some(7471)).unwrap();
        assert_eq!(bytes[..4], [27, 0, 0xff, 0xff]);
        assert_eq!((port_of(&bytes), bytes[40]), (7471, 1));
        assert_eq!(bytes[32..40], [0xff; 8]);
        assert_eq!(parse(&text[17..], None).unwrap()[32..40], [0; 8]);
        assert_eq!(port_of(&with_port(&bytes, 5)), 5);
        for wrong in [
            "[fe80::1]:1:2",
            "fe80::1:1:2:3",
            "[x]:1:2:3",
            "[::1]:1:2:3:99999",
        ] {
            assert_eq!(parse(wrong, None), None, "{wrong}");
        }
        assert_eq!(
            (number("010"), number("0"), number("0x1F")),
            (Some(8), Some(0), Some(31))
        );
    }

    #[test]
    fn addresses_have_the_layout_of_c() {
        let gid = core::array::from_fn(|i| i as u8);
        let bytes = address(0x7fff_u16.to_be(), &gid, 2);
        assert!(bytes.len() == LEN && is_address(&bytes));
        assert_eq!(bytes[2..4], [0x7f, 0xff]);
        assert_eq!(bytes[8..24], gid);
        assert_eq!(bytes[24..32], [0, 0, 0, 0, 1, 0x3f, 0, 0]);
    }
}
