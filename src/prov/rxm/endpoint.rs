// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoints: listener, receives, and the connection of each address.

use std::collections::HashMap;
use std::sync::Arc;

use super::conn::LANES;
use super::tally::Accesses;
use client::layer::Block;
use client::{Cq, Ep, PassiveEp};
use engine::address::ip::Addr;
use engine::strangers::Strangers;
use engine::unreachable::Unreachable;

pub struct Endpoint {
    pub listener: Arc<PassiveEp>,
    pub cq: Arc<Cq>,
    pub shared_rx: Option<Arc<Ep>>,
    /// Address of its listener, once it listens.
    pub own: Option<Addr>,
    /// Connection of each address of the vector; `NONE` if there is none.
    pub peers: Vec<u32>,
    /// Connections by the address of the peer's listener.
    pub by_addr: HashMap<Addr, usize>,
    /// Connections that are not in `by_addr`: receiving halves of the endpoint's connections to itself. Peers of this
    /// host can cause several.
    pub receive_only: Vec<usize>,
    /// Errors of failed connections for which no operation was pending.
    pub unreachable: Unreachable<Addr>,
    /// Senders of kept messages that have neither a connection nor an address in the vector.
    pub strangers: Strangers<Addr>,
    /// Number of posted receives of the shared context below, and the intended number.
    pub posted: usize,
    pub wanted: usize,
    /// Free blocks, if each receive below takes many packets.
    pub blocks: Vec<Block>,
    /// Bytes of waiting packets, for each `Lane`.
    pub waiting: [usize; LANES],
    /// Counters of peers' accesses to local memory.
    pub accesses: Accesses,
}

pub const NONE: u32 = u32::MAX;
