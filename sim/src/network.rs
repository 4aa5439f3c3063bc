// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The network between nodes: each node has one link to a switch, with its latency and bandwidth. Senders of a node
//! share its link. Packets to a node queue at the switch, which drops datagrams when the queue is full. A lost part of
//! a stream arrives after a retransmission timeout, and later parts of the stream wait for it.

use std::collections::{HashMap, VecDeque};

use crate::events::Time;
use engine::testing::Random;

/// A load that travels between two ranks.
pub trait Load {
    /// Bytes on the wire, without headers of the network.
    fn bytes(&self) -> usize;
    /// The stream that the load belongs to. `None`: a datagram, which may get lost.
    fn flow(&self) -> Option<u64>;
    /// Whether the kernel sends it, so that it takes no time of the rank.
    fn is_of_kernel(&self) -> bool {
        false
    }
}

#[derive(Clone, Debug)]
pub struct Links {
    /// Time from one node to another, and between ranks of one node.
    pub latency: Time,
    pub local: Time,
    pub bits_per_second: u64,
    /// Lost packets, per million.
    pub loss: u32,
    /// Bytes that may wait at the switch for one node.
    pub queue: usize,
    /// First retransmission timeout of the kernel's streams.
    pub timeout: Time,
}

impl Default for Links {
    fn default() -> Links {
        Links {
            latency: 5_000,
            local: 2_000,
            bits_per_second: 25_000_000_000,
            loss: 0,
            queue: 1 << 20,
            timeout: 200_000_000,
        }
    }
}

/// Bytes of the headers of Ethernet, IP and UDP or TCP, with preamble and gap.
const HEADERS: usize = 78;

/// The link of a node.
#[derive(Clone, Default)]
struct Port {
    sends_until: Time,
    receives_until: Time,
}

/// Action of the switch for a load.
pub enum Verdict {
    /// The load arrives at this time.
    Arrives(Time),
    Dropped,
    /// The load comes to the switch again at this time.
    Again(Time),
}

pub struct Network {
    links: Links,
    ports: Vec<Port>,
    /// Streams with a lost part: the time until which later parts wait.
    held: HashMap<u64, Time>,
    random: Random,
    pub sent: u64,
    pub dropped: u64,
    /// Most bytes that have waited for one node.
    pub longest_queue: usize,
}

impl Network {
    pub fn new(links: Links, nodes: usize, seed: u64) -> Network {
        Network {
            links,
            ports: vec![Port::default(); nodes],
            held: HashMap::new(),
            random: Random(seed),
            sent: 0,
            dropped: 0,
            longest_queue: 0,
        }
    }

    fn duration(&self, bytes: usize) -> Time {
        (bytes as u64 * 8).saturating_mul(1_000_000_000) / self.links.bits_per_second
    }

    /// A load leaves a rank. Returns when it has left the node, and when it comes to the switch.
    pub fn send(&mut self, now: Time, from: usize, to: usize, bytes: usize) -> (Time, Time) {
        self.sent += 1;
        if from == to {
            return (now, now + self.links.local);
        }
        let duration = self.duration(bytes + HEADERS);
        let port = &mut self.ports[from];
        port.sends_until = port.sends_until.max(now) + duration;
        let left = port.sends_until;
        (left, left + self.links.latency / 2)
    }

    /// A load has come to the switch on its way to another node.
    pub fn switch(&mut self, now: Time, to: usize, load: &impl Load) -> Verdict {
        if let Some(flow) = load.flow() {
            match self.held.get(&flow) {
                Some(&until) if until > now => return Verdict::Again(until),
                Some(_) => drop(self.held.remove(&flow)),
                None => {}
            }
        }
        let bytes = load.bytes() + HEADERS;
        let duration = self.duration(bytes);
        let port = &mut self.ports[to];
        let wait = port.receives_until.saturating_sub(now);
        let waiting = (wait as u128 * self.links.bits_per_second as u128 / 8_000_000_000) as usize;
        let is_full = waiting + bytes > self.links.queue;
        let is_lost =
            self.links.loss > 0 && self.random.below(1_000_000) < self.links.loss as usize;
        if is_full || is_lost {
            self.dropped += 1;
            return match load.flow() {
                None => Verdict::Dropped,
                Some(flow) => {
                    let again = now + self.links.timeout;
                    self.held.insert(flow, again);
                    Verdict::Again(again)
                }
            };
        }
        self.longest_queue = self.longest_queue.max(waiting + bytes);
        port.receives_until = port.receives_until.max(now) + duration;
        Verdict::Arrives(port.receives_until + self.links.latency / 2)
    }
}

/// Packets of a rank that wait at its node's link.
#[derive(Default)]
pub struct SendBuffer(VecDeque<Time>);

impl SendBuffer {
    pub fn push(&mut self, leaves: Time) {
        self.0.push_back(leaves);
    }

    /// Packets that the rank may still send.
    pub fn room(&mut self, now: Time, limit: usize) -> usize {
        while self.0.front().is_some_and(|&leaves| leaves <= now) {
            self.0.pop_front();
        }
        limit.saturating_sub(self.0.len())
    }

    /// Time at which the buffer has more room.
    pub fn next_room(&self) -> Option<Time> {
        self.0.front().copied()
    }
}
