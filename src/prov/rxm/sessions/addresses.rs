// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Changes of address vectors, and the numbers of peers that are in none.

use super::Sessions;
use crate::rxm::state::StateOf;
use abi::FI_ADDR_NOTAVAIL;
use engine::address::ip::Addr;

impl Sessions {
    /// Returns the sessions of an endpoint with this peer.
    fn with_peer(&self, ep: usize, peer: &Addr) -> Vec<usize> {
        let Some(port) = self.port(ep) else {
            return Vec::new();
        };
        let of_peer = |&&id: &&usize| self.table[id].link().peer() == peer;
        let beside = port.receive_only.iter().filter(of_peer);
        port.by_addr
            .get(peer)
            .into_iter()
            .chain(beside)
            .copied()
            .collect()
    }

    /// Handles a new address in the vector of an endpoint: sessions with that peer get its index.
    pub fn learn_address(&mut self, domain: &mut StateOf, ep: usize, index: u64) {
        let av = domain.eps[ep].av;
        let Some(peer) = av.and_then(|av| domain.avs[av].get(index).copied()) else {
            return;
        };
        for id in self.with_peer(ep, &peer) {
            let session = &mut self.table[id];
            let link = session.link();
            if link.fi_addr() == FI_ADDR_NOTAVAIL {
                domain.rename_source(link.ep(), link.source(), index);
                session.set_fi_addr(index);
            }
        }
        let port = self.port_mut(ep);
        if let Some(unnamed) = port.and_then(|port| port.strangers.inserted(&peer)) {
            domain.rename_source(ep, unnamed, index);
        }
    }

    /// Handles the removal of an address. The session stays for the peer; its messages have no source from now on.
    pub fn forget_address(&mut self, domain: &mut StateOf, ep: usize, index: u64, peer: &Addr) {
        for id in self.with_peer(ep, peer) {
            let session = &mut self.table[id];
            if session.link().fi_addr() == index {
                session.set_fi_addr(FI_ADDR_NOTAVAIL);
                let link = session.link();
                domain.forget_source(link.ep(), index, link.source(), peer);
            }
        }
        let Some(port) = self.port_mut(ep) else {
            return;
        };
        port.unassign(index);
        // Messages of an ended connection may still be kept, and another peer may get the index next.
        let unexpected = domain.unexpected_len(ep);
        let unnamed = port.strangers.number(peer, unexpected);
        domain.forget_source(ep, index, unnamed, peer);
        if unexpected > 0 && unnamed != FI_ADDR_NOTAVAIL {
            domain.keeps_messages(ep, peer);
        }
    }

    /// Handles the end of a session whose peer may have left messages. Those of a peer outside the vector still wait
    /// for its address; those of the others lose their source if the address is removed.
    pub(super) fn keep_source(&mut self, domain: &mut StateOf, id: usize) {
        let link = self.table[id].link();
        let (ep, peer, mut source) = (link.ep(), *link.peer(), link.source());
        let unnamed = link.fi_addr() == FI_ADDR_NOTAVAIL;
        if domain.eps.get(ep).is_none() {
            return;
        }
        let Some(port) = self.port_mut(ep) else {
            return;
        };
        let unexpected = domain.unexpected_len(ep);
        if unnamed {
            let before = source;
            source = port.strangers.disconnected(peer, before, unexpected);
            domain.rename_source(ep, before, source);
        }
        if unexpected > 0 && source != FI_ADDR_NOTAVAIL {
            domain.keeps_messages(ep, &peer);
        }
    }
}
