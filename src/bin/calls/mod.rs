// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The library as the programs of this folder call it, and how they read their command lines.
//!
//! Programs are ordinary users of libfabric.so.1: they call exported functions and, on objects, the tables of functions
//! that the objects carry, by `ffi::client` of the library's sources (`base` and `ffi` of this folder compile it in).
//! The inline functions of the C headers are not called as symbols, though this library exports them, so that the
//! programs run on any libfabric. All `unsafe` of the programs is in this folder and there.

// Each program uses its part.
#![allow(dead_code)]

#[path = "../../base/escape.rs"]
pub mod escape;
mod exported;

pub mod arguments;
pub mod endpoint;
pub mod fabric;
pub mod failure;
pub mod info;
pub mod link;
pub mod log;
pub mod output;
pub mod params;
pub mod remote;
pub mod text;
pub mod visitors;
