// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Packets that wait, and their limits in this process. Each peer has a share; only a peer that has used up its share
//! is paused, and the provider below then reads nothing more from it. If the provider below cannot pause a
//! connection, each connection has its own receives, and none are posted for a paused one.

use std::collections::VecDeque;

use super::link::Link;
use super::{Common, Cx, Wire};

/// Kinds of waiting packets. Packets of one kind stay in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Messages without room in the receive queue, and all packets that came before the connection was up.
    Messages,
    /// Atomic operations whose answers have no free slot.
    Atomics,
}

pub const LANES: usize = 2;

impl Lane {
    pub const ALL: [Lane; LANES] = [Lane::Messages, Lane::Atomics];
}

#[derive(Default)]
pub struct Inbox {
    /// `None` for most peers, of which no packet waits.
    waiting: Option<Box<Waiting>>,
    /// Whether the session is in `Common::stalled` and wants to be.
    is_stalled: bool,
}

/// The packets, and their bytes, for each `Lane`.
#[derive(Default)]
struct Waiting {
    packets: [VecDeque<Box<[u8]>>; LANES],
    bytes: [usize; LANES],
}

/// Maximum of bytes of an endpoint's waiting packets, for each `Lane`. The atomic operations that a peer may have in
/// flight cannot block the answers to local ones.
const MOST: [usize; LANES] = [8 << 20, 64 << 20];
/// A peer may use this multiple of the bytes that it leaves to others: alone it gets nearly all, and any other finds
/// room.
const SHARE: usize = 8;
/// Bytes of overhead for a waiting packet.
const ENTRY: usize = 64;

impl Inbox {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_none()
    }

    #[inline]
    pub fn has(&self, lane: Lane) -> bool {
        let waiting = self.waiting.as_ref();
        waiting.is_some_and(|waiting| !waiting.packets[lane as usize].is_empty())
    }

    /// Keeps a packet for later. The sender is paused if too many of its packets wait.
    #[cold]
    pub fn postpone<W: Wire>(
        &mut self,
        link: &mut Link,
        cx: &mut Cx<'_, W>,
        lane: Option<Lane>,
        bytes: &[u8],
    ) {
        let lane = lane.unwrap_or(Lane::Messages);
        let packets = self.charge(cx.common, link.ep(), lane, bytes);
        packets.push_back(bytes.into());
        if !link.is_paused() && self.is_full(cx.common, link.ep(), 1) {
            link.pause(cx.wire);
        }
        self.stall(cx.common, link.id());
    }

    /// Schedules another try for the waiting packets.
    pub fn stall(&mut self, common: &mut Common, id: usize) {
        if !core::mem::replace(&mut self.is_stalled, true) {
            common.stalled.push(id);
        }
    }

    /// Called when the session is taken from `Common::stalled`. Returns whether it still wants another try.
    pub fn unstall(&mut self) -> bool {
        core::mem::take(&mut self.is_stalled)
    }

    /// Takes the first packet.
    pub fn take(&mut self, common: &mut Common, ep: usize, lane: Lane) -> Option<Box<[u8]>> {
        let waiting = self.waiting.as_mut()?;
        let bytes = waiting.packets[lane as usize].pop_front()?;
        let cost = bytes.len() + ENTRY;
        waiting.bytes[lane as usize] -= cost;
        if let Some(of_endpoint) = common.waiting.get_mut(ep) {
            of_endpoint[lane as usize] -= cost;
        }
        if waiting.packets.iter().all(VecDeque::is_empty) {
            self.waiting = None;
        }
        Some(bytes)
    }

    /// Puts a packet back that was the first one.
    pub fn put_back(&mut self, common: &mut Common, ep: usize, lane: Lane, bytes: Box<[u8]>) {
        self.charge(common, ep, lane, &bytes).push_front(bytes);
    }

    /// Schedules another try for the packets that are left. Resumes a peer that uses less than half of its share.
    pub fn settle<W: Wire>(&mut self, link: &mut Link, cx: &mut Cx<'_, W>) {
        if !self.is_empty() {
            self.stall(cx.common, link.id());
        }
        if link.is_paused() && !self.is_full(cx.common, link.ep(), 2) {
            link.resume(cx.wire);
        }
    }

    /// Counts a packet that starts to wait. Returns the packets of its lane, for it.
    fn charge(
        &mut self,
        common: &mut Common,
        ep: usize,
        lane: Lane,
        bytes: &[u8],
    ) -> &mut VecDeque<Box<[u8]>> {
        let cost = bytes.len() + ENTRY;
        if let Some(of_endpoint) = common.waiting.get_mut(ep) {
            of_endpoint[lane as usize] += cost;
        }
        let waiting = self.waiting.get_or_insert_default();
        waiting.bytes[lane as usize] += cost;
        &mut waiting.packets[lane as usize]
    }

    /// Whether `times` the waiting bytes of this peer exceed its share.
    fn is_full(&self, common: &Common, ep: usize, times: usize) -> bool {
        let (Some(waiting), Some(of_endpoint)) = (&self.waiting, common.waiting.get(ep)) else {
            return false;
        };
        let lanes = waiting.bytes.iter().zip(of_endpoint).zip(MOST);
        let mut lanes = lanes.filter(|((own, _), _)| **own > 0);
        lanes.any(|((own, all), most)| own * times / SHARE > most.saturating_sub(*all))
    }
}
