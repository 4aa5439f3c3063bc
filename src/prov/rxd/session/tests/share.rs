// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Many senders share one slow link: the link carries few retransmissions, and each sender gets its share.

use core::time::Duration;

use super::net::Links;
use super::seeds;
use super::world::World;
use base::iovec::lent::TestMemory;
use object::ops::transfer::What;

const SENDERS: usize = 16;
const LEN: usize = 16 * 1024;
const TIME: Duration = Duration::from_secs(10);

fn run(seed: u64) {
    // 100 Mbit/s, half a millisecond away, with room for 64 packets.
    let links = Links {
        delay: Duration::from_micros(250),
        per_byte: Duration::from_nanos(80),
        late: 20,
        queue: 64,
        ..Links::good()
    };
    let mut world: World<usize> = World::new(SENDERS + 1, links, seed);
    let mut bytes = [0u64; SENDERS];
    let now = world.now();
    for _ in 0..64 {
        world.nodes[SENDERS].receive(now, TestMemory::new(vec![0; LEN]), 0, true);
    }
    for sender in 0..SENDERS {
        for _ in 0..4 {
            send(&mut world, sender);
        }
    }
    while world.passed < TIME {
        assert!(world.step());
        for sender in 0..SENDERS {
            for (context, completion) in world.nodes[sender].completions() {
                assert_eq!(completion.error, 0);
                world.nodes[sender].posted.remove(context);
                send(&mut world, sender);
            }
        }
        let now = world.now();
        for (context, completion) in world.nodes[SENDERS].completions() {
            assert_eq!((completion.error, completion.len), (0, LEN));
            bytes[completion.tag as usize] += LEN as u64;
            let memory = world.nodes[SENDERS].posted.remove(context).memory.unwrap();
            world.nodes[SENDERS].receive(now, memory, 0, true);
        }
    }
    let all: u64 = bytes.iter().sum();
    let most = TIME.as_nanos() as u64 / 80;
    let (least, greatest) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
    assert!(all * 10 > most * 7, "{all} of {most} bytes");
    assert!(least * 2 > *greatest, "{bytes:?}");
}

fn send(world: &mut World<usize>, sender: usize) {
    let now = world.now();
    let fill = |tx: &mut object::ops::transfer::Tx<'_>| {
        tx.what = What::Tagged;
        tx.tag = sender as u64;
    };
    world.nodes[sender]
        .post(now, SENDERS, TestMemory::new(vec![1; LEN]), 0, fill)
        .unwrap();
}

#[test]
fn senders_share_a_link() {
    seeds(2, run);
}
