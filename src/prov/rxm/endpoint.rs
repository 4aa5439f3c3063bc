// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoints: where each listens and receives, and which of its connections an address stands for.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::Arc;

use super::conn::LANES;
use super::tally::Accesses;
use crate::engine::address::ip::Addr;
use crate::engine::strangers::Strangers;
use crate::engine::unreachable::Unreachable;
use crate::ffi::client::{Cq, Ep, PassiveEp};
use crate::ffi::layer::Block;

pub struct Endpoint {
    pub listener: Arc<PassiveEp>,
    pub cq: Arc<Cq>,
    pub shared_rx: Option<Arc<Ep>>,
    /// Where it listens, once it does.
    pub own: Option<Addr>,
    /// The connection to each address of the vector; `NONE` where there is none.
    pub peers: Vec<u32>,
    /// Connections by the peer's listener.
    pub by_addr: HashMap<Addr, usize>,
    /// Connections beside those in `by_addr`: receiving halves of connections to the endpoint itself. Peers of this
    /// host can cause several.
    pub receive_only: Vec<usize>,
    /// Errors of failed connections for which no operation was pending.
    pub unreachable: Unreachable<Addr>,
    /// Senders of messages that are kept, without a connection and without an address in the vector.
    pub strangers: Strangers<Addr>,
    /// Receives of the shared context that are posted below, and how many there should be.
    pub posted: usize,
    pub wanted: usize,
    /// Those of them that are not, where they take many packets each.
    pub blocks: Vec<Block>,
    /// What packets that wait take, in bytes, of each `Lane`.
    pub waiting: [usize; LANES],
    /// What peers do to memory here.
    pub accesses: Accesses,
}

pub const NONE: u32 = u32::MAX;
