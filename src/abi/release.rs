// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The table releases.tsv of libfabric releases, and the version numbers of the release that this library replaces:
//! fi_version(3), fi_provider(7). This module has no header.

/// Numbers of the default interface: FI_MAJOR_VERSION, FI_MINOR_VERSION.
pub const MAJOR: u32 = number(DEFAULT.interface).0;
pub const MINOR: u32 = number(DEFAULT.interface).1;
/// The interface that fi_version returns, the newest that fi_getinfo serves, and the one that the library itself uses.
pub const API: u32 = MAJOR << 16 | MINOR;
/// Version of every provider and hook of the library: 207.0 at release 2.7.
pub const PROVIDER_VERSION: u32 = decimal(DEFAULT.provider) << 16;

/// A row of the table.
#[derive(Clone, Copy)]
pub struct Release {
    /// The version of the package: 2.7.0.
    pub release: &'static str,
    /// The version of the interface, which names the header set: 2.7.
    pub interface: &'static str,
    /// The newest version node: FABRIC_1.10.
    pub node: &'static str,
    /// The number behind `libfabric.so.`.
    pub file: &'static str,
    /// The major version of the providers.
    pub provider: &'static str,
    /// `kept`, `default` or `alpha`.
    pub state: &'static str,
}

/// The releases, oldest first.
pub const RELEASES: [Release; rows(TABLE)] = parsed(TABLE);

/// The release that the library answers as.
pub const DEFAULT: Release = {
    let mut row = 0;
    while !matches!(RELEASES[row].state.as_bytes(), b"default") {
        row += 1;
    }
    RELEASES[row]
};

const TABLE: &str = include_str!("releases.tsv");

impl Release {
    pub fn is_default(&self) -> bool {
        self.state == DEFAULT.state
    }
}

/// Splits a version into its two numbers: 2.10 comes after 2.7.
pub const fn number(version: &str) -> (u32, u32) {
    let (major, minor) = cut(version, b'.');
    (decimal(major), decimal(minor))
}

const fn decimal(text: &str) -> u32 {
    match u32::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("a number is expected"),
    }
}

/// Returns what stands before and after the first `mark`; all and nothing without one.
const fn cut(text: &str, mark: u8) -> (&str, &str) {
    let mut at = 0;
    while at < text.len() {
        if text.as_bytes()[at] == mark {
            return (text.split_at(at).0, text.split_at(at + 1).1);
        }
        at += 1;
    }
    (text, "")
}

/// Returns the next row and the rest of the table. Comments are no rows.
const fn next(mut table: &'static str) -> (&'static str, &'static str) {
    loop {
        let (line, rest) = cut(table, b'\n');
        if line.is_empty() || line.as_bytes()[0] != b'#' {
            return (line, rest);
        }
        table = rest;
    }
}

/// The number of rows below the heading.
const fn rows(table: &'static str) -> usize {
    let mut rest = next(table).1;
    let mut rows = 0;
    while !rest.is_empty() {
        rest = next(rest).1;
        rows += 1;
    }
    rows
}

const fn parsed<const ROWS: usize>(table: &'static str) -> [Release; ROWS] {
    let mut releases = [Release {
        release: "",
        interface: "",
        node: "",
        file: "",
        provider: "",
        state: "",
    }; ROWS];
    let mut rest = next(table).1;
    let mut row = 0;
    while row < ROWS {
        let line;
        (line, rest) = next(rest);
        let (release, line) = cut(line, b'\t');
        let (interface, line) = cut(line, b'\t');
        let (node, line) = cut(line, b'\t');
        let (file, line) = cut(line, b'\t');
        let (provider, state) = cut(line, b'\t');
        releases[row] = Release {
            release,
            interface,
            node,
            file,
            provider,
            state,
        };
        row += 1;
    }
    releases
}
