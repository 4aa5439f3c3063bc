// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The text format of Prometheus.

use std::fmt::Write as _;

use crate::block::Endpoint;
use crate::find::Found;
use sync::stats::layout::{COUNTS, GAUGES, TALLIES};

/// Writes a sample: the endpoint's labels and a value.
fn line(text: &mut String, name: &str, labels: &str, value: u64) {
    // Writing to a text cannot fail.
    let _ = writeln!(text, "ironfabric_{name}{{{labels}}} {value}");
}

fn title(text: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(
        text,
        "# HELP ironfabric_{name} {help}\n# TYPE ironfabric_{name} {kind}"
    );
}

pub fn text(found: &[Found]) -> String {
    let endpoints: Vec<(&Found, &Endpoint, String)> = found
        .iter()
        .flat_map(|found| {
            let all = found.process.endpoints.iter();
            all.map(move |endpoint| (found, endpoint, labels(found, endpoint)))
        })
        .collect();
    let mut text = String::new();
    title(
        &mut text,
        "operations_total",
        "Operations that succeeded, and messages received.",
        "counter",
    );
    for (_, endpoint, labels) in &endpoints {
        for (kind, tally) in TALLIES.iter().zip(endpoint.tallies) {
            line(
                &mut text,
                "operations_total",
                &format!("{labels},kind=\"{kind}\""),
                tally.operations,
            );
        }
    }
    title(&mut text, "bytes_total", "Their bytes.", "counter");
    for (_, endpoint, labels) in &endpoints {
        for (kind, tally) in TALLIES.iter().zip(endpoint.tallies) {
            line(
                &mut text,
                "bytes_total",
                &format!("{labels},kind=\"{kind}\""),
                tally.bytes,
            );
        }
    }
    for (at, name) in COUNTS.iter().enumerate() {
        let name = format!("{name}_total");
        title(&mut text, &name, "See fi_top(1).", "counter");
        for (_, endpoint, labels) in &endpoints {
            line(&mut text, &name, labels, endpoint.counts[at]);
        }
    }
    for name in &GAUGES[1..] {
        title(&mut text, name, "See fi_top(1).", "gauge");
        for (found, endpoint, labels) in &endpoints {
            // A gauge that the process has not updated is omitted.
            if let Some(value) = endpoint.gauge(name, found.process.asked) {
                line(&mut text, name, labels, value);
            }
        }
    }
    text
}

fn labels(found: &Found, endpoint: &Endpoint) -> String {
    format!(
        "pid=\"{}\",command=\"{}\",provider=\"{}\",type=\"{}\",endpoint=\"{}\",number=\"{}\"",
        found.pid,
        escaped(&found.command),
        escaped(&endpoint.provider),
        endpoint.type_name(),
        escaped(&endpoint.address),
        endpoint.number,
    )
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{self, tests::sample};

    #[test]
    fn every_sample_has_its_type_and_quotes_are_escaped() {
        let words = sample();
        let found = Found {
            pid: 42,
            rank: None,
            command: "a\"b\\c".to_owned(),
            process: block::read(&[words.clone(), words.clone(), words]),
        };
        let text = text(&[found]);
        assert!(text.contains("command=\"a\\\"b\\\\c\""), "{text}");
        let mut types = std::collections::HashMap::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
                assert!(types.insert(name.to_owned(), 0).is_none(), "{name} twice");
            } else if !line.starts_with('#') {
                let (name, rest) = line.split_once('{').unwrap();
                *types.get_mut(name).unwrap() += 1;
                let (_, value) = rest.rsplit_once(' ').unwrap();
                value.parse::<u64>().unwrap();
            }
        }
        assert!(types.values().all(|&samples| samples > 0), "{types:?}");
        assert_eq!(types["ironfabric_bytes_total"], TALLIES.len());
    }
}
