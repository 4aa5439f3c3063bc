// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Sessions over a simulated network of connections, on simulated time. Connections keep their order, but are delayed
//! and break; peers restart, connect at the same time, refuse and are silent. A seed determines each run and is printed
//! on failure: `RXM_SEED=N cargo test -p prov rxm` replays it, `RXM_SEEDS=N` sets the number of seeds.

mod attempts;
mod mixed;
mod network;
mod paths;
mod world;

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
