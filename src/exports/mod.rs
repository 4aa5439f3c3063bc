// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The named symbols of the library, one module per family.
//!
//! A function here only reads C arguments, calls the layer below and returns a C number.

#[macro_use]
mod symver;
#[macro_use]
mod variadic;

#[cfg(not(feature = "plugin"))]
mod compat;
mod exit;
mod fabric;
mod identity;
mod info;
#[cfg(not(feature = "plugin"))]
mod inline;
mod log;
mod open;
mod params;
#[cfg(feature = "plugin")]
mod plugin;
mod start;
mod text;
mod version;
