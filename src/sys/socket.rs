// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Stream sockets, never blocking: moving bytes; listening and connecting over TCP. `local` does so within a host.
//!
//! Trusted with: the system calls that take I/O vectors of the application's memory.

use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send, setsockopt, sockopt};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket as Raw, TcpKeepalive, Type};

use super::io_list::{GatherList, ScatterList};

/// One stream socket, non-blocking: TCP's, or of this host (`local`).
pub struct Socket(pub(super) Raw);

/// What a read or write brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Bytes(usize),
    /// Nothing to read, or no room to write, now.
    Later,
    /// The other side has closed.
    End,
}

/// The backlog of a listener: as many peers may start at once.
pub const BACKLOG: i32 = 4096;

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

    /// Two that are connected to each other.
    #[cfg(test)]
    pub fn pair() -> io::Result<(Socket, Socket)> {
        let (one, other) = Raw::pair(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
        Ok((Socket(one), Socket(other)))
    }

    /// A socket bound to `addr`; with port 0 to a port of `ports`, tried from `start` on, or to one that the kernel
    /// chooses.
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
            // SO_REUSEADDR lets two sockets bind the same port until one listens; so listening is part of the test.
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

    /// At most `backlog` peers wait to be accepted; again while it listens for another number.
    pub fn listen(&self, backlog: i32) -> io::Result<()> {
        self.0.listen(backlog)
    }

    /// Starts a connection from `local` (any port) to `peer`; true if it is up already.
    pub fn connect(local: Option<SocketAddr>, peer: SocketAddr) -> io::Result<(Socket, bool)> {
        let socket = Socket::new(&peer)?;
        if let Some(mut local) = local.filter(|a| !a.ip().is_unspecified()) {
            local.set_port(0);
            // The port is chosen when the connection is made: many connections may share one.
            // Old kernels do not have it, and it is only a saving.
            let _ = setsockopt(&socket.0, sockopt::IpBindAddressNoPort, &true);
            socket.0.bind(&local.into())?;
        }
        socket.connect_to(peer)
    }

    /// Starts a connection from the address that the socket is bound to.
    pub fn connect_to(self, peer: SocketAddr) -> io::Result<(Socket, bool)> {
        match self.0.connect(&SockAddr::from(peer)) {
            Ok(()) => Ok((self, true)),
            Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok((self, false)),
            Err(e) => Err(e),
        }
    }

    /// A connection that waits, if any.
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

    /// The error that an attempt to connect ended with, if any.
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

    /// The other end.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.0
            .peer_addr()?
            .as_socket()
            .ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.0.set_tcp_nodelay(on)
    }

    /// Has the kernel probe the peer while nothing is under way: after how long, then how often, and how many times
    /// until it is given up. The kernel counts in seconds.
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

    /// How long ago the peer acknowledged something, if bytes or a probe are under way that it has not acknowledged.
    pub fn unanswered(&self) -> Option<Duration> {
        // SAFETY: numbers, of which all zero is one.
        let mut info: libc::tcp_info = unsafe { core::mem::zeroed() };
        let mut len = size_of_val(&info) as libc::socklen_t;
        // SAFETY: `info` is ours and has `len` bytes.
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

    /// Bytes that the peer has acknowledged, and those that came, as TCP counts them.
    pub fn moved(&self) -> Option<(u64, u64)> {
        // The C library's struct ends before them.
        let mut info = [0u64; 24];
        let mut len = size_of_val(&info) as libc::socklen_t;
        // SAFETY: `info` is ours and has `len` bytes.
        let result = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &mut len,
            )
        };
        // tcpi_bytes_acked and tcpi_bytes_received of linux/tcp.h, since 4.1.
        (result == 0 && len as usize >= 17 * 8).then_some((info[15], info[16]))
    }

    /// Bytes that can be read now.
    pub fn unread(&self) -> usize {
        let mut bytes: libc::c_int = 0;
        // SAFETY: an int is what the request fills.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
        usize::try_from(bytes).unwrap_or(0)
    }

    /// Whether the other side has closed, also if there is more to read.
    pub fn has_ended(&self) -> bool {
        self.wait_for(PollFlags::from_bits_retain(libc::POLLRDHUP), Duration::ZERO)
    }

    /// Sleeps until the kernel takes bytes; false when the time is up.
    pub fn wait_writable(&self, timeout: Duration) -> bool {
        self.wait_for(PollFlags::POLLOUT, timeout)
    }

    /// Sleeps until there are bytes, or the end; false when the time is up.
    pub fn wait_readable(&self, timeout: Duration) -> bool {
        self.wait_for(PollFlags::POLLIN, timeout)
    }

    fn wait_for(&self, events: PollFlags, timeout: Duration) -> bool {
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        let ready = poll(&mut [PollFd::new(self.0.as_fd(), events)], timeout);
        ready.is_ok_and(|ready| ready > 0)
    }

    /// When it is closed, what has not been sent is dropped, and the peer hears of it at once.
    pub fn close_at_once(&self) {
        // Without it the peer hears later.
        let _ = SockRef::from(&self.0).set_linger(Some(Duration::ZERO));
    }

    /// Bytes that the kernel has and has not sent yet.
    pub fn unsent(&self) -> usize {
        let mut bytes: libc::c_int = 0;
        // SAFETY: an int is what the request writes (SIOCOUTQNSD of linux/sockios.h); other sockets do not know it.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), 0x894b, &raw mut bytes) } {
            0 => usize::try_from(bytes).unwrap_or(0),
            _ => 0,
        }
    }

    /// Ends both directions; the peer sees the end of the stream.
    pub fn shutdown(&self) {
        // An error says that the connection is gone already.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }

    #[inline]
    pub fn read(&self, room: &mut [u8]) -> io::Result<Moved> {
        // SAFETY: `room` is ours for the call.
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

    #[inline]
    pub fn write(&self, bytes: &[u8]) -> io::Result<Moved> {
        // SAFETY: `bytes` is ours for the call.
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

    /// One byte, which wakes whoever sleeps on the other end.
    pub fn ring(&self) {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        // A socket that takes no more has enough to wake the peer; one that is broken says so to its reader.
        let _ = send(self.as_raw_fd(), &[0], flags);
    }

    /// Fills the pieces of `list` in order.
    pub fn read_list(&self, list: &ScatterList<'_>) -> io::Result<Moved> {
        let pieces = list.pieces();
        // SAFETY: whoever put a piece into the list answers for it, and lent it for writing.
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
        let pieces = list.pieces();
        // SAFETY: all zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_iov = pieces.as_ptr().cast_mut();
        message.msg_iovlen = pieces.len() as _;
        // SAFETY: whoever put a piece into the list answers for it.
        moved(unsafe { send_message(self.0.as_raw_fd(), &message) }, 0)
    }
}

/// sendmsg(2) without waiting; what it returns.
///
/// # Safety
/// The memory that the message names is readable: the kernel only reads here.
#[inline(always)]
pub(super) unsafe fn send_message(fd: RawFd, message: &libc::msghdr) -> isize {
    // SAFETY: promised by the caller.
    let n = unsafe {
        libc::syscall(
            libc::SYS_sendmsg,
            fd,
            core::ptr::from_ref(message),
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    };
    n as isize
}

/// No address. The calls that move data are made past the functions of the C library that are named for them: those are
/// points at which a thread can be cancelled, which costs fifty instructions in a process with threads, and must not
/// happen under a lock.
const NONE: *const libc::c_void = core::ptr::null();

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// `room`: bytes that a read could have filled; reading none of them is the end of the stream.
#[inline]
pub(super) fn moved(n: isize, room: usize) -> io::Result<Moved> {
    match n {
        0 if room > 0 => Ok(Moved::End),
        0.. => Ok(Moved::Bytes(n as usize)),
        _ => {
            let error = io::Error::last_os_error();
            match is_later(&error) {
                true => Ok(Moved::Later),
                false => Err(error),
            }
        }
    }
}

#[inline]
pub(super) fn is_later(error: &io::Error) -> bool {
    // Their kinds would say the same, after a look into a table.
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR))
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
