// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! All ranks, the network between them, and the time that passes for all.
//!
//! A rank polls when something has arrived, when a deadline has come, or when the application wants to post. A poll
//! takes time, by the cost model of `Costs`; what arrives meanwhile waits.

use std::time::{Duration, Instant};

use crate::app::App;
use crate::endpoint::{Endpoint, Limits, Outgoing, Setup};
use crate::events::{Events, MICROSECOND, MILLISECOND, SECOND, Time};
use crate::heap::{measured, uncounted};
use crate::network::{Load, Network, SendBuffer, Verdict};
use crate::scenario::Job;

/// Time that a rank's processor takes. The numbers are those of `make bench` on two cores, rounded: docs/scale.md.
const POLL: Time = 200;
const TAKE: Time = 1_500;
const SEND: Time = 1_500;
const CALL: Time = 100;
const VISIT: Time = 100;
const ACCEPT: Time = 25_000;
/// Time after which a kernel repeats an attempt to connect.
const CONNECT_AGAIN: Time = SECOND;
/// Events, and visits of sessions without an event, after which a job is given up: some minutes.
const MOST_WORK: u64 = 20_000_000;
/// Time between two polls of a rank that waits for something which no event announces.
const RETRY: Time = 50 * MICROSECOND;
/// Time between the last message and the end of all endpoints.
const PAUSE: Time = MILLISECOND;

enum Event<L> {
    Wake(u32),
    /// A rank closes its endpoint.
    Close(u32),
    /// A load has come to the switch, or to its rank.
    Switch {
        from: u32,
        to: u32,
        load: L,
    },
    Arrival {
        from: u32,
        to: u32,
        load: L,
    },
    /// All ranks of a node are gone without notice.
    Death {
        node: u32,
    },
}

struct Rank<E> {
    /// `None`: closed or dead.
    endpoint: Option<E>,
    app: App,
    node: u32,
    is_dead: bool,
    is_done: bool,
    is_closing: bool,
    /// The time of the wake-up in the queue that counts.
    wakes_at: Option<Time>,
    busy_until: Time,
    /// Time for which the application computes after each poll.
    computes: Time,
    buffer: SendBuffer,
    heap: isize,
    record: Record,
}

/// Measurements of a rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    pub loads: u64,
    pub retries: u64,
    pub connections: usize,
    /// Bytes of the heap: most, and when all messages were delivered.
    pub most_bytes: isize,
    pub idle_bytes: isize,
    pub longest_poll: Time,
    pub polls: u64,
    /// Bytes that were not freed when the endpoint was closed.
    pub left_bytes: isize,
}

/// The result of a job.
pub struct Outcome {
    pub messages: usize,
    pub done_at: Time,
    /// Time that the end of all endpoints took.
    pub closing: Time,
    pub loads: u64,
    /// Loads without room: until all messages were delivered, and at the end.
    pub dropped: u64,
    pub dropped_at_close: u64,
    pub longest_queue: usize,
    pub records: Vec<Record>,
    /// Most retries of all ranks within a millisecond.
    pub retries_at_once: u64,
    pub failed: usize,
}

pub struct World<E: Endpoint> {
    ranks: Vec<Rank<E>>,
    network: Network,
    events: Events<Event<E::Load>>,
    start: Instant,
    now: Time,
    limits: Limits,
    undone: usize,
    open: usize,
    done_at: Time,
    closed_at: Time,
    work: u64,
    /// Retries within the current millisecond, and most of all.
    retries: (Time, u64),
    retries_at_once: u64,
}

impl<E: Endpoint> World<E> {
    pub fn new(job: Job, limits: Limits, seed: u64) -> World<E> {
        let Job {
            apps,
            nodes,
            links,
            deaths,
            slow,
            ..
        } = job;
        let count = apps.len();
        let longest = apps.iter().map(App::longest).max().unwrap_or(0);
        let per_node = count.div_ceil(nodes);
        let mut events = Events::default();
        let mut ranks = Vec::with_capacity(count);
        for (place, app) in apps.into_iter().enumerate() {
            let peers = app.peers();
            let setup = Setup {
                place,
                peers: &peers,
                seed,
                longest,
                limits: &limits,
            };
            let (endpoint, heap) = measured(|| E::open(&setup));
            events.push(0, Event::Wake(place as u32));
            ranks.push(Rank {
                endpoint: Some(endpoint),
                app,
                node: (place / per_node) as u32,
                is_dead: false,
                is_done: false,
                is_closing: false,
                wakes_at: Some(0),
                busy_until: 0,
                computes: if slow.0 == Some(place) { slow.1 } else { 0 },
                buffer: SendBuffer::default(),
                heap,
                record: Record::default(),
            });
        }
        for (at, node) in deaths {
            events.push(at, Event::Death { node });
        }
        World {
            ranks,
            network: Network::new(links, nodes, seed),
            events,
            start: Instant::now(),
            now: 0,
            limits,
            undone: count,
            open: count,
            done_at: 0,
            closed_at: 0,
            work: 0,
            retries: (0, 0),
            retries_at_once: 0,
        }
    }

    /// Runs the job, then closes all endpoints at once. Returns an error if a rank does not end, or if a message is
    /// lost or arrives twice.
    pub fn run(mut self, closes: bool, limit: Time) -> Result<Outcome, String> {
        self.run_until(limit, |world| world.undone == 0)?;
        let (done_at, dropped) = (self.done_at, self.network.dropped);
        for rank in &mut self.ranks {
            rank.record.idle_bytes = rank.heap;
        }
        let closing_at = self.now + PAUSE;
        if closes {
            for rank in 0..self.ranks.len() {
                self.events.push(closing_at, Event::Close(rank as u32));
            }
            self.run_until(self.now + limit, |world| world.open == 0)?;
        }
        let mut failed = 0;
        for rank in &mut self.ranks {
            failed += rank.app.failed.len();
            if let Some(endpoint) = &rank.endpoint {
                rank.record.retries = endpoint.retries();
            }
        }
        self.check()?;
        Ok(Outcome {
            messages: self.ranks.iter().map(|rank| rank.app.messages()).sum(),
            done_at,
            closing: self.closed_at.saturating_sub(closing_at),
            loads: self.network.sent,
            dropped,
            dropped_at_close: self.network.dropped - dropped,
            longest_queue: self.network.longest_queue,
            records: self.ranks.iter().map(|rank| rank.record).collect(),
            retries_at_once: self.retries_at_once,
            failed,
        })
    }

    /// Checks that messages failed only if their receiver is dead.
    fn check(&self) -> Result<(), String> {
        for (place, rank) in self.ranks.iter().enumerate() {
            if let Some(fault) = &rank.app.fault {
                return Err(format!("rank {place}: {fault}"));
            }
            if rank.app.lost > 0 && !self.ranks.iter().any(|rank| rank.is_dead) {
                return Err(format!("rank {place}: a receive failed"));
            }
            let mut failed = rank.app.failed.iter();
            if let Some(to) = failed.find(|&&to| !self.ranks[to as usize].is_dead) {
                return Err(format!("rank {place}: a message to rank {to} failed"));
            }
        }
        Ok(())
    }

    fn run_until(
        &mut self,
        limit: Time,
        is_over: impl Fn(&World<E>) -> bool,
    ) -> Result<(), String> {
        while !is_over(self) {
            let Some((at, event)) = self.events.pop() else {
                return Err(format!("nothing happens any more: {}", self.missing()));
            };
            if at > limit {
                return Err(format!("not over after {limit} ns: {}", self.missing()));
            }
            if self.work > MOST_WORK {
                let milliseconds = self.now / MILLISECOND;
                return Err(format!("given up at {milliseconds} ms: {}", self.missing()));
            }
            self.now = at;
            self.work += 1;
            self.handle(event);
        }
        Ok(())
    }

    fn missing(&self) -> String {
        let mut left = self.ranks.iter().enumerate();
        match left.find(|(_, rank)| !rank.is_done && !rank.is_dead) {
            Some((place, rank)) => {
                format!(
                    "{} ranks, first rank {place}: {}",
                    self.undone,
                    rank.app.missing()
                )
            }
            None => format!("{} endpoints are not closed", self.open),
        }
    }

    fn instant(&self, at: Time) -> Instant {
        self.start + Duration::from_nanos(at)
    }

    fn time(&self, at: Instant) -> Time {
        at.saturating_duration_since(self.start).as_nanos() as Time
    }

    fn wake(&mut self, place: usize, at: Time) {
        let rank = &mut self.ranks[place];
        let at = at.max(rank.busy_until).max(self.now);
        if rank.endpoint.is_some() && rank.wakes_at.is_none_or(|before| at < before) {
            rank.wakes_at = Some(at);
            self.events.push(at, Event::Wake(place as u32));
        }
    }

    fn handle(&mut self, event: Event<E::Load>) {
        match event {
            Event::Wake(place) => {
                let rank = &mut self.ranks[place as usize];
                if rank.wakes_at == Some(self.now) {
                    rank.wakes_at = None;
                    self.poll(place as usize);
                }
            }
            Event::Close(place) => {
                self.ranks[place as usize].is_closing = true;
                self.wake(place as usize, self.now);
            }
            Event::Switch { from, to, load } => {
                let node = self.ranks[to as usize].node as usize;
                match self.network.switch(self.now, node, &load) {
                    Verdict::Arrives(at) => self.events.push(at, Event::Arrival { from, to, load }),
                    Verdict::Again(at) => self.events.push(at, Event::Switch { from, to, load }),
                    Verdict::Dropped => {}
                }
            }
            Event::Arrival { from, to, load } => self.arrive(from as usize, to as usize, load),
            Event::Death { node } => self.kill(node),
        }
    }

    fn arrive(&mut self, from: usize, to: usize, load: E::Load) {
        let now = self.instant(self.now);
        let rank = &mut self.ranks[to];
        let Some(endpoint) = &mut rank.endpoint else {
            let is_known = !rank.is_dead;
            if let Some(sender) = self.ranks[from].endpoint.as_mut().filter(|_| is_known) {
                sender.unreachable(to);
            }
            return;
        };
        if let Some(load) = uncounted(|| endpoint.arrive(now, from, load)) {
            self.network.dropped += 1;
            // The queue of a listener is full. The kernel of the sender tries again.
            if load.flow().is_some() {
                let (from, to) = (from as u32, to as u32);
                self.events
                    .push(self.now + CONNECT_AGAIN, Event::Arrival { from, to, load });
            }
        }
        self.flush(to, self.now);
        self.wake(to, self.now);
    }

    /// Passes what an endpoint has sent to the network. The first load leaves at `at`.
    fn flush(&mut self, place: usize, at: Time) -> u64 {
        let Some(endpoint) = &mut self.ranks[place].endpoint else {
            return 0;
        };
        let (out, freed) = measured(|| endpoint.take_out());
        let mut count = 0;
        let rank = &mut self.ranks[place];
        rank.heap += freed;
        for Outgoing { to, load } in out {
            count += u64::from(!load.is_of_kernel());
            self.transmit(place, to, load, at + count * SEND);
        }
        count
    }

    fn transmit(&mut self, place: usize, to: u32, load: E::Load, at: Time) {
        let (from, rank) = (place as u32, &mut self.ranks[place]);
        let node = rank.node as usize;
        let there = self.ranks[to as usize].node as usize;
        let (leaves, arrives) = self.network.send(at, node, there, load.bytes());
        let rank = &mut self.ranks[place];
        rank.record.loads += 1;
        rank.buffer.push(leaves);
        let event = match node == there {
            true => Event::Arrival { from, to, load },
            false => Event::Switch { from, to, load },
        };
        self.events.push(arrives, event);
    }

    fn poll(&mut self, place: usize) {
        let (at, now) = (self.now, self.instant(self.now));
        let rank = &mut self.ranks[place];
        let Some(endpoint) = &mut rank.endpoint else {
            return;
        };
        let room = rank.buffer.room(at, self.limits.socket_packets);
        let retries = endpoint.retries();
        let ((work, calls, is_closed), grown) = measured(|| {
            let work = endpoint.poll(now, room);
            let calls = rank.app.step(endpoint, now, place as u32, at);
            let is_closed = rank.is_closing && endpoint.close(now);
            (work, calls, is_closed)
        });
        rank.heap += grown;
        rank.record.connections = rank.record.connections.max(endpoint.connections());
        self.work += work.visits as u64;
        let took = POLL
            + work.taken as Time * TAKE
            + work.visits as Time * VISIT
            + work.connects as Time * ACCEPT
            + calls * CALL;
        let sent = self.flush(place, at + took);
        let rank = &mut self.ranks[place];
        // The packets that were just sent are in the provider's slots, which are not counted.
        rank.record.most_bytes = rank.record.most_bytes.max(rank.heap);
        let after = rank.endpoint.as_ref().map_or(retries, Endpoint::retries);
        let took = took + sent * SEND;
        rank.record.polls += 1;
        rank.record.longest_poll = rank.record.longest_poll.max(took);
        rank.busy_until = at + took + rank.computes;
        if !rank.is_done && rank.app.is_done() {
            rank.is_done = true;
            self.undone -= 1;
            self.done_at = self.done_at.max(at + took);
        }
        self.count_retries(after - retries);
        match is_closed {
            true => self.close(place),
            false => self.wake_next(place, work.taken as u64 + calls > 0),
        }
    }

    fn wake_next(&mut self, place: usize, was_active: bool) {
        let rank = &self.ranks[place];
        let Some(endpoint) = &rank.endpoint else {
            return;
        };
        if endpoint.has_input() || was_active {
            return self.wake(place, rank.busy_until);
        }
        let deadline = endpoint.deadline().map(|at| self.time(at));
        let blocked = (endpoint.is_blocked() || rank.is_closing)
            .then(|| rank.buffer.next_room().unwrap_or(0).max(self.now + RETRY));
        let start = rank.app.next_start().map(|at| at.max(self.now + RETRY));
        if let Some(next) = deadline.into_iter().chain(blocked).chain(start).min() {
            self.wake(place, next);
        }
    }

    fn count_retries(&mut self, retried: u64) {
        let millisecond = self.now / MILLISECOND;
        if self.retries.0 != millisecond {
            self.retries = (millisecond, 0);
        }
        self.retries.1 += retried;
        self.retries_at_once = self.retries_at_once.max(self.retries.1);
    }

    fn close(&mut self, place: usize) {
        let rank = &mut self.ranks[place];
        let endpoint = rank.endpoint.take();
        rank.record.retries = endpoint.as_ref().map_or(0, Endpoint::retries);
        let ((), freed) = measured(|| {
            if let Some(mut endpoint) = endpoint {
                uncounted(|| endpoint.release());
            }
        });
        rank.record.left_bytes = rank.heap + freed;
        self.closed_at = self.closed_at.max(rank.busy_until);
        self.open -= 1;
    }

    fn kill(&mut self, node: u32) {
        let mut dead = Vec::new();
        for (place, rank) in self.ranks.iter_mut().enumerate() {
            if rank.node == node && rank.endpoint.take().is_some() {
                rank.is_dead = true;
                self.undone -= usize::from(!rank.is_done);
                self.open -= 1;
                rank.is_done = true;
                dead.push(place as u32);
            }
        }
        for place in 0..self.ranks.len() {
            let app = &mut self.ranks[place].app;
            dead.iter().for_each(|&from| app.expect_no_more(from));
            self.wake(place, self.now);
        }
    }
}
