// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! With the feature `static`: where the archive is.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=IRONFABRIC_STATIC");
    if env::var_os("CARGO_FEATURE_STATIC").is_none() {
        return;
    }
    match env::var("IRONFABRIC_STATIC") {
        Ok(folder) => println!("cargo:rustc-link-search=native={folder}"),
        Err(_) => {
            println!("cargo:warning=IRONFABRIC_STATIC does not name a folder with libfabric.a")
        }
    }
    println!("cargo:rustc-link-lib=static=fabric");
}
