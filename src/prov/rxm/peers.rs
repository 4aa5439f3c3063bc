// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Lookup of the connection for an operation, and the numbers of peers.

use super::conn::{Conn, State};
use super::endpoint::{Endpoint, NONE};
use super::state::{Rxm, StateOf};
use abi::FI_ADDR_NOTAVAIL;
use base::{Error, Result};
use engine::address::ip::Addr;
use engine::shared_av;

impl Rxm {
    #[inline]
    pub fn endpoint(&self, ep: usize) -> Option<&Endpoint> {
        self.eps.get(ep)?.as_deref()
    }

    pub fn endpoint_mut(&mut self, ep: usize) -> Option<&mut Endpoint> {
        self.eps.get_mut(ep)?.as_deref_mut()
    }

    pub fn add_endpoint(&mut self, ep: usize, endpoint: Endpoint) {
        if self.eps.len() <= ep {
            self.eps.resize_with(ep + 1, || None);
        }
        self.eps[ep] = Some(Box::new(endpoint));
    }

    /// Returns the connection for an operation, if it is up.
    #[inline]
    pub fn usable(&self, ep: usize, dest: u64) -> Option<usize> {
        let peers = &self.endpoint(ep)?.peers;
        let id = *peers.get(usize::try_from(dest).ok()?)? as usize;
        let conn = self.conns.get(id)?;
        (conn.state == State::Up).then_some(id)
    }

    /// Does the same as `usable`; if there is no connection yet, drives progress and returns the reason.
    #[cold]
    pub fn approach(&mut self, domain: &mut StateOf, ep: usize, dest: u64) -> Result<usize> {
        let id = self.find_peer(domain, ep, dest)?;
        let conn = &mut self.conns[id];
        let peer = conn.peer;
        conn.is_wanted = true;
        if conn.state == State::Idle {
            self.connect(domain, id);
        }
        // The program may do nothing but retry.
        self.drive(domain);
        if let Some(id) = self.usable(ep, dest) {
            return Ok(id);
        }
        let now = self.reactor.now();
        let endpoint = self.endpoint_mut(ep).ok_or(Error::INVAL)?;
        Err(endpoint
            .unreachable
            .take(&peer, now)
            .unwrap_or(Error::AGAIN))
    }

    /// Returns the connection for an address of the endpoint's vector, and creates it if there is none.
    pub fn find_peer(&mut self, domain: &mut StateOf, ep: usize, dest: u64) -> Result<usize> {
        let av = domain.ep(ep).av.ok_or(Error::NOAV)?;
        if domain.av(av).get(dest).is_none() {
            shared_av::renew(self, domain, av)?;
        }
        let &peer = domain.av(av).get(dest).ok_or(Error::INVAL)?;
        let known = self.endpoint(ep).ok_or(Error::INVAL)?.by_addr.get(&peer);
        let id = match known {
            Some(&id) => id,
            None => {
                let id = self.add_conn(ep, peer, dest);
                self.link_peer(ep, peer, id);
                id
            }
        };
        let endpoint = self.endpoint_mut(ep).ok_or(Error::INVAL)?;
        let at = dest as usize;
        if endpoint.peers.len() <= at {
            endpoint.peers.resize(at + 1, NONE);
        }
        endpoint.peers[at] = id as u32;
        Ok(id)
    }

    fn add_conn(&mut self, ep: usize, peer: Addr, fi_addr: u64) -> usize {
        self.conns.insert(Conn::new(ep, peer, fi_addr))
    }

    fn link_peer(&mut self, ep: usize, peer: Addr, id: usize) {
        if let Some(endpoint) = self.endpoint_mut(ep) {
            endpoint.by_addr.insert(peer, id);
        }
    }

    /// Adds a peer that has connected by itself; its address may be in the vector. `beside`: another connection to it
    /// exists.
    pub fn new_peer(&mut self, domain: &mut StateOf, ep: usize, peer: Addr, beside: bool) -> usize {
        let fi_addr = self.number_of(domain, ep, &peer);
        let id = self.add_conn(ep, peer, fi_addr);
        self.conns[id].receive_only = beside;
        match (beside, self.endpoint_mut(ep)) {
            (true, Some(endpoint)) => endpoint.receive_only.push(id),
            _ => self.link_peer(ep, peer, id),
        }
        id
    }

    fn number_of(&mut self, domain: &mut StateOf, ep: usize, peer: &Addr) -> u64 {
        let Some(av) = domain.ep(ep).av else {
            return FI_ADDR_NOTAVAIL;
        };
        // On failure, the address stays unknown.
        if domain.av(av).find(peer).is_none() && shared_av::renew(self, domain, av).is_err() {
            return FI_ADDR_NOTAVAIL;
        }
        domain.av(av).find(peer).unwrap_or(FI_ADDR_NOTAVAIL)
    }

    /// Returns the connections to this peer of all endpoints with this vector.
    fn conns_of(&self, domain: &StateOf, av: usize, peer: &Addr) -> Vec<usize> {
        let mut found = Vec::new();
        for (ep, endpoint) in self.eps.iter().enumerate() {
            let Some(endpoint) = endpoint else { continue };
            if domain.find_ep(ep).is_none_or(|state| state.av != Some(av)) {
                continue;
            }
            found.extend(endpoint.by_addr.get(peer));
            let of_peer = |&&id: &&usize| self.conns[id].peer == *peer;
            found.extend(endpoint.receive_only.iter().filter(of_peer));
        }
        found
    }

    /// Handles a new address in a vector: connections from it get its index.
    pub fn learn_address(&mut self, domain: &mut StateOf, av: usize, index: u64) {
        let Some(&peer) = domain.av(av).get(index) else {
            return;
        };
        for id in self.conns_of(domain, av, &peer) {
            let conn = &mut self.conns[id];
            if conn.fi_addr == FI_ADDR_NOTAVAIL {
                domain.rename_source(conn.ep, conn.source(), index);
                conn.fi_addr = index;
            }
        }
        for (ep, endpoint) in of_av(&mut self.eps, domain, av) {
            if let Some(unnamed) = endpoint.strangers.inserted(&peer) {
                domain.rename_source(ep, unnamed, index);
            }
        }
    }

    /// Handles the removal of an address. The connection stays for the peer; its messages have no source from now on.
    pub fn forget_address(&mut self, domain: &mut StateOf, av: usize, index: u64, peer: &Addr) {
        for id in self.conns_of(domain, av, peer) {
            let conn = &mut self.conns[id];
            if conn.fi_addr == index {
                conn.fi_addr = FI_ADDR_NOTAVAIL;
                domain.forget_source(conn.ep, index, conn.source(), peer);
            }
        }
        for (ep, endpoint) in of_av(&mut self.eps, domain, av) {
            if let Some(slot) = endpoint.peers.get_mut(index as usize) {
                *slot = NONE;
            }
            // Messages of an ended connection may still be kept, and another peer may get the index next.
            let unexpected = domain.unexpected_len(ep);
            let unnamed = endpoint.strangers.number(peer, unexpected);
            domain.forget_source(ep, index, unnamed, peer);
        }
    }

    /// Handles the end of a connection: messages of a peer outside the vector still wait for its address.
    pub fn keep_source(&mut self, domain: &mut StateOf, id: usize) {
        let conn = &self.conns[id];
        if conn.fi_addr == FI_ADDR_NOTAVAIL
            && domain.find_ep(conn.ep).is_some()
            && let Some(endpoint) = self.eps.get_mut(conn.ep).and_then(Option::as_mut)
        {
            let unexpected = domain.unexpected_len(conn.ep);
            let strangers = &mut endpoint.strangers;
            let source = strangers.disconnected(conn.peer, conn.source(), unexpected);
            domain.rename_source(conn.ep, conn.source(), source);
        }
    }

    /// Removes a connection from the lookup tables.
    pub fn unlink_peer(&mut self, id: usize) {
        let (ep, peer) = (self.conns[id].ep, self.conns[id].peer);
        let Some(endpoint) = self.endpoint_mut(ep) else {
            return;
        };
        if endpoint.by_addr.get(&peer) == Some(&id) {
            endpoint.by_addr.remove(&peer);
        }
        endpoint.receive_only.retain(|&other| other != id);
        for slot in &mut endpoint.peers {
            if *slot == id as u32 {
                *slot = NONE;
            }
        }
    }
}

/// Returns the endpoints with this vector.
fn of_av<'a>(
    eps: &'a mut [Option<Box<Endpoint>>],
    domain: &StateOf,
    av: usize,
) -> Vec<(usize, &'a mut Endpoint)> {
    let has_it = |ep: usize| domain.find_ep(ep).is_some_and(|ep| ep.av == Some(av));
    let eps = eps.iter_mut().enumerate();
    eps.filter_map(|(ep, endpoint)| Some((ep, endpoint.as_deref_mut()?)))
        .filter(|&(ep, _)| has_it(ep))
        .collect()
}
