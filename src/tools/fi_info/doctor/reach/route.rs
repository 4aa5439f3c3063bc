// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Resolves names of hosts, and finds the interface over which the kernel sends to them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt};

use crate::doctor::Finding;
use calls::link;

/// Splits `NAME`, `NAME:PORT`, `ADDRESS` or `[ADDRESS]:PORT`.
pub fn parts(host: &str) -> (String, Option<u16>) {
    let bare = |name: &str| {
        name.trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned()
    };
    match host.rsplit_once(':') {
        // An IPv6 address without brackets has no port.
        Some((name, _)) if name.contains(':') && !name.ends_with(']') => (bare(host), None),
        Some((name, port)) => match port.parse() {
            Ok(port) => (bare(name), Some(port)),
            Err(_) => (bare(host), None),
        },
        None => (bare(host), None),
    }
}

/// Returns up to `MOST` addresses of a name, at least one, with port 0. Gives up on a slow resolver after `LIMIT`.
pub fn resolve(name: &str) -> Result<Vec<SocketAddr>, String> {
    let (answers, answer) = mpsc::channel();
    let asked = name.to_owned();
    let started = thread::Builder::new().spawn(move || {
        let found = (asked.as_str(), 0).to_socket_addrs();
        // Fails if the caller has given up.
        let _ = answers.send(found.map(Iterator::collect::<Vec<SocketAddr>>));
    });
    started.map_err(|error| format!("no thread to look it up: {error}"))?;
    let found = answer
        .recv_timeout(LIMIT)
        .map_err(|_| format!("no answer within {} s", LIMIT.as_secs()))?
        .map_err(|error| {
            error
                .to_string()
                .replace("failed to lookup address information: ", "")
        })?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address) && addresses.len() < MOST {
            addresses.push(address);
        }
    }
    match addresses.is_empty() {
        true => Err("it has none".to_owned()),
        false => Ok(addresses),
    }
}

/// Checks the route to one address of a host. Connecting a UDP socket looks the route up and sends nothing.
pub fn finding(name: &str, address: &SocketAddr) -> Finding {
    let ip = address.ip();
    let own: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut to = *address;
    to.set_port(9);
    let socket = UdpSocket::bind((own, 0)).and_then(|socket| socket.connect(to).map(|()| socket));
    let (socket, from) = match socket
        .and_then(|socket| socket.local_addr().map(|from| (socket, from)))
    {
        Ok(found) => found,
        Err(error) => {
            return Finding::wrong(
                ABOUT,
                format!("no route to {name} ({ip}): {error}"),
                format!(
                    "`ip route get {ip}` says the same; an interface has to be up, with a route (ip route add)"
                ),
            );
        }
    };
    let link = link::with(from.ip());
    let mtu = getsockopt(&socket, sockopt::IpMtu)
        .ok()
        .and_then(|mtu| u32::try_from(mtu).ok());
    let mtu = mtu.or(link.as_ref().and_then(|link| link.mtu));
    let mut text = format!("to {name} ({ip}) from {}", from.ip());
    if let Some(link) = link {
        text.push_str(&format!(" over {}", link.name));
    }
    if let Some(mtu) = mtu {
        text.push_str(&format!(", MTU {mtu}"));
    }
    Finding::fine(ABOUT, text)
}

const ABOUT: &str = "route";
const LIMIT: Duration = Duration::from_secs(10);
/// Limit on the addresses of a name that are tried.
const MOST: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Kind;

    #[test]
    fn a_host_may_have_a_port() {
        let of = |host| {
            let (name, port) = parts(host);
            format!("{name} {port:?}")
        };
        assert_eq!(of("node7"), "node7 None");
        assert_eq!(of("node7:47"), "node7 Some(47)");
        assert_eq!(of("192.0.2.1:47"), "192.0.2.1 Some(47)");
        assert_eq!(of("::1"), "::1 None");
        assert_eq!(of("[::1]"), "::1 None");
        assert_eq!(of("[::1]:47"), "::1 Some(47)");
        assert_eq!(of("node7:x"), "node7:x None");
    }

    #[test]
    fn this_host_is_reached_over_loopback() {
        let addresses = resolve("127.0.0.1").unwrap();
        let found = finding("localhost", &addresses[0]);
        assert_eq!(found.kind, Kind::Fine);
        assert!(
            found
                .text
                .starts_with("to localhost (127.0.0.1) from 127.0.0.1 over lo, MTU "),
            "{found:?}"
        );
        assert!(resolve("no-such-host.invalid").is_err());
    }
}
