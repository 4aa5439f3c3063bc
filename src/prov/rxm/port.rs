// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The sessions of one endpoint by the addresses of their peers.

use std::collections::HashMap;

use engine::address::ip::Addr;
use engine::strangers::UnknownSenders;
use engine::unreachable::Unreachable;

pub struct Port {
    /// Address of the endpoint's listener, once it listens.
    pub own: Option<Addr>,
    /// All sessions of the endpoint, also those that are over and not removed from the table yet.
    pub sessions: Vec<usize>,
    /// Session of each address of the vector; `NONE` if there is none. `Listed` of the session has its entries.
    peers: Vec<u32>,
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
            sessions: Vec::new(),
            peers: Vec::new(),
            by_addr: HashMap::new(),
            receive_only: Vec::new(),
            unreachable: Unreachable::new(),
            strangers: UnknownSenders::new(),
        }
    }

    /// Returns the index of the session of an address of the vector; there may be none with that index.
    #[inline]
    pub fn session_of(&self, index: u64) -> Option<usize> {
        let id = self.peers.get(usize::try_from(index).ok()?)?;
        Some(*id as usize)
    }

    /// Records the session of an address of the vector. `listed` is that of the session.
    pub fn assign(&mut self, index: u64, id: usize, listed: &mut Listed) {
        let at = index as usize;
        if self.peers.len() <= at {
            self.peers.resize(at + 1, NONE);
        }
        self.peers[at] = id as u32;
        *listed = match (*listed, u32::try_from(index)) {
            (Listed::Nowhere, Ok(index)) => Listed::Once(index),
            (Listed::Once(known), Ok(index)) if known == index => Listed::Once(index),
            _ => Listed::Often,
        };
    }

    /// Forgets the session of an address of the vector.
    pub fn unassign(&mut self, index: u64) {
        if let Some(slot) = self.peers.get_mut(index as usize) {
            *slot = NONE;
        }
    }

    /// Removes a session from the lookup tables. `listed` is that of the session.
    pub fn unlist(&mut self, peer: &Addr, id: usize, listed: Listed) {
        match self.by_addr.get(peer) == Some(&id) {
            true => drop(self.by_addr.remove(peer)),
            false => self.receive_only.retain(|&other| other != id),
        }
        let is_its = |slot: &&mut u32| **slot == id as u32;
        match listed {
            Listed::Nowhere => {}
            Listed::Once(index) => {
                if let Some(slot) = self.peers.get_mut(index as usize).filter(is_its) {
                    *slot = NONE;
                }
            }
            Listed::Often => self
                .peers
                .iter_mut()
                .filter(is_its)
                .for_each(|slot| *slot = NONE),
        }
    }
}

/// The entries of `Port::peers` that name a session. An entry may name another one by now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listed {
    #[default]
    Nowhere,
    /// This entry.
    Once(u32),
    /// Several entries: the address is in the vector several times.
    Often,
}

const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> Addr {
        Addr::from(([10, 0, 0, 1], port))
    }

    #[test]
    fn the_end_of_a_session_touches_only_its_own_entries() {
        let mut port = Port::new();
        let mut listed = [Listed::default(); 3];
        for (id, listed) in listed.iter_mut().enumerate() {
            port.by_addr.insert(peer(id as u16), id);
            port.assign(id as u64, id, listed);
            port.assign(id as u64, id, listed);
        }
        assert_eq!(listed[1], Listed::Once(1));
        // The address is in the vector a second time.
        port.assign(7, 2, &mut listed[2]);
        assert_eq!(listed[2], Listed::Often);
        port.unlist(&peer(1), 1, listed[1]);
        let sessions = |port: &Port| [0, 1, 2, 7].map(|index| port.session_of(index));
        let none = NONE as usize;
        assert_eq!(sessions(&port), [0, none, 2, 2].map(Some));
        port.unlist(&peer(2), 2, listed[2]);
        assert_eq!(sessions(&port), [0, none, none, none].map(Some));
        // The address of another session may have got the index meanwhile.
        port.unassign(0);
        port.assign(0, 5, &mut Listed::default());
        port.unlist(&peer(0), 0, listed[0]);
        assert_eq!(port.session_of(0), Some(5));
        assert!(port.by_addr.is_empty());
    }
}
