// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Groups of 1 to 17 members on a simulated network: frames of a pair keep their order, otherwise the order is random.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use abi::*;

const GROUP: u64 = 0x1234_5678_9abc_def0;
const HEADROOM: usize = 3;

type Wire = VecDeque<(Frame, Vec<u8>)>;

struct Network {
    lanes: Vec<Lane<usize, u32>>,
    /// By sender and receiver.
    wires: BTreeMap<(usize, usize), Wire>,
    dead: Vec<bool>,
    ended: BTreeMap<(usize, u32), core::result::Result<Vec<u8>, Error>>,
    random: u64,
}

impl Network {
    fn new(members: usize, limit: usize) -> Network {
        let mut net = Network {
            lanes: (0..members).map(|_| Lane::new(limit, HEADROOM)).collect(),
            wires: BTreeMap::new(),
            dead: vec![false; members],
            ended: BTreeMap::new(),
            random: 0x9e37_79b9_7f4a_7c15 ^ members as u64,
        };
        for rank in 0..members {
            net.lanes[rank]
                .open(GROUP, (0..members).collect(), rank)
                .unwrap();
        }
        net
    }

    fn joined(members: usize, limit: usize) -> Network {
        let mut net = Network::new(members, limit);
        for rank in 0..members {
            net.lanes[rank].join(GROUP, false, u32::MAX).unwrap();
        }
        net.run();
        for rank in 0..members {
            assert_eq!(net.ended.remove(&(rank, u32::MAX)), Some(Ok(Vec::new())));
        }
        net
    }

    fn next(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) as usize
    }

    fn act(&mut self, rank: usize) {
        while let Some(action) = self.lanes[rank].actions.pop_front() {
            match action {
                Action::Watch(peer) if self.dead[peer] => {
                    self.lanes[rank].lost(&peer, Error::CONNREFUSED);
                }
                Action::Watch(_) | Action::Lost(_) => {}
                Action::Send { to, frame, bytes } => {
                    assert_ne!(to, rank);
                    if !self.dead[to] {
                        let wire = self.wires.entry((rank, to)).or_default();
                        wire.push_back((frame, bytes[HEADROOM..].to_vec()));
                    }
                }
                Action::Ended(token, result) => {
                    let flat = result.map(|(data, pieces)| {
                        let pieces = pieces.into_iter().flat_map(|piece| data[piece].to_vec());
                        pieces.collect::<Vec<u8>>()
                    });
                    assert!(self.ended.insert((rank, token), flat).is_none());
                }
            }
        }
    }

    /// Runs until no frame moves. Frames without room are tried again later.
    fn run(&mut self) {
        let mut idle = 0;
        loop {
            for rank in 0..self.lanes.len() {
                self.act(rank);
            }
            self.wires.retain(|_, wire| !wire.is_empty());
            if self.wires.is_empty() || idle > 100 * self.wires.len() {
                return;
            }
            let pick = self.next() % self.wires.len();
            let (&(from, to), wire) = self.wires.iter_mut().nth(pick).unwrap();
            let (frame, bytes) = wire.front().cloned().unwrap();
            match self.lanes[to].place(&from, &frame, bytes.len() as u64) {
                Place::Wait => {
                    idle += 1;
                    continue;
                }
                Place::Take { kept } => self.lanes[to].arrived(&from, &frame, bytes, kept),
                Place::Drop => {}
                Place::Refuse(why) => panic!("{why}"),
            }
            idle = 0;
            self.wires.get_mut(&(from, to)).unwrap().pop_front();
        }
    }

    fn kill(&mut self, rank: usize) {
        self.dead[rank] = true;
        self.lanes[rank] = Lane::new(0, HEADROOM);
        self.wires.retain(|&(_, to), _| to != rank);
        // The frames that the member had sent still arrive, and then the end of its connections.
        self.run();
        for other in 0..self.lanes.len() {
            if other != rank {
                self.lanes[other].lost(&rank, Error::CONNRESET);
            }
        }
        self.run();
    }

    fn start(&mut self, rank: usize, call: &Call, token: u32) {
        let members = self.lanes.len();
        let input = call.input(rank, members);
        let combine = reduces(call.what).then(|| atomic::combine(FI_UINT16, FI_SUM).unwrap());
        let sizes = (call.root, call.count * 2, 2);
        self.lanes[rank]
            .start(
                GROUP,
                call.what,
                sizes,
                combine,
                |data| data.extend_from_slice(&input),
                token,
            )
            .unwrap();
    }

    fn check(&mut self, rank: usize, call: &Call, token: u32) {
        let members = self.lanes.len();
        let got = self.ended.remove(&(rank, token));
        let want = call.output(rank, members);
        assert!(
            got == Some(Ok(want)),
            "{call:?} of {members} at {rank}: {:?}",
            got.map(|result| result.map(|bytes| bytes.len()))
        );
    }
}

#[derive(Clone, Copy, Debug)]
struct Call {
    what: fi_collective_op,
    root: usize,
    /// Number of 16-bit elements in a slice.
    count: usize,
}

impl Call {
    fn shape(&self, rank: usize, members: usize) -> Shape {
        Shape {
            what: self.what,
            members,
            rank,
            root: self.root,
            slice: 2 * self.count,
            element: 2,
        }
    }

    /// The elements of slice `slot` in a member's input.
    fn slice(&self, rank: usize, slot: usize) -> Vec<u16> {
        let element = |i: usize| (rank * 7919 + slot * 104_729 + i * 31 + 1) as u16;
        (0..self.count).map(element).collect()
    }

    fn input(&self, rank: usize, members: usize) -> Vec<u8> {
        let (slices, _) = self.shape(rank, members).extent();
        bytes((0..slices).flat_map(|slot| self.slice(rank, slot)))
    }

    fn sum(&self, members: usize, slot: usize) -> Vec<u16> {
        let mut sum = vec![0u16; self.count];
        for rank in 0..members {
            for (total, value) in sum.iter_mut().zip(self.slice(rank, slot)) {
                *total = total.wrapping_add(value);
            }
        }
        sum
    }

    /// The result of a member according to fi_collective(3).
    fn output(&self, rank: usize, members: usize) -> Vec<u8> {
        let is_root = rank == self.root;
        let all = 0..members;
        match self.what {
            FI_BROADCAST if !is_root => bytes(self.slice(self.root, 0)),
            FI_ALLTOALL => bytes(all.flat_map(|from| self.slice(from, rank))),
            FI_ALLREDUCE => bytes(self.sum(members, 0)),
            FI_ALLGATHER => bytes(all.flat_map(|from| self.slice(from, 0))),
            FI_REDUCE_SCATTER => bytes(self.sum(members, rank)),
            FI_REDUCE if is_root => bytes(self.sum(members, 0)),
            FI_SCATTER => bytes(self.slice(self.root, rank)),
            FI_GATHER if is_root => bytes(all.flat_map(|from| self.slice(from, 0))),
            _ => Vec::new(),
        }
    }
}

fn bytes(elements: impl IntoIterator<Item = u16>) -> Vec<u8> {
    elements.into_iter().flat_map(u16::to_ne_bytes).collect()
}

fn all_kinds() -> impl Iterator<Item = fi_collective_op> {
    (FI_BARRIER.0..=FI_GATHER.0).map(fi_collective_op)
}

#[test]
fn every_collective_gives_what_the_page_says_for_any_number_of_members() {
    for members in 1..=17 {
        let mut net = Network::joined(members, 1 << 20);
        // 128 elements are the largest slice that an all-to-all forwards through other members.
        for count in [0, 3, 129] {
            for what in all_kinds() {
                for root in [0, members - 1] {
                    let call = Call { what, root, count };
                    for rank in 0..members {
                        net.start(rank, &call, 0);
                    }
                    net.run();
                    for rank in 0..members {
                        net.check(rank, &call, 0);
                    }
                }
            }
        }
        assert!(net.lanes.iter().all(|lane| lane.saved() == 0));
    }
}

#[test]
fn large_vectors_are_reduced_in_parts() {
    for members in [1, 2, 3, 4, 6, 8, 11, 17] {
        let mut net = Network::joined(members, 1 << 24);
        for count in [8193] {
            for what in [FI_ALLREDUCE, FI_REDUCE_SCATTER] {
                let call = Call {
                    what,
                    root: 0,
                    count,
                };
                for rank in 0..members {
                    net.start(rank, &call, 0);
                }
                net.run();
                for rank in 0..members {
                    net.check(rank, &call, 0);
                }
            }
        }
    }
}

#[test]
fn rounds_grow_with_the_logarithm_of_the_members() {
    for what in all_kinds() {
        for members in (2..70).chain([127, 128, 129]) {
            let call = Call {
                what,
                root: members / 3,
                count: 1,
            };
            let frames = |rank| {
                let steps = call.shape(rank, members).plan().steps;
                let sends = steps
                    .iter()
                    .filter(|s| matches!(s, plan::Step::Send { .. }));
                sends.count()
            };
            let most = (0..members).map(frames).max().unwrap();
            let rounds = members.next_power_of_two().ilog2() as usize;
            assert!(
                most <= rounds + 1 || members <= 4,
                "{what:?} {members}: {most}"
            );
        }
    }
}

#[test]
fn members_may_run_ahead_and_several_collectives_be_under_way() {
    for members in 2..=9 {
        let mut net = Network::joined(members, 1 << 20);
        let calls: Vec<Call> = all_kinds()
            .map(|what| Call {
                what,
                root: 1,
                count: 50,
            })
            .collect();
        for rank in 0..members {
            for (call, token) in calls.iter().zip(0..) {
                net.start(rank, call, token);
            }
            // The others have not begun.
            net.run();
        }
        for rank in 0..members {
            for (call, token) in calls.iter().zip(0..) {
                net.check(rank, call, token);
            }
        }
        assert!(net.lanes.iter().all(|lane| lane.saved() == 0));
    }
}

#[test]
fn early_frames_beyond_the_limit_wait_in_the_network() {
    let call = Call {
        what: FI_BROADCAST,
        root: 0,
        count: 1000,
    };
    let mut net = Network::joined(2, 5000);
    for token in 0..10 {
        net.start(0, &call, token);
    }
    net.run();
    assert!(net.lanes[1].saved() <= 5000);
    assert_eq!(net.wires[&(0, 1)].len(), 8);
    for token in 0..10 {
        net.start(1, &call, token);
        net.run();
        net.check(1, &call, token);
    }
    assert_eq!(net.lanes[1].saved(), 0);
}

#[test]
fn a_join_waits_for_all_members() {
    for members in 2..=9 {
        let mut net = Network::new(members, 1 << 20);
        for rank in 1..members {
            net.lanes[rank].join(GROUP, false, 0).unwrap();
        }
        net.run();
        assert!(net.ended.is_empty());
        assert_eq!(net.lanes[1].membership(GROUP), Err(Error::OPBADSTATE));
        net.lanes[0].join(GROUP, false, 0).unwrap();
        net.run();
        assert_eq!(net.ended.len(), members);
        assert!(net.ended.values().all(Result::is_ok));
    }
}

/// Whenever a member dies, each other member's call ends: with success if it had all its data, otherwise with an error.
#[test]
fn the_death_of_a_member_ends_the_collective_everywhere() {
    for members in (2..=7).chain([9]) {
        for victim in [0, members / 2, members - 1] {
            for what in all_kinds() {
                for begun in [false, true] {
                    let call = Call {
                        what,
                        root: 0,
                        count: 9,
                    };
                    let mut net = Network::joined(members, 1 << 20);
                    for rank in 0..members {
                        if rank != victim || begun {
                            net.start(rank, &call, 0);
                        }
                    }
                    if begun {
                        // Some of its frames are sent, and none is received.
                        net.act(victim);
                    }
                    net.ended.clear();
                    net.kill(victim);
                    for rank in (0..members).filter(|&rank| rank != victim) {
                        match net.ended.remove(&(rank, 0)) {
                            Some(Ok(got)) => assert_eq!(got, call.output(rank, members)),
                            Some(Err(error)) => {
                                assert!(matches!(error, Error::CONNRESET | Error::CONNREFUSED));
                            }
                            None => panic!("{call:?} of {members} without {victim}: {rank} hangs"),
                        }
                    }
                    // A barrier needs all members.
                    for rank in (0..members).filter(|&rank| rank != victim) {
                        let barrier = Call {
                            what: FI_BARRIER,
                            ..call
                        };
                        net.start(rank, &barrier, 1);
                    }
                    net.run();
                    for rank in (0..members).filter(|&rank| rank != victim) {
                        assert!(matches!(net.ended.remove(&(rank, 1)), Some(Err(_))));
                    }
                }
            }
        }
    }
}

#[test]
fn members_that_do_not_agree_get_errors() {
    for (a, b) in [(3, 4), (4, 3)] {
        let mut net = Network::joined(2, 1 << 20);
        let call = |count| Call {
            what: FI_ALLREDUCE,
            root: 0,
            count,
        };
        net.start(0, &call(a), 0);
        net.start(1, &call(b), 0);
        net.run();
        assert_eq!(net.ended.remove(&(0, 0)), Some(Err(Error::INVAL)));
        assert_eq!(net.ended.remove(&(1, 0)), Some(Err(Error::INVAL)));
    }
    let mut net = Network::joined(2, 1 << 20);
    let barrier = Call {
        what: FI_BARRIER,
        root: 0,
        count: 0,
    };
    let gather = Call {
        what: FI_ALLGATHER,
        ..barrier
    };
    net.start(0, &barrier, 0);
    net.start(1, &gather, 0);
    net.run();
    assert!(net.ended.values().all(Result::is_err));
    assert_eq!(net.ended.len(), 2);
}

#[test]
fn leaving_cancels_what_runs_and_tells_the_others() {
    let mut net = Network::joined(5, 1 << 20);
    let barrier = Call {
        what: FI_BARRIER,
        root: 0,
        count: 0,
    };
    for rank in 0..4 {
        net.start(rank, &barrier, 0);
    }
    net.run();
    assert!(net.ended.is_empty());
    net.lanes[2].leave(GROUP);
    net.run();
    assert_eq!(net.ended[&(2, 0)], Err(Error::CANCELED));
    // The member that has not begun yet gets the error when it begins.
    net.start(4, &barrier, 0);
    net.run();
    for rank in [0, 1, 3, 4] {
        assert_eq!(net.ended[&(rank, 0)], Err(Error::CANCELED));
    }
    assert_eq!(net.lanes[2].membership(GROUP), Err(Error::INVAL));
    assert!(net.lanes.iter().all(|lane| lane.saved() == 0));
}

#[test]
fn strangers_are_refused() {
    let mut net = Network::joined(3, 1 << 20);
    let frame = Frame {
        group: GROUP,
        seq: 1,
        part: Part::Data { what: 0, round: 0 },
    };
    assert!(matches!(
        net.lanes[0].place(&77, &frame, 0),
        Place::Refuse(_)
    ));
    // An unknown group may still be joined, so its frames are saved, but only up to the limit.
    let unknown = Frame { group: 5, ..frame };
    let mut kept = 0;
    while net.lanes[0].place(&77, &unknown, 0) == (Place::Take { kept: true }) {
        net.lanes[0].arrived(&77, &unknown, Vec::new(), true);
        kept += 1;
        assert!(kept <= 1 << 14);
    }
    net.lanes[0].lost(&77, Error::CONNRESET);
    assert_eq!(net.lanes[0].saved(), 0);
}

#[test]
fn groups_that_are_joined_and_closed_take_bounded_memory() {
    let mut lane = Lane::<usize, u32>::new(1 << 20, HEADROOM);
    let list = 99;
    let cycle = |lane: &mut Lane<usize, u32>| {
        let group = GROUP + lane.count_join(list);
        lane.open(group, vec![0, 1], 0).unwrap();
        lane.join(group, true, 0).unwrap();
        lane.leave(group);
        lane.actions.clear();
        group
    };
    let data = |group, seq| Frame {
        group,
        seq,
        part: Part::Data {
            what: FI_BROADCAST.0 as u8,
            round: 0,
        },
    };
    // The payload of a frame is on its way while its group and many more are closed.
    lane.open(1, vec![0, 1], 0).unwrap();
    lane.join(1, true, 0).unwrap();
    let broadcast = (1, 2, 2);
    lane.start(1, FI_BROADCAST, broadcast, None, |_| {}, 0)
        .unwrap();
    assert_eq!(lane.place(&1, &data(1, 1), 2), Place::Take { kept: false });
    lane.leave(1);
    for _ in 0..closed::MOST {
        cycle(&mut lane);
    }
    let after_some = lane.remembered();
    lane.arrived(&1, &data(1, 1), vec![0; 2], false);
    assert_eq!(lane.saved(), 0);
    let mut last = 0;
    for _ in 0..4 * closed::MOST {
        last = cycle(&mut lane);
    }
    assert_eq!(lane.remembered(), after_some);
    // Late frames for the groups that were closed last are dropped.
    let oldest = last - closed::MOST as u64 + 1;
    for group in [last, oldest] {
        assert_eq!(lane.place(&1, &data(group, 1), 2), Place::Drop);
    }
    // Later ones are saved within the limit, and forgotten when the connection ends.
    let forgotten = data(oldest - 1, 1);
    assert_eq!(lane.place(&1, &forgotten, 2), Place::Take { kept: true });
    lane.arrived(&1, &forgotten, vec![0; 2], true);
    lane.lost(&1, Error::CONNRESET);
    assert_eq!(lane.saved(), 0);
    assert!(matches!(lane.actions.pop_front(), Some(Action::Lost(1))));
    assert!(lane.actions.is_empty());
}
