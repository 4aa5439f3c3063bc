// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The default table: all scenarios in the sizes that fit into memory and some minutes.

use std::fs;
use std::time::Instant;

use crate::endpoint::Limits;
use crate::options::nodes_for;
use crate::scenario::{ALL, Scenario, Size};
use crate::{report, run};

pub const TRANSPORTS: [&str; 3] = ["rxd", "rxm", "tcp"];

/// The sizes of a scenario, and the ranks of an all-to-all that exchange messages with all others.
fn sizes(scenario: Scenario) -> Vec<(usize, Option<usize>)> {
    match scenario {
        Scenario::AllToAll => vec![(100, None), (1_000, Some(100)), (10_000, Some(4))],
        Scenario::Ring => vec![(100, None), (1_000, None), (10_000, None), (100_000, None)],
        _ => vec![(100, None), (1_000, None), (10_000, None)],
    }
}

/// Writes a table for a transport, or one for each.
pub fn write(folder: &str, only: Option<&str>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{folder}: {error}");
    fs::create_dir_all(folder).map_err(failed)?;
    for transport in TRANSPORTS
        .into_iter()
        .filter(|&name| only.is_none_or(|only| only == name))
    {
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
                rows.push(match outcome {
                    Ok(outcome) => report::row(transport, name, &size, &outcome),
                    Err(why) => report::unended(transport, name, &size, &why),
                });
                let took = start.elapsed().as_secs_f64();
                eprintln!("{transport} {name} {ranks}: {took:.1} s");
            }
        }
        let table = rows.join("\n") + "\n";
        fs::write(format!("{folder}/{transport}.csv"), table).map_err(failed)?;
    }
    Ok(())
}
