// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Addresses of datagram endpoints of RDMA devices (FI_ADDR_IB_UD): 32 bytes, see docs/wire/verbs.md.

use core::fmt;
use std::net::Ipv6Addr;

use super::Address;
use abi::FI_ADDR_IB_UD;
use base::text::address::straddr;

/// Bytes of an address.
pub const LEN: usize = 32;

/// The port and the queue pair of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Addr {
    pub gid: [u8; 16],
    pub pair: u32,
    pub lid: u16,
    /// Big-endian, as devices report it.
    pub pkey: u16,
    pub service: u16,
    pub service_level: u8,
}

/// Sets the service in the bytes of an address. Returns false if they are none.
pub fn set_service(bytes: &mut [u8], service: u16) -> bool {
    let place = match bytes.len() {
        LEN => bytes.get_mut(24..26),
        _ => None,
    };
    let Some(place) = place else {
        return false;
    };
    place.copy_from_slice(&service.to_ne_bytes());
    true
}

impl Addr {
    /// Parses the text form, which has no service.
    pub fn parse(text: &str) -> Option<Addr> {
        let text = text.strip_prefix("fi_addr_ib_ud://")?;
        let (gid, rest) = text.rsplit_once(':')?;
        let mut numbers = rest.split('/');
        let mut number = || u32::from_str_radix(numbers.next()?, 16).ok();
        let addr = Addr {
            gid: gid.parse::<Ipv6Addr>().ok()?.octets(),
            pair: number()?,
            lid: number()?.try_into().ok()?,
            pkey: number()?.try_into().ok()?,
            service: 0,
            service_level: number()?.try_into().ok()?,
        };
        numbers.next().is_none().then_some(addr)
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = straddr(FI_ADDR_IB_UD, &self.to_bytes(), 0);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl Address for Addr {
    fn from_bytes(bytes: &[u8]) -> Option<Addr> {
        let bytes: &[u8; LEN] = bytes.try_into().ok()?;
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let addr = Addr {
            gid: *bytes.first_chunk()?,
            pair: u32::from_ne_bytes(*bytes[16..].first_chunk()?),
            lid: half(20),
            pkey: half(22),
            service: half(24),
            service_level: bytes[26],
        };
        // A port has an identifier, or a number in its subnet.
        let is_global = addr.gid[8..] != [0; 8];
        (is_global || addr.lid != 0).then_some(addr)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LEN);
        bytes.extend(self.gid);
        bytes.extend(self.pair.to_ne_bytes());
        bytes.extend(self.lid.to_ne_bytes());
        bytes.extend(self.pkey.to_ne_bytes());
        bytes.extend(self.service.to_ne_bytes());
        bytes.push(self.service_level);
        bytes.resize(LEN, 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_text_are_read_back() {
        let addr = Addr {
            gid: Ipv6Addr::from([0, 0, 0, 0, 0, 0xffff, 0x0a4d, 1]).octets(),
            pair: 0x11,
            lid: 0xab,
            pkey: 0xffff,
            service: 7,
            service_level: 3,
        };
        let bytes = addr.to_bytes();
        assert_eq!(bytes[10..21], [255, 255, 10, 77, 0, 1, 0x11, 0, 0, 0, 0xab]);
        assert_eq!((bytes.len(), bytes[24], bytes[26]), (LEN, 7, 3));
        assert_eq!(Addr::from_bytes(&bytes), Some(addr));
        let mut other = bytes.clone();
        assert!(set_service(&mut other, 8) && !set_service(&mut other[..28], 8));
        assert_eq!(Addr::from_bytes(&other), Some(Addr { service: 8, ..addr }));
        assert_eq!(Addr::from_bytes(&bytes[1..]), None);
        assert_eq!(Addr::from_bytes(&[0; LEN]), None);
        let text = addr.to_string();
        assert_eq!(text, "fi_addr_ib_ud://::ffff:10.77.0.1:11/ab/ffff/3");
        let without = Addr { service: 0, ..addr };
        assert_eq!(Addr::parse(&text), Some(without));
        for wrong in [
            "",
            "::1:1/2/3/4",
            "fi_addr_ib_ud://::1:1/2/3",
            "fi_addr_ib_ud://::1:1/12345/3/4",
        ] {
            assert_eq!(Addr::parse(wrong), None, "{wrong}");
        }
    }
}
