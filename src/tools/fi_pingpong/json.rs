// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `--json`: one document with the library, the opened endpoint, the options and a row for each size.

use std::io::{Result, Write};

use serde_json::{Map, Value, json};

use crate::options::Options;
use crate::report::Row;
use crate::session::About;
use crate::spread;
use calls::text;

pub fn print(out: &mut dyn Write, options: &Options, about: &About, rows: &[Row]) -> Result<()> {
    let (identity, path) = text::library_identity();
    let rows: Vec<Value> = rows.iter().map(row).collect();
    let document = json!({
        "library": { "path": path, "version": text::library_version(), "identity": identity },
        "provider": about.provider,
        "domain": about.domain,
        "endpoint": about.endpoint,
        "side": if options.server.is_some() { "client" } else { "server" },
        "options": {
            "op": options.operation.name(),
            "iterations": options.iterations,
            "warmup": options.warmup,
            "window": options.window,
            "size": options.size,
            "check": options.check,
        },
        "rows": rows,
    });
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

fn row(row: &Row) -> Value {
    let latency = row.spread.as_ref().map(|spread| {
        let pairs = spread::NAMES.into_iter().zip(spread.values());
        let members = pairs.map(|(name, value)| (name.to_owned(), json!(value)));
        members.collect::<Map<String, Value>>()
    });
    json!({
        "size": row.size,
        "iterations": row.count,
        "transfers": row.transfers,
        "seconds": row.time.as_secs_f64(),
        "usec_per_transfer": row.microseconds(),
        "transfers_per_second": 1e6 / row.microseconds(),
        "mb_per_second": row.size as f64 / row.microseconds(),
        "usec": latency,
    })
}
