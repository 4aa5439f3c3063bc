// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Packets that wait, and their limits in this process. Each peer has a share; only a peer that has used up its share
//! is paused, and the provider below then reads nothing more from it. If the provider below cannot pause a
//! connection, each connection has its own receives, and none are posted for a paused one.

use std::collections::VecDeque;

use super::receive::Taken;
use super::{Common, Cx, Session, State, Wire};
use crate::rxm::proto::decode;

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
    /// The packets, and their bytes, for each `Lane`.
    packets: [VecDeque<Box<[u8]>>; LANES],
    bytes: [usize; LANES],
    /// Receiving from the peer is paused because too many of its packets wait.
    is_paused: bool,
}

impl Inbox {
    pub fn is_empty(&self) -> bool {
        self.packets.iter().all(VecDeque::is_empty)
    }

    #[inline]
    pub fn has(&self, lane: Lane) -> bool {
        !self.packets[lane as usize].is_empty()
    }

    /// Forgets that receiving is paused, because the connection below is closed.
    pub fn reset_pause(&mut self) {
        self.is_paused = false;
    }
}

/// Maximum of bytes of an endpoint's waiting packets, for each `Lane`. The atomic operations that a peer may have in
/// flight cannot block the answers to local ones.
const MOST: [usize; LANES] = [8 << 20, 64 << 20];
/// A peer may use this multiple of the bytes that it leaves to others: alone it gets nearly all, and any other finds
/// room.
const SHARE: usize = 8;
/// Bytes of overhead for a waiting packet.
const ENTRY: usize = 64;

impl Common {
    pub fn stall(&mut self, id: usize) {
        if !self.stalled.contains(&id) {
            self.stalled.push(id);
        }
    }
}

impl Session {
    /// Whether a packet must not overtake waiting ones.
    #[inline]
    pub(super) fn has_to_wait(&self, lane: Option<Lane>) -> bool {
        self.state() != State::Up || lane.is_some_and(|lane| self.inbox.has(lane))
    }

    /// Keeps a packet for later. The sender is paused if too many of its packets wait.
    #[cold]
    pub(super) fn postpone<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        lane: Option<Lane>,
        bytes: &[u8],
    ) {
        let lane = lane.unwrap_or(Lane::Messages);
        self.inbox.packets[lane as usize].push_back(bytes.into());
        self.charge(cx, lane, bytes);
        if !self.inbox.is_paused && self.is_full(cx, 1) {
            self.pause(cx, true);
        }
        cx.common.stall(self.id);
    }

    /// Handles waiting packets in order, as far as there is room. Resumes a peer that uses less than half of its share.
    pub fn take_waiting<W: Wire>(&mut self, cx: &mut Cx<'_, W>) {
        for lane in Lane::ALL {
            self.take_lane(cx, lane);
        }
        if !self.inbox.is_empty() {
            cx.common.stall(self.id);
        }
        if self.inbox.is_paused && !self.is_full(cx, 2) {
            self.pause(cx, false);
        }
    }

    fn take_lane<W: Wire>(&mut self, cx: &mut Cx<'_, W>, lane: Lane) {
        while self.state() == State::Up
            && let Some(bytes) = self.inbox.packets[lane as usize].pop_front()
        {
            self.release(cx, lane, &bytes);
            let taken = match decode(&bytes) {
                Ok(packet) => self.take(cx, &packet),
                Err(fault) => Err(fault),
            };
            match taken {
                Ok(Taken::Yes) => {}
                Ok(Taken::Later) => {
                    self.charge(cx, lane, &bytes);
                    return self.inbox.packets[lane as usize].push_front(bytes);
                }
                Err(fault) => self.faulty(cx, fault),
            }
        }
    }

    /// Keeps packets that waited because the receive queue was full, without a limit: the peer sends no more.
    pub(super) fn deliver_rest<W: Wire>(&mut self, cx: &mut Cx<'_, W>) {
        for lane in Lane::ALL {
            for bytes in core::mem::take(&mut self.inbox.packets[lane as usize]) {
                self.release(cx, lane, &bytes);
                if cx.domain.find_ep(self.ep).is_some() {
                    self.take_last(cx, &bytes);
                }
            }
        }
    }

    /// Counts a packet that starts to wait.
    fn charge<W>(&mut self, cx: &mut Cx<'_, W>, lane: Lane, bytes: &[u8]) {
        let cost = bytes.len() + ENTRY;
        self.inbox.bytes[lane as usize] += cost;
        if let Some(waiting) = cx.common.waiting.get_mut(self.ep) {
            waiting[lane as usize] += cost;
        }
    }

    /// Counts a packet that no longer waits.
    fn release<W>(&mut self, cx: &mut Cx<'_, W>, lane: Lane, bytes: &[u8]) {
        let cost = bytes.len() + ENTRY;
        self.inbox.bytes[lane as usize] -= cost;
        if let Some(waiting) = cx.common.waiting.get_mut(self.ep) {
            waiting[lane as usize] -= cost;
        }
    }

    /// Whether `times` the waiting bytes of this peer exceed its share.
    fn is_full<W>(&self, cx: &Cx<'_, W>, times: usize) -> bool {
        let Some(waiting) = cx.common.waiting.get(self.ep) else {
            return false;
        };
        let lanes = self.inbox.bytes.iter().zip(waiting).zip(MOST);
        let mut lanes = lanes.filter(|((own, _), _)| **own > 0);
        lanes.any(|((own, all), most)| own * times / SHARE > most.saturating_sub(*all))
    }

    /// Resumes receiving from a peer.
    pub fn resume<W: Wire>(&mut self, cx: &mut Cx<'_, W>) {
        if self.inbox.is_paused {
            self.pause(cx, false);
        }
    }

    fn pause<W: Wire>(&mut self, cx: &mut Cx<'_, W>, on: bool) {
        self.inbox.is_paused = on;
        cx.wire.pause(self.id, on);
    }
}
