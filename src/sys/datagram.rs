// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Non-blocking UDP sockets. This file sets them up; `send` and `receive` move datagrams, several of them by one system
//! call, and `errors` reads the ICMP errors about datagrams that were sent.
//!
//! Trusted with: the system calls that take I/O vectors of the application's memory.

mod errors;
mod receive;
mod send;

use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use socket2::{Domain, Protocol, Socket as Raw, Type};

use super::socket::is_later;

pub use self::receive::{Arrival, ROW};
pub use self::send::Run;

/// One datagram socket, non-blocking, with an address of its own; each call names the peer.
pub struct DatagramSocket {
    raw: Raw,
    /// The kernel can cut a buffer into datagrams when it sends (UDP_SEGMENT, Linux 4.18).
    cuts: bool,
    /// The kernel may join received datagrams (UDP_GRO, Linux 5.0).
    joins: bool,
    /// Destinations of datagrams that were not delivered, from the most recent ICMP errors.
    unreachable: RefCell<Vec<SocketAddr>>,
}

/// Greatest length of a datagram over IPv6: its length field counts a header of 8 bytes. Over IPv4 it is 20 bytes less.
pub const MAX_DATAGRAM: usize = 65527;

/// Requested size; the system's limit (net.core.rmem_max) may be lower.
const RECEIVE_BUFFER: usize = 4 << 20;

impl DatagramSocket {
    /// Opens a socket on this address. With port 0 the kernel chooses a port.
    pub fn bound(addr: SocketAddr) -> io::Result<DatagramSocket> {
        let kind = Type::DGRAM.nonblocking().cloexec();
        let raw = Raw::new(Domain::for_address(addr), kind, Some(Protocol::UDP))?;
        raw.bind(&addr.into())?;
        DatagramSocket::prepared(raw, addr)
    }

    /// Opens a socket for datagrams to a multicast group; other sockets of this host may join the same group. The
    /// socket joins on the interface that has the address `local`, or on one that the kernel chooses if `local` is
    /// unspecified.
    pub fn of_group(
        group: SocketAddr,
        local: IpAddr,
        beside: &DatagramSocket,
    ) -> io::Result<DatagramSocket> {
        let kind = Type::DGRAM.nonblocking().cloexec();
        let raw = Raw::new(Domain::for_address(group), kind, Some(Protocol::UDP))?;
        raw.set_reuse_address(true)?;
        // `beside`, bound to all addresses, would block this bind; with this option sockets of the same user may share
        // the port.
        raw.set_reuse_port(true)?;
        if local.is_unspecified() {
            beside.raw.set_reuse_port(true)?;
        }
        raw.bind(&group.into())?;
        let socket = DatagramSocket::prepared(raw, group)?;
        match (group, local) {
            (SocketAddr::V4(group), IpAddr::V4(local)) => {
                socket.raw.join_multicast_v4(group.ip(), &local)?;
            }
            (SocketAddr::V6(group), _) => {
                socket.raw.join_multicast_v6(group.ip(), group.scope_id())?;
            }
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
        Ok(socket)
    }

    /// Chooses the interface for datagrams to groups of this family: the one with the address `local`, or over IPv6 the
    /// one in the scope of the group. If neither names one, the kernel chooses.
    pub fn send_to_groups_from(&self, local: IpAddr, group: SocketAddr) -> io::Result<()> {
        match (local, group) {
            (IpAddr::V4(local), _) => self.raw.set_multicast_if_v4(&local),
            (_, SocketAddr::V6(group)) => self.raw.set_multicast_if_v6(group.scope_id()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn prepared(raw: Raw, addr: SocketAddr) -> io::Result<DatagramSocket> {
        let (cuts, joins) = (false, false);
        let unreachable = RefCell::default();
        #[rustfmt::skip]
        let mut socket = DatagramSocket { raw, cuts, joins, unreachable };
        // Each of these options helps, but some kernels lack it or support it in part. Without the first one a socket
        // for all addresses also receives datagrams to groups that other sockets of this host have joined.
        let _ = match addr {
            SocketAddr::V4(_) => socket.raw.set_multicast_all_v4(false),
            SocketAddr::V6(_) => socket.raw.set_multicast_all_v6(false),
        };
        let _ = socket.raw.set_recv_buffer_size(RECEIVE_BUFFER);
        let _ = match addr {
            SocketAddr::V4(_) => socket.set(libc::IPPROTO_IP, libc::IP_RECVERR, 1),
            SocketAddr::V6(_) => socket.set(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
        };
        socket.cuts = socket.set(libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        Ok(socket)
    }

    fn set(&self, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
        let (at, len) = (&raw const value, size_of_val(&value) as libc::socklen_t);
        // SAFETY: these options take an int, which lives during the call.
        match unsafe {
            libc::setsockopt(
                self.raw.as_raw_fd(),
                level,
                option,
                at.cast::<c_void>(),
                len,
            )
        } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub fn local(&self) -> io::Result<SocketAddr> {
        let addr = self.raw.local_addr()?;
        Ok(addr.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?)
    }
}

/// Returns `Ok` if the failed call can be repeated later, or its error.
fn later() -> io::Result<()> {
    let error = io::Error::last_os_error();
    match is_later(&error) {
        true => Ok(()),
        false => Err(error),
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raw.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::net::UdpSocket;

    use super::*;
    use crate::event::sleep_on;
    use crate::io_list::{GatherList, ScatterList};

    fn pair(addr: &str) -> [DatagramSocket; 2] {
        [(); 2].map(|()| DatagramSocket::bound(addr.parse().unwrap()).unwrap())
    }

    fn wait(socket: &DatagramSocket) {
        assert!(sleep_on(&[socket.as_fd()], Some(Duration::from_secs(60))).unwrap());
    }

    fn receive(socket: &DatagramSocket, lists: &[ScatterList<'_>]) -> Vec<Arrival> {
        let from = "0.0.0.0:0".parse().unwrap();
        let (len, size) = (0, 0);
        let mut out = [Arrival { from, len, size }; 8];
        let n = socket.receive(lists, &mut out).unwrap();
        out[..n].to_vec()
    }

    /// Sends a datagram of two pieces and receives it with room for `room` bytes.
    fn pass([x, y]: &[DatagramSocket; 2], room: usize) -> (Vec<u8>, Vec<Arrival>) {
        let mut out = GatherList::new();
        assert!(out.push(b"two") && out.push(b"pieces"));
        assert!(x.send(&out, &y.local().unwrap()).unwrap());
        wait(y);
        let mut bytes = vec![0; room];
        let (first, second) = bytes.split_at_mut(room / 2);
        let mut list = ScatterList::new();
        assert!(list.push(first) && list.push(second));
        let arrivals = receive(y, &[list]);
        (bytes, arrivals)
    }

    #[test]
    fn pieces_are_one_datagram() {
        for addr in ["127.0.0.1:0", "[::1]:0"] {
            let pair = pair(addr);
            let (bytes, arrivals) = pass(&pair, 9);
            let (from, len) = (pair[0].local().unwrap(), 9);
            assert_eq!(&bytes[..], b"twopieces");
            assert_eq!(
                arrivals,
                [Arrival {
                    from,
                    len,
                    size: len
                }]
            );
        }
    }

    #[test]
    fn a_datagram_that_is_cut_tells_its_length_and_is_over() {
        let pair = pair("127.0.0.1:0");
        let (bytes, arrivals) = pass(&pair, 4);
        assert_eq!((&bytes[..], arrivals[0].len), (&b"twop"[..], 9));
        assert_eq!(receive(&pair[1], &[ScatterList::new()]), []);
    }

    #[test]
    fn an_empty_datagram_is_one() {
        let [x, y] = pair("127.0.0.1:0");
        assert!(x.send(&GatherList::new(), &y.local().unwrap()).unwrap());
        wait(&y);
        let arrivals = receive(&y, &[ScatterList::new()]);
        let (from, len) = (x.local().unwrap(), 0);
        assert_eq!(arrivals, [Arrival { from, len, size: 0 }]);
    }

    /// Runs are sent together, and a plain socket receives single datagrams.
    #[test]
    fn runs_are_single_datagrams() {
        for addr in ["127.0.0.1:0", "[::1]:0"] {
            let [x, _] = pair(addr);
            let peer = UdpSocket::bind(addr).unwrap();
            peer.set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            let to = peer.local_addr().unwrap();
            let run = |bytes, size| Run { to, bytes, size };
            let mut runs = vec![run(&b"one"[..], 3), run(b"", 0)];
            let mut expected = vec![&b"one"[..], b""];
            if x.cuts() {
                runs.push(run(b"aaaabbbbcc", 4));
                expected.extend([&b"aaaa"[..], b"bbbb", b"cc"]);
            }
            let expected_runs = runs.len();
            assert_eq!(x.send_runs(runs.into_iter()).unwrap(), expected_runs);
            let mut room = [0; 16];
            for bytes in expected {
                let (len, from) = peer.recv_from(&mut room).unwrap();
                assert_eq!((&room[..len], from), (bytes, x.local().unwrap()));
            }
        }
    }

    /// Whether or not the kernel joins the datagrams.
    #[test]
    fn datagrams_in_a_row_come_by_one_call() {
        for joined in [false, true] {
            let [x, mut y] = pair("127.0.0.1:0");
            if joined {
                y.join();
            }
            pass_a_row(&x, &y);
        }
    }

    fn pass_a_row(x: &DatagramSocket, y: &DatagramSocket) {
        let to = y.local().unwrap();
        let bytes = [7; 50];
        let runs = [3, 4, 50].map(|len| Run {
            to,
            bytes: &bytes[..len],
            size: if x.cuts() { len.min(20) } else { len },
        });
        assert_eq!(x.send_runs(runs.into_iter()).unwrap(), 3);
        let mut room = [[0; 64]; 8];
        let lists = room.each_mut().map(|room| {
            let mut list = ScatterList::new();
            assert!(list.push(room));
            list
        });
        wait(y);
        let arrivals = receive(y, &lists);
        let lens: Vec<_> = arrivals.iter().map(|arrival| arrival.len).collect();
        assert_eq!(lens.iter().sum::<usize>(), 57);
        assert_eq!(lens[..2], [3, 4]);
        match y.joins() && x.cuts() {
            true => assert_eq!((arrivals.len(), arrivals[2].size), (3, 20)),
            false => assert!(arrivals.iter().all(|arrival| arrival.size == arrival.len)),
        }
    }

    #[test]
    fn a_datagram_for_nobody_is_complained_of() {
        for addr in ["127.0.0.1:0", "[::1]:0"] {
            let [x, y] = pair(addr);
            let to = y.local().unwrap();
            drop(y);
            assert!(x.complaint().is_none());
            assert!(x.send(&GatherList::new(), &to).unwrap());
            wait(&x);
            let complaint = x.complaint().unwrap();
            assert_eq!(complaint.to, to);
            assert_eq!(complaint.error.kind(), io::ErrorKind::ConnectionRefused);
            assert!(x.complaint().is_none());
        }
    }
}
