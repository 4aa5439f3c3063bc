// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A row of the table for each job. It contains virtual times and counts only, so the same seed gives the same bytes.

use crate::scenario::Size;
use crate::world::{Outcome, Record};

pub const HEADER: &str = "transport,scenario,ranks,nodes,sample,seed,loss_ppm,messages,done_ms,close_ms,loads,\
    loads_per_rank,loads_max,connections_mean,connections_max,heap_mean,heap_max,heap_idle_mean,heap_idle_max,retries,\
    retries_max,retries_per_ms_max,dropped,dropped_at_close,switch_queue_max,longest_poll_us,failed,result";

/// Mean and maximum of a number of the ranks.
fn both(records: &[Record], number: impl Fn(&Record) -> u64) -> (f64, u64) {
    let all = records.iter().map(number);
    let (sum, most) = all.fold((0, 0), |(sum, most), n| (sum + n, most.max(n)));
    (sum as f64 / records.len() as f64, most)
}

fn milliseconds(time: u64) -> String {
    format!("{:.3}", time as f64 / 1e6)
}

pub fn row(transport: &str, scenario: &str, size: &Size, outcome: &Outcome) -> String {
    let records = &outcome.records;
    let loads = both(records, |record| record.loads);
    let connections = both(records, |record| record.connections as u64);
    let heap = both(records, |record| record.most_bytes.max(0) as u64);
    let idle = both(records, |record| record.idle_bytes.max(0) as u64);
    let retries = both(records, |record| record.retries);
    let longest = both(records, |record| record.longest_poll).1;
    let sum: u64 = records.iter().map(|record| record.retries).sum();
    let measured = [
        outcome.messages.to_string(),
        milliseconds(outcome.done_at),
        milliseconds(outcome.closing),
        outcome.loads.to_string(),
        format!("{:.1}", loads.0),
        loads.1.to_string(),
        format!("{:.1}", connections.0),
        connections.1.to_string(),
        format!("{:.0}", heap.0),
        heap.1.to_string(),
        format!("{:.0}", idle.0),
        idle.1.to_string(),
        sum.to_string(),
        retries.1.to_string(),
        outcome.retries_at_once.to_string(),
        outcome.dropped.to_string(),
        outcome.dropped_at_close.to_string(),
        outcome.longest_queue.to_string(),
        format!("{:.1}", longest as f64 / 1e3),
        outcome.failed.to_string(),
        "ended".to_owned(),
    ];
    format!("{},{}", job(transport, scenario, size), measured.join(","))
}

/// The row of a job that did not end.
pub fn unended(transport: &str, scenario: &str, size: &Size, why: &str) -> String {
    let columns = HEADER.split(',').count() - job(transport, scenario, size).split(',').count();
    let empty = ",".repeat(columns);
    format!(
        "{}{empty}{}",
        job(transport, scenario, size),
        why.replace(',', ";")
    )
}

fn job(transport: &str, scenario: &str, size: &Size) -> String {
    let sample = size
        .sample
        .map_or(String::new(), |sample| sample.to_string());
    [
        transport,
        scenario,
        &size.ranks.to_string(),
        &size.nodes.to_string(),
        &sample,
        &size.seed.to_string(),
        &size.loss.to_string(),
    ]
    .join(",")
}
