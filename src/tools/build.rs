// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Links the programs to the shared library, as any program is linked. Cargo does not know of that: the library of
//! the same profile has to be built first, by a call of its own.

use std::{env, path::PathBuf};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names the output folder"));
    // target/<profile>/build/<package>/out
    let profile = out.ancestors().nth(3).expect("the target folder");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-L{}", profile.display());
    println!("cargo:rustc-link-arg-bins=-lfabric");
    println!("cargo:rustc-link-arg-bins=-Wl,-rpath,$ORIGIN:$ORIGIN/../lib:$ORIGIN/../lib64");
}
