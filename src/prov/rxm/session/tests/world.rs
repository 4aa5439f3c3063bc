// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoints on a network, and the time that passes for all of them.

use core::time::Duration;
use std::time::Instant;

use super::network::{Arrival, End, Event, Faults, NOWHERE, Network};
use crate::rxm::session::{Settings, id_of};
use crate::rxm::testing::{Answer, Node, Out, TestWire, addr_of, place_of};
use base::{Error, OpFlags};

pub struct World<T> {
    /// `None`: the endpoint is about to restart.
    pub nodes: Vec<Option<Node<T>>>,
    pub net: Network,
    settings: Settings,
    seed: u64,
    lives: Vec<u64>,
    /// Counted receives of the connections of each endpoint.
    counted: Vec<usize>,
    start: Instant,
    pub passed: Duration,
}

/// Bytes of memory that peers can access.
pub const MEMORY: usize = 1 << 12;

pub const SETTINGS: Settings = Settings {
    eager: 256,
    segmented: 1024,
    rendezvous_write: false,
    saved: 1 << 20,
    conn_timeout: Duration::from_secs(2),
    is_ours: true,
    inject: 128,
    pieces: 4,
    remotes: 4,
    longest: 1 << 20,
    receives: 32,
    wants_local: false,
    flags: OpFlags::empty(),
};
/// Copies in use at most.
const COPIES: usize = 600;

impl<T> World<T> {
    pub fn new(count: usize, faults: Faults, settings: Settings, seed: u64) -> World<T> {
        World::with_receives(faults, settings, seed, vec![0; count])
    }

    /// Returns a world with an endpoint for each number of receives, which are counted. 0: they are not.
    pub fn with_receives(
        faults: Faults,
        settings: Settings,
        seed: u64,
        counted: Vec<usize>,
    ) -> World<T> {
        let count = counted.len();
        let mut world = World {
            nodes: (0..count).map(|_| None).collect(),
            net: Network::new(faults, seed),
            settings,
            seed,
            lives: vec![0; count],
            counted,
            start: Instant::now(),
            passed: Duration::ZERO,
        };
        (0..count).for_each(|place| world.begin(place));
        world
    }

    fn begin(&mut self, place: usize) {
        self.lives[place] += 1;
        let life = self.lives[place];
        let seed = self.seed ^ (place as u64) << 32 ^ life << 40;
        let fails = self.net.faults.breaks > 0;
        let wire = TestWire::new(seed, self.settings.eager, COPIES, fails);
        let wire = wire.with_receives(self.counted[place]);
        let mut node = Node::new(place, life, self.settings, wire, MEMORY);
        for peer in 0..self.nodes.len() {
            assert_eq!(node.insert(addr_of(peer)), peer as u64);
        }
        self.nodes[place] = Some(node);
    }

    /// Ends an endpoint without notice. It begins anew after some time.
    pub fn restart(&mut self, place: usize) {
        if self.nodes[place].take().is_none() {
            return;
        }
        let of_it = |end: &Option<End>| end.is_some_and(|end| end.node == place);
        for pipe in 0..self.net.pipes.len() {
            let state = &self.net.pipes[pipe];
            if state.ends.iter().any(of_it) && state.is_closed != [true; 2] {
                self.net.break_pipe(self.passed, pipe);
            }
        }
        let at = self.passed + self.net.delay() * self.net.random.of(&[0, 1, 40]);
        self.net.at(at, NOWHERE, 0, Event::Start { node: place });
    }

    pub fn now(&self) -> Instant {
        self.start + self.passed
    }

    /// Returns the end of a connection at a living endpoint.
    pub fn end_at(&self, place: usize, arrival: u64) -> End {
        End {
            node: place,
            life: self.lives[place],
            arrival,
        }
    }

    /// Passes the requests of sessions to the network.
    pub fn flush(&mut self) {
        for place in 0..self.nodes.len() {
            let Some(node) = &mut self.nodes[place] else {
                continue;
            };
            if node.wire.out.is_empty() {
                continue;
            }
            for out in core::mem::take(&mut node.wire.out) {
                self.execute(place, out);
            }
        }
    }

    fn execute(&mut self, place: usize, out: Out) {
        let passed = self.passed;
        match out {
            Out::Timer { id, at } => {
                let at = at.saturating_duration_since(self.start).max(passed);
                let (node, life) = (place, self.lives[place]);
                self.net.at(at, NOWHERE, 0, Event::Timer { node, life, id });
            }
            Out::Connect {
                place: at,
                peer,
                request,
            } => {
                let pipe = self.net.open(self.end_at(place, at.arrival));
                let to = place_of(&peer).unwrap();
                let silent = self.net.faults.silent;
                if silent == 0 || !self.net.random.one_in(silent) {
                    let data = request;
                    let after = passed + self.net.delay();
                    self.net.at(after, pipe, 1, Event::Request { to, data });
                }
            }
            Out::Close { arrival } => {
                let (pipe, side) = self.net.by_end[&self.end_at(place, arrival)];
                self.net.pipes[pipe].is_closed[side] = true;
                if self.net.pipes[pipe].ends[1 - side].is_some() {
                    self.net.send(passed, pipe, 1 - side, Event::Shutdown);
                }
                let at = passed + self.net.delay();
                self.net.at(at, pipe, side, Event::Closed);
            }
            Out::Send { arrival, op, bytes } => {
                let (pipe, side) = self.net.by_end[&self.end_at(place, arrival)];
                self.net
                    .send(passed, pipe, 1 - side, Event::Packet { bytes });
                if let Some(op) = op {
                    self.done(pipe, side, op, None);
                }
            }
            Out::Read {
                arrival,
                op,
                remote,
            } => {
                let (pipe, side) = self.net.by_end[&self.end_at(place, arrival)];
                self.net
                    .send(passed, pipe, 1 - side, Event::Read { op, remote });
            }
            Out::Write {
                arrival,
                op,
                remote,
                bytes,
            } => {
                let (pipe, side) = self.net.by_end[&self.end_at(place, arrival)];
                let event = Event::Write { op, remote, bytes };
                self.net.send(passed, pipe, 1 - side, event);
            }
        }
    }

    /// Completes an operation of an end; the completion may fail if the connection is broken.
    fn done(&mut self, pipe: usize, side: usize, op: u64, bytes: Option<Vec<u8>>) {
        let is_broken = self.net.pipes[pipe].is_broken;
        let error = (is_broken && self.net.random.one_in(2))
            .then(|| self.net.random.of(&[Error::CONNRESET, Error::TIMEDOUT]));
        let at = self.passed + self.net.delay();
        self.net
            .at(at, pipe, side, Event::Done { op, bytes, error });
    }

    /// Advances to the next event, and polls. Returns false if there was none.
    pub fn step(&mut self) -> bool {
        self.flush();
        let next = self.net.next_at();
        self.passed = self.passed.max(next.unwrap_or_default());
        while let Some(arrival) = self.net.arrived(self.passed) {
            self.take(arrival);
            self.flush();
        }
        let now = self.now();
        for node in self.nodes.iter_mut().flatten() {
            node.poll(now);
        }
        self.flush();
        next.is_some()
    }

    fn take(&mut self, arrival: Arrival) {
        let Arrival { pipe, side, event } = arrival;
        let now = self.now();
        match event {
            Event::Start { node } => return self.begin(node),
            Event::Timer { node, life, id } => {
                let node = self.nodes[node].as_mut();
                if let Some(node) = node.filter(|node| node.life == life) {
                    node.with(id, |session, cx| session.due(cx, now));
                }
                return;
            }
            Event::Request { to, data } => return self.requested(pipe, to, &data),
            _ => {}
        }
        let Some(end) = self.net.pipes[pipe].ends[side] else {
            return;
        };
        let lives = self.lives[end.node] == end.life;
        let Some(node) = self.nodes[end.node].as_mut().filter(|_| lives) else {
            return;
        };
        let id = id_of(end.arrival);
        match event {
            Event::Closed => {
                node.wire.finish_close(end.arrival);
                node.poll(now);
            }
            Event::Done { op, bytes, error } => {
                if let Some(bytes) = bytes {
                    node.wire.fill(op, &bytes);
                }
                node.landed(op, error);
            }
            // Packets of a connection that was closed here may still be in the queue.
            Event::Packet { bytes } => node.arrived(end.arrival, &bytes),
            _ if !node.wire.has(id, end.arrival) => {}
            Event::Refused { error, data } => {
                node.with(id, |session, cx| {
                    session.refused(cx, now, error, false, &data)
                });
            }
            Event::Answer { data } => {
                node.with(id, |session, cx| session.connected(cx, now, &data));
                let at = self.passed + self.net.delay();
                self.net.at(at, pipe, 1, Event::Established);
            }
            Event::Established => {
                node.with(id, |session, cx| session.connected(cx, now, &[]));
            }
            Event::Shutdown => {
                node.with(id, |session, cx| session.end(cx, now, Error::CONNRESET));
            }
            Event::Read { op, remote } => {
                let bytes: Vec<u8> = remote.iter().flat_map(|at| node.read_at(at)).collect();
                self.done(pipe, 1 - side, op, Some(bytes));
            }
            Event::Write { op, remote, bytes } => {
                let mut rest = &bytes[..];
                for at in &remote {
                    let (here, after) = rest.split_at(at.len);
                    node.write_at(at, here);
                    rest = after;
                }
                if let Some(op) = op {
                    self.done(pipe, 1 - side, op, None);
                }
            }
            Event::Start { .. } | Event::Timer { .. } | Event::Request { .. } => {}
        }
    }

    fn requested(&mut self, pipe: usize, to: usize, data: &[u8]) {
        let Some(from) = self.net.pipes[pipe].ends[0] else {
            return;
        };
        let refused = |data| Event::Refused {
            error: Error::CONNREFUSED,
            data,
        };
        let Some(node) = &mut self.nodes[to] else {
            return self.net.send(self.passed, pipe, 0, refused(Vec::new()));
        };
        match node.requested(addr_of(from.node), data) {
            Answer::Ignored => {}
            Answer::Refused(data) => self.net.send(self.passed, pipe, 0, refused(data)),
            Answer::Accepted(place, data) => {
                let end = self.end_at(to, place.arrival);
                self.net.accept(pipe, end);
                self.net.send(self.passed, pipe, 0, Event::Answer { data });
                let state = &self.net.pipes[pipe];
                if state.is_closed[0] || state.is_broken {
                    self.net.send(self.passed, pipe, 1, Event::Shutdown);
                }
            }
        }
    }
}
