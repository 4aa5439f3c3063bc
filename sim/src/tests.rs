// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Small jobs of each kind: every rank ends, no message is lost or arrives twice, and what a rank uses is bounded. The
//! same seed gives the same table.

use crate::endpoint::Limits;
use crate::scenario::{ALL, Job, Scenario, Size};
use crate::table::TRANSPORTS;
use crate::world::Outcome;
use crate::{report, run};

const RANKS: usize = 24;

fn size(seed: u64, loss: u32) -> Size {
    Size {
        ranks: RANKS,
        nodes: 4,
        sample: None,
        seed,
        loss,
    }
}

fn outcome(transport: &str, scenario: Scenario, size: &Size) -> Outcome {
    let outcome = run(transport, scenario, size, &Limits::default());
    outcome.unwrap_or_else(|why| panic!("{transport} {scenario:?} {size:?}: {why}"))
}

/// Runs each scenario on each transport.
fn every(mut check: impl FnMut(&str, &str, Scenario)) {
    for transport in TRANSPORTS {
        for (name, scenario) in ALL {
            check(transport, name, scenario);
        }
    }
}

#[test]
fn jobs_end_and_what_a_rank_uses_is_bounded() {
    every(|transport, name, scenario| {
        for (seed, loss) in [(1, 0), (2, 10_000)] {
            let size = size(seed, loss);
            let peers: Vec<usize> = Job::new(scenario, &size)
                .apps
                .iter()
                .map(|app| app.peers().len())
                .collect();
            let outcome = outcome(transport, scenario, &size);
            for (place, record) in outcome.records.iter().enumerate() {
                let what = format!("{transport} {name} {size:?}, rank {place}: {record:?}");
                // Both connections of a pair that connect at once have a descriptor for a while.
                let each = if transport == "rxd" { 1 } else { 2 };
                assert!(record.connections <= each * peers[place], "{what}");
                assert!(record.retries <= 64 * peers[place] as u64, "{what}");
                let most = 256 * 1024 + 64 * 1024 * peers[place] as isize;
                assert!(record.most_bytes <= most, "{what}");
                assert!(record.idle_bytes <= record.most_bytes, "{what}");
                let most = 4096 + 1024 * peers[place] as isize;
                assert!(record.left_bytes.abs() <= most, "{what}");
            }
            let deaths = scenario == Scenario::Death;
            let failed = outcome.failed;
            assert!(
                failed == 0 || deaths,
                "{transport} {name} {size:?}: {failed}"
            );
            // A message over a stream has ended when the kernel has it.
            assert!(
                failed > 0 || !deaths || transport != "rxd",
                "{transport} {name} {size:?}"
            );
        }
    });
}

/// With short packets, messages of 1 KiB have segments, and those of 16 KiB are read by the receiver.
#[test]
fn long_messages_of_rxm_arrive_and_a_seed_gives_the_same_table() {
    let limits = Limits {
        packet: 256,
        ..Limits::default()
    };
    for (name, scenario) in ALL {
        let row = |seed| {
            let size = size(seed, 5_000);
            let outcome = run("rxm", scenario, &size, &limits);
            let outcome = outcome.unwrap_or_else(|why| panic!("{name} {size:?}: {why}"));
            assert!(
                outcome.failed == 0 || scenario == Scenario::Death,
                "{name} {size:?}"
            );
            report::row("rxm", name, &size, &outcome)
        };
        assert_eq!(row(5), row(5));
        assert_ne!(row(5), row(6));
    }
}

#[test]
fn a_seed_gives_the_same_table() {
    every(|transport, name, scenario| {
        let row = |seed| {
            let size = size(seed, 5_000);
            report::row(transport, name, &size, &outcome(transport, scenario, &size))
        };
        assert_eq!(row(3), row(3));
        assert_ne!(row(3), row(4));
    });
}
