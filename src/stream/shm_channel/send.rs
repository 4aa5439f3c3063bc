// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Sending over a channel: a frame becomes one record of the ring, or several.

use crate::copy_mode::FetchCost;

use super::{MIN_SPLIT, RECORD, ShmChannel};
use base::{IoVec, Source};
use sync::ring::{Body, Garbage, HEADER, LINE, Shrunk};
use sys::io_list::GatherList;

impl ShmChannel {
    /// Whether the ring is faster for a message than a fetch.
    #[inline]
    pub fn prefers_ring(&mut self, len: usize) -> bool {
        let (ring, fetch) = (self.tx.most(), FetchCost::here());
        let read = self.rx.position();
        self.copy_mode
            .is_ring(len, ring, read, &mut self.ways, fetch)
    }

    /// Does the same as `send_small`, for one buffer.
    #[inline(always)]
    pub fn send_one<const N: usize>(
        &mut self,
        header: &[u8; N],
        header_len: usize,
        payload: &Source,
    ) -> Result<bool, Garbage> {
        if payload.len() > SHORT {
            return self.send(&header[..header_len], &payload.cursor(), payload.len());
        }
        let Some(mut body) = self.begin_short(header, header_len, payload.len())? else {
            return Ok(false);
        };
        payload.put_into(body.room());
        body.publish(0);
        Ok(true)
    }

    /// Begins a record with the header; the caller writes the `len` bytes behind it. `None`: there is no room.
    #[inline(always)]
    fn begin_short<const N: usize>(
        &mut self,
        header: &[u8; N],
        header_len: usize,
        len: usize,
    ) -> Result<Option<Body<'_>>, Garbage> {
        let Some(mut body) = self.tx.reserve(header_len + len, self.rx.position())? else {
            return Ok(None);
        };
        match N <= LINE - HEADER {
            true => body.begin(header, header_len),
            false => body.put(&header[..header_len]),
        }
        Ok(Some(body))
    }

    /// Writes as much of a frame as there is room for, in one piece if possible. Returns the number of bytes.
    pub fn send_frame(&mut self, header: &[u8], payload: &IoVec) -> usize {
        let len = payload.remaining();
        let total = header.len() + len;
        if total <= RECORD && matches!(self.send(header, payload, len), Ok(true)) {
            return total;
        }
        let mut list = GatherList::new();
        list.push(header);
        payload.append_to(&mut list, usize::MAX);
        // The read side detects the fault; queued operations fail with the connection.
        let written = match list.check() {
            Ok(()) => self.write_list(&list).ok(),
            Err(_) => None,
        };
        written.unwrap_or_else(|| {
            self.broken = true;
            0
        })
    }

    /// Writes a frame with a small header in one piece; returns false if there is no room for it now.
    #[inline]
    pub fn send_small<const N: usize>(
        &mut self,
        header: &[u8; N],
        header_len: usize,
        payload: &IoVec,
        len: usize,
    ) -> Result<bool, Garbage> {
        if len > SHORT {
            return self.send(&header[..header_len], payload, len);
        }
        let Some(mut body) = self.begin_short(header, header_len, len)? else {
            return Ok(false);
        };
        payload.put_into(body.room());
        body.publish(0);
        Ok(true)
    }

    /// Writes a frame in one piece; returns false if there is no room for it now. The first cache line is written last:
    /// the other side polls that line, and would take it away during the copy.
    #[inline(never)]
    pub fn send(&mut self, header: &[u8], payload: &IoVec, len: usize) -> Result<bool, Garbage> {
        let Some(mut body) = self.tx.reserve(header.len() + len, self.rx.position())? else {
            return Ok(false);
        };
        let first = (LINE - HEADER).saturating_sub(header.len()).min(len);
        let (mut head, mut rest) = (payload.cursor(), payload.cursor());
        head.truncate(first);
        rest.advance(first);
        rest.put_long_into(body.room().behind(header.len() + first), &mut self.ways);
        body.put(header);
        head.put_into(body.room());
        body.publish(0);
        Ok(true)
    }

    /// Writes as much as there is room for.
    pub fn write_list(&mut self, list: &GatherList<'_>) -> Result<usize, Garbage> {
        self.wants = MIN_SPLIT;
        let all = list.bytes();
        let mut done = 0;
        while done < all {
            let len = (all - done).min(RECORD);
            let len = match self.tx.room(len, self.rx.position())? {
                None | Some(0) => break,
                // Pieces that are too small cost more than they gain.
                Some(room) if room < len && room < MIN_SPLIT => break,
                Some(room) => len.min(room),
            };
            let Some(mut body) = self.tx.reserve(len, self.rx.position())? else {
                break;
            };
            body.room().gather(list, done, &mut self.ways);
            body.publish(0);
            done += len;
        }
        Ok(done)
    }

    /// Whether a frame of up to `len` bytes fits now. A frame that never fits is taken in pieces. If the other side has
    /// corrupted the ring, the next write finds it.
    pub fn takes(&mut self, len: usize) -> bool {
        if len > RECORD.min(self.tx.longest()) {
            return true;
        }
        self.tx
            .room(len, self.rx.position())
            .map_or(true, |room| room.is_some_and(|room| room >= len))
    }

    /// Returns how many frames of `len` bytes fit one after another.
    pub fn room_for(&mut self, len: usize) -> usize {
        if len > RECORD.min(self.tx.longest()) {
            return usize::MAX;
        }
        match self.tx.room(len, self.rx.position()) {
            Ok(Some(room)) => (room + HEADER) / (len + HEADER).next_multiple_of(LINE),
            Ok(None) => 0,
            Err(_) => usize::MAX,
        }
    }

    /// Returns the largest frame that waits until it fits into one record, which the other side takes at once. That
    /// much room appears sooner or later although the end of a lap is skipped and the other side returns room in
    /// quarters of a lap.
    pub fn longest_whole(&self) -> usize {
        RECORD.min(self.tx.longest() / 4)
    }

    /// Whether writing can continue.
    pub fn has_room(&mut self) -> Result<bool, Garbage> {
        let room = self.tx.room(self.wants, self.rx.position())?;
        Ok(room.is_some_and(|room| room >= self.wants))
    }

    /// Whether the other side has published that it has taken everything.
    pub fn is_drained(&mut self) -> bool {
        self.tx.is_empty().unwrap_or(false)
    }

    /// Requests a doorbell ring when there is room. The caller checks for room once more afterwards.
    pub fn set_waiting(&self, waiting: bool) {
        self.tx.set_waiting(waiting);
    }

    /// Takes the next step towards giving memory of the ring back, if it is not used. The read side finds what a peer
    /// has corrupted.
    pub fn shrink(&mut self) -> Shrunk {
        self.tx.shrink().unwrap_or(Shrunk::Short)
    }

    /// Prefetches the cache lines of the next record to the other side.
    #[inline]
    pub fn prefetch_next(&mut self) {
        self.tx.prefetch_next();
    }
}

/// Above this size a copy takes so long that the other side may meanwhile read the line that it polls.
const SHORT: usize = 1024;
