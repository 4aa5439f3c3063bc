// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Changes of address vectors, and the numbers of peers that are in none.

use super::Sessions;
use crate::rxm::port::Port;
use crate::rxm::state::StateOf;
use abi::FI_ADDR_NOTAVAIL;
use engine::address::ip::Addr;

impl Sessions {
    /// Returns the sessions with this peer of all endpoints with this vector.
    fn with_peer(&self, domain: &StateOf, av: usize, peer: &Addr) -> Vec<usize> {
        let mut found = Vec::new();
        for (ep, port) in self.ports.iter().enumerate() {
            let Some(port) = port else { continue };
            if domain.eps.get(ep).is_none_or(|state| state.av != Some(av)) {
                continue;
            }
            found.extend(port.by_addr.get(peer));
            let of_peer = |&&id: &&usize| self.table[id].link().peer() == peer;
            found.extend(port.receive_only.iter().filter(of_peer));
        }
        found
    }

    /// Handles a new address in a vector: sessions with that peer get its index.
    pub fn learn_address(&mut self, domain: &mut StateOf, av: usize, index: u64) {
        let Some(&peer) = domain.avs[av].get(index) else {
            return;
        };
        for id in self.with_peer(domain, av, &peer) {
            let session = &mut self.table[id];
            let link = session.link();
            if link.fi_addr() == FI_ADDR_NOTAVAIL {
                domain.rename_source(link.ep(), link.source(), index);
                session.set_fi_addr(index);
            }
        }
        for (ep, port) in of_av(&mut self.ports, domain, av) {
            if let Some(unnamed) = port.strangers.inserted(&peer) {
                domain.rename_source(ep, unnamed, index);
            }
        }
    }

    /// Handles the removal of an address. The session stays for the peer; its messages have no source from now on.
    pub fn forget_address(&mut self, domain: &mut StateOf, av: usize, index: u64, peer: &Addr) {
        for id in self.with_peer(domain, av, peer) {
            let session = &mut self.table[id];
            if session.link().fi_addr() == index {
                session.set_fi_addr(FI_ADDR_NOTAVAIL);
                let link = session.link();
                domain.forget_source(link.ep(), index, link.source(), peer);
            }
        }
        for (ep, port) in of_av(&mut self.ports, domain, av) {
            port.unassign(index);
            // Messages of an ended connection may still be kept, and another peer may get the index next.
            let unexpected = domain.unexpected_len(ep);
            let unnamed = port.strangers.number(peer, unexpected);
            domain.forget_source(ep, index, unnamed, peer);
        }
    }

    /// Handles the end of a session: messages of a peer outside the vector still wait for its address.
    pub(super) fn keep_source(&mut self, domain: &mut StateOf, id: usize) {
        let link = self.table[id].link();
        if link.fi_addr() == FI_ADDR_NOTAVAIL
            && domain.eps.get(link.ep()).is_some()
            && let Some(port) = self.ports.get_mut(link.ep()).and_then(Option::as_mut)
        {
            let unexpected = domain.unexpected_len(link.ep());
            let before = link.source();
            let source = port
                .strangers
                .disconnected(*link.peer(), before, unexpected);
            domain.rename_source(link.ep(), before, source);
        }
    }
}

/// Returns the endpoints with this vector.
fn of_av<'a>(
    ports: &'a mut [Option<Box<Port>>],
    domain: &StateOf,
    av: usize,
) -> Vec<(usize, &'a mut Port)> {
    let has_it = |ep: usize| domain.eps.get(ep).is_some_and(|ep| ep.av == Some(av));
    let ports = ports.iter_mut().enumerate();
    ports
        .filter_map(|(ep, port)| Some((ep, port.as_deref_mut()?)))
        .filter(|&(ep, _)| has_it(ep))
        .collect()
}
