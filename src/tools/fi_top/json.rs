// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The output for programs.

use serde_json::{Map, Value, json};

use crate::block::Endpoint;
use crate::find::Found;
use sync::stats::layout::{COUNTS, GAUGES, TALLIES};

pub fn text(found: &[Found]) -> String {
    let processes: Vec<Value> = found.iter().map(process).collect();
    format!("{:#}\n", json!({ "processes": processes }))
}

fn process(found: &Found) -> Value {
    let endpoints = found.process.endpoints.iter();
    let endpoints: Vec<Value> = endpoints
        .map(|one| endpoint(one, found.process.asked))
        .collect();
    json!({
        "pid": found.pid,
        "rank": found.rank.as_deref().and_then(|rank| rank.parse::<u64>().ok()),
        "command": found.command,
        "library": found.process.library,
        "endpoints": endpoints,
        "uncounted": found.process.uncounted,
    })
}

fn endpoint(endpoint: &Endpoint, asked: u64) -> Value {
    let tallies = TALLIES.iter().zip(endpoint.tallies).map(|(name, tally)| {
        let numbers = json!({ "operations": tally.operations, "bytes": tally.bytes });
        ((*name).to_owned(), numbers)
    });
    let counts = COUNTS
        .iter()
        .zip(endpoint.counts)
        .map(|(name, count)| ((*name).to_owned(), json!(count)));
    // null: the process does not poll, so the value is unknown.
    let now = GAUGES[1..]
        .iter()
        .map(|name| ((*name).to_owned(), json!(endpoint.gauge(name, asked))));
    json!({
        "number": endpoint.number,
        "domain": endpoint.domain,
        "type": endpoint.type_name(),
        "provider": endpoint.provider,
        "address": endpoint.address,
        "kinds": tallies.collect::<Map<_, _>>(),
        "counts": counts.collect::<Map<_, _>>(),
        "now": now.collect::<Map<_, _>>(),
    })
}
