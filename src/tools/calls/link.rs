// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! All network interfaces of this host, including those that no provider offers: getifaddrs(3), netdevice(7).

use core::ffi::c_char;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use sys::ethtool;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

// The library's own file; the programs only use the speed.

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    pub name: String,
    /// The administrator has switched it on.
    pub is_up: bool,
    /// The cable, or other medium, is connected.
    pub is_running: bool,
    pub is_loopback: bool,
    /// Size in bytes.
    pub mtu: Option<u32>,
    /// Speed in Mbit/s, if the driver reports it.
    pub speed: Option<u32>,
    pub addresses: Vec<IpAddr>,
    pub subnets: Vec<Subnet>,
}

/// The addresses that an interface reaches without a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    pub address: IpAddr,
    pub mask: IpAddr,
}

impl Subnet {
    /// Returns true if the address is in the subnet. A mask of zeros is no subnet.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, self.mask, ip) {
            (IpAddr::V4(own), IpAddr::V4(mask), IpAddr::V4(ip)) => {
                let mask = mask.to_bits();
                mask != 0 && own.to_bits() & mask == ip.to_bits() & mask
            }
            (IpAddr::V6(own), IpAddr::V6(mask), IpAddr::V6(ip)) => {
                let mask = mask.to_bits();
                mask != 0 && own.to_bits() & mask == ip.to_bits() & mask
            }
            _ => false,
        }
    }
}

/// Returns the interfaces in the order of the system.
pub fn all() -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    let asker = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok();
    let speed = |name: &str| {
        ethtool::speed(name, asker.as_ref()).filter(|speed| *speed != ethtool::SPEED_UNKNOWN)
    };
    for entry in getifaddrs().into_iter().flatten() {
        let name = &entry.interface_name;
        let at = links.iter().position(|link| link.name == *name);
        let at = at.unwrap_or_else(|| {
            links.push(Link {
                name: name.clone(),
                is_up: entry.flags.contains(InterfaceFlags::IFF_UP),
                is_running: entry.flags.contains(InterfaceFlags::IFF_RUNNING),
                is_loopback: entry.flags.contains(InterfaceFlags::IFF_LOOPBACK),
                mtu: asker.as_ref().and_then(|asker| mtu(name, asker)),
                speed: speed(name),
                addresses: Vec::new(),
                subnets: Vec::new(),
            });
            links.len() - 1
        });
        let ip = |address: &SockaddrStorage| {
            let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
        };
        let address = entry.address.as_ref().and_then(ip);
        let mask = entry.netmask.as_ref().and_then(ip);
        links[at].addresses.extend(address);
        let subnet = address.zip(mask);
        let subnet = subnet.map(|(address, mask)| Subnet { address, mask });
        links[at].subnets.extend(subnet);
    }
    links
}

/// Returns the interface that has this address.
pub fn with(address: IpAddr) -> Option<Link> {
    let mut links = all().into_iter();
    links.find(|link| link.addresses.contains(&address))
}

/// `struct ifreq` with its `ifr_mtu`.
#[repr(C)]
struct IfReq {
    name: [c_char; NAME],
    mtu: i32,
    rest: [u8; 20],
}

/// Reads the MTU by ioctl, because /sys shows the network namespace that mounted it.
fn mtu(interface: &str, asker: &UdpSocket) -> Option<u32> {
    let mut request = IfReq {
        name: [0; NAME],
        mtu: 0,
        rest: [0; 20],
    };
    // The last byte stays zero and ends the name.
    for (to, from) in request.name[..NAME - 1].iter_mut().zip(interface.bytes()) {
        *to = from as c_char;
    }
    // SAFETY: netdevice(7): the request is a whole `struct ifreq` with a terminated name; the kernel fills `mtu`.
    let status = unsafe { libc::ioctl(asker.as_raw_fd(), SIOCGIFMTU, &raw mut request) };
    u32::try_from(request.mtu).ok().filter(|_| status == 0)
}

const NAME: usize = libc::IFNAMSIZ;
const SIOCGIFMTU: libc::Ioctl = 0x8921;
const _: () = assert!(size_of::<IfReq>() == 40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_hold_the_addresses_of_their_prefix() {
        let subnet = |address: &str, mask: &str| Subnet {
            address: address.parse().unwrap(),
            mask: mask.parse().unwrap(),
        };
        let holds = |subnet: Subnet, ip: &str| subnet.contains(ip.parse().unwrap());
        let small = subnet("192.0.2.9", "255.255.255.128");
        assert!(holds(small, "192.0.2.1") && holds(small, "192.0.2.127"));
        assert!(!holds(small, "192.0.2.128") && !holds(small, "2001:db8::1"));
        let v6 = subnet("2001:db8::1", "ffff:ffff:ffff:ffff::");
        assert!(holds(v6, "2001:db8::ffff") && !holds(v6, "2001:db8:0:1::1"));
        assert!(!holds(subnet("10.0.0.1", "0.0.0.0"), "10.0.0.1"));
    }

    #[test]
    fn loopback_is_there() {
        let links = all();
        let loopback = links.iter().find(|link| link.is_loopback);
        assert!(
            loopback.is_some_and(|link| link.mtu.is_some_and(|mtu| mtu > 1000)),
            "{links:?}"
        );
        let asker = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        assert_eq!(mtu("no-such-interface-at-all", &asker), None);
    }
}
