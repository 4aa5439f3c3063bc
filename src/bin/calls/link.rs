// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! All network interfaces of this host, also those that no provider offers: getifaddrs(3), netdevice(7).

use core::ffi::c_char;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

// The library's own; the programs ask for the speed alone.
#[allow(dead_code)]
#[path = "../../sys/ethtool.rs"]
mod ethtool;

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    pub name: String,
    /// Somebody has turned it on.
    pub is_up: bool,
    /// Its cable, or what it has instead of one, is there.
    pub is_running: bool,
    pub is_loopback: bool,
    /// In bytes.
    pub mtu: Option<u32>,
    /// In Mbit/s, where the driver knows.
    pub speed: Option<u32>,
    pub addresses: Vec<IpAddr>,
}

/// As the system lists them.
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
            });
            links.len() - 1
        });
        let address = entry.address.as_ref().and_then(|address| {
            let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
        });
        links[at].addresses.extend(address);
    }
    links
}

/// Whose address this is.
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

/// By ioctl, because /sys shows the network namespace that mounted it.
fn mtu(interface: &str, asker: &UdpSocket) -> Option<u32> {
    let mut request = IfReq {
        name: [0; NAME],
        mtu: 0,
        rest: [0; 20],
    };
    // The last byte stays zero.
    for (to, from) in request.name[..NAME - 1].iter_mut().zip(interface.bytes()) {
        *to = from as c_char;
    }
    // SAFETY: netdevice(7): the request is a whole `struct ifreq` with a name that ends; the kernel fills `mtu`.
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
