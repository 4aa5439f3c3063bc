// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The side that tries: all ports and addresses of the other side at the same time, each for a few seconds.

use std::io::ErrorKind::Interrupted;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use super::control::is_timeout;
use super::doors::{BULK, FEW, LOWEST, MANY};
use super::results::{Outcome, Results};
use super::scope::Scope;
use super::threads;

/// The sockets that the other side has opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    token: String,
    pub tcp: Vec<u16>,
    pub udp: Vec<u16>,
}

impl Targets {
    /// Reads a line of `Doors::line`. Refuses too many ports and privileged ports, because the other side may be any
    /// program.
    pub fn read(words: &[String]) -> Option<Targets> {
        let (token, lists) = words.split_first()?;
        let is_token = token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut targets = Targets {
            token: Some(token.clone()).filter(|_| is_token)?,
            tcp: Vec::new(),
            udp: Vec::new(),
        };
        let mut list = None;
        for word in lists {
            list = match word.as_str() {
                "tcp" => Some(&mut targets.tcp),
                "udp" => Some(&mut targets.udp),
                port => {
                    let list = list?;
                    list.push(port.parse().ok().filter(|port| *port >= LOWEST)?);
                    (list.len() <= MOST).then_some(list)
                }
            };
            list.as_ref()?;
        }
        Some(targets)
    }

    /// Tries all ports at `host`, and one of them at each of `addresses` that is in the scope.
    pub fn attempt(&self, host: SocketAddr, addresses: &[IpAddr], scope: &Scope) -> Results {
        let (tcp, udp) = thread::scope(|scope| {
            let datagrams = || all(&self.udp, |port| self.datagram(at(host, port)));
            let udp = threads::start(scope, datagrams);
            let tcp = all(&self.tcp, |port| self.connection(at(host, port), FEW));
            match udp {
                Ok(udp) => (tcp, udp.join().unwrap_or_default()),
                Err(_) => (tcp, datagrams()),
            }
        });
        let open = tcp.iter().find(|(_, outcome)| *outcome == Outcome::Open);
        let open = open.map(|(port, _)| *port);
        let addresses = match open {
            Some(port) => all(addresses, |ip| match scope.contains(ip) {
                true => self.connection((ip.to_canonical(), port).into(), FEW),
                false => Outcome::NotTried,
            }),
            None => Vec::new(),
        };
        Results {
            bulk: open.map(|port| self.connection(at(host, port), MANY)),
            tcp,
            udp,
            addresses,
        }
    }

    fn connection(&self, to: SocketAddr, wish: u8) -> Outcome {
        let tried = TcpStream::connect_timeout(&to, LIMIT).and_then(|mut stream| {
            stream.set_read_timeout(Some(LIMIT))?;
            stream.set_write_timeout(Some(LIMIT))?;
            stream.write_all(&[wish])?;
            let mut token = vec![0; self.token.len()];
            stream.read_exact(&mut token)?;
            if token != self.token.as_bytes() {
                return Ok(Outcome::UnknownSender);
            }
            match wish {
                MANY => read_all(&mut stream),
                _ => Ok(Outcome::Open),
            }
        });
        match tried {
            Ok(outcome) => outcome,
            // A different program accepts the connection and sends something else.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Outcome::UnknownSender
            }
            Err(error) => Outcome::of(&error),
        }
    }

    fn datagram(&self, to: SocketAddr) -> Outcome {
        let own: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let tried = UdpSocket::bind(own).and_then(|socket| {
            socket.connect(to)?;
            socket.set_read_timeout(Some(BETWEEN))?;
            for _ in 0..DATAGRAMS {
                socket.send(self.token.as_bytes())?;
                let mut bytes = [0; 64];
                match socket.recv(&mut bytes) {
                    Ok(count) if bytes[..count] == *self.token.as_bytes() => {
                        return Ok(Outcome::Open);
                    }
                    Ok(_) => return Ok(Outcome::UnknownSender),
                    Err(error) if is_timeout(&error) || error.kind() == Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(Outcome::Silent)
        });
        tried.unwrap_or_else(|error| Outcome::of(&error))
    }
}

/// Reads the requested bytes. A silence before their end means that full packets are lost.
fn read_all(stream: &mut TcpStream) -> std::io::Result<Outcome> {
    let end = Instant::now() + LIMIT;
    let (mut left, mut bytes) = (BULK, vec![0; 64 * 1024]);
    while left > 0 && Instant::now() < end {
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(Outcome::UnknownSender),
            Ok(count) => left = left.saturating_sub(count),
            // A socket with a time limit reports this after SIGCONT, even without a handler: signal(7).
            Err(error) if error.kind() == Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    // All bytes arrived, or the transfer is slow but works.
    Ok(Outcome::Open)
}

/// Runs each attempt in a thread of its own. Attempts for which the system starts no thread are made here, one after
/// the other, and fail when their time is over.
fn all<T: Copy + Send + Sync>(
    list: &[T],
    attempt: impl Fn(T) -> Outcome + Sync,
) -> Vec<(T, Outcome)> {
    thread::scope(|scope| {
        let attempt = &attempt;
        let started = list
            .iter()
            .map(|one| threads::start(scope, move || attempt(*one)));
        let started: Vec<_> = started.collect();
        let end = Instant::now() + LIMIT;
        let attempt_here = |one: T| match Instant::now() < end {
            true => attempt(one),
            false => Outcome::Failed,
        };
        let begun = list.iter().zip(started);
        let begun = begun.map(|(one, thread)| thread.map_err(|_| attempt_here(*one)));
        let begun: Vec<_> = begun.collect();
        let outcomes = begun.into_iter().map(|begun| match begun {
            Ok(thread) => thread.join().unwrap_or(Outcome::Failed),
            Err(outcome) => outcome,
        });
        list.iter().copied().zip(outcomes).collect()
    })
}

/// Returns the address with another port. An IPv6 address keeps its scope.
fn at(mut host: SocketAddr, port: u16) -> SocketAddr {
    host.set_port(port);
    host
}

/// The kernel repeats the first packet of a connection after one second, and again after two more.
const LIMIT: Duration = Duration::from_secs(4);
const BETWEEN: Duration = Duration::from_millis(500);
const DATAGRAMS: u32 = 4;
/// Limit on the ports of each kind in the other side's list.
const MOST: usize = 32;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::doors::Doors;
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn doors_are_found_and_others_are_not() {
        try_doors(|| {});
    }

    #[test]
    fn doors_are_found_without_more_threads() {
        try_doors(|| threads::tests::REFUSED.set(true));
    }

    /// Both sides, after `prepare` in their threads.
    fn try_doors(prepare: fn()) {
        let doors = Doors::open((32768, 60999)).unwrap();
        let targets = Targets::read(&words(&doors.line())).unwrap();
        let done = AtomicBool::new(false);
        let host: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let (results, heard) = thread::scope(|scope| {
            let serving = scope.spawn(|| {
                prepare();
                doors.serve(&done)
            });
            prepare();
            let addresses = ["127.0.0.2", "127.0.0.1"].map(|ip| ip.parse().unwrap());
            let results = targets.attempt(host, &addresses, &Scope::of([host.ip()]));
            done.store(true, Ordering::Release);
            (results, serving.join().unwrap())
        });
        let is_open = |(_, outcome): &(u16, Outcome)| *outcome == Outcome::Open;
        assert!(
            results.tcp.len() == 16 && results.tcp.iter().all(is_open),
            "{results:?}"
        );
        assert!(
            results.udp.len() == 4 && results.udp.iter().all(is_open),
            "{results:?}"
        );
        assert_eq!(results.addresses[0].1, Outcome::NotTried);
        assert_eq!(results.addresses[1].1, Outcome::Open);
        assert_eq!(results.bulk, Some(Outcome::Open));
        assert_eq!(heard.len(), 4);
        assert_eq!(doors.udp_ports().len(), 4);
    }

    #[test]
    fn somebody_else_is_not_taken_for_the_other_side() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let targets = Targets {
            token: "0".repeat(32),
            tcp: Vec::new(),
            udp: Vec::new(),
        };
        let to: SocketAddr = ([127, 0, 0, 1], port).into();
        let other = thread::spawn(move || {
            for answer in [&b"HTTP/1.1 400 Bad Request, and some words more"[..], b""] {
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0]).unwrap();
                stream.write_all(answer).unwrap();
            }
        });
        assert_eq!(targets.connection(to, FEW), Outcome::UnknownSender);
        assert_eq!(targets.connection(to, FEW), Outcome::UnknownSender);
        other.join().unwrap();
        assert_eq!(targets.connection(to, FEW), Outcome::Refused);
        assert_eq!(targets.datagram(to), Outcome::Refused);
    }

    #[test]
    fn nobody_makes_a_doctor_try_what_it_likes() {
        let token = "0123456789abcdef".repeat(2);
        let read = |line: &str| Targets::read(&words(&format!("{token} {line}")));
        assert_eq!(
            read("tcp 40000 40001 udp 40002").unwrap().tcp,
            [40000, 40001]
        );
        assert_eq!(read("tcp udp").unwrap().udp, [0; 0]);
        for line in ["tcp 22", "40000", "tcp 70000", "tcp x", "tcp 0"] {
            assert_eq!(read(line), None, "{line}");
        }
        assert_eq!(read(&format!("tcp{}", " 40000".repeat(MOST + 1))), None);
        assert_eq!(Targets::read(&words("short tcp 40000")), None);
        assert_eq!(Targets::read(&[]), None);
    }
}
