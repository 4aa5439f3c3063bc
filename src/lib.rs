// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! ironfabric: `libfabric.so.1` in Rust.
//!
//! Layers, each naming only what stands to its right:
//! `exports -> registry -> prov -> engine -> ffi -> base -> abi`; `sys`, `sync` and `hmem` do not depend on fabrics.

mod abi;
mod base;
mod engine;
mod exports;
mod ffi;
mod hmem;
mod prov;
mod registry;
mod sync;
mod sys;
