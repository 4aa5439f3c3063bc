// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What tests and the simulator need: an endpoint with its sessions over a wire without a provider below.

mod node;
mod wire;

pub use self::node::{Answer, KEY, Node, Posted, addr_of, common_of};
pub use self::wire::{Out, TestWire};
