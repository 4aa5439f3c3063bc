// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What carries the bytes of one connection: a socket, or memory that two processes share. It is decided once for each
//! connection; what differs between the kinds is asked here.
#![forbid(unsafe_code)]

#[cfg(test)]
pub mod sim;

use core::time::Duration;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use crate::base::Access;
use crate::engine::stream::shm_channel::ShmChannel;
use crate::ffi::ops::transfer::RemoteSeg;
use crate::sys::io_list::{GatherList, ScatterList};
use crate::sys::socket::{Moved, Socket};

/// The link of a connection.
#[derive(Default)]
pub enum Link {
    /// There is none: nobody has connected yet, or the connection is over.
    #[default]
    Down,
    /// Frames are bytes of a stream of the kernel's.
    Socket(Socket),
    /// Frames are records of a ring.
    Shm(Box<ShmLink>),
    /// Frames are bytes of a stream that a test plays.
    #[cfg(test)]
    Sim(Box<sim::SimLink>),
}

/// Shared memory, and the socket that brought both processes to it: it carries no frames, only doorbells and the news
/// that the peer is gone.
pub struct ShmLink {
    pub channel: ShmChannel,
    pub doorbell: Socket,
}

impl Link {
    #[inline(always)]
    pub fn is_shm(&self) -> bool {
        matches!(self, Link::Shm(_))
    }

    #[inline(always)]
    pub fn shm(&self) -> Option<&ShmChannel> {
        match self {
            Link::Shm(link) => Some(&link.channel),
            _ => None,
        }
    }

    #[inline(always)]
    pub fn shm_mut(&mut self) -> Option<&mut ShmChannel> {
        match self {
            Link::Shm(link) => Some(&mut link.channel),
            _ => None,
        }
    }

    /// The socket that epoll watches: of the stream, or the doorbell.
    #[inline]
    pub fn socket(&self) -> Option<&Socket> {
        match self {
            Link::Socket(socket) => Some(socket),
            Link::Shm(link) => Some(&link.doorbell),
            Link::Down => None,
            #[cfg(test)]
            Link::Sim(_) => None,
        }
    }

    pub fn fd(&self) -> Option<RawFd> {
        self.socket().map(Socket::as_raw_fd)
    }

    /// Whether the peer shows that it allows this access to its memory.
    #[inline]
    pub fn allows(&self, seg: &RemoteSeg, need: Access) -> bool {
        self.shm().is_some_and(|shm| shm.allows(seg, need))
    }

    /// For the log: what a connection goes over.
    pub fn words(&self) -> &'static str {
        self.shm().map_or("TCP", ShmChannel::words)
    }

    pub fn take(&mut self) -> Link {
        std::mem::take(self)
    }

    /// From now on frames go over `channel`; the socket, if it is still there, becomes its doorbell.
    pub fn upgrade(&mut self, channel: ShmChannel) {
        if let Link::Socket(doorbell) = self.take() {
            *self = Link::Shm(Box::new(ShmLink { channel, doorbell }));
        }
    }

    /// Reads bytes of the stream. Records of a ring are taken one by one, see `shm_poll`.
    #[inline]
    pub fn read(&self, room: &mut [u8]) -> io::Result<Moved> {
        match self {
            Link::Socket(socket) => socket.read(room),
            #[cfg(test)]
            Link::Sim(sim) => sim.read(room),
            Link::Shm(_) | Link::Down => Ok(Moved::Later),
        }
    }

    /// As `read`, to the pieces of `list` in order.
    #[inline]
    pub fn read_list(&self, list: &ScatterList<'_>) -> io::Result<Moved> {
        match self {
            Link::Socket(socket) => socket.read_list(list),
            #[cfg(test)]
            Link::Sim(sim) => sim.read_list(list),
            Link::Shm(_) | Link::Down => Ok(Moved::Later),
        }
    }

    /// Hands bytes of the stream over to the kernel.
    #[inline(always)]
    pub fn write(&self, bytes: &[u8]) -> io::Result<Moved> {
        match self {
            Link::Socket(socket) => socket.write(bytes),
            #[cfg(test)]
            Link::Sim(sim) => sim.write(bytes),
            Link::Shm(_) | Link::Down => Ok(Moved::Later),
        }
    }

    /// Hands bytes over to be sent, whichever way frames go. What a peer has broken its reader finds.
    #[inline]
    pub fn write_list(&mut self, list: &GatherList<'_>) -> io::Result<Moved> {
        match self {
            Link::Socket(socket) => socket.write_list(list),
            #[cfg(test)]
            Link::Sim(sim) => sim.write_list(list),
            Link::Shm(link) => Ok(match link.channel.write_list(list) {
                Ok(0) => Moved::Later,
                Ok(n) => Moved::Bytes(n),
                Err(_) => {
                    link.channel.broken = true;
                    Moved::Later
                }
            }),
            Link::Down => Ok(Moved::Later),
        }
    }

    /// Something was written for the peer: it is woken if it sleeps.
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
        #[cfg(test)]
        if let Link::Sim(sim) = self {
            sim.shutdown();
        }
        if let Some(socket) = self.socket() {
            socket.shutdown();
        }
    }

    /// When it is closed, what has not been sent is dropped, and the peer hears of it at once.
    pub fn close_at_once(&self) {
        if let Some(socket) = self.socket() {
            socket.close_at_once();
        }
    }

    /// Bytes of the stream that can be read now.
    pub fn unread(&self) -> usize {
        match self {
            Link::Socket(socket) => socket.unread(),
            #[cfg(test)]
            Link::Sim(sim) => sim.unread(),
            Link::Shm(_) | Link::Down => 0,
        }
    }

    /// Bytes that the kernel has and has not sent yet: they are lost if the socket is closed while something comes in.
    pub fn unsent(&self) -> usize {
        match self {
            Link::Socket(socket) => socket.unsent(),
            _ => 0,
        }
    }

    /// Bytes of the stream that were sent and received so far, where that is known: over TCP those that the peer's
    /// kernel has.
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

    /// Sleeps until the stream takes bytes; false when the time is up.
    pub fn wait_writable(&self, timeout: Duration) -> bool {
        match self {
            Link::Socket(socket) => socket.wait_writable(timeout),
            _ => false,
        }
    }

    /// Whether memory is shared with a process that is there. The doorbell tells of its end; if a forked child holds
    /// that, too, its memory does.
    pub fn shares_with_living(&self) -> bool {
        let Link::Shm(link) = self else {
            return false;
        };
        !link.doorbell.has_ended() && (!link.channel.reaches() || link.channel.is_alive())
    }
}

/// Is this what the kernel says when a host does not answer?
pub fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
    matches!(
        error.kind(),
        TimedOut | HostUnreachable | NetworkUnreachable | NetworkDown
    )
}
