// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Sessions over a simulated network of connections, on simulated time. Connections keep their order, but are delayed
//! and break; peers restart, connect at the same time, refuse and are silent. A seed determines each run and is printed
//! on failure: `RXM_SEED=N cargo test -p prov rxm` replays it, `RXM_SEEDS=N` sets the number of seeds.

mod attempts;
mod mixed;
mod network;
mod node;
mod paths;
mod wire;
mod world;

/// Numbers that look random and are the same for the same seed (splitmix64).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Returns true once in `n` calls, on average.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs seeds on all processors.
fn seeds(count: u64, run: impl Fn(u64) + Sync) {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::atomic::{AtomicU64, Ordering};
    let (first, count) = match number("RXM_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("RXM_SEEDS").unwrap_or(count)),
    };
    let next = AtomicU64::new(first);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                break;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
                next.store(u64::MAX / 2, Ordering::Relaxed);
                eprintln!("RXM_SEED={seed} replays this");
                resume_unwind(panic);
            }
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(work);
        }
    });
}
