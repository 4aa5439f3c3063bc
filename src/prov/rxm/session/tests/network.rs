// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connections between endpoints, and the events on their way. Each direction of a connection keeps its order;
//! different connections overtake each other.

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use slab::Slab;

use abi::fi_rma_iov;
use base::Error;
use engine::testing::Random;

/// One end of a connection: the endpoint, its life (it may restart), and the number of the connection there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    pub node: usize,
    pub life: u64,
    pub arrival: u64,
}

/// A connection. The first end has asked for it.
pub struct Pipe {
    pub ends: [Option<End>; 2],
    pub is_closed: [bool; 2],
    /// Nothing gets through any more.
    pub is_broken: bool,
    /// Time at which the last event to each end arrives.
    last: [Duration; 2],
}

pub enum Event {
    Request {
        to: usize,
        data: Vec<u8>,
    },
    Refused {
        error: Error,
        data: Vec<u8>,
    },
    /// Tells the first end, and then the second one, that the connection is up.
    Answer {
        data: Vec<u8>,
    },
    Established,
    Packet {
        bytes: Vec<u8>,
    },
    /// A read or write of memory at the end where it arrives; `op` is an operation of the other end.
    Read {
        op: u64,
        remote: Vec<fi_rma_iov>,
    },
    Write {
        op: Option<u64>,
        remote: Vec<fi_rma_iov>,
        bytes: Vec<u8>,
    },
    /// The end of an operation, with what was read.
    Done {
        op: u64,
        bytes: Option<Vec<u8>>,
        error: Option<Error>,
    },
    /// The other end is closed, or the connection is broken.
    Shutdown,
    /// The end of a connection is complete.
    Closed,
    Timer {
        node: usize,
        life: u64,
        id: usize,
    },
    /// An endpoint that has restarted is up again.
    Start {
        node: usize,
    },
}

impl Event {
    /// Whether it goes through the connection.
    fn is_data(&self) -> bool {
        use Event::*;
        matches!(
            self,
            Answer { .. } | Established | Packet { .. } | Read { .. } | Write { .. } | Done { .. }
        )
    }
}

/// An event for one end of a connection.
pub struct Arrival {
    pub pipe: usize,
    pub side: usize,
    pub event: Event,
}

/// Faults and delays.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub delay: Duration,
    /// Requests get lost, one of so many; 0: none.
    pub silent: usize,
    /// A step breaks a connection, or restarts an endpoint, one of so many; 0: none.
    pub breaks: usize,
    pub restarts: usize,
}

pub struct Network {
    pub faults: Faults,
    pub random: Random,
    pub pipes: Vec<Pipe>,
    pub by_end: BTreeMap<End, (usize, usize)>,
    order: u64,
    /// Times of the events, and their places in `events`.
    heap: BinaryHeap<Reverse<(Duration, u64, usize)>>,
    events: Slab<Arrival>,
}

/// No connection.
pub const NOWHERE: usize = usize::MAX;

impl Network {
    pub fn new(faults: Faults, seed: u64) -> Network {
        Network {
            faults,
            random: Random(seed),
            pipes: Vec::new(),
            by_end: BTreeMap::new(),
            order: 0,
            heap: BinaryHeap::new(),
            events: Slab::new(),
        }
    }

    /// Adds a connection that this end asks for.
    pub fn open(&mut self, end: End) -> usize {
        self.pipes.push(Pipe {
            ends: [Some(end), None],
            is_closed: [false; 2],
            is_broken: false,
            last: [Duration::ZERO; 2],
        });
        let pipe = self.pipes.len() - 1;
        self.by_end.insert(end, (pipe, 0));
        pipe
    }

    /// Adds the second end.
    pub fn accept(&mut self, pipe: usize, end: End) {
        self.pipes[pipe].ends[1] = Some(end);
        self.by_end.insert(end, (pipe, 1));
    }

    /// Returns a delay.
    pub fn delay(&mut self) -> Duration {
        let part = 1 + self.random.below(8) as u32;
        let late = if self.random.one_in(16) { 10 } else { 1 };
        self.faults.delay * part / 4 * late
    }

    /// Sends an event to one end of a connection, after all earlier ones of its direction.
    pub fn send(&mut self, now: Duration, pipe: usize, side: usize, event: Event) {
        let broken = self.pipes[pipe].is_broken && event.is_data();
        if broken {
            return;
        }
        let at = (now + self.delay()).max(self.pipes[pipe].last[side]);
        self.pipes[pipe].last[side] = at;
        self.at(at, pipe, side, event);
    }

    /// Schedules an event, whatever the order.
    pub fn at(&mut self, at: Duration, pipe: usize, side: usize, event: Event) {
        self.order += 1;
        let place = self.events.insert(Arrival { pipe, side, event });
        self.heap.push(Reverse((at, self.order, place)));
    }

    /// Breaks a connection: what is on its way is lost, and both ends learn of it at some time.
    pub fn break_pipe(&mut self, now: Duration, pipe: usize) {
        if self.pipes[pipe].is_broken {
            return;
        }
        self.pipes[pipe].is_broken = true;
        for side in 0..2 {
            let at = now + self.delay() * self.random.of(&[0, 1, 20]);
            self.at(at, pipe, side, Event::Shutdown);
        }
    }

    pub fn next_at(&self) -> Option<Duration> {
        self.heap.peek().map(|&Reverse((at, ..))| at)
    }

    /// Takes the next event that has arrived.
    pub fn arrived(&mut self, now: Duration) -> Option<Arrival> {
        while self.next_at().is_some_and(|at| at <= now) {
            let Reverse((_, _, place)) = self.heap.pop()?;
            let arrival = self.events.remove(place);
            let pipe = self.pipes.get(arrival.pipe);
            if !(arrival.event.is_data() && pipe.is_some_and(|pipe| pipe.is_broken)) {
                return Some(arrival);
            }
        }
        None
    }

    /// Whether no message on this connection can have been lost.
    pub fn is_clean(&self, end: &End) -> bool {
        let &(pipe, _) = &self.by_end[end];
        let pipe = &self.pipes[pipe];
        !pipe.is_broken && pipe.is_closed == [false; 2]
    }
}
