// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Why a packet is none.
#![forbid(unsafe_code)]

/// What a peer has broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(pub &'static str);
