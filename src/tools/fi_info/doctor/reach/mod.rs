// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Checks the way between this host and another one: names, routes, and, if a doctor runs at the other end, ports and
//! addresses in both directions.
//!
//! The two doctors open a control connection and exchange their addresses. Then each opens sockets on ports in the
//! range of endpoints, and the other one tries them. All of it ends in bounded time, whatever the other side does.

mod control;
mod doors;
mod hosting;
mod results;
mod route;
mod scope;
mod threads;
mod trial;
mod verdict;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::interfaces;
use super::{Finding, Heard};
use control::Control;
use doors::Doors;
use results::{Outcome, Results};
use scope::Scope;
use trial::Targets;
use verdict::Direction;

pub use hosting::listen;
pub use route::resolve;

/// Checks the way to `host`, NAME or NAME:PORT.
pub fn visit(host: &str, heard: &Heard) -> Vec<Finding> {
    let (name, port) = route::parts(host);
    let addresses = match resolve(&name) {
        Ok(addresses) => addresses,
        Err(why) => {
            let remedy =
                format!("`getent hosts {name}` shows what the system knows: /etc/hosts, or DNS");
            return vec![Finding::wrong(
                ABOUT,
                format!("{name} has no address: {why}"),
                remedy,
            )];
        }
    };
    let port = port.unwrap_or(PORT);
    let mut findings: Vec<Finding> = addresses
        .iter()
        .map(|address| route::finding(&name, address))
        .collect();
    match meet(&addresses, port) {
        Err((at, error)) => findings.push(unmet(&name, at, port, &error)),
        Ok((stream, at)) => {
            let mut control = Control::new(stream, SESSION);
            let own = Own::of(heard);
            let met = greet(&mut control).and_then(|()| {
                let mut talk = Talk {
                    control,
                    peer: at,
                    host: &name,
                    own: &own,
                    scope: Scope::of(addresses.iter().map(SocketAddr::ip)),
                };
                talk.visit()
            });
            findings.extend(
                met.unwrap_or_else(|why| vec![stranger(&format!("port {port} of {name}"), &why)]),
            );
        }
    }
    findings
}

/// Opens the listener for visitors. This comes before all other checks, so that both sides may start at the same time.
pub fn door(port: Option<u16>) -> Result<TcpListener, Finding> {
    let port = port.unwrap_or(PORT);
    doors::listener(port).map_err(|error| {
        Finding::wrong(
            ABOUT,
            format!("no listening at port {port}: {error}"),
            "--listen 0 takes any port that is free, and tells which",
        )
    })
}

fn meet(
    addresses: &[SocketAddr],
    port: u16,
) -> Result<(TcpStream, SocketAddr), (SocketAddr, io::Error)> {
    let with_port = addresses.iter().map(|&(mut at)| {
        at.set_port(port);
        at
    });
    first_met(with_port, |at| TcpStream::connect_timeout(at, CONNECT))
}

/// Returns the first connection and its address. If all attempts fail, returns the failure to report, with the address
/// at which it happened.
fn first_met<S>(
    addresses: impl IntoIterator<Item = SocketAddr>,
    connect: impl Fn(&SocketAddr) -> io::Result<S>,
) -> Result<(S, SocketAddr), (SocketAddr, io::Error)> {
    let mut failure: Option<(SocketAddr, io::Error)> = None;
    for at in addresses {
        let error = match connect(&at) {
            Ok(stream) => return Ok((stream, at)),
            Err(error) => error,
        };
        // "Refused" is kept in preference to other errors, because it proves that the host can be reached.
        let is_refused = |known: &(_, _)| Outcome::of(&known.1) == Outcome::Refused;
        if !failure.as_ref().is_some_and(is_refused) {
            failure = Some((at, error));
        }
    }
    Err(failure.expect("a name that is known has an address"))
}

fn unmet(name: &str, at: SocketAddr, port: u16, error: &io::Error) -> Finding {
    let ip = at.ip();
    match Outcome::of(error) {
        Outcome::Refused => Finding::wrong(
            ABOUT,
            format!(
                "port {port} of {name} ({ip}) is refused: nobody listens there, so nothing was tried"
            ),
            format!("run `fi_info --doctor --listen {port}` on {name} meanwhile"),
        ),
        Outcome::Silent => Finding::wrong(
            "firewall",
            format!(
                "connections to port {port} of {name} ({ip}) time out: a firewall drops them, or the host is off"
            ),
            format!(
                "let TCP port {port}, and those of endpoints, in on {name}; ping {ip} tells whether it is on"
            ),
        ),
        _ => Finding::wrong(
            ABOUT,
            format!("no connection to port {port} of {name} ({ip}): {error}"),
            format!(
                "`ip route get {ip}` shows the way that is taken; a firewall may reject it, too"
            ),
        ),
    }
}

fn stranger(what: &str, why: &str) -> Finding {
    Finding::wrong(
        ABOUT,
        format!("{what} is no doctor, or stopped: {why}"),
        "run `fi_info --doctor --listen` of the same version there, and name its port",
    )
}

fn greet(control: &mut Control) -> Result<(), String> {
    control.say(&format!("{GREETING} {VERSION}"))?;
    match &control.hear(GREETING, GREET)?[..] {
        [version] if version == VERSION => Ok(()),
        _ => Err("it is of another version".to_owned()),
    }
}

/// The description of this host that a doctor sends to the other side.
struct Own {
    addresses: Vec<IpAddr>,
    /// Lowest and highest port of endpoints.
    ports: (u16, u16),
}

impl Own {
    fn of(heard: &Heard) -> Own {
        let mut addresses = interfaces::addresses(heard);
        // Interfaces of the other host have other scopes, so link-local addresses are useless there.
        addresses
            .retain(|address| !matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local()));
        // Loopback addresses are meaningless on another host; they are used if there are no others.
        if addresses.iter().any(|address| !address.is_loopback()) {
            addresses.retain(|address| !address.is_loopback());
        }
        addresses.truncate(MOST_ADDRESSES);
        Own {
            addresses,
            ports: doors::range(&heard.params),
        }
    }
}

/// A session of two doctors.
struct Talk<'a> {
    control: Control,
    /// The other end of the control connection.
    peer: SocketAddr,
    host: &'a str,
    own: &'a Own,
    scope: Scope,
}

impl Talk<'_> {
    fn visit(&mut self) -> Result<Vec<Finding>, String> {
        let theirs = self.exchange_addresses()?;
        let mut findings = self.attempt(&theirs)?;
        findings.extend(self.be_attempted()?);
        Ok(findings)
    }

    fn be_visited(&mut self) -> Result<Vec<Finding>, String> {
        let theirs = self.exchange_addresses()?;
        let mut findings = self.be_attempted()?;
        findings.extend(self.attempt(&theirs)?);
        Ok(findings)
    }

    /// Sends this side's addresses and returns those of the other side.
    fn exchange_addresses(&mut self) -> Result<Vec<IpAddr>, String> {
        let ours: Vec<String> = self.own.addresses.iter().map(IpAddr::to_string).collect();
        self.control.say(&format!("addresses {}", ours.join(" ")))?;
        let words = self.control.hear("addresses", ANSWER)?;
        let addresses = words
            .iter()
            .map(|word| word.parse().ok())
            .collect::<Option<Vec<IpAddr>>>();
        addresses
            .filter(|addresses| addresses.len() <= MOST_ADDRESSES)
            .ok_or_else(|| "its addresses are none".to_owned())
    }

    /// Tries the sockets of the other side.
    fn attempt(&mut self, theirs: &[IpAddr]) -> Result<Vec<Finding>, String> {
        let words = self.control.hear("ports", ANSWER)?;
        let targets = Targets::read(&words).ok_or("its ports are none")?;
        let results = targets.attempt(self.peer, theirs, &self.scope);
        self.control.say(&format!("results{}", results.line()))?;
        let heard = self.control.hear("heard", ANSWER)?;
        let heard: BTreeSet<u16> = heard.iter().filter_map(|word| word.parse().ok()).collect();
        let direction = Direction::To { host: self.host };
        Ok(verdict::judge(&direction, &results, &heard))
    }

    /// Opens sockets for the other side to try.
    fn be_attempted(&mut self) -> Result<Vec<Finding>, String> {
        let doors = Doors::open(self.own.ports).map_err(|error| format!("here: {error}"))?;
        self.control.say(&format!("ports {}", doors.line()))?;
        let done = AtomicBool::new(false);
        let (answer, heard) = thread::scope(|scope| {
            let serving = threads::start(scope, || doors.serve(&done));
            let serving = serving.map_err(|error| format!("no thread here: {error}"))?;
            let answer = self.control.hear("results", TRIAL);
            done.store(true, Ordering::Release);
            Ok::<_, String>((answer, serving.join().unwrap_or_default()))
        })?;
        let list: String = heard.iter().map(|port| format!(" {port}")).collect();
        let words = answer?;
        let results = Results::read(
            &words,
            &doors.tcp_ports(),
            &doors.udp_ports(),
            &self.own.addresses,
        );
        let results = results.ok_or("its results are none")?;
        self.control.say(&format!("heard{list}"))?;
        let direction = Direction::From { host: self.host };
        Ok(verdict::judge(&direction, &results, &heard))
    }
}

const ABOUT: &str = "reach";

/// Default port of a listening doctor: IANA has not assigned it to a service.
const PORT: u16 = 47593;

const GREETING: &str = "fi_info-doctor";
const VERSION: &str = "1";

/// Limit on a session, which takes 20 s if all packets are dropped.
const SESSION: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(5);
const GREET: Duration = Duration::from_secs(5);
/// Time for the other side to open its sockets.
const ANSWER: Duration = Duration::from_secs(10);
/// Time for the other side to try this side's sockets.
const TRIAL: Duration = Duration::from_secs(25);
const MOST_ADDRESSES: usize = 16;

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn a_failure_is_reported_with_the_address_where_it_happened() {
        let at = |last: u8| SocketAddr::from(([192, 0, 2, last], 1));
        let report = |kinds: &[(u8, ErrorKind)]| {
            let kind_of = |address: &SocketAddr| {
                let tried = kinds.iter().find(|(last, _)| at(*last) == *address);
                tried.unwrap().1
            };
            let addresses = kinds.iter().map(|&(last, _)| at(last));
            let failed = first_met::<()>(addresses, |address| Err(kind_of(address).into()));
            let (address, error) = failed.unwrap_err();
            (address, error.kind())
        };
        let (refused, silent) = (ErrorKind::ConnectionRefused, ErrorKind::TimedOut);
        assert_eq!(report(&[(1, refused), (2, silent)]), (at(1), refused));
        assert_eq!(report(&[(1, silent), (2, refused)]), (at(2), refused));
        assert_eq!(report(&[(1, refused), (2, refused)]), (at(1), refused));
        let failed = ErrorKind::AddrNotAvailable;
        assert_eq!(report(&[(1, silent), (2, failed)]), (at(2), failed));
        let met = first_met([at(1), at(2)], |address| match *address == at(2) {
            true => Ok(()),
            false => Err(refused.into()),
        });
        assert_eq!(met.unwrap(), ((), at(2)));
    }
}
