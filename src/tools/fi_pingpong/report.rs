// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The table of results, one row as soon as a size is complete. Scripts parse it, so its form is fixed.

use std::sync::Once;
use std::time::Duration;

use crate::spread::{self, Spread};
use calls::output;

/// The result of one size.
pub struct Row {
    pub size: usize,
    /// Messages in each direction.
    pub count: u32,
    /// Transfers in both directions, or in the one that is measured.
    pub transfers: u64,
    pub time: Duration,
    /// The times of single transfers, or the mean of each window.
    pub spread: Option<Spread>,
}

impl Row {
    /// Returns the time of one transfer.
    pub fn microseconds(&self) -> f64 {
        self.time.as_secs_f64() * 1e6 / self.transfers as f64
    }
}

/// Prints the row, and the heading before the first.
pub fn print(row: &Row, percentiles: bool) {
    static HEADING: Once = Once::new();
    let more = |texts: [String; 5]| match percentiles {
        true => texts.map(|text| format!("{text:>11}")).concat(),
        false => String::new(),
    };
    let titles = || more(spread::NAMES.map(str::to_owned));
    HEADING.call_once(|| output::print(|out| writeln!(out, "{TITLES}{}", titles())));
    let values = match &row.spread {
        Some(spread) => spread.values().map(|value| format!("{value:.2}")),
        None => [const { String::new() }; 5].map(|_| "-".to_owned()),
    };
    output::print(|out| writeln!(out, "{}{}", line(row), more(values)));
}

fn line(row: &Row) -> String {
    let total = row.transfers.saturating_mul(row.size as u64);
    let seconds = row.time.as_secs_f64();
    let microseconds = row.microseconds();
    let sent = decimal(row.count.into());
    format!(
        "{:<8}{sent:<8}={sent:<8}{:<8}{seconds:8.2}s{:10.2}{microseconds:11.2}{:11.2}",
        binary(row.size as u64),
        binary(total),
        total as f64 / 1e6 / seconds,
        1.0 / microseconds,
    )
}

/// Formats a count of bytes: 1536 is 1.5k. Further digits are cut off.
fn binary(number: u64) -> String {
    let Some((unit, letter)) = UNITS
        .iter()
        .enumerate()
        .rev()
        .map(|(at, letter)| (1u64 << (10 * (at + 1)), letter))
        .find(|(unit, _)| number >= *unit)
    else {
        return number.to_string();
    };
    let whole = number / unit;
    let tenths = (u128::from(number % unit) * 10 / u128::from(unit)) as u64;
    match (whole, tenths) {
        (0..10, 1..) => format!("{whole}.{tenths}{letter}"),
        _ => format!("{whole}{letter}"),
    }
}

/// Formats a count of messages: 1999 is 1k.
fn decimal(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}k", number / 1_000),
        1_000_000..1_000_000_000 => format!("{}m", number / 1_000_000),
        _ => format!("{}g", number / 1_000_000_000),
    }
}

const UNITS: [char; 4] = ['k', 'm', 'g', 't'];

const TITLES: &str =
    "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_under_their_titles() {
        let row = |size, count, microseconds| {
            line(&Row {
                size,
                count,
                transfers: 2 * u64::from(count),
                spread: None,
                time: Duration::from_micros(microseconds),
            })
        };
        let text = "64      3       =3       384         0.00s      0.28     231.17       0.00";
        assert_eq!(row(64, 3, 1387), text);
        let text = "256     1m      =1m      488m       10.57s     48.45       5.28       0.19";
        assert_eq!(row(256, 1_000_000, 10_568_000), text);
        let text = "1m      10      =10      20m         0.04s    570.14    1839.15       0.00";
        assert_eq!(row(1 << 20, 10, 36_783), text);
    }

    #[test]
    fn sizes_are_cut_not_rounded() {
        let sizes = [
            0,
            1023,
            1024,
            1100,
            1500,
            2047,
            2048,
            10000,
            10240,
            99999,
            1048575,
            1500000,
            1 << 30,
        ];
        let texts = [
            "0", "1023", "1k", "1k", "1.4k", "1.9k", "2k", "9.7k", "10k", "97k", "1023k", "1.4m",
            "1g",
        ];
        assert_eq!(sizes.map(binary), texts);
    }

    #[test]
    fn counts_are_decimal() {
        let counts = [999, 1000, 1999, 9999, 123_456, 1_000_000, 1_999_999_999];
        let texts = ["999", "1k", "1k", "9k", "123k", "1m", "1g"];
        assert_eq!(counts.map(decimal), texts);
    }
}
