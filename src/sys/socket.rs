// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Non-blocking stream sockets: transfer of bytes; listening and connecting over TCP. `local` has the sockets within a
//! host.
//!
//! Trusted with: the system calls that take I/O vectors of the application's memory.

use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send, setsockopt, sockopt};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket as Raw, TcpKeepalive, Type};

use super::io_list::{GatherList, ScatterList};
use super::retry::retry;

/// One stream socket, non-blocking: of TCP, or within this host (`local`).
pub struct Socket(pub(super) Raw);

/// The result of a read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Bytes(usize),
    /// The socket has nothing to read, or no room to write, at the moment.
    Later,
    /// The other side has closed.
    End,
}

/// Backlog of a listener: the number of connections that may be pending at once. The kernel limits it to
/// net.core.somaxconn, 4,096 by default, so a host that is set up for larger jobs takes their connections at once.
pub const BACKLOG: i32 = 65_535;

impl Socket {
    fn new(addr: &SocketAddr) -> io::Result<Socket> {
        let raw = Raw::new(
            Domain::for_address(*addr),
            Type::STREAM.nonblocking().cloexec(),
            Some(Protocol::TCP),
        )?;
        raw.set_reuse_address(true)?;
        Ok(Socket(raw))
    }

    /// Makes two sockets that are connected to each other.
    #[cfg(any(test, feature = "testing"))]
    pub fn pair() -> io::Result<(Socket, Socket)> {
        let (one, other) = Raw::pair(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
        Ok((Socket(one), Socket(other)))
    }

    /// Binds a socket to `addr`. If its port is 0, takes a port of the range `ports`, tried from `start` on, or without
    /// a range one that the kernel chooses.
    pub fn bound(addr: SocketAddr, ports: Option<(u16, u16)>, start: u32) -> io::Result<Socket> {
        let socket = Socket::new(&addr)?;
        let Some((low, high)) = ports.filter(|_| addr.port() == 0) else {
            socket.0.bind(&addr.into())?;
            return Ok(socket);
        };
        let count = u32::from(high) - u32::from(low) + 1;
        let mut refused = io::Error::from_raw_os_error(libc::EADDRINUSE);
        for i in 0..count {
            let port = low + ((start.wrapping_add(i)) % count) as u16;
            let mut addr = addr;
            addr.set_port(port);
            // SO_REUSEADDR lets two sockets bind the same port until one listens, so the test of a port includes
            // listening.
            match socket
                .0
                .bind(&addr.into())
                .and_then(|()| socket.0.listen(BACKLOG))
            {
                Ok(()) => return Ok(socket),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Listens with room for `backlog` pending connections. Can be called again to change that number.
    pub fn listen(&self, backlog: i32) -> io::Result<()> {
        self.0.listen(backlog)
    }

    /// Opens a socket for a connection from `local` (any port) to `peer`.
    pub fn unconnected(local: Option<SocketAddr>, peer: SocketAddr) -> io::Result<Socket> {
        let socket = Socket::new(&peer)?;
        if let Some(mut local) = local.filter(|a| !a.ip().is_unspecified()) {
            local.set_port(0);
            // With this option the kernel chooses the port when it connects, so many connections may share one. Old
            // kernels lack the option; without it more ports are used.
            let _ = setsockopt(&socket.0, sockopt::IpBindAddressNoPort, &true);
            socket.0.bind(&local.into())?;
        }
        Ok(socket)
    }

    /// Starts a connection from the address that the socket is bound to, if it is. Returns true if it is up already.
    pub fn connect_to(self, peer: SocketAddr) -> io::Result<(Socket, bool)> {
        match self.0.connect(&SockAddr::from(peer)) {
            Ok(()) => Ok((self, true)),
            Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok((self, false)),
            Err(e) => Err(e),
        }
    }

    /// Takes a pending connection, if there is one.
    pub fn accept(&self) -> io::Result<Option<(Socket, SocketAddr)>> {
        match self.0.accept() {
            Ok((raw, peer)) => {
                raw.set_nonblocking(true)?;
                let peer = peer.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
                Ok(Some((Socket(raw), peer)))
            }
            Err(e) if is_later(&e) || is_gone(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Takes the error with which a connection attempt ended, if there is one.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    pub fn is_connected(&self) -> bool {
        self.0.peer_addr().is_ok()
    }

    pub fn local(&self) -> io::Result<SocketAddr> {
        let addr = self.0.local_addr()?;
        Ok(addr.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?)
    }

    /// Returns the address of the other end.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.0
            .peer_addr()?
            .as_socket()
            .ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.0.set_tcp_nodelay(on)
    }

    /// Returns the name of the congestion control.
    pub fn congestion(&self) -> io::Result<String> {
        let name = self.0.tcp_congestion()?;
        let name = name.split(|&byte| byte == 0).next().unwrap_or(&[]);
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// Sets the congestion control. The kernel refuses a name that the host does not permit.
    pub fn set_congestion(&self, name: &str) -> io::Result<()> {
        self.0.set_tcp_congestion(name.as_bytes())
    }

    /// Makes the kernel probe an idle peer: first after how long, then how often, and after how many unanswered probes
    /// it gives up. The kernel counts in seconds.
    pub fn set_keepalive(&self, probes: Option<(Duration, Duration, u32)>) -> io::Result<()> {
        self.0.set_keepalive(probes.is_some())?;
        let Some((idle, interval, count)) = probes else {
            return Ok(());
        };
        let second = Duration::from_secs(1);
        self.0.set_tcp_keepalive(
            &TcpKeepalive::new()
                .with_time(idle.max(second))
                .with_interval(interval.max(second))
                .with_retries(count),
        )
    }

    /// Returns the time since the peer's last acknowledgment, if bytes or a probe are in flight.
    pub fn unanswered(&self) -> Option<Duration> {
        // SAFETY: it consists of numbers, for which zero is valid.
        let mut info: libc::tcp_info = unsafe { core::mem::zeroed() };
        let mut len = size_of_val(&info) as libc::socklen_t;
        // SAFETY: `info` lives during the call and has `len` bytes.
        let result = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &mut len,
            )
        };
        let waits = result == 0 && (info.tcpi_unacked > 0 || info.tcpi_probes > 0);
        waits.then(|| Duration::from_millis(info.tcpi_last_ack_recv.into()))
    }

    /// Returns the number of acknowledged bytes and of received bytes, as TCP counts them.
    pub fn moved(&self) -> Option<(u64, u64)> {
        // The C library's struct ends before these fields.
        let mut info = [0u64; 24];
        let mut len = size_of_val(&info) as libc::socklen_t;
        // SAFETY: `info` lives during the call and has `len` bytes.
        let result = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &mut len,
            )
        };
        // The fields tcpi_bytes_acked and tcpi_bytes_received of linux/tcp.h, since 4.1.
        (result == 0 && len as usize >= 17 * 8).then_some((info[15], info[16]))
    }

    /// Returns the number of bytes that can be read now.
    pub fn unread(&self) -> usize {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the request writes an int.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
        usize::try_from(bytes).unwrap_or(0)
    }

    /// Returns true if the other side has closed, even if there is more to read.
    pub fn has_ended(&self) -> bool {
        let ended = PollFlags::from_bits_retain(libc::POLLRDHUP);
        self.poll(ended, Duration::ZERO).unwrap_or(false)
    }

    /// Sleeps until the kernel accepts bytes. Returns false if the time ran out.
    pub fn wait_writable(&self, timeout: Duration) -> bool {
        self.wait_for(PollFlags::POLLOUT, timeout)
    }

    /// Sleeps until there are bytes to read, or the end of the stream. Returns false if the time ran out.
    pub fn wait_readable(&self, timeout: Duration) -> bool {
        self.wait_for(PollFlags::POLLIN, timeout)
    }

    /// Returns false if the time ran out, or if the descriptor cannot be polled.
    fn wait_for(&self, events: PollFlags, timeout: Duration) -> bool {
        let begin = Instant::now();
        let ready = retry(|| self.poll(events, timeout.saturating_sub(begin.elapsed())));
        ready.unwrap_or(false)
    }

    fn poll(&self, events: PollFlags, timeout: Duration) -> io::Result<bool> {
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        let ready = poll(&mut [PollFd::new(self.0.as_fd(), events)], timeout)?;
        Ok(ready > 0)
    }

    /// Makes a later close drop unsent bytes and reset the connection, so that the peer notices at once.
    pub fn close_at_once(&self) {
        // If this fails, the peer notices later.
        let _ = SockRef::from(&self.0).set_linger(Some(Duration::ZERO));
    }

    /// Returns the number of bytes that are still unsent in the kernel.
    pub fn unsent(&self) -> usize {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the request writes an int (SIOCOUTQNSD of linux/sockios.h); other kinds of sockets return an error.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), 0x894b, &raw mut bytes) } {
            0 => usize::try_from(bytes).unwrap_or(0),
            _ => 0,
        }
    }

    /// Ends both directions; the peer sees the end of the stream.
    pub fn shutdown(&self) {
        // An error means that the connection is gone already.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }

    #[inline]
    pub fn read(&self, room: &mut [u8]) -> io::Result<Moved> {
        // SAFETY: `room` lives during the call.
        let n = unsafe {
            libc::syscall(
                libc::SYS_recvfrom,
                self.0.as_raw_fd(),
                room.as_mut_ptr(),
                room.len(),
                libc::MSG_DONTWAIT,
                NONE,
                NONE,
            )
        };
        moved(n as isize, room.len())
    }

    #[inline(always)]
    pub fn write(&self, bytes: &[u8]) -> io::Result<Moved> {
        // SAFETY: `bytes` lives during the call.
        let n = unsafe {
            libc::syscall(
                libc::SYS_sendto,
                self.0.as_raw_fd(),
                bytes.as_ptr(),
                bytes.len(),
                libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
                NONE,
                0,
            )
        };
        moved(n as isize, 0)
    }

    /// Sends one byte, which wakes up a thread that sleeps on the other end.
    pub fn ring(&self) {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        // If the socket is full, unread bytes wake the peer anyway; if it is broken, the reader of this end sees the
        // error.
        let _ = send(self.0.as_raw_fd(), &[0], flags);
    }

    /// Fills the pieces of `list` in order.
    pub fn read_list(&self, list: &ScatterList<'_>) -> io::Result<Moved> {
        let pieces = list.pieces();
        // SAFETY: the maker of the list answers for each piece and lent it for writing.
        let n = unsafe {
            libc::syscall(
                libc::SYS_readv,
                self.0.as_raw_fd(),
                pieces.as_ptr(),
                pieces.len() as i32,
            )
        };
        moved(n as isize, list.bytes())
    }

    /// Writes the pieces of `list` in order.
    #[inline]
    pub fn write_list(&self, list: &GatherList<'_>) -> io::Result<Moved> {
        list.check()?;
        let pieces = list.pieces();
        // SAFETY: all zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_iov = pieces.as_ptr().cast_mut();
        message.msg_iovlen = pieces.len() as _;
        // SAFETY: the maker of the list answers for each piece.
        moved(unsafe { send_message(self.0.as_fd(), &message) }, 0)
    }
}

/// Calls sendmsg(2) without waiting and returns its result.
///
/// # Safety
/// The memory that the message refers to is readable: the kernel only reads it.
#[inline(always)]
pub(super) unsafe fn send_message(fd: BorrowedFd<'_>, message: &libc::msghdr) -> isize {
    // SAFETY: promised by the caller.
    let n = unsafe {
        libc::syscall(
            libc::SYS_sendmsg,
            fd.as_raw_fd(),
            core::ptr::from_ref(message),
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    };
    n as isize
}

/// A null pointer for "no address". The calls that move data do not use the C library's functions of the same names:
/// those are cancellation points of a thread, which costs fifty instructions in a process with threads, and a
/// cancellation must not happen under a lock.
const NONE: *const libc::c_void = core::ptr::null();

impl AsFd for Socket {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// `room` is the number of bytes that a read could have filled; reading none of them is the end of the stream.
#[inline(always)]
pub(super) fn moved(n: isize, room: usize) -> io::Result<Moved> {
    match n {
        0 if room > 0 => Ok(Moved::End),
        0.. => Ok(Moved::Bytes(n as usize)),
        _ => match Errno::last_raw() {
            code if is_later_code(code) => Ok(Moved::Later),
            code => Err(io::Error::from_raw_os_error(code)),
        },
    }
}

/// Whether a call that failed with this error can succeed later.
#[inline]
pub(super) fn is_later(error: &io::Error) -> bool {
    // `ErrorKind` gives the same result, but after a table look-up.
    error.raw_os_error().is_some_and(is_later_code)
}

/// Whether this is the number of such an error.
#[inline]
fn is_later_code(code: i32) -> bool {
    matches!(code, libc::EAGAIN | libc::EINTR)
}

/// Errors of accept(2) that concern the connection that was about to be accepted, not the listener.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNABORTED
                | libc::EPROTO
                | libc::ENETDOWN
                | libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::EPERM
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::interrupt;

    #[test]
    fn signals_do_not_end_a_wait_for_bytes() {
        let (own, peer) = Socket::pair().unwrap();
        let wait = || own.wait_readable(Duration::from_secs(20));
        assert!(interrupt(wait, || drop(peer.write(b"x"))));
    }
}
