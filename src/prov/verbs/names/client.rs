// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The calls to a name server. Each is a connection of its own.

use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Instant;

use super::Name;
use super::message::{LONGEST, Message};
use sys::fork::Birth;

/// Time limit for one call.
const LIMIT: Duration = Duration::from_secs(2);

/// Asks the server of a node for the address of a service.
pub fn query(node: (&str, u16), service: i32) -> io::Result<Option<Name>> {
    let until = Instant::now() + LIMIT;
    let mut stream = connect(node.to_socket_addrs()?, until)?;
    stream.write_all(&Message::Query(service).encode())?;
    match answer(&mut stream, until)? {
        Message::Found(_, name) => Ok(Some(name)),
        Message::Failed(_) => Ok(None),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

fn connect(all: impl Iterator<Item = SocketAddr>, until: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for addr in all {
        match TcpStream::connect_timeout(&addr, left(until)?) {
            Ok(stream) => {
                stream.set_write_timeout(Some(left(until)?))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

fn answer(stream: &mut TcpStream, until: Instant) -> io::Result<Message> {
    let mut bytes = Vec::with_capacity(LONGEST);
    loop {
        let found = Message::decode(&bytes);
        if let Some(message) = found.map_err(|()| ErrorKind::InvalidData)? {
            return Ok(message);
        }
        stream.set_read_timeout(Some(left(until)?))?;
        let mut part = [0; LONGEST];
        match stream.read(&mut part) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes.extend(&part[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// An address in the table of this host. Dropping it removes the address.
pub struct Registered {
    port: u16,
    service: i32,
    name: Name,
    birth: Birth,
}

impl Registered {
    /// None if no process serves.
    pub fn add(port: u16, service: i32, name: Name) -> Option<Registered> {
        tell(port, &Message::Add(service, name)).ok()?;
        Some(Registered {
            port,
            service,
            name,
            birth: Birth::here(),
        })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // A child process inherits the value, but the endpoint is its parent's.
        if self.birth.is_here() {
            // The server may have ended before.
            let _ = tell(self.port, &Message::Delete(self.service, self.name));
        }
    }
}

/// Sends a message without an answer to the server of this host. Returns after the server has closed the connection.
fn tell(port: u16, message: &Message) -> io::Result<()> {
    let until = Instant::now() + LIMIT;
    let here = [
        SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
    ];
    let mut stream = connect(here.into_iter(), until)?;
    stream.write_all(&message.encode())?;
    stream.set_read_timeout(Some(left(until)?))?;
    // The end of the stream shows that the table has changed.
    let _ = stream.read(&mut [0; 1]);
    Ok(())
}
