// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Calls of the programs in this folder to the library, and the parser of their command lines.
//!
//! Programs are ordinary users of libfabric.so.1: they call exported functions, and the function tables in objects with
//! the crate `client`. They do not call the inline functions of the C headers as symbols, although this library exports
//! them, so that the programs run on any libfabric. All `unsafe` of the programs is in this folder and in `client`.

mod exported;
mod linked;

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
