// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The side that listens. Any program can connect, so visitors are served at the same time, each within a time limit: a
//! program that is silent or sends something else cannot block a doctor.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Scope as Threads};
use std::time::{Duration, Instant};

use super::control::Control;
use super::scope::Scope;
use super::threads;
use super::{ABOUT, Own, SESSION, Talk, greet};
use crate::doctor::{Finding, Heard};
use calls::visitors::{Admission, Visitors};

/// Waits for a visitor and serves it.
pub fn listen(door: Result<TcpListener, Finding>, heard: &Heard) -> Vec<Finding> {
    let listener = match door {
        Ok(listener) => listener,
        Err(finding) => return vec![finding],
    };
    let port = listener.local_addr().map_or(0, |address| address.port());
    let own = Own::of(heard);
    eprintln!("waiting for `fi_info --doctor THIS_HOST:{port}` on the other host");
    let mut hosting = Hosting::default();
    hosting.run(&listener, &own, Instant::now() + WAIT);
    let mut findings = hosting.strangers;
    match hosting.met.is_empty() {
        false => findings.extend(hosting.met),
        true => findings.push(Finding::wrong(
            ABOUT,
            format!(
                "nobody came to port {port} within {} minutes",
                WAIT.as_secs() / 60
            ),
            "on the other host `fi_info --doctor THIS_HOST:PORT` says why",
        )),
    }
    findings
}

/// Results of the visits.
#[derive(Default)]
struct Hosting {
    met: Vec<Finding>,
    /// Findings about other programs that connected.
    strangers: Vec<Finding>,
}

/// The host, and the findings of its visit.
type Visit = (String, Result<Vec<Finding>, String>);

impl Hosting {
    /// Serves visitors until one visit is complete, or until `end`. Visits that have begun by then are completed.
    fn run(&mut self, listener: &TcpListener, own: &Own, end: Instant) {
        if listener.set_nonblocking(true).is_err() {
            return;
        }
        let visitors = Visitors::new(MOST_VISITORS);
        let (over, visits) = mpsc::channel();
        thread::scope(|threads| {
            let mut served = 0;
            while self.met.is_empty() && Instant::now() < end {
                match listener.accept() {
                    Ok((stream, peer)) => {
                        let begun = begin(threads, &visitors, (stream, peer), own, over.clone());
                        served += usize::from(begun);
                    }
                    Err(_) => served -= self.take(&visits, LOOK),
                }
            }
            visitors.close_unknown();
            while served > 0 {
                served -= self.take(&visits, SESSION);
            }
        });
    }

    /// Waits for the end of a visit. Returns how many visits have ended.
    fn take(&mut self, visits: &Receiver<Visit>, limit: Duration) -> usize {
        let Ok((host, found)) = visits.recv_timeout(limit) else {
            return 0;
        };
        match found {
            Ok(found) => self.met.extend(found),
            Err(why) => self.add_stranger(&host, &why),
        }
        1
    }

    fn add_stranger(&mut self, host: &str, why: &str) {
        let finding = Finding::note(
            ABOUT,
            format!("{host} came, and is no doctor: {why}"),
            "if it is the host that was meant: the same version of fi_info on both",
        );
        // A port scanner may connect often.
        if self.strangers.len() < MOST_STRANGERS && !self.strangers.contains(&finding) {
            eprintln!("{}", finding.text);
            self.strangers.push(finding);
        }
    }
}

/// Starts the thread of a visitor. Returns true if its visit will be reported.
fn begin<'scope>(
    threads: &'scope Threads<'scope, '_>,
    visitors: &'scope Visitors,
    (stream, peer): (TcpStream, SocketAddr),
    own: &'scope Own,
    over: Sender<Visit>,
) -> bool {
    if stream.set_nonblocking(false).is_err() {
        return false;
    }
    let Ok(admission) = visitors.admit(&stream) else {
        return false;
    };
    let host = peer.ip().to_canonical().to_string();
    let visitor = host.clone();
    let started = threads::start(threads, move || {
        let found = serve(stream, peer, &host, &admission, own);
        drop(admission);
        // The receiver lives as long as this thread.
        let _ = over.send((host, found));
    });
    // The closure had the connection, so the connection is closed now. The visitor may come again.
    let refused = |error: &std::io::Error| {
        eprintln!("a connection from {visitor} was closed: no thread can be started: {error}");
    };
    started.inspect_err(refused).is_ok()
}

fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    host: &str,
    admission: &Admission,
    own: &Own,
) -> Result<Vec<Finding>, String> {
    let mut control = Control::new(stream, SESSION);
    greet(&mut control)?;
    admission.mark_known();
    let mut talk = Talk {
        control,
        peer,
        host,
        own,
        scope: Scope::of([peer.ip()]),
    };
    talk.be_visited()
}

const WAIT: Duration = Duration::from_secs(600);
/// Time between two polls of the listener.
const LOOK: Duration = Duration::from_millis(20);
const MOST_STRANGERS: usize = 16;
/// Limit on simultaneous visits. Each has up to 20 sockets of its own.
const MOST_VISITORS: usize = 16;

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};

    use super::super::{GREETING, VERSION};
    use super::*;

    fn own() -> Own {
        Own {
            addresses: vec!["127.0.0.1".parse().unwrap()],
            ports: (32768, 60999),
        }
    }

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn visit(at: SocketAddr) -> Result<Vec<Finding>, String> {
        let stream = TcpStream::connect(at).unwrap();
        let mut control = Control::new(stream, SESSION);
        greet(&mut control)?;
        let mut talk = Talk {
            control,
            peer: at,
            host: "host",
            own: &own(),
            scope: Scope::of([at.ip()]),
        };
        talk.visit()
    }

    #[test]
    fn silent_visitors_keep_no_doctor_out() {
        let (listener, at) = listener();
        let silent: Vec<TcpStream> = (0..2 * MOST_VISITORS)
            .map(|_| TcpStream::connect(at).unwrap())
            .collect();
        let begin = Instant::now();
        let mut hosting = Hosting::default();
        let found = thread::scope(|threads| {
            let visit = threads.spawn(|| visit(at));
            hosting.run(&listener, &own(), begin + Duration::from_secs(60));
            visit.join().unwrap()
        });
        assert!(!found.unwrap().is_empty() && !hosting.met.is_empty());
        assert!(begin.elapsed() < Duration::from_secs(4), "{begin:?}");
        assert!(hosting.strangers.len() <= MOST_STRANGERS);
        drop(silent);
    }

    /// Opens the control connection of a visitor and sends the greeting.
    fn greeted(at: SocketAddr) -> BufReader<TcpStream> {
        let mut control = BufReader::new(TcpStream::connect(at).unwrap());
        let hello = format!("{GREETING} {VERSION}\n");
        control.get_mut().write_all(hello.as_bytes()).unwrap();
        control
    }

    #[test]
    fn addresses_that_a_visitor_names_are_not_scanned() {
        let (listener, at) = listener();
        let (own, token) = (own(), "0123456789abcdef".repeat(2));
        // The visitor names this port, and has an open port with the same number itself.
        let inner = TcpListener::bind("127.0.0.9:0").unwrap();
        let port = inner.local_addr().unwrap().port();
        let open = TcpListener::bind(("127.0.0.1", port)).unwrap();
        inner.set_nonblocking(true).unwrap();
        let answer = thread::scope(|threads| {
            threads.spawn(|| {
                // One connection for the port, and one for many bytes.
                for _ in 0..2 {
                    let mut stream = open.accept().unwrap().0;
                    stream.read_exact(&mut [0]).unwrap();
                    stream.write_all(token.as_bytes()).unwrap();
                }
            });
            threads.spawn(|| {
                let end = Instant::now() + Duration::from_secs(60);
                Hosting::default().run(&listener, &own, end);
            });
            let mut control = greeted(at);
            let lines = format!(
                "addresses 127.0.0.9 169.254.169.254 ::ffff:127.0.0.9\nresults\nports {token} tcp {port} udp\nheard\n"
            );
            control.get_mut().write_all(lines.as_bytes()).unwrap();
            let lines = control.lines().map_while(Result::ok);
            lines.filter(|line| line.starts_with("results")).last()
        });
        let answer = answer.unwrap();
        assert!(answer.contains(&format!("tcp/{port}=open")), "{answer}");
        assert!(!answer.contains("address/"), "{answer}");
        assert!(inner.accept().is_err());
    }
}
