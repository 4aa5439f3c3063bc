// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The socket of an endpoint in tests.

use super::name::Name;
use crate::rxd::port::Routes;
use crate::rxd::proto::MAX_NAME;
use crate::rxd::session::Wire;
use base::Result;
use engine::transport::Address;

/// The socket of an endpoint: packets that it sends are collected for the network. Routes are the places of the peers.
pub struct Socket {
    pub sent: Vec<(usize, Vec<u8>)>,
    pub mtu: usize,
    /// Packets that are accepted before the next turn.
    pub room: usize,
    pub routes: usize,
    /// Peers that the network reports as unreachable.
    pub unreachable: Vec<u64>,
}

impl Wire for Socket {
    fn send(&mut self, to: u64, _more: bool, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        let mut bytes = vec![0xaa; self.mtu];
        let len = write(&mut bytes);
        bytes.truncate(len);
        self.sent.push((to as usize, bytes));
        true
    }

    fn mtu(&self) -> usize {
        self.mtu
    }
}

impl Routes<Name> for Socket {
    fn route(&mut self, addr: &Name) -> Result<u64> {
        self.routes += 1;
        Ok(addr.place() as u64)
    }

    fn drop_route(&mut self, _route: u64) {
        self.routes -= 1;
    }

    fn take_unreachable(&mut self) -> Option<u64> {
        self.unreachable.pop()
    }

    fn addr_of(&self, route: u64) -> Option<Name> {
        Some(Name::at(route as usize))
    }

    fn parse_name(&self, name: &[u8; MAX_NAME]) -> Option<Name> {
        Name::from_bytes(name)
    }
}
