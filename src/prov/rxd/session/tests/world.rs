// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoints on a network, and the time that passes for all of them.

use core::time::Duration;
use std::time::Instant;

use super::net::{Links, Net};
use crate::rxd::session::{From, Settings};
use crate::rxd::testing::{Name, Node};

pub struct World<T> {
    pub nodes: Vec<Node<T>>,
    pub net: Net,
    start: Instant,
    pub passed: Duration,
    /// Dead endpoints neither send nor receive.
    pub dead: Vec<bool>,
    /// The network reports a dead endpoint to its senders as unreachable.
    pub reports: bool,
}

pub const SETTINGS: Settings = Settings {
    window: 128,
    retry: true,
    saved: 1 << 24,
    extended: true,
};
pub const MTU: usize = 1472;
/// Bytes of memory that peers can access.
pub const MEMORY: usize = 1 << 16;

impl<T> World<T> {
    pub fn new(count: usize, links: Links, seed: u64) -> World<T> {
        World::with(count, links, seed, SETTINGS, &[MTU])
    }

    /// Gives the endpoints the MTUs in turn.
    pub fn with(
        count: usize,
        links: Links,
        seed: u64,
        settings: Settings,
        mtus: &[usize],
    ) -> World<T> {
        let node = |place: usize| {
            let mtu = mtus[place % mtus.len()];
            Node::new(place, settings, mtu, vec![0; MEMORY], seed ^ place as u64)
        };
        World {
            nodes: (0..count).map(node).collect(),
            net: Net::new(links, seed),
            start: Instant::now(),
            passed: Duration::ZERO,
            dead: vec![false; count],
            reports: false,
        }
    }

    pub fn now(&self) -> Instant {
        self.start + self.passed
    }

    /// Passes packets that the endpoints have sent to the network.
    pub fn flush(&mut self) {
        for place in 0..self.nodes.len() {
            let sent = std::mem::take(&mut self.nodes[place].socket.sent);
            for (to, bytes) in sent {
                if !self.dead[place] && self.dead.get(to) == Some(&false) {
                    self.net.send(self.passed, place, to, bytes);
                } else if self.reports {
                    self.nodes[place].socket.unreachable.push(to as u64);
                }
            }
        }
    }

    /// Advances to the next event. Returns false if there is none.
    pub fn step(&mut self) -> bool {
        self.flush();
        let deadlines = self.nodes.iter().zip(&self.dead);
        let deadlines = deadlines.filter(|(_, dead)| !**dead);
        let deadline = deadlines.filter_map(|(node, _)| node.port.deadline()).min();
        let deadline = deadline.map(|at| at.saturating_duration_since(self.start));
        let Some(next) = self.net.next_at().into_iter().chain(deadline).min() else {
            return false;
        };
        self.passed = self.passed.max(next);
        let now = self.now();
        let mut touched = vec![false; self.nodes.len()];
        while let Some(packet) = self.net.arrived(self.passed) {
            if self.dead[packet.to] || self.dead[packet.from] {
                continue;
            }
            let from = match self.nodes[packet.to].port.knows(packet.from as u64) {
                true => From::Route(packet.from as u64),
                false => From::UnknownSender(Some(Name::at(packet.from))),
            };
            self.nodes[packet.to].take(now, &from, &packet.bytes);
            self.nodes[packet.to].settle_busy(now);
            touched[packet.to] = true;
        }
        for (node, touched) in self.nodes.iter_mut().zip(touched) {
            if touched || node.port.deadline().is_some_and(|at| at <= now) || node.port.is_blocked()
            {
                node.settle(now);
            }
        }
        self.flush();
        true
    }

    /// Runs for `time`, whatever happens.
    pub fn pass(&mut self, time: Duration) {
        let until = self.passed + time;
        while self.passed < until && self.step() {}
    }
}
