// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The table src/abi/releases.tsv, and the environment that src/abi/release.rs is compiled with. Also part of fuzz/build.rs,
//! because fuzz/ compiles the modules of the library.

use std::{env, fs, path::Path};

/// A row of src/abi/releases.tsv.
pub struct Release {
    pub release: String,
    pub interface: String,
    pub node: String,
    pub provider: String,
    pub state: String,
}

impl Release {
    pub fn is_default(&self) -> bool {
        self.state == "default"
    }
}

/// The rows of the table, without comments and heading.
pub fn releases(abi: &Path) -> Vec<Release> {
    let table = fs::read_to_string(abi.join("releases.tsv")).expect("read src/abi/releases.tsv");
    let rows = table.lines().filter(|line| !line.starts_with('#')).skip(1);
    let release = |row: &str| {
        let columns: Vec<&str> = row.split('\t').collect();
        let [release, interface, node, _file, provider, state] = columns[..] else {
            panic!("src/abi/releases.tsv: six columns are needed: {row}");
        };
        Release {
            release: release.into(),
            interface: interface.into(),
            node: node.into(),
            provider: provider.into(),
            state: state.into(),
        }
    };
    rows.map(release).collect()
}

/// Passes what the library says about itself to the compiler: see src/abi/release.rs.
pub fn constants(releases: &[Release]) {
    let default = default_of(releases);
    let package = env::var("CARGO_PKG_VERSION").expect("cargo names the version");
    assert_eq!(
        package, default.release,
        "the versions of Cargo.toml and src/abi/releases.tsv"
    );
    let (major, minor) = number(&default.interface);
    println!("cargo:rustc-env=FABRIC_MAJOR={major}");
    println!("cargo:rustc-env=FABRIC_MINOR={minor}");
    println!("cargo:rustc-env=FABRIC_PROVIDER={}", default.provider);
}

/// The release that the library answers as.
pub fn default_of(releases: &[Release]) -> &Release {
    releases
        .iter()
        .find(|release| release.is_default())
        .expect("src/abi/releases.tsv has a default")
}

/// `2.10` comes after `2.7`.
pub fn number(version: &str) -> (u32, u32) {
    let (major, minor) = version.split_once('.').expect("a version has two parts");
    let part = |text: &str| text.parse().expect("a version has numbers");
    (part(major), part(minor))
}
