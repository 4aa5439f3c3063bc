// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The way between this host and another: names, routes, and with a doctor at the other end ports and addresses in both
//! directions.
//!
//! The two meet at a control connection and say their addresses. Then each opens sockets on ports such as endpoints
//! get, and the other tries them. All of it ends in bounded time, whatever the other side does.
#![forbid(unsafe_code)]

mod control;
mod doors;
mod results;
mod route;
mod trial;
mod verdict;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::interfaces;
use super::{Finding, Heard};
use control::Control;
use doors::Doors;
use results::{Outcome, Results};
use trial::Targets;
use verdict::Direction;

pub use route::resolve;

/// The way to `host`, NAME or NAME:PORT.
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
            let met = greet(&mut control).and_then(|()| {
                let mut talk = Talk {
                    control,
                    peer: at,
                    host: &name,
                    heard,
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

/// Where visitors come. It is there before anything else is looked at, so that both sides may start at once.
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

/// Waits for a visitor, and is its host.
pub fn listen(door: Result<TcpListener, Finding>, heard: &Heard) -> Vec<Finding> {
    let listener = match door {
        Ok(listener) => listener,
        Err(finding) => return vec![finding],
    };
    let port = listener.local_addr().map_or(0, |address| address.port());
    eprintln!("waiting for `fi_info --doctor THIS_HOST:{port}` on the other host");
    let (mut findings, met) = await_visitor(&listener, heard, Instant::now() + WAIT);
    findings.extend(met.unwrap_or_else(|| {
        vec![Finding::wrong(
            ABOUT,
            format!(
                "nobody came to port {port} within {} minutes",
                WAIT.as_secs() / 60
            ),
            "on the other host `fi_info --doctor THIS_HOST:PORT` says why",
        )]
    }));
    findings
}

/// What strangers did, and what came of the visit, if there was one.
fn await_visitor(
    listener: &TcpListener,
    heard: &Heard,
    end: Instant,
) -> (Vec<Finding>, Option<Vec<Finding>>) {
    let mut strangers: Vec<Finding> = Vec::new();
    while let Some((stream, peer)) = accept_by(listener, end) {
        let host = peer.ip().to_canonical().to_string();
        let mut control = Control::new(stream, SESSION);
        let met = greet(&mut control).and_then(|()| {
            let mut talk = Talk {
                control,
                peer,
                host: &host,
                heard,
            };
            talk.be_visited()
        });
        match met {
            Ok(met) => return (strangers, Some(met)),
            Err(why) => {
                let finding = Finding::note(
                    ABOUT,
                    format!("{host} came, and is no doctor: {why}"),
                    "if it is the host that was meant: the same version of fi_info on both",
                );
                eprintln!("{}", finding.text);
                // A scanner may come often.
                if strangers.len() < MOST_STRANGERS && !strangers.contains(&finding) {
                    strangers.push(finding);
                }
            }
        }
    }
    (strangers, None)
}

fn accept_by(listener: &TcpListener, end: Instant) -> Option<(TcpStream, SocketAddr)> {
    listener.set_nonblocking(true).ok()?;
    while Instant::now() < end {
        match listener.accept() {
            Ok((stream, peer)) if stream.set_nonblocking(false).is_ok() => {
                return Some((stream, peer));
            }
            _ => thread::sleep(LOOK),
        }
    }
    None
}

fn meet(
    addresses: &[SocketAddr],
    port: u16,
) -> Result<(TcpStream, SocketAddr), (SocketAddr, io::Error)> {
    let mut last = None;
    for address in addresses {
        let mut at = *address;
        at.set_port(port);
        match TcpStream::connect_timeout(&at, CONNECT) {
            Ok(stream) => return Ok((stream, at)),
            // That nobody listens says more than that there is no way.
            Err(error) => match last {
                Some((_, known)) if Outcome::of(&known) == Outcome::Refused => {
                    last = Some((at, known))
                }
                _ => last = Some((at, error)),
            },
        }
    }
    Err(last.expect("a name that is known has an address"))
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

/// Two doctors who have met.
struct Talk<'a> {
    control: Control,
    peer: SocketAddr,
    host: &'a str,
    heard: &'a Heard,
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

    /// Those of the other side.
    fn exchange_addresses(&mut self) -> Result<Vec<IpAddr>, String> {
        let ours: Vec<String> = self.addresses().iter().map(IpAddr::to_string).collect();
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

    fn addresses(&self) -> Vec<IpAddr> {
        let mut addresses = interfaces::addresses(self.heard);
        // Of the others' interfaces we know no scope.
        addresses
            .retain(|address| !matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local()));
        // Loopback is nobody's business, unless there is nothing else.
        if addresses.iter().any(|address| !address.is_loopback()) {
            addresses.retain(|address| !address.is_loopback());
        }
        addresses.truncate(MOST_ADDRESSES);
        addresses
    }

    /// Tries what the other side opens.
    fn attempt(&mut self, theirs: &[IpAddr]) -> Result<Vec<Finding>, String> {
        let words = self.control.hear("ports", ANSWER)?;
        let targets = Targets::read(&words).ok_or("its ports are none")?;
        let results = targets.attempt(self.peer, theirs);
        self.control.say(&format!("results{}", results.line()))?;
        let heard = self.control.hear("heard", ANSWER)?;
        let heard: BTreeSet<u16> = heard.iter().filter_map(|word| word.parse().ok()).collect();
        let direction = Direction::To { host: self.host };
        Ok(verdict::judge(&direction, &results, &heard))
    }

    /// Opens what the other side tries.
    fn be_attempted(&mut self) -> Result<Vec<Finding>, String> {
        let doors = Doors::open(doors::range(&self.heard.params))
            .map_err(|error| format!("here: {error}"))?;
        self.control.say(&format!("ports {}", doors.line()))?;
        let done = AtomicBool::new(false);
        let (answer, heard) = thread::scope(|scope| {
            let serving = scope.spawn(|| doors.serve(&done));
            let answer = self.control.hear("results", TRIAL);
            done.store(true, Ordering::Release);
            (answer, serving.join().unwrap_or_default())
        });
        let list: String = heard.iter().map(|port| format!(" {port}")).collect();
        let words = answer?;
        let results = Results::read(
            &words,
            &doors.tcp_ports(),
            &doors.udp_ports(),
            &self.addresses(),
        );
        let results = results.ok_or("its results are none")?;
        self.control.say(&format!("heard{list}"))?;
        let direction = Direction::From { host: self.host };
        Ok(verdict::judge(&direction, &results, &heard))
    }
}

const ABOUT: &str = "reach";

/// Where a doctor listens who is not told: no service of IANA's list has it.
const PORT: u16 = 47593;

const GREETING: &str = "fi_info-doctor";
const VERSION: &str = "1";

/// A session takes 20 s where all is dropped.
const SESSION: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(5);
const GREET: Duration = Duration::from_secs(5);
/// While the other side opens its sockets.
const ANSWER: Duration = Duration::from_secs(10);
/// While it tries ours.
const TRIAL: Duration = Duration::from_secs(25);
const WAIT: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(20);
const MOST_ADDRESSES: usize = 16;
const MOST_STRANGERS: usize = 16;
