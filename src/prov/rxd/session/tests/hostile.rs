// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Peers that use the protocol to do harm: floods of greetings, announced messages that are never sent, reads that are
//! never acknowledged, forged packets.

use core::time::Duration;

use super::net::Links;
use super::world::{MTU, SETTINGS, World};
use crate::rxd::proto::{
    Ack, Cts, Data, GREETING, Head, Iovs, Kind, Op, Packet, RmaIov, Rts, Segments,
};
use crate::rxd::session::send::MAX_ANSWER_BYTES;
use crate::rxd::session::{From, Settings};
use crate::rxd::testing::{KEY, Name, Node};
use base::Error;
use base::iovec::lent::TestMemory;
use engine::transport::Address;
use object::ops::transfer::{RemoteSeg, Tx, What};

/// A hand-made peer at a place of the world where there is no endpoint.
struct UnknownSender {
    place: usize,
    /// The number that the endpoint has given this peer.
    id: u32,
    seq: u64,
}

type Pair = World<()>;

const VICTIM: usize = 1;

impl UnknownSender {
    fn new(place: usize) -> UnknownSender {
        UnknownSender {
            place,
            id: 0,
            seq: 0,
        }
    }

    fn name(&self) -> Name {
        Name::at(self.place)
    }

    /// Hands a packet to the victim and takes what it sends to this peer.
    fn say(&mut self, world: &mut Pair, bytes: &[u8]) -> Vec<Vec<u8>> {
        let now = world.now();
        let node: &mut Node<()> = &mut world.nodes[VICTIM];
        node.take(now, &From::UnknownSender(Some(self.name())), bytes);
        node.settle(now);
        let (own, others): (Vec<_>, Vec<_>) = std::mem::take(&mut node.socket.sent)
            .into_iter()
            .partition(|(to, _)| *to == self.place);
        node.socket.sent = others;
        own.into_iter().map(|(_, bytes)| bytes).collect()
    }

    fn greet(&mut self, world: &mut Pair) {
        let mut out = [0; GREETING];
        let len = Rts::encode(self.place as u32, &self.name().to_bytes(), true, &mut out);
        for answer in self.say(world, &out[..len]) {
            if let Ok(Packet::Cts(cts)) = Packet::decode(&answer) {
                self.id = cts.id;
            }
        }
        assert_ne!(self.id, 0);
    }

    fn head(&mut self) -> Head {
        self.seq += 1;
        Head {
            peer: self.id,
            seq: self.seq - 1,
        }
    }

    fn op(&mut self, world: &mut Pair, op: Op, payload: &[u8]) -> Vec<Vec<u8>> {
        let head = self.head();
        self.op_again(world, head, op, payload)
    }

    fn op_again(&mut self, world: &mut Pair, head: Head, op: Op, payload: &[u8]) -> Vec<Vec<u8>> {
        let mut out = vec![0; MTU];
        let len = op.encode(head, &mut out);
        out.truncate(len);
        out.extend_from_slice(payload);
        self.say(world, &out)
    }

    /// The number of the packet that the victim expects next, from its last acknowledgement.
    fn acked(answers: &[Vec<u8>]) -> Option<u64> {
        let mut acks = answers
            .iter()
            .filter_map(|bytes| match Packet::decode(bytes) {
                Ok(Packet::Ack(ack)) => Some(ack.next),
                _ => None,
            });
        acks.next_back()
    }
}

fn message(segments: Option<Segments>) -> Op {
    Op {
        kind: Kind::Message,
        tag: 0,
        data: None,
        segments,
        iovs: Iovs::default(),
        atomic: [0; 2],
    }
}

fn read(transaction: u32, len: u64) -> Op {
    let mut iovs = Iovs::default();
    let (addr, key) = (0, KEY);
    iovs.push(RmaIov { addr, len, key });
    Op {
        kind: Kind::Read,
        segments: Some(Segments {
            total: len,
            count: len.div_ceil(1440),
            transaction,
        }),
        iovs,
        ..message(None)
    }
}

fn send(world: &mut Pair, len: usize) {
    let now = world.now();
    let memory = TestMemory::new(vec![5; len]);
    world.nodes[0]
        .post(now, VICTIM, memory, (), |_| {})
        .unwrap();
}

fn receive(world: &mut Pair, place: usize, len: usize) {
    let now = world.now();
    world.nodes[place].receive(now, TestMemory::new(vec![0; len]), (), false);
}

/// The error codes of the next `count` completions of an endpoint; 0 for success.
fn ended(world: &mut Pair, place: usize, count: usize) -> Vec<i32> {
    let mut all = Vec::new();
    let limit = world.passed + Duration::from_secs(100);
    while all.len() < count {
        let done = world.nodes[place].completions();
        all.extend(done.into_iter().map(|(_, completion)| completion.error));
        if all.len() < count {
            assert!(world.step() && world.passed < limit, "{all:?}");
        }
    }
    all
}

#[test]
fn strangers_that_were_answered_are_served_however_many_greet() {
    let mut world: Pair = World::new(2, Links::good(), 7);
    let mut strangers: Vec<UnknownSender> = (100..1100).map(UnknownSender::new).collect();
    strangers
        .iter_mut()
        .for_each(|stranger| stranger.greet(&mut world));
    // Most of them are forgotten by now.
    assert!(world.nodes[VICTIM].port.sessions().count() <= 300);
    for stranger in &mut strangers {
        receive(&mut world, VICTIM, 8);
        let answers = stranger.op(&mut world, message(None), b"hello");
        let done = world.nodes[VICTIM].completions();
        assert_eq!(done.len(), 1, "stranger {}", stranger.place);
        assert_eq!((done[0].1.error, done[0].1.len), (0, 5));
        // The message is acknowledged once the endpoint has learned the peer's number.
        let greeting = answers
            .iter()
            .find_map(|bytes| match Packet::decode(bytes) {
                Ok(Packet::Rts(rts)) => Some(rts.id),
                _ => None,
            });
        let acked = match greeting {
            Some(echo) => {
                assert_eq!(echo, stranger.id);
                let mut out = [0; GREETING];
                let len = Cts::encode(echo, stranger.place as u32, true, &mut out);
                UnknownSender::acked(&stranger.say(&mut world, &out[..len]))
            }
            None => UnknownSender::acked(&answers),
        };
        assert_eq!(acked, Some(1));
        // The same packet again changes nothing.
        let head = Head {
            peer: stranger.id,
            seq: 0,
        };
        stranger.op_again(&mut world, head, message(None), b"hello");
        assert!(world.nodes[VICTIM].completions().is_empty());
    }
}

#[test]
fn a_guessed_number_makes_no_session() {
    let mut world: Pair = World::new(2, Links::good(), 8);
    let mut stranger = UnknownSender::new(100);
    receive(&mut world, VICTIM, 8);
    let mut other = UnknownSender::new(101);
    other.greet(&mut world);
    // Numbers without a session, and the number of another address.
    for id in (1..4000).map(|i| i << 20).chain([other.id]) {
        stranger.id = id;
        stranger.seq = 0;
        stranger.op(&mut world, message(None), b"forged");
    }
    assert!(world.nodes[VICTIM].completions().is_empty());
    assert_eq!(world.nodes[VICTIM].port.sessions().count(), 1);
}

#[test]
fn quiet_strangers_make_room() {
    let mut world: Pair = World::new(2, Links::good(), 9);
    for place in 100..400 {
        let mut stranger = UnknownSender::new(place);
        stranger.greet(&mut world);
        receive(&mut world, VICTIM, 8);
        stranger.op(&mut world, message(None), b"hello");
        // The endpoint of the stranger is closed.
        let ack = Ack {
            peer: stranger.id,
            next: 0,
            window: 0,
            refused: Error::SHUTDOWN.code() as u32,
            beyond: 0,
        };
        let mut out = [0; GREETING];
        let len = ack.encode(&mut out);
        stranger.say(&mut world, &out[..len]);
        world.nodes[VICTIM].completions();
    }
    assert_eq!(world.nodes[VICTIM].port.sessions().count(), 300);
    world.passed += Duration::from_secs(600);
    for place in 1000..1300 {
        UnknownSender::new(place).greet(&mut world);
    }
    let left = world.nodes[VICTIM].port.sessions().count();
    assert!(left < 500, "{left}");
}

#[test]
fn strangers_that_are_not_quiet_make_room_if_there_are_too_many() {
    let mut world: Pair = World::new(2, Links::good(), 12);
    for place in 100..67_000 {
        let mut stranger = UnknownSender::new(place);
        stranger.greet(&mut world);
        // A message with a number of the endpoint proves the address.
        receive(&mut world, VICTIM, 8);
        stranger.op(&mut world, message(None), b"hello");
        let done = world.nodes[VICTIM].completions();
        assert_eq!(done.len(), 1, "stranger {place}");
        world.nodes[VICTIM].socket.sent.clear();
    }
    assert!(world.passed < Duration::from_secs(60));
    let kept = world.nodes[VICTIM].port.sessions().count();
    assert!(kept <= (64 << 10) + 256, "{kept}");
}

#[test]
fn answers_that_nobody_acknowledges_take_limited_memory() {
    let mut world: Pair = World::new(2, Links::good(), 10);
    let mut taken = 0;
    for place in 100..112 {
        let mut stranger = UnknownSender::new(place);
        stranger.greet(&mut world);
        for transaction in 0..4096 {
            let head = stranger.head();
            let answers = stranger.op_again(&mut world, head, read(transaction, 8192), &[]);
            // The endpoint stops a peer that has reached its limit.
            if UnknownSender::acked(&answers) == Some(head.seq) {
                break;
            }
            taken += 1;
        }
        // The endpoint sends its answers again and again.
        world.nodes[VICTIM].socket.sent.clear();
    }
    assert!(taken > 4000, "{taken}");
    let kept = world.nodes[VICTIM].port.common.answers;
    // Each peer is allowed one answer beyond the limit.
    assert!(kept <= MAX_ANSWER_BYTES + 12 * 1024, "{kept}");
    // An honest peer is answered.
    let now = world.now();
    let target: &'static [RemoteSeg] = &[RemoteSeg {
        addr: 0,
        len: 8192,
        key: KEY,
    }];
    let fill = |tx: &mut Tx<'_>| (tx.what, tx.target) = (What::Read, target);
    for _ in 0..20 {
        let memory = TestMemory::new(vec![0; 8192]);
        world.nodes[0].post(now, VICTIM, memory, (), fill).unwrap();
    }
    assert_eq!(ended(&mut world, 0, 20), [0; 20]);
    // When the peers are lost, their answers are freed.
    world.pass(Duration::from_secs(400));
    assert_eq!(world.nodes[VICTIM].port.common.answers, 0);
}

#[test]
fn messages_that_are_announced_and_not_sent_take_no_room() {
    let settings = Settings {
        saved: 1 << 20,
        ..SETTINGS
    };
    let mut world: Pair = World::with(2, Links::good(), 11, settings, &[MTU]);
    let total = 900_000;
    for place in 100..140 {
        let mut stranger = UnknownSender::new(place);
        stranger.greet(&mut world);
        let segments = Segments {
            total,
            count: 1 + (total - 1000).div_ceil(1440),
            transaction: 0,
        };
        stranger.op(&mut world, message(Some(segments)), &[7; 1000]);
    }
    // No receive waits for the message of the honest peer, either.
    send(&mut world, 200_000);
    assert_eq!(ended(&mut world, 0, 1), [0]);
}

/// A message that arrives in parts waits while there is no room, and continues when there is some.
#[test]
fn messages_that_arrive_in_parts_wait_for_room() {
    let settings = Settings {
        saved: 1 << 20,
        ..SETTINGS
    };
    let mut world: Pair = World::with(4, Links::good(), 12, settings, &[MTU]);
    for from in [0, 2, 3] {
        let now = world.now();
        let memory = TestMemory::new(vec![from as u8; 700_000]);
        world.nodes[from]
            .post(now, VICTIM, memory, (), |_| {})
            .unwrap();
    }
    world.pass(Duration::from_secs(20));
    let srx = world.nodes[VICTIM].domain.eps[world.nodes[VICTIM].ep].srx;
    let saved = world.nodes[VICTIM].domain.srxs[srx].saved();
    // The buffer of a message grows by doubling.
    assert!(saved > 1 << 18 && saved <= 3 << 19, "{saved}");
    for _ in 0..3 {
        receive(&mut world, VICTIM, 700_000);
        assert_eq!(ended(&mut world, VICTIM, 1), [0]);
        let now = world.now();
        world.nodes[VICTIM].settle(now);
    }
    for from in [0, 2, 3] {
        assert_eq!(ended(&mut world, from, 1), [0]);
    }
}

#[test]
fn a_reset_counts_only_with_a_number_that_the_peer_can_have_sent() {
    let mut world: Pair = World::new(2, Links::good(), 13);
    receive(&mut world, VICTIM, 8);
    send(&mut world, 8);
    assert_eq!(ended(&mut world, 0, 1), [0]);
    world.pass(Duration::from_secs(1));
    // More messages are in flight.
    world.dead[VICTIM] = true;
    (0..10).for_each(|_| send(&mut world, 8));
    let own_id = world.nodes[0].port.sessions().next().unwrap().own_id();
    let now = world.now();
    let gone = |next| {
        let ack = Ack {
            peer: own_id,
            next,
            window: 0,
            refused: Error::SHUTDOWN.code() as u32,
            beyond: 0,
        };
        let mut out = [0; GREETING];
        let len = ack.encode(&mut out);
        out[..len].to_vec()
    };
    let mut cts = [0; GREETING];
    let len = Cts::encode(own_id, 0x7777, true, &mut cts);
    let from = From::Route(VICTIM as u64);
    for forged in [gone(0), gone(12), gone(u64::MAX), cts[..len].to_vec()] {
        world.nodes[0].take(now, &from, &forged);
        assert!(world.nodes[0].completions().is_empty());
    }
    world.nodes[0].take(now, &from, &gone(1));
    let failed = world.nodes[0].completions();
    assert_eq!(failed.len(), 10);
}

/// The unsent packets of a refused operation are dropped.
#[test]
fn a_refused_operation_ends_at_once_however_long_it_is() {
    let mut world: Pair = World::new(2, Links::good(), 14);
    let len = 30_000_000;
    let target: &'static [RemoteSeg] = Box::leak(Box::new([RemoteSeg {
        addr: 0,
        len,
        key: KEY,
    }]));
    let now = world.now();
    let fill = |tx: &mut Tx<'_>| (tx.what, tx.target) = (What::Write, target);
    world.nodes[0]
        .post(now, VICTIM, TestMemory::new(vec![0; len]), (), fill)
        .unwrap();
    receive(&mut world, VICTIM, 8);
    send(&mut world, 8);
    assert_eq!(ended(&mut world, 0, 2), [Error::INVAL.code(), 0]);
    assert_eq!(ended(&mut world, VICTIM, 1), [0]);
    assert!(world.net.sent < 500, "{} packets", world.net.sent);
}

#[test]
fn a_part_behind_the_end_of_its_receive_is_not_kept() {
    let mut world: Pair = World::new(2, Links::good(), 15);
    let mut stranger = UnknownSender::new(100);
    stranger.greet(&mut world);
    let total = 1000 + 200 * 1440;
    let segments = Segments {
        total,
        count: 201,
        transaction: 0,
    };
    stranger.op(&mut world, message(Some(segments)), &[7; 1000]);
    // The receive takes the message while it arrives.
    receive(&mut world, VICTIM, 64);
    for segment in 0..200 {
        let head = stranger.head();
        let mut out = vec![0; MTU];
        let len = Data::encode_head(head, false, 0, segment, &mut out);
        out.truncate(len);
        out.extend([7; 1440]);
        stranger.say(&mut world, &out);
        let srx = world.nodes[VICTIM].domain.eps[world.nodes[VICTIM].ep].srx;
        assert!(world.nodes[VICTIM].domain.srxs[srx].saved() < 4096);
    }
    let done = world.nodes[VICTIM].completions();
    assert_eq!(done.len(), 1);
    assert_eq!(done[0].1.error, Error::TRUNC.code());
}
