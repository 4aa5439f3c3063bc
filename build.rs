// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Links the shared object with its name and version nodes.

use std::env;

fn main() {
    link();
}

/// The version script comes second, after rustc's own: only lld accepts that. rustc uses lld already where it is the
/// default; saying it turns a wrong link elsewhere into an error.
fn link() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo names the package folder");
    let map = format!("{root}/src/abi/libfabric.map");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={map}");
    println!("cargo:rustc-cdylib-link-arg=-fuse-ld=lld");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libfabric.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={map}");
}
