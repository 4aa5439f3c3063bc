// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Random operations among a few endpoints, determined by a seed: messages of all sizes with and without a receive,
//! writes, reads, atomics; and packets with flipped bits, which may end operations but must do no other harm.

use core::time::Duration;
use std::collections::HashMap;

use super::net::Links;
use super::seeds;
use super::world::{MEMORY, MTU, SETTINGS, World};
use crate::rxd::session::Settings;
use crate::rxd::testing::{KEY, Posted};
use abi::*;
use base::iovec::lent::TestMemory;
use base::{Error, IoVec, OpFlags};
use engine::testing::{Completion, Random};
use object::ops::atomic::{Atomic, Family};
use object::ops::transfer::{Context, RemoteSeg, Tx, What};

/// The purpose of an operation.
enum Job {
    /// A message to a peer in this lane.
    Send,
    Receive {
        tagged: bool,
    },
    Write {
        to: usize,
        at: usize,
        bytes: Vec<u8>,
    },
    Read {
        bytes: Vec<u8>,
    },
    Add,
}

/// Counts of the messages from one sender to one receiver.
#[derive(Default)]
struct Lane {
    sent: u64,
    arrived: u64,
    lens: Vec<usize>,
}

struct Mixed {
    world: World<Job>,
    random: Random,
    /// Lanes by receiver, sender, and whether the messages are tagged.
    lanes: HashMap<(usize, usize, bool), Lane>,
    /// Offset of the next write at each endpoint.
    written: Vec<usize>,
    added: Vec<u64>,
    is_corrupted: bool,
    failed: usize,
}

const NODES: usize = 3;
/// Layout of each endpoint's memory: a counter, the part that peers read, the part that peers write.
const READ: usize = 16;
const WRITE: usize = MEMORY / 2;

fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes: Vec<u8> = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.draw().to_ne_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Identifies a message by sender and number.
fn number_of(from: usize, number: u64) -> u64 {
    (from as u64) << 48 | number
}

impl Mixed {
    fn new(seed: u64) -> Mixed {
        let mut random = Random(seed);
        let is_corrupted = random.one_in(5);
        let links = Links {
            lost: random.of(&[0, 10, 100, 250]),
            repeated: random.of(&[0, 50]),
            late: random.of(&[0, 100, 400]),
            corrupted: if is_corrupted { 20 } else { 0 },
            ..Links::good()
        };
        let settings = Settings {
            window: random.of(&[1, 4, 32, 128]),
            saved: random.of(&[4096, 1 << 16, 1 << 24]),
            extended: !random.one_in(4),
            ..SETTINGS
        };
        let mtus = random.of(&[&[MTU][..], &[600, MTU], &[4096, 300, MTU]]);
        let mut world = World::with(NODES, links, seed, settings, mtus);
        for (place, node) in world.nodes.iter_mut().enumerate() {
            let bytes = content(place as u64, WRITE - READ);
            node.memory.iov(READ, WRITE - READ).copy_in(&bytes);
        }
        Mixed {
            world,
            random,
            lanes: HashMap::new(),
            written: vec![WRITE; NODES],
            added: vec![0; NODES],
            is_corrupted,
            failed: 0,
        }
    }

    fn len(&mut self) -> usize {
        let most = self.random.of(&[0, 1, 9, 200, 1400, 1500, 6000, 40_000]);
        self.random.below(most + 1)
    }

    fn step(&mut self) {
        let place = self.random.below(NODES);
        let peer = self.random.below(NODES);
        match self.random.below(10) {
            0..3 => self.send(place, peer),
            3..6 => self.receive(place),
            6 => self.write(place, peer),
            7 => self.read(place, peer),
            8 => self.add(place, peer),
            _ => {}
        }
        let room = self.random.of(&[0, 3, usize::MAX, usize::MAX]);
        self.world.nodes[place].socket.room = room;
        self.world.flush();
        for _ in 0..self.random.below(8) {
            self.world.step();
        }
        self.world
            .nodes
            .iter_mut()
            .for_each(|node| node.socket.room = usize::MAX);
        self.completions();
    }

    fn send(&mut self, place: usize, peer: usize) {
        let (tagged, len) = (self.random.one_in(2), self.len());
        let inject = len < 200 && self.random.one_in(3);
        let lane = self.lanes.entry((peer, place, tagged)).or_default();
        let number = number_of(place, lane.sent);
        let fill = |tx: &mut Tx<'_>| {
            tx.what = if tagged { What::Tagged } else { What::Msg };
            tx.flags |= OpFlags::REMOTE_CQ_DATA;
            (tx.tag, tx.data) = (number, number);
            if inject {
                tx.flags |= OpFlags::INJECT;
            }
        };
        let memory = TestMemory::new(content(number, len));
        let now = self.world.now();
        let posted = self.world.nodes[place].post(now, peer, memory, Job::Send, fill);
        let context = posted.unwrap();
        if inject {
            // The memory of an injected operation may be reused at once.
            let memory = &self.world.nodes[place].posted[context].memory;
            memory
                .as_ref()
                .unwrap()
                .iov(0, len)
                .copy_in(&vec![0xee; len]);
        }
        lane.sent += 1;
        lane.lens.push(len);
    }

    fn receive(&mut self, place: usize) {
        let (tagged, len) = (self.random.one_in(2), self.len());
        let (now, memory) = (self.world.now(), TestMemory::new(vec![0; len]));
        self.world.nodes[place].receive(now, memory, Job::Receive { tagged }, tagged);
    }

    fn write(&mut self, place: usize, peer: usize) {
        let room = MEMORY - self.written[peer];
        let len = self.len().min(room);
        let at = self.written[peer];
        self.written[peer] += len;
        let bytes = content(at as u64, len);
        let cut = self.random.below(len + 1);
        let two = self.random.one_in(2);
        let seg = |at: usize, len: usize| RemoteSeg {
            addr: at as u64,
            len,
            key: KEY,
        };
        let whole = [seg(at, len)];
        let parts = [seg(at, cut), seg(at + cut, len - cut)];
        let mut op = Tx {
            what: What::Write,
            iov: IoVec::empty(),
            flags: OpFlags::COMPLETION,
            dest: 0,
            context: Context::of_test(0),
            data: 0,
            tag: 0,
            target: if two { &parts } else { &whole },
        };
        self.access(
            place,
            peer,
            &mut op,
            TestMemory::new(bytes.clone()),
            Job::Write {
                to: peer,
                at,
                bytes,
            },
        );
    }

    fn read(&mut self, place: usize, peer: usize) {
        let len = self.len().min(WRITE - READ);
        let at = self.random.below(WRITE - READ - len + 1);
        let bytes = content(peer as u64, WRITE - READ)[at..at + len].to_vec();
        let whole = [RemoteSeg {
            addr: (READ + at) as u64,
            len,
            key: KEY,
        }];
        let mut op = Tx {
            what: What::Read,
            iov: IoVec::empty(),
            flags: OpFlags::COMPLETION,
            dest: 0,
            context: Context::of_test(0),
            data: 0,
            tag: 0,
            target: &whole,
        };
        self.access(
            place,
            peer,
            &mut op,
            TestMemory::new(vec![0; len]),
            Job::Read { bytes },
        );
    }

    fn access(&mut self, place: usize, peer: usize, tx: &mut Tx<'_>, memory: TestMemory, job: Job) {
        let now = self.world.now();
        let node = &mut self.world.nodes[place];
        let len = memory.len();
        tx.iov = memory.iov(0, len);
        let context = node.posted.insert(Posted {
            memory: Some(memory),
            what: job,
        });
        let op = node.op(tx.what, tx.flags, context, len);
        node.with(now, peer, |session, cx| session.post(cx, tx, op))
            .unwrap();
    }

    fn add(&mut self, place: usize, peer: usize) {
        let now = self.world.now();
        let target: &'static [RemoteSeg] = &[RemoteSeg {
            addr: 0,
            len: 8,
            key: KEY,
        }];
        let one = TestMemory::new(1u64.to_ne_bytes().to_vec());
        let operands = one.iov(0, 8);
        let fill = |result: IoVec, context: usize| Atomic {
            family: Family::Fetch,
            datatype: FI_UINT64,
            op: FI_SUM,
            operands,
            compare: IoVec::empty(),
            result,
            flags: OpFlags::COMPLETION,
            dest: 0,
            context: Context::of_test(context),
            data: 0,
            target,
        };
        let result = TestMemory::new(vec![0xff; 8]);
        let posted = self.world.nodes[place].post_atomic(now, peer, Job::Add, result, fill);
        posted.unwrap();
        self.added[peer] += 1;
    }

    fn completions(&mut self) {
        for place in 0..NODES {
            for (context, completion) in self.world.nodes[place].completions() {
                // Completions of peers' writes with data have no posted operation here.
                let Some(posted) = self.world.nodes[place].posted.try_remove(context) else {
                    panic!("an operation completes twice: {completion:?}");
                };
                let memory = posted.memory.unwrap();
                if completion.error != 0 && !matches!(posted.what, Job::Receive { .. }) {
                    assert!(self.is_corrupted, "{completion:?}");
                    self.failed += 1;
                    continue;
                }
                match posted.what {
                    Job::Receive { tagged } => self.received(place, tagged, &memory, &completion),
                    _ if self.is_corrupted => {}
                    Job::Send | Job::Add => {}
                    Job::Write { to, at, bytes } => {
                        assert_eq!(self.world.nodes[to].memory.bytes(at, bytes.len()), bytes);
                    }
                    Job::Read { bytes } => assert_eq!(memory.bytes(0, bytes.len()), bytes),
                }
            }
        }
    }

    fn received(
        &mut self,
        place: usize,
        tagged: bool,
        memory: &TestMemory,
        completion: &Completion,
    ) {
        if self.is_corrupted {
            return;
        }
        let number = completion.data;
        let (from, count) = ((number >> 48) as usize, number & 0xffff_ffff);
        let lane = self.lanes.get_mut(&(place, from, tagged)).unwrap();
        assert_eq!(
            count, lane.arrived,
            "a message is lost, or comes twice or out of order"
        );
        lane.arrived += 1;
        let len = lane.lens[count as usize];
        if len > memory.len() {
            assert_eq!(completion.error, Error::TRUNC.code());
            assert_eq!(
                memory.bytes(0, memory.len()),
                content(number, len)[..memory.len()]
            );
            return;
        }
        assert_eq!((completion.error, completion.len), (0, len));
        if tagged {
            assert_eq!(completion.tag, number);
        }
        assert_eq!(memory.bytes(0, len), content(number, len));
    }

    /// Waits until all posted operations have ended.
    fn finish(&mut self) {
        let mut rounds = 0;
        loop {
            // Messages that wait for a receive get one.
            for place in 0..NODES {
                let missing = |tagged: bool| {
                    let lanes = self
                        .lanes
                        .iter()
                        .filter(|((to, _, tags), _)| *to == place && *tags == tagged);
                    lanes.map(|(_, lane)| lane.sent - lane.arrived).sum::<u64>() as usize
                };
                for tagged in [false, true] {
                    let wanted = missing(tagged).min(64);
                    let node = &self.world.nodes[place];
                    let is_meant =
                        |job: &Job| matches!(job, Job::Receive { tagged: tags } if *tags == tagged);
                    let posted = node
                        .posted
                        .iter()
                        .filter(|(_, posted)| is_meant(&posted.what))
                        .count();
                    for _ in posted..wanted {
                        let (now, memory) = (self.world.now(), TestMemory::new(vec![0; 40_001]));
                        self.world.nodes[place].receive(
                            now,
                            memory,
                            Job::Receive { tagged },
                            tagged,
                        );
                    }
                }
            }
            for _ in 0..200 {
                self.world.step();
            }
            self.completions();
            let waits = |job: &Job| !matches!(job, Job::Receive { .. });
            let left = self.world.nodes.iter().flat_map(|node| node.posted.iter());
            let left = left.filter(|(_, posted)| waits(&posted.what)).count();
            let missing: u64 = self
                .lanes
                .values()
                .map(|lane| lane.sent - lane.arrived)
                .sum();
            if left == 0 && (self.is_corrupted || missing == 0) {
                break;
            }
            rounds += 1;
            assert!(
                rounds < 5000,
                "{left} operations do not end, {missing} messages do not arrive"
            );
        }
        if self.is_corrupted {
            return;
        }
        for (place, node) in self.world.nodes.iter().enumerate() {
            let counter = u64::from_ne_bytes(node.memory.bytes(0, 8).try_into().unwrap());
            assert_eq!(counter, self.added[place]);
            let bytes = node.memory.bytes(READ, WRITE - READ);
            assert!(bytes == content(place as u64, WRITE - READ));
        }
        // The endpoints are quiet now: none sends any more.
        self.world.pass(Duration::from_secs(600));
        let quiet = self.world.net.sent;
        self.world.pass(Duration::from_secs(600));
        assert_eq!(self.world.net.sent, quiet);
    }
}

#[test]
fn everything_ends_as_it_should() {
    seeds(300, |seed| {
        let mut mixed = Mixed::new(seed);
        let steps = mixed.random.of(&[20, 100, 400]);
        for _ in 0..steps {
            mixed.step();
        }
        mixed.finish();
    });
}
