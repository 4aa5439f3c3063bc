// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Runs sessions against each other, over links that delay, cut, and end at any byte. A seed determines the run, and a
//! failed run prints it: `SESSION_SEED=N cargo test sessions` replays it, `SESSION_SEEDS=N` runs that many.

mod grace;
mod side;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use world::{Random, World};

const SEEDS: u64 = 10_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs one seed and returns the final world.
fn run(seed: u64) -> World {
    let mut world = World::new(seed);
    let mut random = Random(!seed);
    let steps = random.of(&[10, 40, 120]);
    let end = random.one_in(3).then(|| random.below(steps));
    for step in 0..steps {
        if end == Some(step) {
            world.cut();
        }
        world.step();
    }
    world.finish();
    world
}

#[test]
fn sessions_keep_their_promises_whatever_the_link_does() {
    let (first, count) = match number("SESSION_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("SESSION_SEEDS").unwrap_or(SEEDS)),
    };
    let next = AtomicU64::new(first);
    // Whether any message stopped in its payload because there was no room: over a socket, over a ring.
    let has_stopped = [AtomicBool::new(false), AtomicBool::new(false)];
    // Number of connections that were closed in agreement: over a socket, over a ring.
    let reopened = [AtomicU64::new(0), AtomicU64::new(0)];
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                break;
            }
            match catch_unwind(AssertUnwindSafe(|| run(seed))) {
                Ok(world) => {
                    let kind = usize::from(world.over_ring);
                    has_stopped[kind].fetch_or(world.has_stopped, Ordering::Relaxed);
                    reopened[kind].fetch_add(world.reopened as u64, Ordering::Relaxed);
                }
                Err(panic) => {
                    next.store(u64::MAX / 2, Ordering::Relaxed);
                    eprintln!("SESSION_SEED={seed} replays this");
                    resume_unwind(panic);
                }
            }
        }
    };
    let processors = thread::available_parallelism().map_or(1, |n| n.get());
    thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(work);
        }
    });
    let [sockets, rings] = has_stopped.map(AtomicBool::into_inner);
    assert!(count < SEEDS || sockets && rings, "{sockets} {rings}");
    let reopened = reopened.map(AtomicU64::into_inner);
    assert!(
        count < SEEDS || reopened.iter().all(|&n| n > 30),
        "{reopened:?}"
    );
}
