// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A network that loses, repeats, delays and reorders packets, on simulated time. It may have one slow link that all
//! endpoints share, with a queue that drops packets when it is full.

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use engine::testing::Random;

/// Faults of the links.
#[derive(Clone, Copy, Debug, Default)]
pub struct Links {
    /// Rates per thousand packets.
    pub lost: u32,
    pub repeated: u32,
    pub late: u32,
    /// Rate of packets that arrive with flipped bits.
    pub corrupted: u32,
    pub delay: Duration,
    /// Longer packets do not get through.
    pub mtu: usize,
    /// Time that a byte takes through the slow link, and the packets that may wait for it.
    pub per_byte: Duration,
    pub queue: usize,
}

impl Links {
    pub fn good() -> Links {
        Links {
            delay: Duration::from_micros(50),
            mtu: usize::MAX,
            queue: usize::MAX,
            ..Links::default()
        }
    }
}

/// A packet on its way.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct Packet {
    pub at: Duration,
    order: u64,
    pub from: usize,
    pub to: usize,
    pub bytes: Vec<u8>,
}

pub struct Net {
    pub links: Links,
    random: Random,
    order: u64,
    flying: BinaryHeap<Reverse<Packet>>,
    /// Time at which the slow link is free, and when each packet in its queue will have passed.
    free_at: Duration,
    waiting: std::collections::VecDeque<Duration>,
    pub sent: u64,
    pub dropped: u64,
}

impl Net {
    pub fn new(links: Links, seed: u64) -> Net {
        Net {
            links,
            random: Random(seed),
            order: 0,
            flying: BinaryHeap::new(),
            free_at: Duration::ZERO,
            waiting: Default::default(),
            sent: 0,
            dropped: 0,
        }
    }

    pub fn send(&mut self, now: Duration, from: usize, to: usize, mut bytes: Vec<u8>) {
        let links = self.links;
        self.sent += 1;
        if self.random.per_mille(links.lost) || bytes.len() > links.mtu {
            self.dropped += 1;
            return;
        }
        while self.waiting.front().is_some_and(|&passed| passed <= now) {
            self.waiting.pop_front();
        }
        if self.waiting.len() >= links.queue {
            self.dropped += 1;
            return;
        }
        let mut at = now;
        if !links.per_byte.is_zero() {
            self.free_at = self.free_at.max(now) + links.per_byte * bytes.len() as u32;
            self.waiting.push_back(self.free_at);
            at = self.free_at;
        }
        at += links.delay;
        if self.random.per_mille(links.late) {
            at += links.delay * self.random.below(40) as u32 / 10;
        }
        if self.random.per_mille(links.corrupted) && !bytes.is_empty() {
            let place = self.random.below(bytes.len());
            bytes[place] ^= 1 << self.random.below(8);
        }
        if self.random.per_mille(links.repeated) {
            let later = at + links.delay * self.random.below(100) as u32 / 10;
            self.fly(later, from, to, bytes.clone());
        }
        self.fly(at, from, to, bytes);
    }

    pub fn fly(&mut self, at: Duration, from: usize, to: usize, bytes: Vec<u8>) {
        self.order += 1;
        let order = self.order;
        #[rustfmt::skip]
        self.flying.push(Reverse(Packet { at, order, from, to, bytes }));
    }

    pub fn next_at(&self) -> Option<Duration> {
        self.flying.peek().map(|Reverse(packet)| packet.at)
    }

    pub fn arrived(&mut self, now: Duration) -> Option<Packet> {
        let is_here = self.next_at().is_some_and(|at| at <= now);
        is_here
            .then(|| self.flying.pop())
            .flatten()
            .map(|Reverse(packet)| packet)
    }
}
