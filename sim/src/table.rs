// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The default table: all scenarios in the sizes that fit into memory and some minutes.

use std::fs;
use std::time::Instant;

use crate::endpoint::Limits;
use crate::options::nodes_for;
use crate::scenario::{ALL, Scenario, Size};
use crate::{report, run};

pub const TRANSPORTS: [&str; 2] = ["rxd", "tcp"];

/// The sizes of a scenario, and the ranks of an all-to-all that exchange messages with all others.
fn sizes(scenario: Scenario) -> Vec<(usize, Option<usize>)> {
    let mut sizes = vec![(100, None), (1_000, None)];
    match scenario {
        Scenario::AllToAll => sizes.push((10_000, Some(4))),
        Scenario::Ring | Scenario::Barrier => sizes.extend([(10_000, None), (100_000, None)]),
        _ => sizes.push((10_000, None)),
    }
    sizes
}

/// Writes a table for each transport.
pub fn write(folder: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{folder}: {error}");
    fs::create_dir_all(folder).map_err(failed)?;
    for transport in TRANSPORTS {
        let mut rows = vec![report::HEADER.to_owned()];
        for (name, scenario) in ALL {
            for (ranks, sample) in sizes(scenario) {
                let start = Instant::now();
                let size = Size {
                    ranks,
                    nodes: nodes_for(ranks),
                    sample,
                    seed: 1,
                    loss: 0,
                };
                let outcome = run(transport, scenario, &size, &Limits::default());
                let outcome = outcome.map_err(|why| format!("{transport} {name} {ranks}: {why}"))?;
                rows.push(report::row(transport, name, &size, &outcome));
                let took = start.elapsed().as_secs_f64();
                eprintln!("{transport} {name} {ranks}: {took:.1} s");
            }
        }
        fs::write(format!("{folder}/{transport}.csv"), rows.join("\n") + "\n").map_err(failed)?;
    }
    Ok(())
}
