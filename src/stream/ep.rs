// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoints and their peers: the connection for each address, and closing. No bytes of frames.

use std::collections::HashMap;
use std::os::fd::AsRawFd;

use crate::conn::Conn;
use crate::net::Net;
use crate::transport::{DomainOf, Stream};
use abi::*;
use base::{Error, Result};
use engine::auth::Key;
use engine::shared_av;
use engine::strangers::Strangers;
use engine::unreachable::Unreachable;
use sys::socket::Socket;

/// The state of an RDM endpoint for one index of its address vector.
#[derive(Clone, Copy)]
pub struct PeerSlot {
    /// The connection, or `NONE`.
    pub conn: u32,
    /// Number of addresses that were removed from this index. A prepared work request is for one address only, not for
    /// the next one that gets the same index.
    pub generation: u32,
}

impl PeerSlot {
    pub const EMPTY: PeerSlot = PeerSlot {
        conn: NONE,
        generation: 0,
    };
}

/// An endpoint of either type.
pub struct Ep<N: Net> {
    /// State of the provider; dropped before the listener.
    pub own: N::Ep,
    pub rdm: bool,
    /// The address to which the endpoint is bound; for RDM the address at which it listens.
    pub local: N::Addr,
    /// RDM only.
    pub listener: Option<Socket>,
    /// RDM: the state for each index of the address vector.
    pub peers: Vec<PeerSlot>,
    /// RDM: the connection that carries messages to a peer, by the address of the peer's listener.
    pub by_addr: HashMap<N::Addr, usize>,
    /// RDM: additional connections of a peer that only receive.
    pub receive_only: HashMap<N::Addr, Vec<usize>>,
    /// RDM: errors of failed connections for which no operation was pending.
    pub unreachable: Unreachable<N::Addr>,
    /// RDM: senders of kept messages that have neither a connection nor an address in the vector. With FI_AV_AUTH_KEY
    /// the same address with another key is another sender.
    pub strangers: Strangers<(N::Addr, Option<Key>)>,
    /// MSG: the connection, as soon as it is being set up.
    pub conn: Option<usize>,
}

impl<N: Net> Ep<N> {
    /// Ids of all connections with this peer.
    fn conns_with(&self, peer: &N::Addr) -> Vec<usize> {
        let receive_only = self.receive_only.get(peer).into_iter().flatten();
        let all = self.by_addr.get(peer).into_iter().chain(receive_only);
        all.copied().collect()
    }

    /// The slot of an index of the address vector; the table grows if needed.
    pub(super) fn peer_slot(&mut self, index: u64) -> &mut PeerSlot {
        let at = index as usize;
        if self.peers.len() <= at {
            self.peers.resize(at + 1, PeerSlot::EMPTY);
        }
        &mut self.peers[at]
    }

    /// Removes a connection from the tables of this peer.
    pub(super) fn unlink(&mut self, peer: &N::Addr, id: usize) {
        if self.by_addr.get(peer) == Some(&id) {
            self.by_addr.remove(peer);
        }
        if let Some(others) = self.receive_only.get_mut(peer) {
            others.retain(|&other| other != id);
            if others.is_empty() {
                self.receive_only.remove(peer);
            }
        }
    }
}

/// Endpoints by their number in `domain.eps`, because every operation looks up its endpoint.
pub struct Eps<N: Net>(Vec<Option<Box<Ep<N>>>>);

impl<N: Net> Default for Eps<N> {
    fn default() -> Self {
        Eps(Vec::new())
    }
}

impl<N: Net> Eps<N> {
    #[inline]
    pub fn get(&self, ep: usize) -> Option<&Ep<N>> {
        self.0.get(ep)?.as_deref()
    }

    pub fn get_mut(&mut self, ep: usize) -> Option<&mut Ep<N>> {
        self.0.get_mut(ep)?.as_deref_mut()
    }

    pub fn insert(&mut self, ep: usize, endpoint: Ep<N>) {
        if self.0.len() <= ep {
            self.0.resize_with(ep + 1, || None);
        }
        self.0[ep] = Some(Box::new(endpoint));
    }

    pub fn remove(&mut self, ep: usize) -> Option<Box<Ep<N>>> {
        self.0.get_mut(ep)?.take()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Ep<N>)> {
        let all = self.0.iter_mut().enumerate();
        all.filter_map(|(ep, endpoint)| Some((ep, endpoint.as_deref_mut()?)))
    }
}

pub const NONE: u32 = u32::MAX;

impl<N: Net> Stream<N> {
    pub(super) fn close_endpoint(&mut self, domain: &mut DomainOf<N>, ep: usize) {
        let Some(endpoint) = self.eps.remove(ep) else {
            return;
        };
        self.common.groups.forget(ep);
        if let Some(listener) = &endpoint.listener {
            self.reactor.remove(listener.as_raw_fd());
            if N::ALL_SHM {
                // Peers must not wait at this listener, which a forked child may hold, too; compare `close_link`.
                listener.shutdown();
            }
        }
        drop(endpoint);
        let ours: Vec<usize> = self
            .conns
            .iter()
            .filter(|(_, conn)| conn.session.ep == ep)
            .map(|(id, _)| id)
            .collect();
        for id in ours {
            // fi_close has already waited for operations that were reported as sent; this writes the rest.
            self.last_flush(domain, id, self.reactor.now());
            self.discard_conn(domain, id);
        }
        self.drop_all_pending(ep);
        N::close_ep(self, ep);
    }

    /// Drops an endpoint in a forked child, including this process's references to its memory and sockets. Sends
    /// nothing to peers, and leaves the epoll set alone because the parent shares it.
    #[cold]
    pub(super) fn leave_endpoint(&mut self, ep: usize) {
        drop(self.eps.remove(ep));
        self.common.groups.forget(ep);
        self.conns.retain(|_, conn| conn.session.ep != ep);
    }

    /// Returns the connection for an address of the endpoint's vector; makes one if there is none.
    #[cold]
    pub(super) fn find_peer(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        dest: u64,
    ) -> Result<usize> {
        let av = domain.ep(ep).av.ok_or(Error::NOAV)?;
        if domain.av(av).get(dest).is_none() {
            shared_av::renew(self, domain, av)?;
        }
        let peer = domain.av(av).get(dest).ok_or(Error::INVAL)?.clone();
        let endpoint = self.eps.get_mut(ep).ok_or(Error::INVAL)?;
        let id = match endpoint.by_addr.get(&peer) {
            Some(&id) => id,
            None => {
                let id = self.conns.insert(Conn::new(ep, peer.clone(), dest));
                endpoint.by_addr.insert(peer, id);
                id
            }
        };
        endpoint.peer_slot(dest).conn = id as u32;
        Ok(id)
    }

    /// Adds a connection for a peer that has begun to connect; its address may be in the vector.
    pub fn new_peer(&mut self, domain: &mut DomainOf<N>, ep: usize, peer: N::Addr) -> usize {
        let fi_addr = self.number_of(domain, ep, &peer);
        let id = self.conns.insert(Conn::new(ep, peer.clone(), fi_addr));
        if let Some(endpoint) = self.eps.get_mut(ep) {
            endpoint.by_addr.insert(peer, id);
        }
        id
    }

    /// Adds a connection that only receives, in addition to the one that carries messages to the peer.
    pub fn new_receive_only(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        peer: N::Addr,
    ) -> usize {
        let fi_addr = self.number_of(domain, ep, &peer);
        let mut conn = Conn::new(ep, peer.clone(), fi_addr);
        conn.receive_only = true;
        let id = self.conns.insert(conn);
        if let Some(endpoint) = self.eps.get_mut(ep) {
            endpoint.receive_only.entry(peer).or_default().push(id);
        }
        id
    }

    /// The peer's index in the endpoint's vector, or FI_ADDR_NOTAVAIL.
    pub fn number_of(&mut self, domain: &mut DomainOf<N>, ep: usize, peer: &N::Addr) -> u64 {
        let Some(av) = domain.ep(ep).av else {
            return FI_ADDR_NOTAVAIL;
        };
        // If the vector cannot be read, the address counts as unknown.
        if domain.av(av).find(peer).is_none() && shared_av::renew(self, domain, av).is_err() {
            return FI_ADDR_NOTAVAIL;
        }
        domain.av(av).find(peer).unwrap_or(FI_ADDR_NOTAVAIL)
    }

    /// Applies an address that was inserted into a vector: connections from that address get its index, and so do kept
    /// messages of earlier connections.
    pub(super) fn learn_address(&mut self, domain: &mut DomainOf<N>, av: usize, index: u64) {
        let Some(peer) = domain.av(av).get(index).cloned() else {
            return;
        };
        let mut others = Vec::new();
        for (ep, endpoint) in self.eps.iter_mut() {
            if domain.find_ep(ep).is_none_or(|state| state.av != Some(av)) {
                continue;
            }
            let wanted = domain.av(av).keys.of(index).cloned();
            for key in [None, wanted.clone()] {
                if let Some(unnamed) = endpoint.strangers.inserted(&(peer.clone(), key)) {
                    domain.rename_source(ep, unnamed, index);
                }
            }
            for id in endpoint.conns_with(&peer) {
                // The connection has proved an authorization key other than that of the address.
                let key = N::key(&self.conns[id]);
                if N::keys_of_av(endpoint) && key.is_some() && key != wanted.as_ref() {
                    others.push(id);
                    continue;
                }
                let session = &mut self.conns[id].session;
                if session.fi_addr == FI_ADDR_NOTAVAIL {
                    domain.rename_source(ep, session.source(), index);
                    session.fi_addr = index;
                }
            }
        }
        for id in others {
            self.disconnect(domain, id, Error::KEYREJECTED);
        }
    }

    /// Keeps the source number of a closed connection whose peer is in no vector, so that kept messages get their
    /// address if it is inserted later.
    pub(super) fn keep_source(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = &self.conns[id];
        let (ep, session) = (conn.session.ep, &conn.session);
        let Some(endpoint) = self.eps.get_mut(ep) else {
            return;
        };
        if session.fi_addr == FI_ADDR_NOTAVAIL && domain.find_ep(ep).is_some() {
            let key = N::key(conn).filter(|_| N::keys_of_av(endpoint));
            let sender = (session.peer.clone(), key.cloned());
            let unexpected = domain.unexpected_len(ep);
            let strangers = &mut endpoint.strangers;
            let source = strangers.disconnected(sender, session.source(), unexpected);
            domain.rename_source(ep, session.source(), source);
        }
    }

    /// Applies the removal of an address from a vector. All connections with the peer stay open because the peer may
    /// use them (unless FI_AV_REMOVE_CLEANUP is set, which ends them). Messages that arrived over them have no source
    /// from now on.
    pub(super) fn forget_address(
        &mut self,
        domain: &mut DomainOf<N>,
        av: usize,
        index: u64,
        peer: &N::Addr,
    ) {
        let mut cut = Vec::new();
        for (ep, endpoint) in self.eps.iter_mut() {
            if domain.find_ep(ep).is_none_or(|state| state.av != Some(av)) {
                continue;
            }
            if let Some(slot) = endpoint.peers.get_mut(index as usize) {
                slot.conn = NONE;
                slot.generation = slot.generation.wrapping_add(1);
            }
            let ids = endpoint.conns_with(peer);
            let mut unnamed = None;
            for &id in &ids {
                let session = &mut self.conns[id].session;
                if session.fi_addr == index {
                    session.fi_addr = FI_ADDR_NOTAVAIL;
                    unnamed.get_or_insert(session.source());
                }
            }
            // There may be kept messages whose connection has ended, and the index may be given to another peer next.
            let unnamed = unnamed.unwrap_or_else(|| {
                let key = domain.av(av).keys.of(index).cloned();
                let unexpected = domain.unexpected_len(ep);
                let strangers = &mut endpoint.strangers;
                strangers.number(&(peer.clone(), key), unexpected)
            });
            domain.forget_source(ep, index, unnamed, peer);
            cut.extend(ids);
        }
        if self.cleans_up_removed() {
            for id in cut {
                // The end of one connection may have ended another.
                if self.conns.contains(id) {
                    self.disconnect(domain, id, Error::CANCELED);
                }
            }
        }
    }
}
