// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The hook `profile`: prints calls and bytes by size when the fabric is closed. fi_hook(7).

use core::sync::atomic::Ordering;

use super::counts::Counts;
use super::print;
use abi::FI_CLASS_FABRIC;
use base::log::Source;
use client::wrap::{Call, Watch};
use sync::monitor::{CLASS_NAMES, CLASSES, ENTRIES, READS, RECORDS, REGIONS};

pub struct Profile {
    hooked: &'static Source,
    counts: Counts,
}

impl Profile {
    pub fn new(hooked: &'static Source) -> Profile {
        Profile {
            hooked,
            counts: Counts::new(),
        }
    }
}

impl Watch for Profile {
    fn after(&self, call: &Call<'_>, _before: u64, result: i64) {
        self.counts.note(call, result);
    }

    fn closed(&self, _object: usize, class: u32) {
        if class == FI_CLASS_FABRIC {
            print(self.hooked, self.table());
        }
    }
}

/// A row of a block: function, size class, number of calls, bytes.
struct Row {
    name: String,
    class: &'static str,
    count: u64,
    bytes: Option<u64>,
}

impl Profile {
    fn table(&self) -> Vec<String> {
        let name = self.hooked.name().to_string_lossy();
        let mut lines = vec![format!("prov: {name}")];
        let is_one_of = |names: &'static [&'static str]| {
            let records = (0..REGIONS).filter(|&record| {
                let name = RECORDS[record];
                names.iter().any(|part| name.contains(part))
            });
            records.collect::<Vec<_>>()
        };
        let sizes = ("XFER_API", "Size");
        let blocks = [
            (sizes, "receive", is_one_of(&["recv"])),
            (sizes, "send", (6..18).collect()),
            (sizes, "read", is_one_of(&["read"])),
            (sizes, "write", is_one_of(&["write"])),
            (("CQ_API", "Size"), "cq", (READS..RECORDS.len()).collect()),
            (("MR_API", "Iface"), "mr", (REGIONS..READS).collect()),
        ];
        for (heading, total, records) in blocks {
            let rows: Vec<Row> = records
                .into_iter()
                .flat_map(|record| self.rows(record))
                .collect();
            lines.extend(block(heading, total, rows));
        }
        lines
    }

    fn rows(&self, record: usize) -> Vec<Row> {
        let counted = &self.counts.records[record];
        let is_sized = !RECORDS[record].contains("recv") && !RECORDS[record].ends_with("_tx");
        let row = |class: usize| {
            // Relaxed: see `Counts`.
            let count = counted.counts[class].load(Ordering::Relaxed);
            let bytes = counted.sums[class].load(Ordering::Relaxed);
            (count > 0).then(|| Row {
                name: called(record),
                class: match record {
                    REGIONS..READS => IFACES[class],
                    _ if is_sized && record != ENTRIES => CLASS_NAMES[class],
                    _ => "-",
                },
                count,
                bytes: (is_sized && record != ENTRIES).then_some(bytes),
            })
        };
        (0..CLASSES).filter_map(row).collect()
    }
}

/// In the order of `enum fi_hmem_iface`.
const IFACES: [&str; CLASSES] = [
    "system",
    "cuda",
    "rocr",
    "ze",
    "neuron",
    "synapseai",
    "-",
    "-",
    "-",
];

/// Returns the name of the called function or the kind of entry.
fn called(record: usize) -> String {
    let name = RECORDS[record];
    match (name.strip_suffix("_tx"), name.strip_suffix("_rx")) {
        (Some(kind), _) => format!("{kind} (FI_SEND)"),
        (_, Some(kind)) => format!("{kind} (FI_RECV)"),
        _ if record >= READS => name.to_owned(),
        _ => format!("fi_{name}"),
    }
}

/// Returns no lines for a block without rows. A block with several rows begins with their sum.
fn block(heading: (&str, &str), total: &str, rows: Vec<Row>) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let count: u64 = rows.iter().map(|row| row.count).sum();
    let bytes: u64 = rows.iter().filter_map(|row| row.bytes).sum();
    let mut lines = vec![line([
        heading.0, heading.1, "Count", "Amount", "% Count", "% Amount",
    ])];
    let any = Row {
        name: total.to_owned(),
        class: "Any",
        count,
        bytes: rows.iter().any(|row| row.bytes.is_some()).then_some(bytes),
    };
    let several = rows.len() > 1;
    let all = several.then_some(any).into_iter().chain(rows);
    let mut before = String::new();
    for row in all {
        let is_same = row.name == before;
        let share = |part: u64, whole: u64| match whole {
            0 => "-".to_owned(),
            _ => format!("{:.2}", part as f64 * 100.0 / whole as f64),
        };
        lines.push(line([
            if is_same { "" } else { &row.name },
            row.class,
            &scaled(row.count, 1000, 0),
            &row.bytes
                .map_or("-".to_owned(), |bytes| scaled(bytes, 1024, 1)),
            &share(row.count, count),
            &row.bytes.map_or("-".to_owned(), |part| share(part, bytes)),
        ]));
        before = row.name;
    }
    lines.push(String::new());
    lines
}

fn line([name, class, count, amount, counts, amounts]: [&str; 6]) -> String {
    let line = format!("{name:<22}{class:<20}{count:<12}{amount:<12}{counts:<12}{amounts:<12}");
    line.trim_end().to_owned()
}

/// Formats a number with K, M, G or T and at most this many decimals.
fn scaled(number: u64, step: u64, decimals: usize) -> String {
    let mut value = number as f64;
    let mut unit = "";
    for next in ["K", "M", "G", "T"] {
        if value < step as f64 {
            break;
        }
        (value, unit) = (value / step as f64, next);
    }
    let digits = match unit.is_empty() {
        true => number.to_string(),
        false => format!("{value:.decimals$}"),
    };
    let digits = digits.strip_suffix(".0").unwrap_or(&digits);
    digits.to_owned() + unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        let amounts = [0, 40, 1023, 1024, 2970, 262_144, 3 << 30];
        let texts = amounts.map(|bytes| scaled(bytes, 1024, 1));
        assert_eq!(texts, ["0", "40", "1023", "1K", "2.9K", "256K", "3G"]);
        assert_eq!(
            [999, 1000, 25_499].map(|n| scaled(n, 1000, 0)),
            ["999", "1K", "25K"]
        );
    }

    #[test]
    fn a_block_with_several_rows_begins_with_their_sum() {
        let row = |class, count, bytes| Row {
            name: "fi_tsend".to_owned(),
            class,
            count,
            bytes: Some(bytes),
        };
        let rows = vec![row("0_64", 5, 40), row("512_1K", 5, 2960)];
        let lines = block(("XFER_API", "Size"), "send", rows);
        let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = lines.iter().map(words).collect();
        let expected = [
            "XFER_API Size Count Amount % Count % Amount",
            "send Any 10 2.9K 100.00 100.00",
            "fi_tsend 0_64 5 40 50.00 1.33",
            "512_1K 5 2.9K 50.00 98.67",
            "",
        ];
        assert_eq!(lines, expected);
        assert!(block(("XFER_API", "Size"), "send", Vec::new()).is_empty());
    }
}
