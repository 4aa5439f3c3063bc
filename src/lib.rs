// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! ironfabric: `libfabric.so.1` in Rust.
//!
//! The layers are crates, each in a folder of src and each naming only what stands to its right:
//! `libfabric (exports) -> registry -> prov -> stream -> engine -> client -> object -> base -> abi`; `sys`, `sync` and
//! `hmem` do not depend on fabrics.

mod exports;
#[cfg(test)]
mod tests;
