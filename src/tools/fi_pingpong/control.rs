// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The control connection: TCP, opened by the client.
//!
//! | from   | bytes                                                        | when                          |
//! |--------|--------------------------------------------------------------|-------------------------------|
//! | server | length (4, big-endian), address format (4, native), address  | its endpoint is open          |
//! | client | the same for its own endpoint; nothing for connected endpoints | then                         |
//! | client | `q` 0                                                        | before each size              |
//! | server | `a` 0                                                        | it has a receive posted       |
//! | client | count of messages in digits, filled up to 10 bytes with zeros | after each size               |
//! | server | `cnt ok` 0                                                   | its own count is the same     |
//!
//! With options that other releases lack, both sides first send `hello`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, bind, connect, recv, setsockopt,
    socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::hello;
use crate::journal::note;
use crate::options::{DEFAULT_PORT, Options};
use abi::*;
use calls::failure::{Failure, Result};
use calls::remote::Place;

/// An address of the fabric under test.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// FI_SOCKADDR_IN or another address format.
    pub format: u32,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Server,
    Client,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    Silent,
    /// The peer has sent bytes that were not read yet.
    Speaks,
    /// The peer has ended, or has closed its side of the connection.
    Left,
}

pub struct Control {
    stream: TcpStream,
    pub role: Role,
}

impl Control {
    /// Waits for a client.
    pub fn serve(options: &Options) -> Result<Control> {
        let port = options.own_port.unwrap_or(DEFAULT_PORT);
        let any: SocketAddr = match options.ipv6 {
            true => (Ipv6Addr::UNSPECIFIED, port).into(),
            false => (Ipv4Addr::UNSPECIFIED, port).into(),
        };
        let failed = |error| Failure::system(format!("control port {port}"), &error);
        let listener = TcpListener::bind(any).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?.port();
        match port {
            // The kernel chose the port, so the user needs this line.
            0 => eprintln!("control port {bound}"),
            _ => note!("waiting for a client on control port {bound}"),
        }
        let (stream, client) = listener.accept().map_err(failed)?;
        note!("client {client}");
        Control::new(stream, Role::Server)
    }

    /// Connects to the server `host`.
    pub fn join(host: &str, options: &Options) -> Result<Control> {
        let port = options.server_port;
        let doing = || format!("control connection to {host} port {port}");
        let found = (host, port)
            .to_socket_addrs()
            .map_err(|error| Failure::new(doing(), FI_EADDRNOTAVAIL).detail(error.to_string()))?;
        let mut addresses: Vec<SocketAddr> = found
            .filter(|address| address.is_ipv6() || !options.ipv6)
            .collect();
        // Without -6 a server listens only on IPv4.
        addresses.sort_by_key(SocketAddr::is_ipv6);
        let mut last = Failure::new(doing(), FI_EADDRNOTAVAIL);
        for address in addresses {
            match reach(address, options.own_port) {
                Ok(stream) => {
                    note!("control connection to {address}");
                    return Control::new(stream, Role::Client);
                }
                Err(error) => last = Failure::system(doing(), &error),
            }
        }
        Err(last)
    }

    fn new(stream: TcpStream, role: Role) -> Result<Control> {
        let failed = |error| Failure::system("control connection", &error);
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(LIMIT)).map_err(failed)?;
        Ok(Control { stream, role })
    }

    pub fn send_address(&mut self, address: &Address) -> Result {
        let length = address.bytes.len() as u32;
        let bytes = [
            &length.to_be_bytes()[..],
            &address.format.to_ne_bytes(),
            &address.bytes,
        ];
        self.send(&bytes.concat())
    }

    pub fn receive_address(&mut self) -> Result<Address> {
        let mut length = [0; 4];
        self.receive(&mut length, || Ok(()))?;
        if length == hello::MARK {
            return Err(Failure::new("control connection", FI_EPROTO).detail(OTHER_OPTIONS));
        }
        let length = u32::from_be_bytes(length) as usize;
        if length == 0 || length > LONGEST_ADDRESS {
            return Err(Failure::new("address of the peer", FI_EPROTO)
                .detail(format!("{length} bytes long")));
        }
        let mut format = [0; 4];
        self.receive(&mut format, || Ok(()))?;
        let mut bytes = vec![0; length];
        self.receive(&mut bytes, || Ok(()))?;
        let format = u32::from_ne_bytes(format);
        Ok(Address { format, bytes })
    }

    pub fn send_hello(&mut self, words: &str) -> Result {
        let length = (words.len() as u32).to_be_bytes();
        self.send(&[&hello::MARK[..], &length, words.as_bytes()].concat())
    }

    /// Returns the options in the other side's hello; `None` if the other side does not send one.
    pub fn receive_hello(&mut self) -> Result<Option<String>> {
        let deadline = Instant::now() + HELLO_LIMIT;
        let mut mark = [0; 4];
        match self.receive_by(&mut mark, deadline, || Ok(())) {
            Ok(()) if mark == hello::MARK => {}
            Ok(()) => return Ok(None),
            // The peer waits for other bytes, or did not understand the hello and has closed the connection.
            Err(failure) => {
                note!("no hello: {failure}");
                return Ok(None);
            }
        }
        let wrong = |what: String| Failure::new("options of the peer", FI_EPROTO).detail(what);
        let mut length = [0; 4];
        self.receive_by(&mut length, deadline, || Ok(()))?;
        let length = u32::from_be_bytes(length) as usize;
        if length > hello::LONGEST {
            return Err(wrong(format!("{length} bytes long")));
        }
        let mut words = vec![0; length];
        self.receive_by(&mut words, deadline, || Ok(()))?;
        let words = String::from_utf8(words);
        words.map(Some).map_err(|_| wrong("no text".into()))
    }

    /// Exchanges the places of the memory that the client accesses.
    pub fn exchange_place(&mut self, own: Place) -> Result<Place> {
        let bytes = [own.addr.to_be_bytes(), own.key.to_be_bytes()].concat();
        self.send(&bytes)?;
        let (mut addr, mut key) = ([0; 8], [0; 8]);
        self.receive(&mut addr, || Ok(()))?;
        self.receive(&mut key, || Ok(()))?;
        let (addr, key) = (u64::from_be_bytes(addr), u64::from_be_bytes(key));
        Ok(Place { addr, key })
    }

    /// Returns when both sides have called it. Calls `idle` repeatedly while it waits.
    pub fn meet(&mut self, idle: impl FnMut() -> Result) -> Result {
        match self.role {
            Role::Client => {
                self.send(QUESTION)?;
                self.expect(ANSWER, idle)
            }
            Role::Server => {
                self.expect(QUESTION, idle)?;
                self.send(ANSWER)
            }
        }
    }

    /// Checks that both sides have the same count.
    pub fn compare(&mut self, count: u32, idle: impl FnMut() -> Result) -> Result {
        match self.role {
            Role::Client => {
                self.send(&digits(count))?;
                self.expect(COUNT_IS_RIGHT, idle)
            }
            Role::Server => {
                let mut theirs = [0; COUNT_LENGTH];
                self.receive(&mut theirs, idle)?;
                if theirs != digits(count) {
                    let theirs = String::from_utf8_lossy(&theirs);
                    let theirs = theirs.trim_end_matches('\0').to_owned();
                    return Err(Failure::new("count of messages", FI_EPROTO)
                        .detail(format!("{count} here, {theirs:?} at the client")));
                }
                self.send(COUNT_IS_RIGHT)
            }
        }
    }

    /// Ends this side's direction of the connection.
    pub fn part(&mut self) {
        // Fails if the peer has closed the connection already.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Returns the present state of the peer's direction.
    pub fn peer(&self) -> Peer {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        // This call and those of `reach` take numbers in nix; the stream is open during each.
        match recv(self.stream.as_raw_fd(), &mut [0], flags) {
            Ok(0) => Peer::Left,
            Ok(_) => Peer::Speaks,
            Err(Errno::EAGAIN | Errno::EINTR) => Peer::Silent,
            Err(_) => Peer::Left,
        }
    }

    pub fn peer_left(&self) -> bool {
        self.peer() == Peer::Left
    }

    fn send(&mut self, bytes: &[u8]) -> Result {
        let sent = self.stream.write_all(bytes);
        sent.map_err(|error| Failure::system("control connection", &error))
    }

    fn expect(&mut self, wanted: &[u8], idle: impl FnMut() -> Result) -> Result {
        let mut found = vec![0; wanted.len()];
        self.receive(&mut found, idle)?;
        match found == wanted {
            true => Ok(()),
            false if hello::MARK.starts_with(&found[..found.len().min(4)]) => {
                Err(Failure::new("control connection", FI_EPROTO).detail(OTHER_OPTIONS))
            }
            false => Err(
                Failure::new("control connection", FI_EPROTO).detail(format!(
                    "{:?} where {:?} belongs",
                    String::from_utf8_lossy(&found),
                    String::from_utf8_lossy(wanted)
                )),
            ),
        }
    }

    /// Fills `bytes`. Calls `idle` while no bytes arrive.
    fn receive(&mut self, bytes: &mut [u8], idle: impl FnMut() -> Result) -> Result {
        self.receive_by(bytes, Instant::now() + LIMIT, idle)
    }

    fn receive_by(
        &mut self,
        bytes: &mut [u8],
        deadline: Instant,
        mut idle: impl FnMut() -> Result,
    ) -> Result {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => {
                    return Err(Failure::new("control connection", FI_ECONNABORTED)
                        .detail("the peer has ended; its own output may say why"));
                }
                Ok(count) => filled += count,
                Err(error) if waits(&error) => {
                    idle()?;
                    if Instant::now() > deadline {
                        return Err(Failure::new("control connection", FI_ETIMEDOUT)
                            .detail("the peer says nothing"));
                    }
                }
                Err(error) => return Err(Failure::system("control connection", &error)),
            }
        }
        Ok(())
    }
}

fn waits(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Opens a connection, from the port `own` if it is set.
fn reach(address: SocketAddr, own: Option<u16>) -> io::Result<TcpStream> {
    let Some(own) = own else {
        return TcpStream::connect_timeout(&address, LIMIT);
    };
    let (family, any): (_, SocketAddr) = match address.is_ipv6() {
        true => (AddressFamily::Inet6, (Ipv6Addr::UNSPECIFIED, own).into()),
        false => (AddressFamily::Inet, (Ipv4Addr::UNSPECIFIED, own).into()),
    };
    let kind = SockType::Stream;
    let fd = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    // The system applies this limit to connect as well.
    let limit = TimeVal::seconds(LIMIT.as_secs() as i64);
    setsockopt(&fd, sockopt::SendTimeout, &limit)?;
    let stream = TcpStream::from(fd);
    let fd = stream.as_raw_fd();
    bind(fd, &SockaddrStorage::from(any))?;
    connect(fd, &SockaddrStorage::from(address))?;
    Ok(stream)
}

fn digits(count: u32) -> [u8; COUNT_LENGTH] {
    let mut bytes = [0; COUNT_LENGTH];
    let text = count.to_string();
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

const QUESTION: &[u8] = b"q\0";
const ANSWER: &[u8] = b"a\0";
const COUNT_IS_RIGHT: &[u8] = b"cnt ok\0";
const COUNT_LENGTH: usize = 10;

const OTHER_OPTIONS: &str =
    "the other side was started with --op, --window or --warmup: give the same here";

/// Time for a peer to send its hello.
const HELLO_LIMIT: Duration = Duration::from_secs(3);

/// Limit on the length of an address, far above that of any provider.
const LONGEST_ADDRESS: usize = 4096;

/// Greatest silence of the peer.
const LIMIT: Duration = Duration::from_secs(15);
/// Length of one wait while there is other work to do.
const PATIENCE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Both ends of a connection.
    fn pair() -> (Control, Control) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        (
            Control::new(server, Role::Server).unwrap(),
            Control::new(client, Role::Client).unwrap(),
        )
    }

    fn bytes(control: &mut Control, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        control.receive(&mut bytes, || Ok(())).unwrap();
        bytes
    }

    #[test]
    fn addresses_travel_as_in_other_releases() {
        let (mut server, mut client) = pair();
        let address = Address {
            format: FI_SOCKADDR_IN,
            bytes: vec![2, 0, 0x84, 0x99, 192, 0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0],
        };
        server.send_address(&address).unwrap();
        let seen =
            b"\x00\x00\x00\x10\x02\x00\x00\x00\x02\x00\x84\x99\xc0\x00\x02\x02\0\0\0\0\0\0\0\0";
        assert_eq!(bytes(&mut client, 24), seen);
        client.send(seen).unwrap();
        assert_eq!(server.receive_address().unwrap(), address);
    }

    #[test]
    fn lengths_of_addresses_are_bounded() {
        let (mut server, mut client) = pair();
        for length in [0u32, 4097, u32::MAX] {
            client.send(&length.to_be_bytes()).unwrap();
            assert_eq!(server.receive_address().unwrap_err().code(), FI_EPROTO);
        }
    }

    #[test]
    fn both_meet_and_compare() {
        let (mut server, mut client) = pair();
        let other = thread::spawn(move || {
            client.meet(|| Ok(())).unwrap();
            client.compare(1000000, || Ok(())).unwrap();
        });
        server.meet(|| Ok(())).unwrap();
        server.compare(1000000, || Ok(())).unwrap();
        other.join().unwrap();
    }

    #[test]
    fn counts_travel_as_digits() {
        let (mut server, mut client) = pair();
        client.send(b"12\0\0\0\0\0\0\0\0").unwrap();
        server.compare(12, || Ok(())).unwrap();
        assert_eq!(bytes(&mut client, 7), b"cnt ok\0");
        client.send(b"13\0\0\0\0\0\0\0\0").unwrap();
        let failure = server.compare(12, || Ok(())).unwrap_err();
        assert!(
            failure
                .to_string()
                .contains("12 here, \"13\" at the client")
        );
    }

    #[test]
    fn hellos_are_bounded_and_texts() {
        let (mut server, mut client) = pair();
        client.send_hello("op=read\n").unwrap();
        assert_eq!(
            server.receive_hello().unwrap().as_deref(),
            Some("op=read\n")
        );
        client.send(b"\0IFP\0\x01\0\0").unwrap();
        assert_eq!(server.receive_hello().unwrap_err().code(), FI_EPROTO);
        client.send(b"\0IFP\0\0\0\x02\xff\xfe").unwrap();
        assert_eq!(server.receive_hello().unwrap_err().code(), FI_EPROTO);
        // The first bytes of another release.
        client.send(b"\0\0\0\x10").unwrap();
        assert_eq!(server.receive_hello().unwrap(), None);
    }

    #[test]
    fn a_hello_where_none_is_wanted_is_named() {
        let (mut server, mut client) = pair();
        client.send_hello("op=read\n").unwrap();
        let failure = server.receive_address().unwrap_err();
        assert!(failure.to_string().contains("--op"), "{failure}");
        let (mut server, mut client) = pair();
        client.send_hello("op=read\n").unwrap();
        let failure = server.meet(|| Ok(())).unwrap_err();
        assert!(failure.to_string().contains("--op"), "{failure}");
    }

    #[test]
    fn a_peer_that_ends_is_an_error() {
        let (mut server, mut client) = pair();
        assert_eq!(server.peer(), Peer::Silent);
        client.send(b"q").unwrap();
        let deadline = Instant::now() + LIMIT;
        while server.peer() == Peer::Silent && Instant::now() < deadline {}
        assert_eq!(server.peer(), Peer::Speaks);
        drop(client);
        let failure = server.meet(|| Ok(())).unwrap_err();
        assert_eq!(failure.code(), FI_ECONNABORTED);
        assert!(server.peer_left());
    }
}
