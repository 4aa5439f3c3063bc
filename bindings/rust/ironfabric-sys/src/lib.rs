// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#![doc = include_str!("../README.md")]
//! # Rules
//!
//! The folder `abi` consists of links to the declarations from which the library ironfabric writes its headers, so
//! there is one copy. Names and values are those of C. This crate has no rules; the crate `ironfabric` has.
//!
//! Structs that applications allocate have the members of the newest release. An older library ignores those at the
//! end. Structs that a library allocates (`fi_info`) may be shorter: read only members that this library's version has.

mod abi;
mod library;

pub use abi::*;
pub use library::{Library, LoadError};
