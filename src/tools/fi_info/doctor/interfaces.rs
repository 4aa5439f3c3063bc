// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Checks interfaces and their addresses, which of them programs use, and whether this host's own name is misleading.

use std::net::IpAddr;

use super::reach::resolve;
use super::{Finding, Heard};
use crate::json;
use crate::table;
use calls::link::{self, Link};
use calls::text;

pub fn findings(heard: &Heard) -> Vec<Finding> {
    let links = link::all();
    let mut findings: Vec<Finding> = links.iter().map(interface).collect();
    findings.extend(all_in_all(&links));
    findings.extend(first(&addresses(heard), &links));
    findings.extend(own_name(&links));
    findings
}

/// Returns the addresses of tcp's endpoints in the order of the library. Most programs take the first one.
pub fn addresses(heard: &Heard) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    let entries = heard.entries().into_iter().flat_map(|list| list.iter());
    for info in entries.filter(|info| info.ep_type() == abi::FI_EP_RDM) {
        let entry = json::entry(&text::info(info));
        let address = entry["src_addr"].as_str().map(table::bare);
        let Some(address) = address.and_then(|text| text.parse().ok()) else {
            continue;
        };
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

fn interface(link: &Link) -> Finding {
    let mut text = format!("{}: {}", link.name, state(link));
    if let Some(speed) = link.speed.filter(|speed| *speed > 0) {
        text.push_str(&format!(", {speed} Mbit/s"));
    }
    if let Some(mtu) = link.mtu {
        text.push_str(&format!(", MTU {mtu}"));
    }
    let addresses: Vec<String> = link.addresses.iter().map(IpAddr::to_string).collect();
    match addresses.is_empty() {
        true => text.push_str(", no address"),
        false => text.push_str(&format!(": {}", addresses.join(", "))),
    }
    let name = &link.name;
    match (link.is_up, link.is_running, addresses.is_empty()) {
        (false, ..) if link.is_loopback => Finding::wrong(
            ABOUT,
            format!("{text}; processes of this host do not reach each other over TCP"),
            format!("ip link set {name} up"),
        ),
        (false, _, false) => Finding::note(
            ABOUT,
            format!("{text}; no program uses it"),
            format!("ip link set {name} up, if jobs are to use it"),
        ),
        (true, false, false) => Finding::note(
            ABOUT,
            format!("{text}; no program uses it"),
            "look at its cable, or at what it has instead of one",
        ),
        _ => Finding::fine(ABOUT, text),
    }
}

fn state(link: &Link) -> &'static str {
    match (link.is_up, link.is_running) {
        (false, _) => "down",
        (true, false) => "no carrier",
        (true, true) => "up",
    }
}

fn all_in_all(links: &[Link]) -> Option<Finding> {
    let leads_out = |link: &Link| {
        let there = link.is_up && link.is_running && !link.is_loopback;
        there && link.addresses.iter().any(|address| !is_link_local(address))
    };
    (!links.iter().any(leads_out)).then(|| {
        Finding::note(
            ABOUT,
            "no interface leads to other hosts",
            "jobs on this host alone run; for others an interface has to be up, with an address (ip address add)",
        )
    })
}

/// Returns true if the address is valid on one link only.
fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn first(addresses: &[IpAddr], links: &[Link]) -> Option<Finding> {
    let first = addresses.first()?;
    let link = links.iter().find(|link| link.addresses.contains(first))?;
    let text = format!("programs take {} ({first}) first", link.name);
    let is_pitiful = is_link_local(first) || link.is_loopback;
    let better = addresses
        .iter()
        .any(|address| !is_link_local(address) && !address.is_loopback());
    Some(match is_pitiful && better {
        true => Finding::note(
            ABOUT,
            format!("{text}, which other hosts do not reach"),
            "FI_TCP_IFACE names the interface that they do",
        ),
        false => Finding::fine(ABOUT, text),
    })
}

/// Checks the address of this host's own name, because some programs look it up and send it to their peers.
fn own_name(links: &[Link]) -> Option<Finding> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim().to_owned();
    let addresses = resolve(&name).unwrap_or_default();
    let text = match addresses.first() {
        None => format!("this host's name, {name}, has no address"),
        Some(first)
            if first.ip().is_loopback()
                && links.iter().any(|link| !link.is_loopback && link.is_up) =>
        {
            format!(
                "this host's name, {name}, leads to {}, which other hosts do not reach",
                first.ip()
            )
        }
        Some(first) => {
            return Some(Finding::fine(
                ABOUT,
                format!("this host's name, {name}, leads to {}", first.ip()),
            ));
        }
    };
    Some(Finding::note(
        ABOUT,
        text,
        format!(
            "programs that give their own name to others need a line for {name} in /etc/hosts with an address above"
        ),
    ))
}

const ABOUT: &str = "interfaces";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Kind;

    fn link(name: &str, is_up: bool, is_running: bool, address: &str) -> Link {
        Link {
            name: name.into(),
            is_up,
            is_running,
            is_loopback: name == "lo",
            mtu: Some(1500),
            speed: Some(1000),
            addresses: address.parse().into_iter().collect(),
            ..Link::default()
        }
    }

    #[test]
    fn an_interface_says_its_state() {
        let up = interface(&link("eth0", true, true, "192.0.2.1"));
        assert_eq!(
            up,
            Finding::fine(ABOUT, "eth0: up, 1000 Mbit/s, MTU 1500: 192.0.2.1")
        );
        assert_eq!(
            interface(&link("eth0", true, false, "192.0.2.1")).kind,
            Kind::Note
        );
        assert_eq!(
            interface(&link("eth0", false, false, "192.0.2.1")).kind,
            Kind::Note
        );
        assert_eq!(interface(&link("eth0", false, false, "")).kind, Kind::Fine);
        assert_eq!(interface(&link("lo", false, false, "")).kind, Kind::Wrong);
    }

    #[test]
    fn loopback_and_link_local_addresses_lead_nowhere() {
        let lo = link("lo", true, true, "127.0.0.1");
        let eth = link("eth0", true, true, "192.0.2.1");
        let bare = link("eth0", true, true, "fe80::1");
        assert!(all_in_all(&[lo.clone(), bare]).is_some());
        assert!(all_in_all(&[lo.clone(), link("eth0", true, false, "192.0.2.1")]).is_some());
        assert!(all_in_all(&[lo.clone(), eth.clone()]).is_none());
        let both = ["127.0.0.1", "192.0.2.1"].map(|address| address.parse().unwrap());
        assert_eq!(first(&both, &[lo.clone(), eth]).unwrap().kind, Kind::Note);
        assert_eq!(first(&both[..1], &[lo]).unwrap().kind, Kind::Fine);
    }
}
