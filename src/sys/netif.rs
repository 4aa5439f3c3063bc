// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The addresses of this machine's network interfaces in order of preference (getifaddrs(3), netdevice(7)).
#![forbid(unsafe_code)]

use core::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use nix::sys::socket::SockaddrStorage;

use super::ethtool;

mod one_look;

pub use one_look::OneLook;

/// One address of an interface that is up and running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub interface: CString,
    /// The address, with port 0; a link-local address has its scope.
    pub addr: SocketAddr,
    /// Number of leading bits of the address that identify its network.
    pub prefix: u8,
    /// In Mbit/s.
    pub speed: u32,
    /// Other hosts are probably unable to reach it: a bridge of containers, a tunnel (VPN, PPP) or a dummy without a
    /// default route, or an address that is valid on one link only.
    pub inward: bool,
    /// The interface has a single remote end instead of a network.
    pub point_to_point: bool,
    pub loopback: bool,
}

/// Returns first the addresses that are not loopback: those that other hosts may reach first, then by speed, then IPv4
/// before IPv6, then in reverse order of their configuration. Then the other addresses of the loopback interface,
/// 127.0.0.1 and ::1. While this thread has a `OneLook`, the result stays the same.
pub fn addresses() -> Vec<Address> {
    one_look::known_or(look)
}

fn look() -> Vec<Address> {
    let Ok(list) = getifaddrs() else {
        return sort(Vec::new());
    };
    let asker = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok();
    let routed = LazyCell::new(default_routes);
    let mut links = HashMap::new();
    let mut found = Vec::new();
    for entry in list {
        let Some(mut address) = usable(&entry) else {
            continue;
        };
        if !address.loopback {
            let name = &entry.interface_name;
            let link = links
                .entry(name.clone())
                .or_insert_with(|| Link::of(name, asker.as_ref()));
            address.speed = link.speed;
            address.inward = is_link_local(&address.addr.ip())
                || (address.point_to_point || link.is_virtual) && !routed.contains(name);
        }
        found.push(address);
    }
    sort(found)
}

/// Returns the addresses of interfaces that are up, without loopback, in the order of the system. Each has port 0 and,
/// if it is link-local, its scope. Unlike `addresses`, this includes interfaces without a carrier.
pub fn configured() -> Vec<(String, SocketAddr)> {
    let list = getifaddrs().into_iter().flatten();
    let found = list.filter_map(|entry| {
        let is_up = entry.flags.contains(InterfaceFlags::IFF_UP);
        let loopback = entry.flags.contains(InterfaceFlags::IFF_LOOPBACK);
        let addr = socket_addr(entry.address.as_ref()?)?;
        (is_up && !loopback).then_some((entry.interface_name, addr))
    });
    found.collect()
}

/// Properties that the driver of an interface reports.
struct Link {
    speed: u32,
    is_virtual: bool,
}

impl Link {
    fn of(name: &str, asker: Option<&UdpSocket>) -> Link {
        let is_virtual = |driver: CString| VIRTUAL.contains(&driver.to_bytes());
        Link {
            speed: speed(name, asker),
            is_virtual: ethtool::driver(name, asker).is_some_and(is_virtual),
        }
    }
}

/// Returns the index of the interface that has this address.
pub fn index_of(ip: IpAddr) -> Option<u32> {
    let addr_of = |entry: &InterfaceAddress| entry.address.as_ref().and_then(socket_addr);
    let mut entries = getifaddrs().ok()?;
    let entry = entries.find(|entry| addr_of(entry).is_some_and(|addr| addr.ip() == ip))?;
    if_nametoindex(entry.interface_name.as_str()).ok()
}

/// Drivers of interfaces that do not lead out of this host, unless a default route uses them.
const VIRTUAL: [&[u8]; 3] = [b"bridge", b"tun", b"dummy"];

/// Returns true for an IPv6 address that is valid only with an interface, and for a self-assigned IPv4 address.
fn is_link_local(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Returns the names of the interfaces with a default route, from proc_pid_net(5).
fn default_routes() -> HashSet<String> {
    let v4 = fs::read_to_string("/proc/self/net/route").unwrap_or_default();
    let v6 = fs::read_to_string("/proc/self/net/ipv6_route").unwrap_or_default();
    routes_of(&v4, &v6)
}

fn routes_of(v4: &str, v6: &str) -> HashSet<String> {
    const UP: u32 = 1;
    const REJECT: u32 = 0x200;
    let leads =
        |flags: &str| u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & (UP | REJECT) == UP);
    let v4 = v4.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (&name, &to, &flags, &mask) = (
            fields.first()?,
            fields.get(1)?,
            fields.get(3)?,
            fields.get(7)?,
        );
        let all = to == "00000000" && mask == "00000000";
        (all && leads(flags)).then(|| name.to_owned())
    });
    let v6 = v6.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (&to, &prefix, &flags, &name) = (
            fields.first()?,
            fields.get(1)?,
            fields.get(8)?,
            fields.get(9)?,
        );
        let all = prefix == "00" && to.bytes().all(|digit| digit == b'0');
        (all && leads(flags)).then(|| name.to_owned())
    });
    v4.chain(v6).collect()
}

/// Sorts the addresses that the system listed.
fn sort(found: Vec<Address>) -> Vec<Address> {
    let loopback = found
        .iter()
        .find(|address| address.loopback)
        .map_or_else(|| c"lo".to_owned(), |address| address.interface.clone());
    let mut list: Vec<Address> = found.into_iter().rev().filter(|a| !a.loopback).collect();
    list.sort_by_key(|address| {
        (
            address.inward,
            std::cmp::Reverse(address.speed),
            address.addr.is_ipv6(),
        )
    });
    list.push(local(&loopback, Ipv4Addr::LOCALHOST.into(), 32));
    if ipv6_is_there() {
        list.push(local(&loopback, Ipv6Addr::LOCALHOST.into(), 128));
    }
    list
}

fn local(interface: &CString, ip: IpAddr, prefix: u8) -> Address {
    Address {
        interface: interface.clone(),
        addr: (ip, 0).into(),
        prefix,
        speed: 0,
        inward: false,
        point_to_point: false,
        loopback: true,
    }
}

fn usable(entry: &InterfaceAddress) -> Option<Address> {
    let needed = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    if !entry.flags.contains(needed) {
        return None;
    }
    let addr = socket_addr(entry.address.as_ref()?)?;
    let mask = entry.netmask.as_ref().and_then(socket_addr);
    let loopback = entry.flags.contains(InterfaceFlags::IFF_LOOPBACK);
    Some(Address {
        interface: CString::new(entry.interface_name.as_str()).ok()?,
        addr,
        prefix: mask.map_or_else(|| host_prefix(&addr), |mask| prefix_of(&mask)),
        speed: 0,
        inward: false,
        point_to_point: entry.flags.contains(InterfaceFlags::IFF_POINTOPOINT),
        loopback,
    })
}

fn socket_addr(storage: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(addr) = storage.as_sockaddr_in() {
        return Some(SocketAddrV4::new(addr.ip(), 0).into());
    }
    let addr = storage.as_sockaddr_in6()?;
    Some(SocketAddrV6::new(addr.ip(), 0, 0, addr.scope_id()).into())
}

fn prefix_of(mask: &SocketAddr) -> u8 {
    let bits = match mask.ip() {
        IpAddr::V4(ip) => ip.to_bits().leading_ones(),
        IpAddr::V6(ip) => ip.to_bits().leading_ones(),
    };
    bits as u8
}

fn host_prefix(addr: &SocketAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

fn ipv6_is_there() -> bool {
    UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// Returns the network of an address in prefix form, such as `192.0.2.0/24`.
pub fn network(address: &Address) -> String {
    let prefix = u32::from(address.prefix);
    match address.addr.ip() {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
            format!("{}/{prefix}", Ipv4Addr::from_bits(ip.to_bits() & mask))
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
            format!("{}/{prefix}", Ipv6Addr::from_bits(ip.to_bits() & mask))
        }
    }
}

/// Returns 0 if the driver does not report a speed. If the driver reports an unknown speed, as for a bridge or in a
/// virtual machine, returns a slow one.
fn speed(interface: &str, asker: Option<&UdpSocket>) -> u32 {
    match ethtool::speed(interface, asker) {
        None => 0,
        Some(ethtool::SPEED_UNKNOWN) => UNKNOWN_LINK,
        Some(speed) => speed,
    }
}

/// Speed in Mbit/s.
const UNKNOWN_LINK: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn address(interface: &str, addr: &str, prefix: u8, speed: u32) -> Address {
        let addr: IpAddr = addr.parse().unwrap();
        Address {
            interface: CString::new(interface).unwrap(),
            addr: (addr, 0).into(),
            prefix,
            speed,
            inward: false,
            point_to_point: false,
            loopback: addr.is_loopback(),
        }
    }

    #[test]
    fn fast_links_come_first_then_ipv4_then_the_last_configured() {
        let found = vec![
            address("lo", "127.0.0.1", 8, 0),
            address("lo", "127.0.0.5", 8, 0),
            address("slow", "10.0.0.5", 24, 10),
            address("slow", "10.0.0.3", 24, 10),
            address("fast", "192.0.2.1", 24, 1000),
            address("also", "192.0.3.1", 24, 10),
            address("slow", "fd00::5", 64, 10),
            address("fast", "fe80::1", 64, 1000),
            address("fast", "fd00::1", 64, 1000),
        ];
        let order: Vec<String> = sort(found)
            .iter()
            .map(|a| a.addr.ip().to_string())
            .filter(|ip| ip != "::1")
            .collect();
        let expected = [
            "192.0.2.1",
            "fd00::1",
            "fe80::1",
            "192.0.3.1",
            "10.0.0.3",
            "10.0.0.5",
            "fd00::5",
            "127.0.0.1",
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn what_others_may_not_reach_comes_last() {
        let mut bridge = address("docker0", "172.17.0.1", 16, 10_000);
        let mut link = address("fast", "fe80::1", 64, 100_000);
        (bridge.inward, link.inward) = (true, true);
        let slow = address("eth0", "192.0.2.1", 24, 1000);
        let order: Vec<IpAddr> = sort(vec![slow.clone(), bridge.clone(), link.clone()])
            .iter()
            .map(|a| a.addr.ip())
            .take(3)
            .collect();
        assert_eq!(order, [slow, link, bridge].map(|a| a.addr.ip()));
    }

    #[test]
    fn default_routes_are_those_to_everywhere() {
        let v4 = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                  br0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                  docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
        let v6 = "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 \
                  00000000000000000000000000000000 00000100 00000001 00000000 00000001 eth0\n\
                  00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
                  00000000000000000000000000000000 ffffffff 00000001 00000000 00200200 lo\n\
                  00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
                  fe800000000000000000000000000001 00000400 00000001 00000000 00000003 tun0\n";
        let found = routes_of(v4, v6);
        assert_eq!(found, ["br0", "tun0"].map(str::to_owned).into());
        assert!(routes_of("", "nonsense\n").is_empty());
    }

    #[test]
    fn loopback_is_there_without_any_interface() {
        let list = sort(Vec::new());
        assert_eq!(
            list[0],
            local(&c"lo".to_owned(), Ipv4Addr::LOCALHOST.into(), 32)
        );
    }

    #[test]
    fn networks_are_written_with_their_prefix() {
        let text = |addr, prefix| network(&address("x", addr, prefix, 0));
        assert_eq!(text("192.0.2.77", 24), "192.0.2.0/24");
        assert_eq!(text("10.98.0.1", 32), "10.98.0.1/32");
        assert_eq!(text("10.98.0.1", 0), "0.0.0.0/0");
        assert_eq!(text("fd00::5", 64), "fd00::/64");
        assert_eq!(text("::1", 128), "::1/128");
    }

    #[test]
    fn this_machine_has_loopback_last() {
        let list = addresses();
        assert!(list.iter().any(|a| a.addr.ip() == Ipv4Addr::LOCALHOST));
        let first = list.iter().position(|a| a.loopback).unwrap();
        assert!(list[first..].iter().all(|a| a.loopback));
    }
}
