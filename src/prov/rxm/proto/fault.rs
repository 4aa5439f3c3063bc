// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The error of a malformed packet.

/// The rule that a peer has violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(pub &'static str);
