// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Sets the variables that the library's own build script sets for its sources.

#[path = "../scripts/releases.rs"]
mod releases;

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../src/abi/releases.tsv");
    println!("cargo:rustc-env=IRONFABRIC_VERSION=0");
    println!("cargo:rustc-env=IRONFABRIC_COMMIT=fuzzed");
    releases::constants(&releases::releases(Path::new("../src/abi")));
}
