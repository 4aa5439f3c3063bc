// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What sessions and pollers do with a link of either kind: send a frame, find out whether it has room, have the peer
//! ring the doorbell.

use std::io;

use super::Link;
use base::{IoVec, Piece};
use sys::io_list::GatherList;
use sys::socket::Moved;

/// Result of `send_whole`.
pub enum Whole {
    Sent,
    /// The link has no room for the frame now.
    Blocked,
    /// The link takes the frame in parts.
    Parts,
}

/// Sending.
impl Link {
    /// Whether small frames are gathered, because each write is a system call. If not, a frame that is sent is written
    /// at once.
    #[inline(always)]
    pub fn gathers(&self) -> bool {
        !matches!(self, Link::Shm(_))
    }

    /// Sends a frame; returns how much of it the link has taken. Short frames are copied to `together` first, if each
    /// write is a system call.
    #[inline]
    pub fn send(
        &mut self,
        header: &[u8],
        payload: &IoVec,
        together: &mut [u8],
    ) -> io::Result<Moved> {
        let total = header.len() + payload.remaining();
        if let Link::Shm(link) = self {
            let sent = link.channel.send_frame(header, payload);
            self.ring_if_parked();
            return Ok(match sent {
                0 => Moved::Later,
                n => Moved::Bytes(n),
            });
        }
        if total <= together.len() {
            together[..header.len()].copy_from_slice(header);
            payload.copy_to(&mut together[header.len()..total]);
            return self.write(&together[..total]);
        }
        let mut list = GatherList::new();
        list.push(header);
        payload.append_to(&mut list, usize::MAX);
        self.write_list(&list)
    }

    /// Sends a frame that arrives in one piece, if the link can do that. The caller wakes the peer.
    #[inline]
    pub fn send_whole(&mut self, header: &[u8], payload: &IoVec) -> Whole {
        let Link::Shm(link) = self else {
            return Whole::Parts;
        };
        let len = header.len() + payload.remaining();
        if len > link.channel.longest_whole() {
            return Whole::Parts;
        }
        match link.channel.send(header, payload, payload.remaining()) {
            Ok(true) => Whole::Sent,
            Ok(false) => {
                link.channel.wants = len;
                Whole::Blocked
            }
            // The read side ends the connection.
            Err(_) => {
                link.channel.broken = true;
                Whole::Blocked
            }
        }
    }

    /// Sends a frame with a small header at once and in one piece. Returns false without effect if the link cannot do
    /// that now.
    #[inline(always)]
    pub fn send_small<const N: usize>(
        &mut self,
        header: &[u8; N],
        header_len: usize,
        payload: &IoVec,
        len: usize,
    ) -> bool {
        let Link::Shm(link) = self else {
            return false;
        };
        let sent = link.channel.send_small(header, header_len, payload, len);
        // If the peer has corrupted the ring, the error is found when the frame is written from the queue.
        let sent = matches!(sent, Ok(true));
        if sent {
            self.ring_if_parked();
        }
        sent
    }

    /// Does the same for a payload in one buffer.
    #[inline(always)]
    pub fn send_one<const N: usize>(
        &mut self,
        header: &[u8; N],
        header_len: usize,
        payload: &Piece,
    ) -> bool {
        let Link::Shm(link) = self else {
            return false;
        };
        let sent = link.channel.send_one(header, header_len, payload);
        let sent = matches!(sent, Ok(true));
        if sent {
            self.ring_if_parked();
        }
        sent
    }

    /// Returns the length of the longest frame that arrives in one piece; zero if none does.
    pub fn longest_whole(&self) -> usize {
        match self {
            Link::Shm(link) => link.channel.longest_whole(),
            _ => 0,
        }
    }

    /// Whether the link takes `len` bytes at once. A socket may take fewer; the rest is then staged.
    #[inline]
    pub fn has_room(&mut self, len: usize) -> bool {
        match self {
            Link::Shm(link) => link.channel.takes(len),
            _ => true,
        }
    }

    /// Returns the number of frames of this length that the link takes without staging.
    pub fn room_for(&mut self, len: usize) -> usize {
        match self {
            Link::Shm(link) => link.channel.room_for(len),
            _ => usize::MAX,
        }
    }
}

/// Doorbells. A socket has none; epoll reports what happens there.
impl Link {
    /// Announces that this side may call `arm` later. Returns whether the link has a doorbell; then the caller runs a
    /// barrier on all processes.
    pub fn expect_sleep(&self) -> bool {
        self.memory().inspect(|shm| shm.expect_sleep()).is_some()
    }

    /// Makes the peer ring the doorbell from now on. The caller polls once more for earlier records.
    #[inline]
    pub fn arm(&self) {
        if let Link::Shm(link) = self {
            link.channel.arm();
        }
    }

    /// Starts polling on this side. `expected`: `expect_sleep` was called before.
    #[inline]
    pub fn disarm(&self, expected: bool) {
        if let Link::Shm(link) = self {
            link.channel.disarm(expected);
        }
    }

    /// Whether the peer is to ring the doorbell when it has made room.
    #[inline]
    pub fn set_waiting(&self, waiting: bool) {
        if let Link::Shm(link) = self {
            link.channel.set_waiting(waiting);
        }
    }

    /// Whether the peer has made the room that blocked frames need, or has corrupted the ring.
    #[inline]
    pub fn may_continue(&mut self) -> bool {
        match self {
            Link::Shm(link) => !matches!(link.channel.has_room(), Ok(false)),
            _ => false,
        }
    }

    /// Whether a record is there to be taken.
    #[inline(always)]
    pub fn has_record(&self) -> bool {
        match self {
            Link::Shm(link) => link.channel.has_news(),
            _ => false,
        }
    }

    /// Whether the peer is gone, although what it has written may be unread.
    #[inline]
    pub fn is_gone(&self) -> bool {
        match self {
            Link::Shm(link) => link.channel.ended,
            _ => false,
        }
    }

    /// Marks what the peer has written as garbage; the read side ends the connection.
    #[cold]
    pub fn found_garbage(&mut self) {
        if let Link::Shm(link) = self {
            link.channel.broken = true;
        }
    }

    /// Takes back the offers of messages to fetch.
    pub fn revoke(&self) {
        if let Link::Shm(link) = self {
            link.channel.revoke();
        }
    }

    /// Ends the use of the peer's memory and of local memory by the peer, and drops the link. Returns whether memory
    /// was shared.
    pub fn close(&mut self) -> bool {
        match self.take() {
            Link::Shm(link) => {
                link.channel.revoke();
                link.channel.end_copies();
                true
            }
            _ => false,
        }
    }
}
