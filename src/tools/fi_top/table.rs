// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tables for people: totals, or rates per second between two looks.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use crate::block::{Endpoint, Tally};
use crate::find::Found;
use crate::options::{Options, Sort};
use sync::stats::layout::{COUNTS, TALLIES};

/// Names of the tallies for each direction.
const SENT: [&str; 2] = ["send", "tsend"];
const RECEIVED: [&str; 1] = ["recv"];
const BEGUN: [&str; 4] = ["write", "read", "atomic", "fetch"];
const SUFFERED: [&str; 2] = ["remote_write", "remote_read"];

/// One endpoint.
pub struct Row {
    pid: u32,
    command: String,
    provider: String,
    address: String,
    /// Messages sent and received, accesses begun here and by peers.
    operations: [u64; 4],
    bytes: [u64; 4],
    gauges: [Option<u64>; 5],
    unexpected: u64,
    again: u64,
}

/// The gauges that a row shows.
const STATE: [&str; 5] = ["transmits", "receives", "kept", "peers", "oldest_ms"];

impl Row {
    fn of(found: &Found, endpoint: &Endpoint) -> Row {
        let sums = [&SENT[..], &RECEIVED, &BEGUN, &SUFFERED].map(|names| endpoint.sum(names));
        Row {
            pid: found.pid,
            command: found.command.clone(),
            provider: endpoint.provider.clone(),
            address: endpoint.address.clone(),
            operations: sums.map(|sum| sum.operations),
            bytes: sums.map(|sum| sum.bytes),
            gauges: STATE.map(|name| endpoint.gauge(name, found.process.asked)),
            unexpected: endpoint.count("unexpected"),
            again: endpoint.count("again"),
        }
    }

    /// Returns the increase since another look, per second.
    fn since(mut self, before: Option<&Row>, passed: Duration) -> Row {
        let seconds = passed.as_secs_f64().max(1e-3);
        let rate = |now: u64, before: u64| (now.saturating_sub(before) as f64 / seconds) as u64;
        // An endpoint without an earlier row has no rate yet: its counts may be older than this interval.
        let zero = [0; 4];
        let (operations, bytes) =
            before.map_or((&zero, &zero), |row| (&row.operations, &row.bytes));
        for at in 0..4 {
            self.operations[at] = before.map_or(0, |_| rate(self.operations[at], operations[at]));
            self.bytes[at] = before.map_or(0, |_| rate(self.bytes[at], bytes[at]));
        }
        self.unexpected = before.map_or(0, |row| rate(self.unexpected, row.unexpected));
        self.again = before.map_or(0, |row| rate(self.again, row.again));
        self
    }

    fn key(&self, sort: Sort) -> u64 {
        let sum = |numbers: &[u64; 4]| {
            numbers
                .iter()
                .fold(0, |sum: u64, &one| sum.saturating_add(one))
        };
        match sort {
            Sort::Pid => u64::MAX - u64::from(self.pid),
            Sort::Messages => sum(&self.operations),
            Sort::Bytes => sum(&self.bytes),
            Sort::Wait => self.gauges[4].unwrap_or(0),
        }
    }

    fn line(&self) -> String {
        let mut line = format!(
            "{:>7} {:<15.15} {:<8.8} {:<21.21}",
            self.pid, self.command, self.provider, self.address
        );
        let [sent, received, begun, suffered] = self.operations.map(short);
        let [out, inward, written, taken] = self.bytes;
        let numbers = [
            sent,
            received,
            short(out.saturating_add(written)),
            short(inward.saturating_add(taken)),
            begun,
            suffered,
        ];
        for number in numbers {
            // Writing to a text cannot fail.
            let _ = write!(line, " {number:>6}");
        }
        let [transmits, receives, kept, peers, oldest] = self.gauges;
        for gauge in [transmits, receives, kept, peers] {
            let _ = write!(line, " {:>5}", gauge.map_or("-".to_owned(), short));
        }
        let _ = write!(
            line,
            " {:>6} {:>6}",
            short(self.unexpected),
            short(self.again)
        );
        let wait = oldest.map_or("-".to_owned(), |ms| match ms {
            0 => "0".to_owned(),
            ms => format!("{}s", ms / 1000),
        });
        let _ = write!(line, " {wait:>6}");
        line
    }
}

/// Returns the names of the columns; `rates` adds "per second".
pub fn heading(rates: bool) -> String {
    let by = if rates { "/s" } else { "" };
    let mut line = format!(
        "{:>7} {:<15} {:<8} {:<21}",
        "PID", "COMMAND", "PROVIDER", "ENDPOINT"
    );
    for name in ["SENT", "RECV", "OUT", "IN", "RMA", "RMT"] {
        let _ = write!(line, " {:>6}", format!("{name}{by}"));
    }
    for name in ["TXQ", "RXQ", "KEPT", "PEERS"] {
        let _ = write!(line, " {name:>5}");
    }
    let _ = write!(
        line,
        " {:>6} {:>6} {:>6}",
        format!("UNEX{by}"),
        format!("AGN{by}"),
        "WAIT"
    );
    line
}

/// Identifies an endpoint of a process.
type Key = (u32, u64, u64);

/// The rows of the last look, for rates.
#[derive(Default)]
pub struct Before(HashMap<Key, Row>);

impl Before {
    /// Returns the lines for a screen, sorted.
    pub fn rates(&mut self, found: &[Found], passed: Duration, sort: Sort) -> Vec<String> {
        let (mut rows, mut now) = (Vec::new(), HashMap::new());
        for found in found {
            for endpoint in &found.process.endpoints {
                let key = (found.pid, found.process.started, endpoint.number);
                rows.push(Row::of(found, endpoint).since(self.0.get(&key), passed));
                now.insert(key, Row::of(found, endpoint));
            }
        }
        self.0 = now;
        lines(rows, sort)
    }
}

fn lines(mut rows: Vec<Row>, sort: Sort) -> Vec<String> {
    rows.sort_by_key(|row| (u64::MAX - row.key(sort), row.pid));
    rows.iter().map(Row::line).collect()
}

/// Returns everything that was counted so far.
pub fn totals(found: &[Found], options: &Options) -> String {
    let endpoints = found
        .iter()
        .flat_map(|found| found.process.endpoints.iter().map(move |one| (found, one)));
    let rows = endpoints.map(|(found, endpoint)| Row::of(found, endpoint));
    let mut text = heading(false) + "\n";
    for line in lines(rows.collect(), options.sort) {
        text += &line;
        text.push('\n');
    }
    if options.pid.is_some() {
        found.iter().for_each(|found| text += &details(found));
    }
    for found in found.iter().filter(|found| found.process.uncounted > 0) {
        let _ = writeln!(
            text,
            "{}: {} endpoints are not here, since there are too many",
            found.pid, found.process.uncounted
        );
    }
    text
}

/// Returns all details of one process.
pub fn details(found: &Found) -> String {
    let mut text = format!(
        "\n{} {}: {}\n",
        found.pid, found.command, found.process.library
    );
    for endpoint in &found.process.endpoints {
        let _ = writeln!(
            text,
            "\n{} {} {}, domain {}",
            endpoint.provider,
            endpoint.type_name(),
            endpoint.address,
            endpoint.domain
        );
        for (name, Tally { operations, bytes }) in TALLIES.iter().zip(endpoint.tallies) {
            if operations > 0 {
                let _ = writeln!(text, "  {name:<16} {operations:>16} {bytes:>20} bytes");
            }
        }
        for (name, count) in COUNTS
            .iter()
            .zip(endpoint.counts)
            .filter(|(_, count)| *count > 0)
        {
            let _ = writeln!(text, "  {name:<16} {count:>16}");
        }
        for name in &sync::stats::layout::GAUGES[1..] {
            match endpoint.gauge(name, found.process.asked) {
                Some(value) => {
                    let _ = writeln!(text, "  {name:<16} {value:>16} now");
                }
                None => {
                    text += "  what waits is not known: the process does not poll\n";
                    break;
                }
            }
        }
    }
    text
}

/// Formats a number in at most five characters.
fn short(number: u64) -> String {
    const UNITS: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    if number < 10_000 {
        return number.to_string();
    }
    let (mut value, mut unit) = (number as f64 / 1000.0, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match value < 99.95 {
        true => format!("{value:.1}{}", UNITS[unit]),
        false => format!("{value:.0}{}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{self, tests::sample};
    use crate::options::{Told, parse};

    fn found(words: Vec<u64>) -> Found {
        Found {
            pid: 42,
            command: "program".to_owned(),
            process: block::read(&[words.clone(), words.clone(), words]),
        }
    }

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0, "0"),
            (9999, "9999"),
            (10_000, "10.0k"),
            (99_949, "99.9k"),
            (99_950, "100k"),
            (999_499, "999k"),
            (999_500, "1.0M"),
            (u64::MAX, "18.4E"),
        ] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn a_line_has_what_the_heading_says() {
        let options = match parse(["-1", "-p", "42"].iter().map(Into::into)) {
            Told::Run(options) => options,
            other => panic!("{other:?}"),
        };
        let text = totals(&[found(sample())], &options);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0].len(), lines[1].len());
        let column = |name: &str| lines[0].iter().position(|column| *column == name).unwrap();
        assert_eq!(lines[1][column("SENT")], "3");
        assert_eq!(lines[1][column("OUT")], "15");
        assert_eq!(lines[1][column("TXQ")], "9");
        assert!(text.contains("failed"), "{text}");
        let width = text.lines().next().unwrap().len();
        assert_eq!(text.lines().nth(1).unwrap().len(), width);
    }

    #[test]
    fn rates_are_of_what_was_added() {
        let mut before = Before::default();
        let first = before.rates(&[found(sample())], Duration::from_secs(1), Sort::Bytes);
        assert_eq!(first[0].split_whitespace().nth(4), Some("0"));
        let mut later = sample();
        let sent = sync::stats::layout::HEAD / 8 + sync::stats::layout::record::TALLIES + 1;
        later[sent] += 50;
        let second = before.rates(&[found(later)], Duration::from_millis(500), Sort::Bytes);
        assert_eq!(second[0].split_whitespace().nth(4), Some("100"));
    }
}
