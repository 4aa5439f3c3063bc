// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Interprets the results of one direction, and names remedies.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::results::{Outcome, Results};
use crate::doctor::Finding;

/// The direction of the attempts.
pub enum Direction<'a> {
    /// This host tried `host`.
    To { host: &'a str },
    /// `host` tried this one.
    From { host: &'a str },
}

impl Direction<'_> {
    /// `connections to port 7 of HOST`
    fn things(&self, what: &str, kind: &str, ports: &str) -> String {
        match self {
            Direction::To { host } => format!("{what} to {kind}{ports} of {host}"),
            Direction::From { host } => format!("{what} from {host} to {kind}{ports} of this host"),
        }
    }

    /// The place where a firewall must accept packets, and their source.
    fn gate(&self) -> String {
        match self {
            Direction::To { host } => {
                format!("on {host}, and on what lies between, from this host")
            }
            Direction::From { host } => {
                format!("on this host, and on what lies between, from {host}")
            }
        }
    }

    /// The host whose sockets were tried.
    fn tried(&self) -> &str {
        match self {
            Direction::To { host } => host,
            Direction::From { .. } => "this host",
        }
    }

    /// The host that tried them.
    fn trier(&self) -> &str {
        match self {
            Direction::To { .. } => "here",
            Direction::From { host } => host,
        }
    }
}

/// Makes findings from the results. `heard` has the UDP ports at which a datagram arrived.
pub fn judge(direction: &Direction, results: &Results, heard: &BTreeSet<u16>) -> Vec<Finding> {
    let mut findings = connections(direction, &results.tcp);
    findings.extend(bulk(direction, results.bulk));
    findings.extend(addresses(direction, &results.addresses));
    findings.extend(datagrams(direction, &results.udp, heard));
    findings
}

fn with(list: &[(u16, Outcome)], outcome: Outcome) -> Vec<u16> {
    let those = list.iter().filter(|(_, one)| *one == outcome);
    those.map(|(port, _)| *port).collect()
}

fn connections(direction: &Direction, tcp: &[(u16, Outcome)]) -> Vec<Finding> {
    let (open, all) = (with(tcp, Outcome::Open), tcp.len());
    let (low, high) = (lowest(tcp), highest(tcp));
    let what = |ports: &[u16]| direction.things("connections", "", &named(ports, all));
    if open.len() == all {
        let text = what(&open);
        return vec![Finding::fine(ABOUT, format!("{text} come to be"))];
    }
    let passes = match (open.first(), open.last()) {
        (Some(first), Some(last)) if first != last => {
            format!("; of those from {first} to {last}, {} pass", open.len())
        }
        (Some(one), _) => format!("; {one} passes"),
        _ => String::new(),
    };
    let remedy = format!(
        "let TCP ports {low}-{high} in {}; or open fewer and name them on all hosts with FI_TCP_PORT_LOW_RANGE and \
         FI_TCP_PORT_HIGH_RANGE",
        direction.gate()
    );
    let faults = [
        (Outcome::Silent, "time out: a firewall drops them"),
        (
            Outcome::Refused,
            "are refused, though somebody listens: a firewall rejects them",
        ),
        (
            Outcome::NoWay,
            "are turned away (no route, or administratively prohibited): a router or a firewall rejects them",
        ),
        (
            Outcome::UnknownSender,
            "are taken by somebody else: address translation or a proxy lies between",
        ),
        (Outcome::Failed, "fail"),
    ];
    let found = faults.into_iter().filter_map(|(outcome, words)| {
        let ports = with(tcp, outcome);
        let text = (!ports.is_empty()).then(|| format!("{} {words}{passes}", what(&ports)))?;
        Some(Finding::wrong("firewall", text, remedy.clone()))
    });
    found.collect()
}

/// Judges the transfer of many bytes, which flow to the side that tries.
fn bulk(direction: &Direction, bulk: Option<Outcome>) -> Option<Finding> {
    let (from, to) = match direction {
        Direction::To { host } => (*host, "this host"),
        Direction::From { host } => ("this host", *host),
    };
    match bulk? {
        Outcome::Open => None,
        _ => Some(Finding::wrong(
            ABOUT,
            format!("small packets from {from} to {to} arrive, a row of large ones does not"),
            format!(
                "on the way a smaller MTU rules than the interfaces have: set theirs to it (ip link set dev ... mtu ...), \
                 or sysctl -w net.ipv4.tcp_mtu_probing=1 on {from}"
            ),
        )),
    }
}

fn addresses(direction: &Direction, tried: &[(IpAddr, Outcome)]) -> Vec<Finding> {
    let (whose, from) = (direction.tried(), direction.trier());
    let works = tried.iter().find(|(_, outcome)| *outcome == Outcome::Open);
    let works = works.map(|(ip, _)| *ip);
    let mut findings = Vec::new();
    for (at, (ip, outcome)) in tried.iter().enumerate() {
        let why = match outcome {
            Outcome::Open => continue,
            Outcome::NotTried => {
                findings.push(not_tried(direction, *ip));
                continue;
            }
            Outcome::Refused => "nobody is there",
            Outcome::Silent => "it times out",
            Outcome::UnknownSender => "somebody else answers",
            Outcome::NoWay => "there is no route",
            Outcome::Failed => "it fails",
        };
        let text = |order: &str| {
            format!("address {ip} of {whose}{order} is not reached from {from}: {why}")
        };
        let remedy = match works {
            Some(ip) => format!("set FI_TCP_IFACE of {whose} to the interface that has {ip}"),
            None => {
                format!("set FI_TCP_IFACE of {whose} to an interface that is reached from {from}")
            }
        };
        findings.push(match at {
            0 => Finding::wrong(
                ABOUT,
                text(", which programs give to others first,"),
                remedy,
            ),
            _ => Finding::note(ABOUT, text(""), remedy),
        });
    }
    findings
}

fn not_tried(direction: &Direction, ip: IpAddr) -> Finding {
    let (whose, from) = (direction.tried(), direction.trier());
    let text = format!(
        "address {ip} of {whose} was not tried from {from}: it shares no subnet with the address of the connection"
    );
    let on = match direction {
        Direction::To { .. } => "here",
        Direction::From { host } => host,
    };
    let remedy = format!("`fi_info --doctor {ip}`, called {on}, tries it");
    Finding::note(ABOUT, text, remedy)
}

fn datagrams(direction: &Direction, udp: &[(u16, Outcome)], heard: &BTreeSet<u16>) -> Vec<Finding> {
    let (open, all) = (with(udp, Outcome::Open), udp.len());
    let what = |ports: &[u16]| direction.things("datagrams", "UDP ", &named(ports, all));
    if open.len() == all {
        let text = what(&open);
        return vec![Finding::fine(ABOUT, format!("{text} are answered"))];
    }
    let others: Vec<u16> = udp
        .iter()
        .map(|(port, _)| *port)
        .filter(|port| !open.contains(port))
        .collect();
    let (arrived, lost): (Vec<u16>, Vec<u16>) =
        others.into_iter().partition(|port| heard.contains(port));
    let (low, high) = (lowest(udp), highest(udp));
    let remedy = format!(
        "only udp and ofi_rxd need them: let UDP ports {low}-{high} in {}",
        direction.gate()
    );
    let cases = [
        (lost, "do not arrive: a firewall drops them"),
        (
            arrived,
            "arrive, but their answers do not: a firewall drops them",
        ),
    ];
    let found = cases.into_iter().filter(|(ports, _)| !ports.is_empty());
    let found = found.map(|(ports, words)| {
        Finding::note(
            "firewall",
            format!("{} {words}", what(&ports)),
            remedy.clone(),
        )
    });
    found.collect()
}

fn lowest(list: &[(u16, Outcome)]) -> u16 {
    list.iter().map(|(port, _)| *port).min().unwrap_or(0)
}

fn highest(list: &[(u16, Outcome)]) -> u16 {
    list.iter().map(|(port, _)| *port).max().unwrap_or(0)
}

/// Lists ports: `port 7`, `ports 7, 8`, `ports 7, 8, 9 ... 99 (12 of 16 tried)`.
fn named(ports: &[u16], tried: usize) -> String {
    let of = match ports.len() == tried {
        true if tried > 1 => format!(" (all {tried} that were tried)"),
        true => String::new(),
        false => format!(" ({} of {tried} that were tried)", ports.len()),
    };
    let list = |ports: &[u16]| {
        ports
            .iter()
            .map(u16::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    match ports {
        [one] => format!("port {one}{of}"),
        [few @ .., last] if ports.len() > SHOWN => {
            format!("ports {} ... {last}{of}", list(&few[..SHOWN - 1]))
        }
        _ => format!("ports {}{of}", list(ports)),
    }
}

const ABOUT: &str = "reach";

/// Limit on the ports that are listed one by one.
const SHOWN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Kind;

    const TO: Direction = Direction::To { host: "node7" };
    const FROM: Direction = Direction::From { host: "node7" };

    fn texts(findings: &[Finding]) -> Vec<&str> {
        findings
            .iter()
            .map(|finding| finding.text.as_str())
            .collect()
    }

    #[test]
    fn what_is_silent_is_dropped_and_what_is_refused_is_rejected() {
        let found = connections(&TO, &[(40000, Outcome::Silent)]);
        assert_eq!(
            texts(&found),
            ["connections to port 40000 of node7 time out: a firewall drops them"]
        );
        assert_eq!(found[0].kind, Kind::Wrong);
        let tcp = [
            (40000, Outcome::Open),
            (40001, Outcome::Refused),
            (40002, Outcome::Open),
        ];
        assert_eq!(
            texts(&connections(&FROM, &tcp)),
            [
                "connections from node7 to port 40001 (1 of 3 that were tried) of this host are refused, though somebody \
              listens: a firewall rejects them; of those from 40000 to 40002, 2 pass"
            ]
        );
    }

    #[test]
    fn what_works_is_said_once() {
        let tcp: Vec<(u16, Outcome)> = (1..=6).map(|port| (port, Outcome::Open)).collect();
        let found = connections(&TO, &tcp);
        assert_eq!(
            texts(&found),
            ["connections to ports 1, 2, 3 ... 6 (all 6 that were tried) of node7 come to be"]
        );
        assert_eq!(found[0].kind, Kind::Fine);
    }

    #[test]
    fn datagrams_that_arrive_and_answers_that_do_not_are_told_apart() {
        let udp = [
            (5, Outcome::Silent),
            (6, Outcome::Silent),
            (7, Outcome::Open),
        ];
        assert_eq!(
            texts(&datagrams(&TO, &udp, &BTreeSet::from([6, 7]))),
            [
                "datagrams to UDP port 5 (1 of 3 that were tried) of node7 do not arrive: a firewall drops them",
                "datagrams to UDP port 6 (1 of 3 that were tried) of node7 arrive, but their answers do not: a firewall \
                 drops them",
            ]
        );
    }

    #[test]
    fn the_first_address_counts() {
        let tried = ["172.17.0.1", "192.0.2.1", "198.51.100.1"].map(|ip| ip.parse().unwrap());
        let outcomes = [Outcome::Refused, Outcome::Open, Outcome::Silent];
        let tried: Vec<_> = tried.into_iter().zip(outcomes).collect();
        let found = addresses(&TO, &tried);
        assert_eq!(found[0].kind, Kind::Wrong);
        assert_eq!(found[1].kind, Kind::Note);
        assert_eq!(
            texts(&found),
            [
                "address 172.17.0.1 of node7, which programs give to others first, is not reached from here: nobody is \
                 there",
                "address 198.51.100.1 of node7 is not reached from here: it times out",
            ]
        );
        assert!(format!("{found:?}").contains("the interface that has 192.0.2.1"));
    }

    #[test]
    fn addresses_that_were_not_tried_are_named() {
        let ip = "172.17.0.1".parse().unwrap();
        let found = addresses(&FROM, &[(ip, Outcome::NotTried)]);
        assert_eq!(found[0].kind, Kind::Note);
        let text = "address 172.17.0.1 of this host was not tried from node7: it shares no subnet with the address of \
                    the connection";
        assert_eq!(texts(&found), [text]);
        assert!(format!("{found:?}").contains("called node7"));
    }

    #[test]
    fn large_packets_that_are_lost_are_a_finding() {
        assert_eq!(bulk(&TO, Some(Outcome::Open)), None);
        assert_eq!(bulk(&TO, None), None);
        let found = bulk(&FROM, Some(Outcome::Silent)).unwrap();
        assert_eq!(
            found.text,
            "small packets from this host to node7 arrive, a row of large ones does not"
        );
    }
}
