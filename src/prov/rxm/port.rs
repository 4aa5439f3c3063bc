// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The sessions of one endpoint by the addresses of their peers.

use std::collections::HashMap;

use engine::address::ip::Addr;
use engine::strangers::UnknownSenders;
use engine::unreachable::Unreachable;

pub struct Port {
    /// Address of the endpoint's listener, once it listens.
    pub own: Option<Addr>,
    /// Session of each address of the vector; `NONE` if there is none.
    pub peers: Vec<u32>,
    /// Sessions by the address of the peer's listener.
    pub by_addr: HashMap<Addr, usize>,
    /// Sessions that are not in `by_addr`: receiving halves of the endpoint's connections to itself. Peers of this host
    /// can cause several.
    pub receive_only: Vec<usize>,
    /// Errors of failed connections for which no operation was pending.
    pub unreachable: Unreachable<Addr>,
    /// Senders of kept messages that have neither a connection nor an address in the vector.
    pub strangers: UnknownSenders<Addr>,
}

impl Port {
    pub fn new() -> Port {
        Port {
            own: None,
            peers: Vec::new(),
            by_addr: HashMap::new(),
            receive_only: Vec::new(),
            unreachable: Unreachable::new(),
            strangers: UnknownSenders::new(),
        }
    }

    /// Records the session of an address of the vector.
    pub fn assign(&mut self, index: u64, id: usize) {
        let at = index as usize;
        if self.peers.len() <= at {
            self.peers.resize(at + 1, NONE);
        }
        self.peers[at] = id as u32;
    }

    /// Removes a session from the lookup tables.
    pub fn unlist(&mut self, peer: &Addr, id: usize) {
        if self.by_addr.get(peer) == Some(&id) {
            self.by_addr.remove(peer);
        }
        self.receive_only.retain(|&other| other != id);
        for slot in &mut self.peers {
            if *slot == id as u32 {
                *slot = NONE;
            }
        }
    }
}

pub const NONE: u32 = u32::MAX;
