// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Datagram sockets, never blocking: UDP's.
//!
//! Trusted with: the system calls that take I/O vectors of the application's memory.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

use socket2::{Domain, Protocol, SockAddr, Socket as Raw, Type};

use super::addr;
use super::io_list::{GatherList, ScatterList};
use super::socket::{is_later, send_message};

/// One datagram socket, non-blocking, with an address of its own and peers by call.
pub struct DatagramSocket(Raw);

/// The most bytes that a datagram has, over IPv6: its length counts a header of 8 bytes. Over IPv4 it is 20 bytes less.
pub const MAX_DATAGRAM: usize = 65527;

impl DatagramSocket {
    /// With port 0 the kernel chooses one.
    pub fn bound(addr: SocketAddr) -> io::Result<DatagramSocket> {
        let kind = Type::DGRAM.nonblocking().cloexec();
        let raw = Raw::new(Domain::for_address(addr), kind, Some(Protocol::UDP))?;
        raw.bind(&addr.into())?;
        Ok(DatagramSocket(raw))
    }

    pub fn local(&self) -> io::Result<SocketAddr> {
        let addr = self.0.local_addr()?;
        Ok(addr.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?)
    }

    /// Sends the pieces of `list` as one datagram; false if there is no room for it now.
    pub fn send(&self, list: &GatherList<'_>, to: &SocketAddr) -> io::Result<bool> {
        let to = SockAddr::from(*to);
        let pieces = list.pieces();
        // SAFETY: all zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_name = to.as_ptr().cast_mut().cast();
        message.msg_namelen = to.len();
        message.msg_iov = pieces.as_ptr().cast_mut();
        message.msg_iovlen = pieces.len();
        // SAFETY: whoever put a piece into the list answers for it, and `to` is ours.
        match unsafe { send_message(self.0.as_raw_fd(), &message) } {
            0.. => Ok(true),
            _ => later().map(|()| false),
        }
    }

    /// Fills the pieces of `list` in order with one datagram, if there is one: how many bytes it has, which may be more
    /// than there was room for, and who sent it.
    pub fn receive(&self, list: &ScatterList<'_>) -> io::Result<Option<(usize, SocketAddr)>> {
        let pieces = list.pieces();
        let mut name = [0u8; size_of::<libc::sockaddr_in6>()];
        // SAFETY: all zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_name = name.as_mut_ptr().cast();
        message.msg_namelen = name.len() as libc::socklen_t;
        message.msg_iov = pieces.as_ptr().cast_mut();
        message.msg_iovlen = pieces.len();
        // SAFETY: whoever put a piece into the list answers for it, and lent it for writing; `name` is ours and as long
        // as the message says.
        let n = unsafe {
            libc::syscall(
                libc::SYS_recvmsg,
                self.0.as_raw_fd(),
                &raw mut message,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
            )
        };
        let Ok(n) = usize::try_from(n) else {
            return later().map(|()| None);
        };
        let from = addr::from_bytes(&name).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Some((n, from)))
    }
}

/// The call that failed is to be made again later, or its error.
fn later() -> io::Result<()> {
    let error = io::Error::last_os_error();
    match is_later(&error) {
        true => Ok(()),
        false => Err(error),
    }
}

impl AsRawFd for DatagramSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::sys::event::sleep_on;

    fn pair(addr: &str) -> [DatagramSocket; 2] {
        [(); 2].map(|()| DatagramSocket::bound(addr.parse().unwrap()).unwrap())
    }

    /// What arrives of a datagram of two pieces where there is room for `room` bytes.
    fn pass([x, y]: &[DatagramSocket; 2], room: usize) -> (Vec<u8>, usize, SocketAddr) {
        let mut out = GatherList::new();
        assert!(out.push(b"two") && out.push(b"pieces"));
        assert!(x.send(&out, &y.local().unwrap()).unwrap());
        sleep_on(&[y.as_raw_fd()], Some(Duration::from_secs(60))).unwrap();
        let mut bytes = vec![0; room];
        let (first, second) = bytes.split_at_mut(room / 2);
        let mut list = ScatterList::new();
        assert!(list.push(first) && list.push(second));
        let (len, from) = y.receive(&list).unwrap().unwrap();
        (bytes, len, from)
    }

    #[test]
    fn pieces_are_one_datagram() {
        for addr in ["127.0.0.1:0", "[::1]:0"] {
            let pair = pair(addr);
            let (bytes, len, from) = pass(&pair, 9);
            assert_eq!((&bytes[..], len), (&b"twopieces"[..], 9));
            assert_eq!(from, pair[0].local().unwrap());
        }
    }

    #[test]
    fn a_datagram_that_is_cut_tells_its_length_and_is_over() {
        let pair = pair("127.0.0.1:0");
        let (bytes, len, _) = pass(&pair, 4);
        assert_eq!((&bytes[..], len), (&b"twop"[..], 9));
        assert!(pair[1].receive(&ScatterList::new()).unwrap().is_none());
    }

    #[test]
    fn an_empty_datagram_is_one() {
        let [x, y] = pair("127.0.0.1:0");
        assert!(x.send(&GatherList::new(), &y.local().unwrap()).unwrap());
        sleep_on(&[y.as_raw_fd()], Some(Duration::from_secs(60))).unwrap();
        let none = ScatterList::new();
        let (len, from) = y.receive(&none).unwrap().unwrap();
        assert_eq!((len, from), (0, x.local().unwrap()));
    }
}
