// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tables for people: totals, or rates per second between two looks.

use std::cmp::Reverse;
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
    rank: Option<String>,
    command: String,
    provider: String,
    address: String,
    kind: String,
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
            rank: found.rank.clone(),
            command: found.command.clone(),
            provider: endpoint.provider.clone(),
            address: endpoint.address.clone(),
            kind: endpoint.type_name().to_owned(),
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

    /// Rows with equal keys are sorted by bytes.
    fn key(&self, sort: Sort) -> (u64, u64) {
        let sum = |numbers: &[u64; 4]| {
            numbers
                .iter()
                .fold(0, |sum: u64, &one| sum.saturating_add(one))
        };
        let bytes = sum(&self.bytes);
        let key = match sort {
            Sort::Pid => u64::MAX - u64::from(self.pid),
            Sort::Messages => sum(&self.operations),
            Sort::Bytes => bytes,
            Sort::Wait => self.gauges[4].unwrap_or(0),
        };
        (key, bytes)
    }

    fn gauge(&self, at: usize) -> String {
        self.gauges[at].map_or("-".to_owned(), short)
    }
}

/// A column of the table.
struct Column {
    name: &'static str,
    width: usize,
    /// A text, which begins at the left edge.
    is_text: bool,
    /// The screen shows its increase per second.
    is_rate: bool,
    meaning: &'static str,
    value: fn(&Row) -> String,
}

const fn text(
    name: &'static str,
    width: usize,
    meaning: &'static str,
    value: fn(&Row) -> String,
) -> Column {
    Column {
        name,
        width,
        is_text: true,
        is_rate: false,
        meaning,
        value,
    }
}

const fn number(
    name: &'static str,
    width: usize,
    meaning: &'static str,
    value: fn(&Row) -> String,
) -> Column {
    Column {
        is_text: false,
        ..text(name, width, meaning, value)
    }
}

const fn rate(name: &'static str, meaning: &'static str, value: fn(&Row) -> String) -> Column {
    Column {
        is_rate: true,
        ..number(name, 6, meaning, value)
    }
}

/// All columns, from left to right.
static COLUMNS: [Column; 19] = [
    number("PID", 7, "process", |row| row.pid.to_string()),
    number("RANK", 5, "rank of the process in its MPI job", |row| {
        row.rank.clone().unwrap_or_else(|| "-".to_owned())
    }),
    text("COMMAND", 12, "program", |row| row.command.clone()),
    text("PROVIDER", 8, "provider", |row| row.provider.clone()),
    text("ENDPOINT", 21, "address of the endpoint", |row| {
        row.address.clone()
    }),
    number(
        "WAIT",
        5,
        "how long the oldest operation has waited",
        |row| row.gauges[4].map_or("-".to_owned(), duration),
    ),
    number("TXQ", 5, "operations under way", |row| row.gauge(0)),
    number("RXQ", 5, "receives that wait for a message", |row| {
        row.gauge(1)
    }),
    number("KEPT", 5, "messages that wait for a receive", |row| {
        row.gauge(2)
    }),
    rate("SENT", "messages sent", |row| short(row.operations[0])),
    rate("RECV", "messages received", |row| short(row.operations[1])),
    rate(
        "OUT",
        "bytes of messages sent and of accesses begun",
        |row| short(row.bytes[0].saturating_add(row.bytes[2])),
    ),
    rate(
        "IN",
        "bytes of messages received and of accesses by peers",
        |row| short(row.bytes[1].saturating_add(row.bytes[3])),
    ),
    rate("RMA", "reads, writes and atomics begun", |row| {
        short(row.operations[2])
    }),
    rate("RMT", "accesses by peers, where they are counted", |row| {
        short(row.operations[3])
    }),
    number("PEERS", 5, "peers with a connection", |row| row.gauge(3)),
    rate("UNEX", "messages that came before their receive", |row| {
        short(row.unexpected)
    }),
    rate(
        "AGN",
        "calls that were refused for now (FI_EAGAIN)",
        |row| short(row.again),
    ),
    text("TYPE", 5, "type of the endpoint", |row| row.kind.clone()),
];

/// The columns that a narrow window keeps, the most important one first.
const IMPORTANT: [&str; 19] = [
    "PID", "COMMAND", "ENDPOINT", "WAIT", "TXQ", "RXQ", "OUT", "IN", "RANK", "PROVIDER", "SENT",
    "RECV", "KEPT", "RMA", "RMT", "PEERS", "UNEX", "AGN", "TYPE",
];

/// The columns of a table.
pub struct Layout(Vec<&'static Column>);

impl Layout {
    /// The most important columns that fit into this width. Ranks are left out if no process has one.
    pub fn fitting(width: usize, rows: &[Row]) -> Layout {
        let has_ranks = rows.iter().any(|row| row.rank.is_some());
        let mut left = width.saturating_add(1);
        let mut chosen = Vec::new();
        for name in IMPORTANT {
            let column = COLUMNS.iter().find(|column| column.name == name);
            let Some(column) = column.filter(|_| name != "RANK" || has_ranks) else {
                continue;
            };
            // One of less importance would be confusing where a more important one has no room.
            let Some(rest) = left.checked_sub(column.width + 1) else {
                break;
            };
            left = rest;
            chosen.push(name);
        }
        Layout(
            COLUMNS
                .iter()
                .filter(|column| chosen.contains(&column.name))
                .collect(),
        )
    }

    /// Returns the names of the columns; `rates` adds "per second".
    pub fn heading(&self, rates: bool) -> String {
        self.joined(|column| match rates && column.is_rate {
            true => format!("{}/s", column.name),
            false => column.name.to_owned(),
        })
    }

    pub fn line(&self, row: &Row) -> String {
        self.joined(|column| (column.value)(row))
    }

    fn joined(&self, value: impl Fn(&Column) -> String) -> String {
        let cells = self.0.iter().map(|column| {
            let (value, width) = (value(column), column.width);
            match column.is_text {
                true => format!("{value:<width$.width$}"),
                false => format!("{value:>width$}"),
            }
        });
        cells.collect::<Vec<_>>().join(" ")
    }
}

/// Says what the columns mean.
pub fn legend() -> String {
    let lines = COLUMNS
        .iter()
        .map(|column| format!("  {:<9} {}\n", column.name, column.meaning));
    lines.collect()
}

/// Identifies an endpoint of a process.
type Key = (u32, u64, u64);

/// The rows of the last look, for rates.
#[derive(Default)]
pub struct Before(HashMap<Key, Row>);

impl Before {
    /// Returns the rows for a screen, sorted.
    pub fn rates(&mut self, found: &[Found], passed: Duration, sort: Sort) -> Vec<Row> {
        let (mut rows, mut now) = (Vec::new(), HashMap::new());
        for found in found {
            for endpoint in &found.process.endpoints {
                let key = (found.pid, found.process.started, endpoint.number);
                rows.push(Row::of(found, endpoint).since(self.0.get(&key), passed));
                now.insert(key, Row::of(found, endpoint));
            }
        }
        self.0 = now;
        sorted(rows, sort)
    }
}

fn sorted(mut rows: Vec<Row>, sort: Sort) -> Vec<Row> {
    rows.sort_by_key(|row| (Reverse(row.key(sort)), row.pid));
    rows
}

/// Returns everything that was counted so far, in lines of at most `width` characters.
pub fn totals(found: &[Found], options: &Options, width: usize) -> String {
    let endpoints = found
        .iter()
        .flat_map(|found| found.process.endpoints.iter().map(move |one| (found, one)));
    let rows = endpoints.map(|(found, endpoint)| Row::of(found, endpoint));
    let rows = sorted(rows.collect(), options.sort);
    let layout = Layout::fitting(width, &rows);
    let mut text = layout.heading(false) + "\n";
    for row in &rows {
        text += &layout.line(row);
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

/// Formats a duration in at most five characters.
fn duration(ms: u64) -> String {
    const MINUTE: u64 = 60_000;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match ms {
        0 => "0".to_owned(),
        1..1000 => format!("{ms}ms"),
        1000..MINUTE => format!("{}s", ms / 1000),
        MINUTE..HOUR => format!("{}m", ms / MINUTE),
        HOUR..DAY => format!("{}h", ms / HOUR),
        _ => format!("{}d", ms / DAY),
    }
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
impl Row {
    pub fn sample() -> Row {
        let found = tests::found(crate::block::tests::sample());
        Row::of(&found, &found.process.endpoints[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{self, tests::sample};
    use crate::options::{Told, parse};

    pub fn found(words: Vec<u64>) -> Found {
        Found {
            pid: 42,
            rank: None,
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
        let text = totals(&[found(sample())], &options, usize::MAX);
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
        assert_eq!(first[0].operations[0], 0);
        let mut later = sample();
        let sent = sync::stats::layout::HEAD / 8 + sync::stats::layout::record::TALLIES + 1;
        later[sent] += 50;
        let second = before.rates(&[found(later)], Duration::from_millis(500), Sort::Bytes);
        assert_eq!(second[0].operations[0], 100);
    }

    #[test]
    fn a_narrow_window_keeps_the_important_columns() {
        let mut row = Row::sample();
        for (width, wanted) in [(80, "RXQ"), (40, "COMMAND"), (7, "PID"), (3, "")] {
            let layout = Layout::fitting(width, std::slice::from_ref(&row));
            let (heading, line) = (layout.heading(true), layout.line(&row));
            assert!(
                heading.len() <= width && line.len() == heading.len(),
                "{heading:?} {line:?}"
            );
            assert!(heading.contains(wanted), "{heading:?}");
            assert!(!heading.contains("RANK"), "{heading:?}");
        }
        row.rank = Some("17".to_owned());
        let layout = Layout::fitting(88, std::slice::from_ref(&row));
        assert!(layout.line(&row).contains("17"), "{}", layout.line(&row));
        assert_eq!(
            Layout::fitting(usize::MAX, &[row]).0.len(),
            COLUMNS.len(),
            "IMPORTANT lacks a column"
        );
    }

    #[test]
    fn durations_are_short() {
        for (ms, text) in [
            (0, "0"),
            (999, "999ms"),
            (1000, "1s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (3_600_000, "1h"),
            (86_400_000, "1d"),
        ] {
            assert_eq!(duration(ms), text);
        }
    }
}
