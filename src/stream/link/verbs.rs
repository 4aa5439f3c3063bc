// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What sessions and pollers do with a link of either kind: send a frame, find out whether it has room, have the peer
//! ring the doorbell.

use core::time::Duration;
use std::io;

use super::Link;
use base::{IoVec, Source};
use sync::ring::Shrunk;
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

/// State of a ring that was read to its end.
pub enum Emptied {
    Open,
    /// The peer is gone.
    Ended,
    /// The peer has corrupted the ring.
    Garbage,
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
    #[inline(always)]
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
        payload: &Source,
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

    /// Whether memory that the peer has not accepted yet has room for `len` bytes.
    pub fn takes_early(&mut self, len: usize) -> bool {
        match self {
            Link::Offered(link) => link.channel.takes(len),
            _ => false,
        }
    }

    /// Puts a frame into memory that the peer has not accepted yet. Returns false without effect if there is no such
    /// memory, or no room.
    pub fn send_early(&mut self, header: &[u8], payload: &IoVec) -> bool {
        let Link::Offered(link) = self else {
            return false;
        };
        let sent = link.channel.send(header, payload, payload.remaining());
        // The peer may have accepted, found nothing, and gone to sleep.
        if matches!(sent, Ok(true)) && link.channel.must_ring() {
            link.doorbell.ring();
        }
        matches!(sent, Ok(true))
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

    /// Does the same as `may_continue`; `None` if the peer has corrupted the ring, which the read side will find.
    pub fn returned_room(&mut self) -> Option<bool> {
        let Link::Shm(link) = self else {
            return Some(false);
        };
        let room = link.channel.has_room().ok();
        link.channel.broken |= room.is_none();
        room
    }

    /// Waits until the peer rings, or has made room, and takes its rings.
    pub fn wait_for_ring(&mut self, timeout: Duration) {
        if let Link::Shm(link) = self {
            link.doorbell.wait_readable(timeout);
        }
        self.take_rings();
    }

    /// Takes the peer's doorbell rings. The peer rings once for a sleep, so a side that continues to sleep without
    /// having polled arms the doorbell again. The caller has to poll the ring after this.
    pub fn take_rings(&mut self) {
        let Link::Shm(link) = self else {
            return;
        };
        let (mut rings, mut any) = ([0; 256], false);
        loop {
            match link.doorbell.read(&mut rings) {
                Ok(Moved::Bytes(n)) => {
                    any = true;
                    if n < rings.len() {
                        break;
                    }
                }
                Ok(Moved::Later) => break,
                Ok(Moved::End) | Err(_) => {
                    link.channel.end();
                    break;
                }
            }
        }
        if any {
            link.channel.arm_again();
        }
    }

    /// Starts to poll the peer with this poll.
    pub fn begin_polling(&mut self, poll: u32) {
        if let Link::Shm(link) = self {
            link.channel.idle.begin(poll);
        }
    }

    /// Returns the number of polls since the last record, if the peer has been quiet for so long that it can be left
    /// to its doorbell.
    pub fn quiet_polls(&mut self, poll: u32) -> Option<u32> {
        let Link::Shm(link) = self else {
            return None;
        };
        let (_, taken) = link.channel.moved();
        let idle = &mut link.channel.idle;
        idle.update(taken, poll);
        idle.is_quiet(poll).then(|| poll.wrapping_sub(idle.since))
    }

    /// Leaves the ring to its doorbell. Returns false if a record has come, so the ring is still polled.
    pub fn rely_on_doorbell(&mut self) -> bool {
        let Link::Shm(link) = self else {
            return true;
        };
        let is_left = link.channel.rely_on_doorbell();
        link.channel.idle.is_left = is_left;
        is_left
    }

    /// Whether the ring is left to its doorbell.
    pub fn is_left_to_doorbell(&self) -> bool {
        match self {
            Link::Shm(link) => link.channel.idle.is_left,
            _ => false,
        }
    }

    /// Takes the next step towards giving memory of the ring back, if it is not used.
    pub fn shrink(&mut self) -> Shrunk {
        let Link::Shm(link) = self else {
            return Shrunk::Short;
        };
        let step = link.channel.shrink();
        if step == Shrunk::Moved {
            self.ring_if_parked();
        }
        step
    }

    /// Has the processor fetch the place of the next record.
    pub fn prefetch_record(&mut self) {
        if let Link::Shm(link) = self {
            link.channel.prefetch_next();
        }
    }

    /// Whether a record is there to be taken.
    #[inline(always)]
    pub fn has_record(&self) -> bool {
        match self {
            Link::Shm(link) => link.channel.has_events(),
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

    /// Whether nothing that is written reaches the peer, because it is gone or has corrupted the ring.
    pub fn is_dead(&self) -> bool {
        match self {
            Link::Shm(link) => link.channel.ended || link.channel.broken,
            _ => false,
        }
    }

    /// Whether the peer has written more than it could before its end.
    #[inline]
    pub fn is_past_end(&self) -> bool {
        match self {
            Link::Shm(link) => link.channel.is_past_end(),
            _ => false,
        }
    }

    /// Whether a living peer uses the region that had this place in the directory.
    pub fn is_using(&self, at: usize) -> bool {
        match self {
            Link::Shm(link) => link.channel.is_using(at) && link.channel.process().is_alive(),
            _ => false,
        }
    }

    /// Permits no more direct copies.
    pub fn leave(&self) {
        if let Link::Shm(link) = self {
            link.channel.leave();
        }
    }

    /// Handles an empty ring after all records were taken. `was_written`: the peer has written since the last time.
    #[inline]
    pub fn read_to_end(&mut self, was_written: bool) -> Emptied {
        let Link::Shm(link) = self else {
            return Emptied::Open;
        };
        if link.channel.broken {
            return Emptied::Garbage;
        }
        // Otherwise no room has to be returned here: a peer that waits for room is notified after each quarter of a
        // lap, and never needs more than one more.
        let is_due = was_written | link.channel.is_due();
        let wake = is_due && link.channel.release();
        if link.channel.ended {
            return Emptied::Ended;
        }
        if wake {
            self.ring();
        }
        Emptied::Open
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
