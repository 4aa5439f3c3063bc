// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Peers that die or restart, repeated packets, and packets of other hosts.

use core::time::Duration;

use super::net::Links;
use super::world::{MEMORY, MTU, SETTINGS, World};
use crate::rxd::proto::{Cts, GREETING, Packet, Rts};
use crate::rxd::session::{From, Settings};
use crate::rxd::testing::{KEY, Name, Node};
use base::Error;
use base::iovec::lent::TestMemory;
use engine::testing::Completion;
use engine::transport::Address;
use object::ops::transfer::{RemoteSeg, Tx, What};

type Pair = World<()>;

fn bytes(len: usize) -> TestMemory {
    TestMemory::new((0..len).map(|i| (7 * i + 1) as u8).collect())
}

fn pair() -> Pair {
    World::new(2, Links::good(), 1)
}

fn send(world: &mut Pair, from: usize, len: usize) -> usize {
    let now = world.now();
    world.nodes[from]
        .post(now, 1 - from, bytes(len), (), |_| {})
        .unwrap()
}

fn receive(world: &mut Pair, place: usize, len: usize) {
    let now = world.now();
    world.nodes[place].receive(now, TestMemory::new(vec![0; len]), (), false);
}

/// Runs until `count` operations of an endpoint have ended.
fn ended(world: &mut Pair, place: usize, count: usize) -> Vec<Completion> {
    let mut all = Vec::new();
    while all.len() < count {
        let done = world.nodes[place].completions();
        all.extend(done.into_iter().map(|(context, completion)| {
            world.nodes[place].posted.remove(context);
            completion
        }));
        if all.len() < count {
            assert!(world.step(), "nothing happens any more: {all:?}");
        }
    }
    all
}

fn errors(completions: &[Completion]) -> Vec<i32> {
    completions
        .iter()
        .map(|completion| completion.error)
        .collect()
}

/// Sends a message each way, so that the handshake between both sides is complete.
fn acquaint(world: &mut Pair) {
    for from in [0, 1] {
        receive(world, 1 - from, 8);
        send(world, from, 8);
        assert_eq!(errors(&ended(world, from, 1)), [0]);
        assert_eq!(errors(&ended(world, 1 - from, 1)), [0]);
    }
}

#[test]
fn a_peer_that_never_answers_is_given_up() {
    let mut world = pair();
    world.dead[1] = true;
    send(&mut world, 0, 8);
    send(&mut world, 0, 5000);
    let failed = errors(&ended(&mut world, 0, 2));
    assert_eq!(failed, [Error::CONNREFUSED.code(); 2]);
    let passed = world.passed;
    assert!(
        passed > Duration::from_secs(60) && passed < Duration::from_secs(240),
        "{passed:?}"
    );
    // The peer is alive now.
    world.dead[1] = false;
    acquaint(&mut world);
}

/// A host reports that nothing listens at the address: the peer's process is gone.
#[test]
fn a_peer_that_is_unreachable_is_given_up_within_30_seconds() {
    for knows in [false, true] {
        let mut world = pair();
        if knows {
            acquaint(&mut world);
            world.pass(Duration::from_secs(100));
        }
        let start = world.passed;
        send(&mut world, 0, 8);
        world.reports = true;
        world.dead[1] = true;
        send(&mut world, 0, 5000);
        let now = world.now();
        let source = world.nodes[0].port.sessions().next().unwrap().source;
        world.nodes[0].receive_from(now, bytes(8), (), source);
        let failed = errors(&ended(&mut world, 0, 3));
        assert_eq!(failed, [Error::CONNREFUSED.code(); 3]);
        let passed = world.passed - start;
        let limits = Duration::from_secs(20)..Duration::from_secs(30);
        assert!(limits.contains(&passed), "{passed:?}");
        world.dead[1] = false;
        acquaint(&mut world);
    }
}

/// The peer restarted at the same address before it was given up.
#[test]
fn a_peer_that_answers_again_is_not_given_up() {
    let mut world = pair();
    world.reports = true;
    world.dead[1] = true;
    send(&mut world, 0, 8);
    world.pass(Duration::from_secs(15));
    world.dead[1] = false;
    receive(&mut world, 1, 8);
    assert_eq!(errors(&ended(&mut world, 0, 1)), [0]);
}

#[test]
fn receives_that_name_a_peer_that_dies_end() {
    let mut world = pair();
    acquaint(&mut world);
    let now = world.now();
    // There is no address vector; matching identifies the peer by its source number.
    let source = world.nodes[0].port.sessions().next().unwrap().source;
    world.nodes[0].receive_from(now, bytes(8), (), source);
    receive(&mut world, 0, 8);
    world.dead[1] = true;
    send(&mut world, 0, 8);
    let mut failed = errors(&ended(&mut world, 0, 2));
    failed.sort();
    // The other receive stays.
    assert_eq!(failed, [Error::CONNREFUSED.code(); 2]);
    assert_eq!(world.nodes[0].posted.len(), 1);
}

#[test]
fn operations_with_a_peer_that_dies_end_on_both_sides() {
    let mut world = pair();
    acquaint(&mut world);
    // A receive that has begun, a read without an answer, and an unacknowledged message.
    receive(&mut world, 1, 400_000);
    send(&mut world, 0, 400_000);
    let target = [RemoteSeg {
        addr: 0,
        len: 60_000,
        key: KEY,
    }];
    let now = world.now();
    let fill = |tx: &mut Tx<'_>| {
        tx.what = What::Read;
        // The target list must outlive the call.
        tx.target = Box::leak(Box::new(target));
    };
    world.nodes[1]
        .post(now, 0, TestMemory::new(vec![0; 60_000]), (), fill)
        .unwrap();
    world.pass(Duration::from_micros(220));
    // Each side considers the other dead.
    world.dead = vec![true, false];
    let start = world.passed;
    let failed = errors(&ended(&mut world, 1, 2));
    assert!(failed.iter().all(|&error| error != 0), "{failed:?}");
    world.dead = vec![false, true];
    assert_eq!(
        errors(&ended(&mut world, 0, 1)),
        [Error::CONNREFUSED.code()]
    );
    assert!(world.passed - start < Duration::from_secs(500));
}

#[test]
fn a_peer_that_begins_anew_is_known_by_what_it_says() {
    for first in [0, 1] {
        let mut world = pair();
        acquaint(&mut world);
        receive(&mut world, 1, 8);
        // The restarted peer has other memory and other numbers.
        world.nodes[0] = Node::new(0, SETTINGS, MTU, vec![0; MEMORY], 99);
        match first {
            0 => {
                send(&mut world, 0, 8);
                assert_eq!(errors(&ended(&mut world, 0, 1)), [0]);
                assert_eq!(errors(&ended(&mut world, 1, 1)), [0]);
            }
            _ => {
                // This message was meant for the peer before its restart.
                send(&mut world, 1, 8);
                assert_eq!(errors(&ended(&mut world, 1, 1)), [Error::CONNRESET.code()]);
                assert!(world.passed < Duration::from_secs(2), "{:?}", world.passed);
            }
        }
        acquaint(&mut world);
    }
}

/// Repeats all packets of a conversation later, from any place.
#[test]
fn what_was_said_before_changes_nothing() {
    let mut world = pair();
    let mut heard: Vec<(usize, Vec<u8>)> = Vec::new();
    for round in 0..20 {
        for from in [0, 1] {
            receive(&mut world, 1 - from, 4000);
            send(&mut world, from, 3000 + round);
            while !world.nodes[1 - from].posted.is_empty() || !world.nodes[from].posted.is_empty() {
                for place in [0, 1] {
                    for (to, bytes) in &world.nodes[place].socket.sent {
                        heard.push((*to, bytes.clone()));
                    }
                }
                world.step();
                for place in [0, 1] {
                    for (context, completion) in world.nodes[place].completions() {
                        assert_eq!(completion.error, 0);
                        world.nodes[place].posted.remove(context);
                    }
                }
            }
        }
        for (to, bytes) in &heard {
            let now = world.now();
            world.nodes[*to].take(now, &From::Route(1 - *to as u64), bytes);
            world.nodes[*to].settle(now);
        }
        world.pass(Duration::from_secs(10));
        assert!(
            world
                .nodes
                .iter_mut()
                .all(|node| node.completions().is_empty())
        );
    }
    acquaint(&mut world);
}

/// Packets of a host that sees nothing of the conversation, and of one that sees everything but has another address.
#[test]
fn packets_of_others_are_nobodys() {
    let mut world = World::new(3, Links::good(), 5);
    acquaint(&mut world);
    receive(&mut world, 1, 8);
    let now = world.now();
    let own_id = world.nodes[1].port.sessions().next().unwrap().own_id();
    let (mut good, mut bad) = (0, 0);
    for peer in (0..4000).map(|i| i << 20).chain([own_id]) {
        let mut packet = vec![2, 0, 0x20, 0];
        packet.extend(u32::to_ne_bytes(peer));
        packet.extend(1u64.to_ne_bytes());
        packet.extend([0x66; 8]);
        assert!(Packet::decode(&packet).is_ok());
        // A sender that knows the number has another address.
        let from = [
            From::UnknownSender(None),
            From::UnknownSender(Some(Name::at(2))),
            From::Route(2),
        ];
        for from in &from {
            world.nodes[1].take(now, from, &packet);
            bad += world.nodes[1].completions().len();
        }
        if peer == own_id {
            world.nodes[1].take(now, &From::Route(0), &packet);
            good += world.nodes[1].completions().len();
        }
    }
    assert_eq!((good, bad), (1, 0));
}

#[test]
fn a_forged_greeting_does_not_end_what_there_is() {
    let mut world = pair();
    acquaint(&mut world);
    let mut out = [0; GREETING];
    let len = Rts::encode(0x1234, &Name::at(0).to_bytes(), true, &mut out);
    let now = world.now();
    world.nodes[1].take(now, &From::Route(0), &out[..len]);
    world.nodes[1].take(now, &From::UnknownSender(None), &out[..len]);
    let len = Cts::encode(77, 99, true, &mut out);
    world.nodes[1].take(now, &From::Route(0), &out[..len]);
    acquaint(&mut world);
}

#[test]
fn strangers_get_a_limited_place() {
    let mut world = pair();
    acquaint(&mut world);
    let mut out = [0; GREETING];
    let now = world.now();
    for place in 100..20_000 {
        let len = Rts::encode(1, &Name::at(place).to_bytes(), true, &mut out);
        world.nodes[1].take(now, &From::UnknownSender(None), &out[..len]);
    }
    assert!(world.nodes[1].port.sessions().count() <= 300);
    assert!(world.nodes[1].socket.routes <= 300);
    world.nodes[1].socket.sent.clear();
    acquaint(&mut world);
}

#[test]
fn an_access_that_is_not_granted_ends_and_harms_nothing() {
    for (what, len, addr, key, error) in [
        (What::Write, 8, 0, 99, Error::NOKEY),
        (What::Read, 8, 0, 99, Error::NOKEY),
        (What::Write, 50_000, MEMORY as u64 - 10, KEY, Error::INVAL),
        (What::Read, 8, MEMORY as u64 - 7, KEY, Error::INVAL),
        (What::Write, 8, u64::MAX - 3, KEY, Error::INVAL),
    ] {
        let mut world = pair();
        let before = world.nodes[1].memory.bytes(0, MEMORY);
        receive(&mut world, 1, 8);
        let now = world.now();
        let target: &'static [RemoteSeg] = Box::leak(Box::new([RemoteSeg { addr, len, key }]));
        let fill = |tx: &mut Tx<'_>| (tx.what, tx.target) = (what, target);
        world.nodes[0].post(now, 1, bytes(len), (), fill).unwrap();
        send(&mut world, 0, 8);
        assert_eq!(
            errors(&ended(&mut world, 0, 2)),
            [error.code(), 0],
            "{what:?}"
        );
        assert_eq!(errors(&ended(&mut world, 1, 1)), [0]);
        assert!(world.nodes[1].memory.bytes(0, MEMORY) == before);
        assert!(world.passed < Duration::from_secs(1));
    }
}

#[test]
fn a_message_that_is_too_long_stays_within_its_receive() {
    for len in [100, 1000, 5000] {
        let mut world = pair();
        let now = world.now();
        let memory = TestMemory::new(vec![0xcc; 96]);
        let iov = memory.iov(0, 64);
        world.nodes[1].receive_into(now, iov, memory, ());
        send(&mut world, 0, len);
        assert_eq!(errors(&ended(&mut world, 0, 1)), [0]);
        while world.nodes[1].domain.cqs[world.nodes[1].cq].ring.is_empty() {
            assert!(world.step());
        }
        let (context, completion) = world.nodes[1].completions().remove(0);
        assert_eq!(completion.error, Error::TRUNC.code());
        let memory = world.nodes[1].posted.remove(context).memory.unwrap();
        assert_eq!(memory.bytes(0, 64), bytes(len).bytes(0, 64));
        assert_eq!(memory.bytes(64, 32), [0xcc; 32]);
    }
}

/// Without receives a limited number of bytes is kept. The rest waits at the sender, which does not give up.
#[test]
fn messages_without_a_receive_take_limited_memory() {
    let settings = Settings {
        saved: 1 << 16,
        ..SETTINGS
    };
    let mut world: Pair = World::with(2, Links::good(), 3, settings, &[MTU]);
    for _ in 0..60 {
        send(&mut world, 0, 5000);
    }
    world.pass(Duration::from_secs(2000));
    let srx = world.nodes[1].domain.eps[world.nodes[1].ep].srx;
    let saved = world.nodes[1].domain.srxs[srx].saved();
    assert!(saved > 1 << 15 && saved <= (1 << 16) + 4096, "{saved}");
    for _ in 0..60 {
        receive(&mut world, 1, 5000);
        assert_eq!(errors(&ended(&mut world, 1, 1)), [0]);
        let now = world.now();
        world.nodes[1].settle(now);
    }
    assert_eq!(errors(&ended(&mut world, 0, 60)), [0; 60]);
}

/// For a while the path drops long packets.
#[test]
fn a_path_that_is_narrow_for_a_while_delays() {
    let mut world = pair();
    acquaint(&mut world);
    world.net.links.mtu = 1000;
    receive(&mut world, 1, 100_000);
    send(&mut world, 0, 100_000);
    world.pass(Duration::from_secs(20));
    assert!(world.nodes[1].completions().is_empty());
    world.net.links.mtu = usize::MAX;
    assert_eq!(errors(&ended(&mut world, 0, 1)), [0]);
    assert_eq!(errors(&ended(&mut world, 1, 1)), [0]);
}

#[test]
fn a_region_that_is_closed_is_not_touched_any_more() {
    for what in [What::Write, What::Read] {
        let mut world = pair();
        acquaint(&mut world);
        let target: &'static [RemoteSeg] = &[RemoteSeg {
            addr: 0,
            len: 60_000,
            key: KEY,
        }];
        let now = world.now();
        let fill = |tx: &mut Tx<'_>| (tx.what, tx.target) = (what, target);
        // More packets than may be in flight at a time.
        world.nodes[0].socket.room = 10;
        world.nodes[1].socket.room = 10;
        world.nodes[0]
            .post(now, 1, bytes(60_000), (), fill)
            .unwrap();
        world.pass(Duration::from_micros(120));
        let region = world.nodes[1].domain.mrs.iter().next().unwrap().clone();
        world.nodes[1].domain.mrs.close(&region);
        let before = world.nodes[1].memory.bytes(0, MEMORY);
        world
            .nodes
            .iter_mut()
            .for_each(|node| node.socket.room = usize::MAX);
        let failed = errors(&ended(&mut world, 0, 1));
        assert_eq!(failed, [Error::CANCELED.code()], "{what:?}");
        assert!(world.nodes[1].memory.bytes(0, MEMORY) == before);
        acquaint(&mut world);
    }
}

#[test]
fn what_has_not_left_can_be_cancelled() {
    let mut world = pair();
    acquaint(&mut world);
    receive(&mut world, 1, 300_000);
    receive(&mut world, 1, 300_000);
    send(&mut world, 0, 300_000);
    let second = send(&mut world, 0, 100);
    send(&mut world, 0, 200);
    let node = &mut world.nodes[0];
    let unsent = node.port.take_unsent(node.ep, second).unwrap();
    node.domain.fail_tx(&unsent, Error::CANCELED);
    assert_eq!(errors(&ended(&mut world, 0, 1)), [Error::CANCELED.code()]);
    assert_eq!(errors(&ended(&mut world, 0, 2)), [0, 0]);
    let lens: Vec<usize> = ended(&mut world, 1, 2)
        .iter()
        .map(|done| done.len)
        .collect();
    assert_eq!(lens, [300_000, 200]);
}
