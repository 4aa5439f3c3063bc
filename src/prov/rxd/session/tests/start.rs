// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The start of a job, at which an endpoint sends to many peers, many send to it, and none is polled in time.

use core::time::Duration;

use super::net::Links;
use super::world::{SETTINGS, World};
use crate::rxd::proto::{Ack, Packet};
use crate::rxd::session::Settings;
use crate::rxd::session::tests::world::MTU;
use base::iovec::lent::TestMemory;

const MS: Duration = Duration::from_millis(1);

fn send(world: &mut World<()>, from: usize, to: usize) {
    let now = world.now();
    let memory = TestMemory::new(vec![1; 8]);
    world.nodes[from].post(now, to, memory, (), |_| {}).unwrap();
}

fn receive(world: &mut World<()>, place: usize) {
    let now = world.now();
    world.nodes[place].receive(now, TestMemory::new(vec![0; 8]), (), false);
}

/// Runs until the endpoint has this number of completions, all of which are successes.
fn complete(world: &mut World<()>, place: usize, count: usize) {
    let mut done = 0;
    while done < count {
        for (_, completion) in world.nodes[place].completions() {
            assert_eq!(completion.error, 0);
            done += 1;
        }
        assert!(done == count || world.step(), "{done} of {count}");
    }
}

#[test]
fn an_endpoint_greets_few_peers_at_a_time() {
    const PEERS: usize = 300;
    let mut world: World<()> = World::new(PEERS + 1, Links::good(), 1);
    for peer in 1..=PEERS {
        receive(&mut world, peer);
        send(&mut world, 0, peer);
    }
    let greeted = world.nodes[0].socket.sent.len();
    assert!((1..=32).contains(&greeted), "{greeted} greetings at once");
    complete(&mut world, 0, PEERS);
    // Each peer was greeted once and got the message once.
    let acked = world.nodes[0].port.sessions().count();
    assert_eq!(acked, PEERS);
}

#[test]
fn absent_peers_do_not_keep_others_waiting() {
    const ABSENT: usize = 100;
    let mut world: World<()> = World::new(ABSENT + 2, Links::good(), 1);
    world.dead[2..].fill(true);
    for peer in 2..ABSENT + 2 {
        send(&mut world, 0, peer);
    }
    receive(&mut world, 1);
    send(&mut world, 0, 1);
    complete(&mut world, 0, 1);
    assert!(world.passed < Duration::from_secs(3), "{:?}", world.passed);
}

#[test]
fn a_deadline_that_is_noticed_late_is_postponed_once() {
    let mut world: World<()> = World::new(2, Links::good(), 1);
    let sent = |world: &mut World<()>| std::mem::take(&mut world.nodes[0].socket.sent).len();
    send(&mut world, 0, 1);
    assert_eq!(sent(&mut world), 1);
    let due = world.nodes[0].port.deadline().unwrap();
    world.nodes[0].settle(due + 40 * MS);
    assert_eq!(sent(&mut world), 0);
    world.nodes[0].settle(due + 79 * MS);
    assert_eq!(sent(&mut world), 0);
    world.nodes[0].settle(due + 95 * MS);
    assert_eq!(sent(&mut world), 1);
    // In time, and then late again: nothing is postponed without an end.
    let due = world.nodes[0].port.deadline().unwrap();
    world.nodes[0].settle(due);
    assert_eq!(sent(&mut world), 1);
}

#[test]
fn packets_that_were_not_read_may_hold_the_answer() {
    let mut world: World<()> = World::new(2, Links::good(), 1);
    send(&mut world, 0, 1);
    world.nodes[0].socket.sent.clear();
    let due = world.nodes[0].port.deadline().unwrap();
    world.nodes[0].port.common.is_behind = true;
    for late in [0, 1, 500, 999] {
        world.nodes[0].settle(due + late * MS);
        assert_eq!(world.nodes[0].socket.sent.len(), 0);
    }
    // A peer that floods the endpoint does not silence it.
    world.nodes[0].settle(due + 1000 * MS);
    world.nodes[0].settle(due + 2500 * MS);
    assert_eq!(world.nodes[0].socket.sent.len(), 1);
}

/// The window in the latest acknowledgement of an endpoint to a peer.
fn window(world: &World<()>, place: usize, to: usize) -> Option<u32> {
    let sent = world.nodes[place].socket.sent.iter().rev();
    sent.filter(|(peer, _)| *peer == to)
        .find_map(|(_, bytes)| match Packet::decode(bytes) {
            Ok(Packet::Ack(Ack { window, .. })) => Some(window),
            _ => None,
        })
}

#[test]
fn many_senders_get_small_windows() {
    const SENDERS: usize = 200;
    let mut world: World<()> = World::with(SENDERS + 1, Links::good(), 1, SETTINGS, &[MTU]);
    for _ in 0..2 * SENDERS {
        receive(&mut world, 0);
    }
    for peer in 1..=SENDERS {
        send(&mut world, peer, 0);
    }
    let mut windows = Vec::new();
    let mut done = 0;
    while done < SENDERS {
        done += world.nodes[0].completions().len();
        assert!(world.step());
        // `step` has passed the packets on, so they are made again here.
        for peer in 1..=SENDERS {
            let now = world.now();
            world.nodes[0].with(now, peer, |session, cx| session.send_ack(cx));
            windows.extend(window(&world, 0, peer));
        }
        world.nodes[0].socket.sent.clear();
    }
    let least = windows.iter().min().copied();
    assert!(
        least.is_some_and(|least| (2..=16).contains(&least)),
        "{least:?}"
    );
}

#[test]
fn a_closed_window_is_probed_rarely() {
    const SENDERS: usize = 50;
    const LEN: usize = 16 << 10;
    let settings = Settings {
        saved: 1 << 16,
        ..SETTINGS
    };
    let mut world: World<()> = World::with(SENDERS + 1, Links::good(), 1, settings, &[MTU]);
    for peer in 1..=SENDERS {
        let now = world.now();
        let memory = TestMemory::new(vec![1; LEN]);
        world.nodes[peer].post(now, 0, memory, (), |_| {}).unwrap();
    }
    // The messages have no receive, and few of them fit. All senders have found that out after a while.
    world.pass(Duration::from_secs(1));
    let before = world.net.sent;
    world.pass(Duration::from_secs(10));
    let carried = world.net.sent - before;
    // A probe and its answer, about every second.
    let most = (SENDERS * 10 * 4) as u64;
    assert!(
        carried < most,
        "{carried} packets while nothing can be taken"
    );
    for _ in 0..SENDERS {
        let now = world.now();
        world.nodes[0].receive(now, TestMemory::new(vec![0; LEN]), (), false);
    }
    complete(&mut world, 0, SENDERS);
}
