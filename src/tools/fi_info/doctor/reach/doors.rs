// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The side that is tried: TCP and UDP sockets on ports in the range of endpoints, which prove their identity by a
//! token.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, Type};

use super::threads;
use calls::params::Param;

/// Number of ports that are tried, spread over the range of endpoint ports.
const TCP_PORTS: u16 = 16;
const UDP_PORTS: u16 = 4;

pub struct Doors {
    tcp: Vec<TcpListener>,
    udp: Vec<UdpSocket>,
    /// The secret with which a connection or datagram is answered; it is only sent to the other side.
    token: String,
}

impl Doors {
    /// Opens sockets on all addresses of this host, spread over the given range of ports.
    pub fn open((low, high): (u16, u16)) -> io::Result<Doors> {
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let doors = Doors {
            tcp: spread(low, high, TCP_PORTS, tcp),
            udp: spread(low, high, UDP_PORTS, udp),
            token: random.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        match doors.tcp.is_empty() {
            true => Err(io::Error::other(format!(
                "none of the ports {low}-{high} is free"
            ))),
            false => Ok(doors),
        }
    }

    /// `TOKEN tcp PORT... udp PORT...`
    pub fn line(&self) -> String {
        let list = |ports: Vec<u16>| {
            ports
                .iter()
                .map(|port| format!(" {port}"))
                .collect::<String>()
        };
        format!(
            "{} tcp{} udp{}",
            self.token,
            list(self.tcp_ports()),
            list(self.udp_ports())
        )
    }

    pub fn tcp_ports(&self) -> Vec<u16> {
        let addresses = self
            .tcp
            .iter()
            .filter_map(|socket| socket.local_addr().ok());
        addresses.map(|address| address.port()).collect()
    }

    pub fn udp_ports(&self) -> Vec<u16> {
        self.udp.iter().filter_map(port_of).collect()
    }

    /// Answers until `done` is set. Returns the UDP ports at which the token arrived.
    pub fn serve(&self, done: &AtomicBool) -> BTreeSet<u16> {
        let mut heard = BTreeSet::new();
        let busy = AtomicUsize::new(0);
        thread::scope(|scope| {
            while !done.load(Ordering::Acquire) {
                let tcp = self.tcp.iter().map(AsFd::as_fd);
                let all = tcp.chain(self.udp.iter().map(AsFd::as_fd));
                let mut fds: Vec<PollFd> =
                    all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
                // If a socket cannot be polled, it is simply checked again.
                let _ = poll(&mut fds, PollTimeout::from(LOOK));
                for listener in &self.tcp {
                    let Ok((stream, _)) = listener.accept() else {
                        continue;
                    };
                    // The limit is needed because other programs may connect, too.
                    if busy.fetch_add(1, Ordering::Relaxed) >= MOST {
                        busy.fetch_sub(1, Ordering::Relaxed);
                        continue;
                    }
                    let stream = Arc::new(stream);
                    let own = Arc::clone(&stream);
                    let prove = |stream: Arc<TcpStream>, limit| {
                        // The side that tries reports the error.
                        let _ = self.prove(&stream, limit);
                        busy.fetch_sub(1, Ordering::Relaxed);
                    };
                    // A connection for which the system starts no thread is served here, within a shorter limit because
                    // the others wait meanwhile.
                    if threads::start(scope, move || prove(own, PATIENCE)).is_err() {
                        prove(stream, SHORT_PATIENCE);
                    }
                }
                heard.extend(
                    self.udp
                        .iter()
                        .filter(|socket| self.echo(socket))
                        .filter_map(port_of),
                );
            }
        });
        heard
    }

    /// Sends the token. The client's first byte says whether it also wants many bytes.
    fn prove(&self, mut stream: &TcpStream, limit: Duration) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        let mut wish = [0];
        stream.read_exact(&mut wish)?;
        stream.write_all(self.token.as_bytes())?;
        if wish[0] == MANY {
            stream.write_all(&vec![0; BULK])?;
        }
        // Waits until the other side has read all bytes.
        stream.shutdown(std::net::Shutdown::Write)?;
        stream.read(&mut wish).map(drop)
    }

    /// Returns true if the token arrived.
    fn echo(&self, socket: &UdpSocket) -> bool {
        let mut bytes = [0; 64];
        match socket.recv_from(&mut bytes) {
            Ok((count, from)) if bytes[..count] == *self.token.as_bytes() => {
                // The other side repeats its datagram if this one is lost.
                let _ = socket.send_to(&bytes[..count], from);
                true
            }
            _ => false,
        }
    }
}

fn port_of(socket: &UdpSocket) -> Option<u16> {
    socket.local_addr().ok().map(|address| address.port())
}

/// Opens up to `count` sockets, the first at the low end of the range, the last at the high end.
fn spread<T>(low: u16, high: u16, count: u16, open: impl Fn(u16) -> io::Result<T>) -> Vec<T> {
    let (low, high) = (u32::from(low), u32::from(high));
    let steps = u32::from(count - 1);
    let open_near = |at: u32| {
        let begin = low + (high - low) * at / steps;
        let mut near = (begin..=high.min(begin + NEAR))
            .chain((low.max(begin.saturating_sub(NEAR))..begin).rev());
        near.find_map(|port| open(u16::try_from(port).ok()?).ok())
    };
    (0..=steps).filter_map(open_near).collect()
}

fn tcp(port: u16) -> io::Result<TcpListener> {
    let socket = everywhere(port, Type::STREAM, Protocol::TCP)?;
    socket.listen(128)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn udp(port: u16) -> io::Result<UdpSocket> {
    let socket = everywhere(port, Type::DGRAM, Protocol::UDP)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Binds a socket to all IPv4 and IPv6 addresses, or only to the IPv4 ones if there is no IPv6.
fn everywhere(port: u16, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let both = Socket::new(Domain::IPV6, kind, Some(protocol)).and_then(|socket| {
        socket.set_only_v6(false)?;
        Ok(socket)
    });
    let (socket, address): (Socket, SocketAddr) = match both {
        Ok(socket) => (socket, (Ipv6Addr::UNSPECIFIED, port).into()),
        Err(_) => (
            Socket::new(Domain::IPV4, kind, Some(protocol))?,
            (Ipv4Addr::UNSPECIFIED, port).into(),
        ),
    };
    // Lets the port be bound in spite of earlier connections. Not with UDP, where two sockets could then have the same
    // port.
    socket.set_reuse_address(kind == Type::STREAM)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Opens a listener for the control connection, also on all addresses.
pub fn listener(port: u16) -> io::Result<TcpListener> {
    let socket = everywhere(port, Type::STREAM, Protocol::TCP)?;
    socket.listen(16)?;
    Ok(socket.into())
}

/// Returns the range of endpoint ports, from the variables or from the kernel.
pub fn range(params: &[Param]) -> (u16, u16) {
    let set = |name: &str| {
        let param = params.iter().find(|param| param.name == name);
        param.and_then(|param| param.value.as_ref()?.parse::<u16>().ok())
    };
    let asked = set("FI_TCP_PORT_LOW_RANGE").zip(set("FI_TCP_PORT_HIGH_RANGE"));
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut numbers = text
        .split_whitespace()
        .filter_map(|text| text.parse::<u16>().ok());
    let kernel = numbers.next().zip(numbers.next());
    let is_range = |(low, high): &(u16, u16)| low <= high && *low >= LOWEST;
    let ranges = [asked, kernel].into_iter().flatten();
    ranges.into_iter().find(is_range).unwrap_or((32768, 60999))
}

/// Ports below this are reserved for privileged programs: neither side tries them.
pub const LOWEST: u16 = 1024;

/// First byte of a connection: requests the token, or the token and many bytes.
pub const FEW: u8 = b'1';
pub const MANY: u8 = b'2';

/// Number of bytes that needs packets of full size and exceeds the kernel's buffers.
pub const BULK: usize = 1 << 20;

/// Limit on connections that are answered at a time.
const MOST: usize = 64;
/// Greatest distance of a port from its planned place.
const NEAR: u32 = 20;
const LOOK: u8 = 50; // milliseconds
const PATIENCE: Duration = Duration::from_secs(5);
const SHORT_PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_spread_over_their_range() {
        let ports = spread(1000, 2000, 5, |port| match port {
            // These ports are in use.
            1500 | 2000 => Err(io::Error::other("in use")),
            port => Ok(port),
        });
        assert_eq!(ports, [1000, 1250, 1501, 1750, 1999]);
        assert_eq!(spread(7, 7, 3, Ok), [7, 7, 7]);
    }

    #[test]
    fn the_range_is_the_variables_or_the_kernel_s() {
        let param = |name: &str, value: &str| Param {
            name: name.into(),
            kind: abi::FI_PARAM_INT,
            help: String::new(),
            value: Some(value.into()),
        };
        let both = |low, high| {
            [
                param("FI_TCP_PORT_LOW_RANGE", low),
                param("FI_TCP_PORT_HIGH_RANGE", high),
            ]
        };
        assert_eq!(range(&both("40000", "40010")), (40000, 40010));
        for nonsense in [both("40010", "40000"), both("x", "40000"), both("22", "80")] {
            assert_eq!(range(&nonsense), range(&[]));
        }
    }
}
