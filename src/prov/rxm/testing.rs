// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What tests and the simulator need: an endpoint with its sessions over a wire without a provider below.

mod node;
mod wire;

pub use self::node::{Answer, KEY, Node, Posted, addr_of, common_of, place_of};
pub use self::wire::{Out, TestWire};
use super::params::Params;
use super::session::FOR_ANSWERS;
pub use super::session::{Settings, id_of};
use abi::fi_rma_iov;
use base::OpFlags;

/// Memory of a peer that an operation reads or writes.
pub type Remote = fi_rma_iov;

/// Slots for copied messages, where packets are not short.
pub const MOST_COPIES: usize = 2048 + FOR_ANSWERS;

/// Returns the settings of a process over tcp of this library. `eager`: FI_OFI_RXM_BUFFER_SIZE.
pub fn settings_of(eager: usize) -> Settings {
    let params = Params {
        eager,
        ..Params::default()
    };
    Settings {
        announces_delivery: false,
        eager: params.eager,
        segmented: params.segmented(),
        rendezvous_write: params.rendezvous_write,
        saved: params.max_saved_bytes,
        conn_timeout: params.conn_timeout,
        is_ours: true,
        inject: 128,
        pieces: 4,
        remotes: 4,
        longest: usize::MAX,
        receives: 65536,
        wants_local: false,
        flags: OpFlags::empty(),
    }
}
