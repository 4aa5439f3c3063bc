// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Very many small messages over a bad network: all arrive, once and in order.

use core::time::Duration;

use super::net::Links;
use super::world::{MTU, SETTINGS, World};
use super::{number, seeds};
use crate::rxd::session::Settings;
use base::Error;
use base::iovec::lent::TestMemory;

enum What {
    Send,
    Receive,
}

/// Sends `count` messages of 8 bytes one way and returns the time that took.
fn run(seed: u64, links: Links, count: u64, extended: bool) -> Duration {
    let settings = Settings {
        extended,
        ..SETTINGS
    };
    let mut world: World<What> = World::with(2, links, seed, settings, &[MTU]);
    for _ in 0..256 {
        let now = world.now();
        world.nodes[1].receive(now, TestMemory::new(vec![0; 8]), What::Receive, false);
    }
    let (mut posted, mut sent, mut received) = (0u64, 0u64, 0u64);
    while sent < count || received < count {
        let now = world.now();
        while posted < count && posted - sent < 512 {
            let memory = TestMemory::new(posted.to_ne_bytes().to_vec());
            match world.nodes[0].post(now, 1, memory, What::Send, |_| {}) {
                Ok(_) => posted += 1,
                Err(Error::AGAIN) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
        assert!(
            world.step(),
            "nothing happens any more: {sent} sent, {received} received"
        );
        let now = world.now();
        for (context, completion) in world.nodes[0].completions() {
            assert_eq!(completion.error, 0);
            assert!(matches!(
                world.nodes[0].posted.remove(context).what,
                What::Send
            ));
            sent += 1;
        }
        for (context, completion) in world.nodes[1].completions() {
            assert_eq!((completion.error, completion.len), (0, 8));
            let memory = world.nodes[1].posted.remove(context).memory.unwrap();
            let number = u64::from_ne_bytes(memory.bytes(0, 8).try_into().unwrap());
            assert_eq!(number, received, "after {:?}", world.passed);
            received += 1;
            world.nodes[1].receive(now, memory, What::Receive, false);
        }
    }
    assert_eq!((sent, received), (count, count));
    world.passed
}

#[test]
fn many_messages_come_once_and_in_their_order() {
    let bad = Links {
        lost: 100,
        repeated: 50,
        late: 100,
        ..Links::good()
    };
    let count = number("RXD_MESSAGES").unwrap_or(100_000);
    seeds(2, |seed| {
        run(seed, bad, count, true);
    });
}

#[test]
fn loss_costs_time_and_not_the_connection() {
    let time = |lost, extended| {
        let links = Links {
            lost,
            ..Links::good()
        };
        run(3, links, 20_000, extended)
    };
    let (good, bad) = (time(0, true), time(10, true));
    assert!(bad < good * 8, "{good:?} without loss, {bad:?} with 1 %");
    // A peer that drops packets out of order gets them again without waiting for a timeout.
    let plain = time(10, false);
    assert!(
        plain < good * 16,
        "{good:?} without loss, {plain:?} with 1 % and a plain peer"
    );
}
