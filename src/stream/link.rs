// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The link carries the bytes of one connection: over a socket, or over memory that two processes share. The kind is
//! decided once for each connection; this module hides the difference.

#[cfg(any(test, feature = "testing"))]
pub mod sim;
mod verbs;

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::shm_channel::ShmChannel;
use base::Access;
use object::ops::transfer::RemoteSeg;
use sys::io_list::{GatherList, ScatterList};
use sys::socket::{Moved, Socket};

/// The link of a connection.
#[derive(Default)]
pub enum Link {
    /// No link: the connection is not established yet, or has ended.
    #[default]
    Down,
    /// Frames are bytes of a stream socket.
    Socket(Socket),
    /// Frames are records of a ring.
    Shm(Box<ShmLink>),
    /// The peer was sent memory to share, and has not answered. The connection is not up.
    Offered(Box<ShmLink>),
    /// Frames are bytes of a simulated stream (tests only).
    #[cfg(any(test, feature = "testing"))]
    Sim(Box<sim::SimLink>),
}

/// Shared memory, and the socket over which both processes agreed on it. The socket carries no frames, only doorbells
/// and the end of the peer.
pub struct ShmLink {
    pub channel: ShmChannel,
    pub doorbell: Socket,
}

pub use verbs::{Emptied, Whole};

impl Link {
    /// Whether the records of a ring are polled (by `ShmHost`), and not a socket (by `Poller`).
    #[inline(always)]
    pub fn is_ring(&self) -> bool {
        matches!(self, Link::Shm(_))
    }

    /// Returns the memory that is shared with the peer, for messages that are fetched, direct access, and records.
    #[inline(always)]
    pub fn memory(&self) -> Option<&ShmChannel> {
        match self {
            Link::Shm(link) => Some(&link.channel),
            _ => None,
        }
    }

    #[inline(always)]
    pub fn memory_mut(&mut self) -> Option<&mut ShmChannel> {
        match self {
            Link::Shm(link) => Some(&mut link.channel),
            _ => None,
        }
    }

    /// Returns the socket that epoll watches: that of the stream, or the doorbell.
    #[inline]
    pub fn socket(&self) -> Option<&Socket> {
        match self {
            Link::Socket(socket) => Some(socket),
            Link::Shm(link) | Link::Offered(link) => Some(&link.doorbell),
            Link::Down => None,
            #[cfg(any(test, feature = "testing"))]
            Link::Sim(_) => None,
        }
    }

    /// Returns the descriptor of that socket, which is open only as long as the link stays as it is:
    ///
    /// ```
    /// fn close(link: &mut stream::link::Link) -> bool {
    ///     let has_fd = link.fd().is_some();
    ///     link.take();
    ///     has_fd
    /// }
    /// ```
    ///
    /// ```compile_fail,E0502
    /// fn close(link: &mut stream::link::Link) -> bool {
    ///     let fd = link.fd();
    ///     link.take();
    ///     fd.is_some()
    /// }
    /// ```
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket().map(Socket::as_fd)
    }

    /// Whether the peer's region directory allows this access to its memory.
    #[inline]
    pub fn allows(&self, seg: &RemoteSeg, need: Access) -> bool {
        self.memory()
            .is_some_and(|shm| shm.process().allows(seg, need))
    }

    /// Names the transport of the connection for the log.
    pub fn words(&self) -> &'static str {
        self.memory().map_or("TCP", ShmChannel::words)
    }

    pub fn take(&mut self) -> Link {
        std::mem::take(self)
    }

    /// Switches to frames over `channel`; the socket becomes its doorbell if it is still open.
    pub fn upgrade(&mut self, channel: ShmChannel) {
        if let Link::Socket(doorbell) = self.take() {
            *self = Link::Shm(Box::new(ShmLink { channel, doorbell }));
        }
    }

    /// Makes this memory the link of a connection whose peer was sent it.
    pub fn offer(&mut self, channel: ShmChannel, doorbell: Socket) {
        *self = Link::Offered(Box::new(ShmLink { channel, doorbell }));
    }

    /// Switches to frames over the memory that the peer has accepted.
    pub fn accepted(&mut self) {
        if let Link::Offered(link) = self.take() {
            *self = Link::Shm(link);
        }
    }

    /// Reads bytes of the stream. `Session::take_record` takes the records of a ring.
    #[inline]
    pub fn read(&self, room: &mut [u8]) -> io::Result<Moved> {
        match self {
            Link::Socket(socket) => socket.read(room),
            #[cfg(any(test, feature = "testing"))]
            Link::Sim(sim) => sim.read(room),
            Link::Shm(_) | Link::Offered(_) | Link::Down => Ok(Moved::Later),
        }
    }

    /// Reads like `read`, into the pieces of `list` in order.
    #[inline]
    pub fn read_list(&self, list: &ScatterList<'_>) -> io::Result<Moved> {
        match self {
            Link::Socket(socket) => socket.read_list(list),
            #[cfg(any(test, feature = "testing"))]
            Link::Sim(sim) => sim.read_list(list),
            Link::Shm(_) | Link::Offered(_) | Link::Down => Ok(Moved::Later),
        }
    }

    /// Hands bytes of the stream over to the kernel.
    #[inline(always)]
    pub fn write(&self, bytes: &[u8]) -> io::Result<Moved> {
        match self {
            Link::Socket(socket) => socket.write(bytes),
            #[cfg(any(test, feature = "testing"))]
            Link::Sim(sim) => sim.write(bytes),
            Link::Shm(_) | Link::Offered(_) | Link::Down => Ok(Moved::Later),
        }
    }

    /// Sends bytes over either kind of link. If the peer has corrupted the ring, the read side detects it.
    #[inline]
    pub fn write_list(&mut self, list: &GatherList<'_>) -> io::Result<Moved> {
        match self {
            Link::Socket(socket) => socket.write_list(list),
            #[cfg(any(test, feature = "testing"))]
            Link::Sim(sim) => sim.write_list(list),
            Link::Shm(_) if list.check().is_err() => list.check().map(|()| Moved::Later),
            Link::Shm(link) => Ok(match link.channel.write_list(list) {
                Ok(0) => Moved::Later,
                Ok(n) => Moved::Bytes(n),
                Err(_) => {
                    link.channel.broken = true;
                    Moved::Later
                }
            }),
            Link::Offered(_) | Link::Down => Ok(Moved::Later),
        }
    }

    /// Wakes the peer if it sleeps, after something was written for it.
    #[inline(always)]
    pub fn ring_if_parked(&mut self) {
        if let Link::Shm(link) = self
            && link.channel.must_ring()
        {
            self.ring();
        }
    }

    /// Wakes a peer that sleeps on its doorbell.
    #[cold]
    pub fn ring(&self) {
        if let Link::Shm(link) = self {
            link.doorbell.ring();
        }
    }

    /// Ends both directions; the peer sees the end of the stream.
    pub fn shutdown(&self) {
        #[cfg(any(test, feature = "testing"))]
        if let Link::Sim(sim) = self {
            sim.shutdown();
        }
        if let Some(socket) = self.socket() {
            socket.shutdown();
        }
    }

    /// Makes the close drop unsent data; the peer sees the connection end at once.
    pub fn close_at_once(&self) {
        if let Some(socket) = self.socket() {
            socket.close_at_once();
        }
    }

    /// Bytes that can be read now; of a ring, at most.
    pub fn unread(&self) -> usize {
        match self {
            Link::Socket(socket) => socket.unread(),
            #[cfg(any(test, feature = "testing"))]
            Link::Sim(sim) => sim.unread(),
            Link::Shm(link) => link.channel.longest_rest(),
            Link::Offered(_) | Link::Down => 0,
        }
    }

    /// Returns the bytes that the kernel has not sent yet. They are lost if the socket is closed while data comes in.
    pub fn unsent(&self) -> usize {
        match self {
            Link::Socket(socket) => socket.unsent(),
            _ => 0,
        }
    }

    /// Returns the bytes of the stream that were sent and received so far, if known. Over TCP the first number counts
    /// bytes that the peer's kernel has.
    pub fn moved(&self) -> (Option<u64>, Option<u64>) {
        match self {
            Link::Socket(socket) => socket.moved().unzip(),
            Link::Shm(link) => {
                let (sent, received) = link.channel.moved();
                (Some(sent), Some(received))
            }
            _ => (None, None),
        }
    }

    /// Blocks until the stream has room; returns false on a timeout.
    pub fn wait_writable(&self, timeout: Duration) -> bool {
        match self {
            Link::Socket(socket) => socket.wait_writable(timeout),
            _ => false,
        }
    }

    /// Whether memory is shared with a living process. The doorbell reports its end; if a forked child holds the
    /// doorbell too, the shared memory does.
    pub fn shares_with_living(&self) -> bool {
        let Link::Shm(link) = self else {
            return false;
        };
        !link.doorbell.has_ended() && !link.channel.process().is_gone()
    }
}

/// Whether this is the kernel's error for a host that does not answer.
pub fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
    matches!(
        error.kind(),
        TimedOut | HostUnreachable | NetworkUnreachable | NetworkDown
    )
}
