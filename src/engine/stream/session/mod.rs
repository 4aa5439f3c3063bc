// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Sessions: what two peers owe each other.
#![forbid(unsafe_code)]

pub mod common;
