// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Random operations between two endpoints, or of one with itself, while connections break, endpoints restart, and both
//! connect at the same time. Each message arrives once and in order, or its connection was lost.

use core::time::Duration;
use std::collections::BTreeMap;

use super::network::{End, Faults};
use super::seeds;
use super::world::{MEMORY, SETTINGS, World};
use crate::rxm::session::Settings;
use crate::rxm::testing::{KEY, Posted};
use abi::*;
use base::iovec::lent::TestMemory;
use base::{Error, IoVec, OpFlags};
use engine::testing::Random;
use object::ops::atomic::{Atomic, Family};
use object::ops::transfer::{Context, RemoteSeg, Tx, What};

/// The purpose of an operation.
enum Job {
    /// A message with this number.
    Send(u64),
    /// A receive, with its number among the endpoint's receives.
    Receive(u64),
    Write {
        end: End,
        to: usize,
        at: usize,
        bytes: Vec<u8>,
    },
    Read {
        bytes: Vec<u8>,
    },
    Add {
        to: usize,
    },
}

/// A message that was posted.
struct Sent {
    end: End,
    len: usize,
    /// The error of its completion, 0 for success.
    outcome: Option<i32>,
    /// The receive that got it: the life of the endpoint, and the number of the receive.
    arrived: Option<(u64, u64)>,
}

struct Mixed {
    world: World<Job>,
    random: Random,
    count: usize,
    /// Content of the part of each endpoint's memory that peers read.
    readable: Vec<Vec<u8>>,
    /// Messages by sender, its life, and their number: see `number_of`.
    sent: BTreeMap<u64, Sent>,
    /// The last number used, for messages and receives.
    last: u64,
    /// Additions to each endpoint's counter that were posted, and that have succeeded. Only for endpoints that do not
    /// restart.
    added: Vec<(u64, u64)>,
    has_faults: bool,
    /// No new operations but receives are posted.
    is_ending: bool,
}

/// Receiver and its life, sender and its life.
type Lane = (usize, u64, usize, u64);

/// Layout of each endpoint's memory: a counter, the part that peers read, the part that peers write.
const READ: usize = 16;
const WRITE: usize = MEMORY / 2;
/// Longest message.
const LONGEST: usize = 4000;

fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes = vec![0; len.next_multiple_of(8)];
    for word in bytes.as_chunks_mut().0 {
        *word = random.draw().to_ne_bytes();
    }
    bytes.truncate(len);
    bytes
}

fn readable(place: usize) -> Vec<u8> {
    content(place as u64, WRITE - READ)
}

/// Identifies a message by its sender, the life of that, and a number.
fn number_of(from: usize, life: u64, number: u64) -> u64 {
    (from as u64) << 56 | life << 48 | number
}

impl Mixed {
    fn new(seed: u64) -> Mixed {
        let mut random = Random(seed);
        let has_faults = random.one_in(2);
        let faults = Faults {
            delay: random.of(&[Duration::from_micros(10), Duration::from_millis(5)]),
            silent: if has_faults { random.of(&[0, 0, 4]) } else { 0 },
            breaks: if has_faults {
                random.of(&[0, 20, 60])
            } else {
                0
            },
            restarts: if has_faults {
                random.of(&[0, 40, 100])
            } else {
                0
            },
        };
        let settings = Settings {
            saved: random.of(&[700, 1 << 14, 1 << 20]),
            rendezvous_write: random.one_in(3),
            inject: random.of(&[0, 64, 128]),
            pieces: random.of(&[1, 4]),
            longest: random.of(&[300, 1 << 20]),
            wants_local: random.one_in(6),
            ..SETTINGS
        };
        let count = if random.one_in(8) { 1 } else { 2 };
        // Some endpoints count receives.
        let counted = (0..count).map(|_| random.of(&[0, 3, 4, 9]));
        let counted: Vec<usize> = counted.collect();
        let mixed = Mixed {
            world: World::with_receives(faults, settings, seed, counted),
            random,
            count,
            readable: (0..count).map(readable).collect(),
            sent: BTreeMap::new(),
            last: 0,
            added: vec![(0, 0); count],
            has_faults,
            is_ending: false,
        };
        for place in 0..count {
            mixed.fill_memory(place);
        }
        mixed
    }

    fn fill_memory(&self, place: usize) {
        if let Some(node) = &self.world.nodes[place] {
            let bytes = &self.readable[place];
            node.memory.iov(READ, WRITE - READ).copy_in(bytes);
        }
    }

    fn len(&mut self) -> usize {
        let most = self.random.of(&[0, 1, 9, 60, 256, 300, 1024, LONGEST]);
        self.random.below(most + 1)
    }

    fn step(&mut self) {
        let room = self.random.of(&[0, 1, 3, usize::MAX]);
        self.set_room(room);
        let place = self.random.below(self.count);
        let peer = match self.random.one_in(8) {
            true => place,
            false => self.count - 1 - place,
        };
        match self.random.below(10) {
            0..4 => self.send(place, peer),
            4..7 => self.receive(place),
            7 => self.write(place, peer),
            8 => self.read(place, peer),
            _ => self.add(place, peer),
        }
        let faults = self.world.net.faults;
        if faults.breaks > 0 && self.random.one_in(faults.breaks) {
            let pipes = self.world.net.pipes.len();
            if pipes > 0 {
                let pipe = pipes - 1 - self.random.below(pipes.min(3));
                let now = self.world.passed;
                self.world.net.break_pipe(now, pipe);
            }
        }
        if faults.restarts > 0 && self.random.one_in(faults.restarts) {
            let place = self.random.below(self.count);
            self.world.restart(place);
        }
        for _ in 0..self.random.below(6) {
            self.world.step();
        }
        self.set_room(usize::MAX);
        self.completions();
    }

    fn set_room(&mut self, room: usize) {
        for node in self.world.nodes.iter_mut().flatten() {
            node.wire.room = room;
        }
    }

    /// Returns the session for an operation of one endpoint for another, and its connection.
    fn session(&mut self, place: usize, peer: usize) -> Option<(usize, End)> {
        let now = self.world.now();
        let node = self.world.nodes[place].as_mut()?;
        if node.domain.may_post(node.ep).is_err() {
            return None;
        }
        let id = match node.approach(now, peer as u64) {
            Ok(id) => id,
            Err(Error::AGAIN) => return None,
            Err(error) => {
                assert!(self.has_faults, "no connection: {error:?}");
                return None;
            }
        };
        let arrival = node.sessions.get(id)?.link().arrival();
        Some((id, self.world.end_at(place, arrival)))
    }

    fn send(&mut self, place: usize, peer: usize) {
        let (len, cut) = (self.len(), self.random.one_in(3));
        let inject = len <= 100 && self.random.one_in(3);
        let Some((id, end)) = self.session(place, peer) else {
            return;
        };
        self.last += 1;
        let number = number_of(place, end.life, self.last);
        let memory = TestMemory::new(content(number, len));
        let mut iov = memory.iov(0, len);
        if cut && len > 1 {
            iov = memory.iov(0, len / 2);
            let rest = memory.iov(len / 2, len - len / 2);
            assert!(iov.append(rest).is_ok());
        }
        let mut flags = OpFlags::COMPLETION | OpFlags::REMOTE_CQ_DATA;
        if inject {
            flags |= OpFlags::INJECT;
        }
        let mut tx = transfer(What::Msg, iov, flags, &[]);
        tx.data = number;
        if self.post(place, id, &mut tx, memory, Job::Send(number)) {
            let outcome = None;
            let arrived = None;
            #[rustfmt::skip]
            self.sent.insert(number, Sent { end, len, outcome, arrived });
        }
    }

    /// Posts an operation. Returns false if there is no room for it.
    fn post(
        &mut self,
        place: usize,
        id: usize,
        tx: &mut Tx<'_>,
        memory: TestMemory,
        what: Job,
    ) -> bool {
        let node = self.world.nodes[place].as_mut().unwrap();
        let len = memory.len();
        let context = match node.post(id, tx, memory, what) {
            Ok(context) => context,
            Err((Error::AGAIN, _)) => return false,
            Err((error, _)) => panic!("{error:?}"),
        };
        if tx.flags.contains(OpFlags::INJECT) {
            // The memory of an injected operation may be reused at once.
            if let Some(posted) = node.posted.get(context) {
                posted.memory.iov(0, len).copy_in(&vec![0xee; len]);
            }
        }
        true
    }

    fn receive(&mut self, place: usize) {
        let named = !self.is_ending && self.random.one_in(4);
        let peer = self.count - 1 - place;
        let Some(node) = &mut self.world.nodes[place] else {
            return;
        };
        let is_receive = |posted: &Posted<Job>| matches!(posted.what, Job::Receive(_));
        let receives = node.posted.iter().filter(|(_, posted)| is_receive(posted));
        if !self.is_ending && receives.count() >= 16 {
            return;
        }
        self.last += 1;
        let source = if named { peer as u64 } else { FI_ADDR_UNSPEC };
        let memory = TestMemory::new(vec![0; LONGEST]);
        node.receive(memory, Job::Receive(self.last), source);
        self.world.flush();
    }

    fn write(&mut self, place: usize, peer: usize) {
        let len = self.random.below(600);
        let at = WRITE + self.random.below(MEMORY - WRITE - len);
        let Some((id, end)) = self.session(place, peer) else {
            return;
        };
        self.last += 1;
        let bytes = content(self.last, len);
        let target = [segment(at, len)];
        let memory = TestMemory::new(bytes.clone());
        let mut tx = transfer(
            What::Write,
            memory.iov(0, len),
            OpFlags::COMPLETION,
            &target,
        );
        if len <= 200 && self.random.one_in(3) {
            tx.flags |= OpFlags::INJECT;
        }
        let to = peer;
        let job = Job::Write { end, to, at, bytes };
        self.post(place, id, &mut tx, memory, job);
    }

    fn read(&mut self, place: usize, peer: usize) {
        let len = 1 + self.random.below(600);
        let at = self.random.below(WRITE - READ - len);
        let Some((id, _)) = self.session(place, peer) else {
            return;
        };
        let bytes = self.readable[peer][at..at + len].to_vec();
        let target = [segment(READ + at, len)];
        let memory = TestMemory::new(vec![0; len]);
        let mut tx = transfer(What::Read, memory.iov(0, len), OpFlags::COMPLETION, &target);
        self.post(place, id, &mut tx, memory, Job::Read { bytes });
    }

    fn add(&mut self, place: usize, peer: usize) {
        let Some((id, _)) = self.session(place, peer) else {
            return;
        };
        let one = TestMemory::new(1u64.to_ne_bytes().to_vec());
        let memory = TestMemory::new(vec![0xff; 8]);
        let (result, target) = (memory.iov(0, 8), [segment(0, 8)]);
        let node = self.world.nodes[place].as_mut().unwrap();
        let what = Job::Add { to: peer };
        let context = node.posted.insert(Posted { memory, what });
        let mut atomic = Atomic {
            family: Family::Fetch,
            datatype: FI_UINT64,
            op: FI_SUM,
            operands: one.iov(0, 8),
            compare: IoVec::empty(),
            result,
            flags: OpFlags::COMPLETION,
            dest: 0,
            context: Context::of_test(context),
            data: 0,
            target: &target,
        };
        let op = node.op(What::AtomicFetch, OpFlags::COMPLETION, context, 8);
        let posted = node.with(id, |session, cx| session.post_atomic(cx, &mut atomic, op));
        match posted.unwrap() {
            Ok(()) => self.added[peer].0 += 1,
            Err(Error::AGAIN) => drop(node.posted.remove(context)),
            Err(error) => panic!("{error:?}"),
        }
    }

    fn completions(&mut self) {
        for place in 0..self.count {
            let Some(node) = &mut self.world.nodes[place] else {
                continue;
            };
            let life = node.life;
            for (context, completion) in node.completions() {
                let node = self.world.nodes[place].as_mut().unwrap();
                let Some(posted) = node.posted.try_remove(context) else {
                    panic!("an operation completes twice: {completion:?}");
                };
                let Posted { memory, what } = posted;
                let error = completion.error;
                assert!(error == 0 || self.has_faults, "{completion:?}");
                match what {
                    Job::Send(number) => {
                        let sent = self.sent.get_mut(&number).unwrap();
                        assert_eq!(sent.outcome.replace(error), None);
                    }
                    Job::Receive(_) if error != 0 => {}
                    Job::Receive(receive) => {
                        let number = completion.data;
                        let sent = self.sent.get_mut(&number).expect("a message nobody sent");
                        assert_eq!(
                            sent.arrived.replace((life, receive)),
                            None,
                            "it comes twice"
                        );
                        assert_eq!(completion.len, sent.len);
                        assert!(memory.bytes(0, sent.len) == content(number, sent.len));
                    }
                    Job::Write { end, to, at, bytes } => self.wrote(error, end, to, at, &bytes),
                    Job::Read { bytes } if error == 0 && !self.has_faults => {
                        assert!(memory.bytes(0, bytes.len()) == bytes);
                    }
                    Job::Read { .. } => {}
                    Job::Add { to } => self.added[to].1 += u64::from(error == 0),
                }
            }
        }
    }

    /// Checks a write that was completed: its bytes are there, unless a later write has replaced them.
    fn wrote(&mut self, error: i32, end: End, to: usize, at: usize, bytes: &[u8]) {
        if error == 0 && bytes.is_empty() && self.world.net.is_clean(&end) {
            let node = self.world.nodes[to].as_ref().unwrap();
            assert!(node.memory.bytes(at, bytes.len()) == bytes);
        }
    }

    /// Number of messages on connections without a loss that have not arrived.
    fn missing(&self) -> usize {
        let is_missing =
            |sent: &&Sent| sent.arrived.is_none() && self.world.net.is_clean(&sent.end);
        self.sent.values().filter(is_missing).count()
    }

    /// Waits until all operations have ended, and checks what has arrived.
    fn finish(&mut self) {
        self.world.net.faults = Faults {
            silent: 0,
            breaks: 0,
            restarts: 0,
            ..self.world.net.faults
        };
        self.is_ending = true;
        let mut rounds = 0;
        loop {
            (0..self.count).for_each(|place| self.receive(place));
            for _ in 0..20 {
                self.world.step();
            }
            self.completions();
            let waits = |job: &Job| !matches!(job, Job::Receive(_));
            let nodes = self.world.nodes.iter().flatten();
            let left = nodes.flat_map(|node| node.posted.iter());
            let left = left.filter(|(_, posted)| waits(&posted.what)).count();
            let missing = self.missing();
            if left == 0 && missing == 0 {
                break;
            }
            rounds += 1;
            assert!(
                rounds < 1000,
                "{left} operations do not end, {missing} messages do not arrive"
            );
        }
        self.check_order();
        self.check_receives();
        if !self.has_faults {
            for (place, node) in self.world.nodes.iter().enumerate() {
                let node = node.as_ref().unwrap();
                let counter = u64::from_ne_bytes(node.memory.bytes(0, 8).try_into().unwrap());
                assert_eq!((counter, counter), self.added[place]);
            }
            let clean = |sent: &Sent| self.world.net.is_clean(&sent.end);
            assert!(self.sent.values().all(clean), "a connection was lost");
            self.check_connections();
        }
        self.close();
    }

    /// Messages of one life of a sender matched the receives of one life of a receiver in order.
    fn check_order(&self) {
        let mut lanes: BTreeMap<Lane, Vec<(u64, u64)>> = BTreeMap::new();
        for (&number, sent) in &self.sent {
            if let Some((life, receive)) = sent.arrived {
                let to = self.receiver_of(sent);
                let lane = (to, life, sent.end.node, sent.end.life);
                lanes.entry(lane).or_default().push((number, receive));
            }
            let is_lost = !self.world.net.is_clean(&sent.end);
            assert!(sent.outcome == Some(0) || is_lost, "a send has failed");
        }
        for lane in lanes.values() {
            // The numbers of messages rise, so the receives must, too.
            let is_sorted = lane.is_sorted_by_key(|&(_, receive)| receive);
            assert!(is_sorted, "messages arrive out of order: {lane:?}");
        }
    }

    fn receiver_of(&self, sent: &Sent) -> usize {
        let (pipe, side) = self.world.net.by_end[&sent.end];
        self.world.net.pipes[pipe].ends[1 - side].map_or(usize::MAX, |end| end.node)
    }

    /// All receives that have not completed are still posted.
    fn check_receives(&self) {
        for node in self.world.nodes.iter().flatten() {
            let srx = &node.domain.srxs[node.domain.eps[node.ep].srx];
            assert_eq!(node.posted.len(), srx.posted_len());
        }
    }

    /// Each two endpoints have one connection, even if both have asked for one.
    fn check_connections(&self) {
        let mut pairs = BTreeMap::new();
        for pipe in &self.world.net.pipes {
            if let [Some(one), Some(other)] = pipe.ends {
                let pair = (one.node.min(other.node), one.node.max(other.node));
                *pairs.entry(pair).or_insert(0) += 1;
            }
        }
        assert!(pairs.values().all(|&count| count == 1), "{pairs:?}");
    }

    /// Closes the endpoints; nothing of them may be left.
    fn close(&mut self) {
        for node in self.world.nodes.iter_mut().flatten() {
            node.close();
        }
        while self.world.step() {}
        for node in self.world.nodes.iter().flatten() {
            node.assert_empty();
        }
    }
}

fn transfer<'a>(what: What, iov: IoVec, flags: OpFlags, target: &'a [RemoteSeg]) -> Tx<'a> {
    Tx {
        what,
        iov,
        flags,
        dest: 0,
        context: Context::of_test(0),
        data: 0,
        tag: 0,
        target,
    }
}

fn segment(at: usize, len: usize) -> RemoteSeg {
    RemoteSeg {
        addr: at as u64,
        len,
        key: KEY,
    }
}

#[test]
fn everything_ends_as_it_should() {
    seeds(10_000, |seed| {
        let mut mixed = Mixed::new(seed);
        let steps = mixed.random.of(&[10, 40, 120]);
        for _ in 0..steps {
            mixed.step();
        }
        mixed.finish();
    });
}
