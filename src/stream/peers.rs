// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The peers of a domain: endpoints, their connections, and the connections by address.
//!
//! A connection has a number, its id, which belongs to another connection once this one is removed. The number of an
//! endpoint is the one in `domain.eps`.

mod room;
mod snapshot;

use core::time::Duration;
use std::ops::{Index, IndexMut};
use std::os::fd::BorrowedFd;
use std::time::Instant;

use slab::Slab;

use crate::conn::{Conn, UNASSIGNED};
use crate::connector::Connector;
use crate::ep::{Ep, Eps};
use crate::poller::Sockets;
use crate::transport::DomainOf;
use abi::FI_ADDR_NOTAVAIL;
use base::settings::Settings;
use base::{Error, Result};
use engine::domain_state::TxOp;

/// The endpoints of one domain and their connections.
pub struct Peers<N: Connector> {
    /// Indexed by the endpoint's number in `domain.eps`.
    eps: Eps<N>,
    conns: Slab<Conn<N>>,
}

impl<N: Connector> Default for Peers<N> {
    fn default() -> Self {
        Peers {
            eps: Eps::default(),
            conns: Slab::new(),
        }
    }
}

impl<N: Connector> Index<usize> for Peers<N> {
    type Output = Conn<N>;

    #[inline(always)]
    fn index(&self, id: usize) -> &Conn<N> {
        &self.conns[id]
    }
}

impl<N: Connector> IndexMut<usize> for Peers<N> {
    #[inline(always)]
    fn index_mut(&mut self, id: usize) -> &mut Conn<N> {
        &mut self.conns[id]
    }
}

impl<N: Connector> Sockets for Peers<N> {
    fn socket_of(&self, id: usize) -> Option<BorrowedFd<'_>> {
        self.conns.get(id)?.link.fd()
    }
}

/// Connections by their number.
impl<N: Connector> Peers<N> {
    #[inline(always)]
    pub fn get(&self, id: usize) -> Option<&Conn<N>> {
        self.conns.get(id)
    }

    #[inline(always)]
    pub fn get_mut(&mut self, id: usize) -> Option<&mut Conn<N>> {
        self.conns.get_mut(id)
    }

    #[inline]
    pub fn contains(&self, id: usize) -> bool {
        self.conns.contains(id)
    }

    /// Returns the number of connections.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.conns.len()
    }

    /// Returns a number above those of all connections.
    pub(super) fn end(&self) -> usize {
        self.conns.capacity()
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &Conn<N>)> {
        self.conns.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Conn<N>)> {
        self.conns.iter_mut()
    }

    /// Iterates over the connections of an endpoint.
    pub(super) fn of_ep(&self, ep: usize) -> impl Iterator<Item = (usize, &Conn<N>)> {
        let ids = self.eps.get(ep).into_iter().flat_map(Ep::conns);
        ids.map(|id| (id, &self.conns[id]))
    }

    /// Returns the numbers of the connections of an endpoint.
    pub(super) fn ids_of_ep(&self, ep: usize) -> Vec<usize> {
        self.eps
            .get(ep)
            .map_or(Vec::new(), |ep| ep.conns().collect())
    }

    /// Returns the numbers of the connections that fulfil a condition.
    pub(super) fn ids(&self, is_meant: impl Fn(&Conn<N>) -> bool) -> Vec<usize> {
        let meant = self.iter().filter(|(_, conn)| is_meant(conn));
        meant.map(|(id, _)| id).collect()
    }
}

/// Endpoints.
impl<N: Connector> Peers<N> {
    #[inline(always)]
    pub fn find_ep(&self, ep: usize) -> Option<&Ep<N>> {
        self.eps.get(ep)
    }

    pub fn find_ep_mut(&mut self, ep: usize) -> Option<&mut Ep<N>> {
        self.eps.get_mut(ep)
    }

    #[inline]
    pub fn ep(&self, ep: usize) -> Result<&Ep<N>> {
        self.eps.get(ep).ok_or(Error::INVAL)
    }

    pub fn ep_mut(&mut self, ep: usize) -> Result<&mut Ep<N>> {
        self.eps.get_mut(ep).ok_or(Error::INVAL)
    }

    /// Returns the endpoint of a connection together with the connection.
    pub fn with_ep(&mut self, id: usize) -> Result<(&mut Ep<N>, &mut Conn<N>)> {
        let conn = &mut self.conns[id];
        let endpoint = self.eps.get_mut(conn.session.peer.ep).ok_or(Error::INVAL)?;
        Ok((endpoint, conn))
    }

    pub fn insert_ep(&mut self, ep: usize, endpoint: Ep<N>) {
        self.eps.insert(ep, endpoint);
    }

    pub(super) fn remove_ep(&mut self, ep: usize) -> Option<Box<Ep<N>>> {
        self.eps.remove(ep)
    }

    /// Drops an endpoint and its connections without a word to anyone.
    pub(super) fn drop_ep(&mut self, domain: &mut DomainOf<N>, ep: usize) {
        let ids = self.ids_of_ep(ep);
        drop(self.eps.remove(ep));
        for id in ids {
            self.remove(domain, id);
        }
    }

    /// Whether this is an RDM endpoint that exists.
    pub(super) fn is_rdm(&self, ep: usize) -> bool {
        self.eps.get(ep).is_some_and(|ep| ep.rdm)
    }

    /// Whether the connection belongs to an RDM endpoint that exists.
    pub fn is_of_rdm(&self, id: usize) -> bool {
        self.is_rdm(self.conns[id].session.peer.ep)
    }
}

/// Connections by address.
impl<N: Connector> Peers<N> {
    /// Returns the connection to an index of the address vector, if there is one.
    #[inline(always)]
    pub(super) fn conn_at(&mut self, ep: usize, dest: u64) -> Option<&mut Conn<N>> {
        let slot = self.eps.get(ep)?.slot(dest)?;
        self.conns.get_mut(slot.conn_number())
    }

    /// Returns the number of that connection.
    #[inline(always)]
    pub(super) fn id_at(&self, ep: usize, dest: u64) -> Option<usize> {
        let slot = self.eps.get(ep)?.slot(dest)?;
        let id = slot.conn_number();
        self.conns.contains(id).then_some(id)
    }

    /// Returns the connection that carries messages to the peer with this address.
    pub fn conn_to(&self, ep: usize, peer: &N::Addr) -> Option<usize> {
        self.eps.get(ep)?.conn_to(peer)
    }

    /// Returns the connection for an address of the endpoint's vector; makes one if there is none.
    pub(super) fn conn_for(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        dest: u64,
    ) -> Result<usize> {
        let endpoint = self.eps.get_mut(ep).ok_or(Error::INVAL)?;
        let av = &domain.avs[domain.eps[ep].av.ok_or(Error::NOAV)?];
        let peer = av.get(dest).ok_or(Error::INVAL)?;
        let generation = av.generation(dest);
        let id = match endpoint.conn_to(peer) {
            Some(id) => id,
            None => {
                let peer = peer.clone();
                self.insert(domain, ep, peer, dest)
            }
        };
        let endpoint = self.eps.get_mut(ep).ok_or(Error::INVAL)?;
        endpoint.assign(dest, generation, id, &mut self.conns[id].listed);
        Ok(id)
    }

    /// Adds the connection that carries messages to a peer.
    pub(super) fn insert(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        peer: N::Addr,
        fi_addr: u64,
    ) -> usize {
        domain.session_added(ep, &peer);
        let id = self.add(Conn::new(ep, peer.clone(), fi_addr));
        if let Some(endpoint) = self.eps.get_mut(ep) {
            endpoint.link(peer, id);
        }
        id
    }

    /// Adds a connection that only receives, in addition to the one that carries messages to the peer.
    pub(super) fn insert_receive_only(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        peer: N::Addr,
        fi_addr: u64,
    ) -> usize {
        domain.session_added(ep, &peer);
        let mut conn = Conn::new(ep, peer.clone(), fi_addr);
        conn.receive_only = true;
        let id = self.add(conn);
        if let Some(endpoint) = self.eps.get_mut(ep) {
            endpoint.link_receive_only(peer, id);
        }
        id
    }

    /// Adds the connection of an MSG endpoint.
    pub fn insert_only(&mut self, ep: usize, conn: Conn<N>) -> Result<usize> {
        self.ep(ep)?;
        let id = self.add(conn);
        self.ep_mut(ep)?.conn = Some(id);
        Ok(id)
    }

    fn add(&mut self, conn: Conn<N>) -> usize {
        let ep = conn.session.peer.ep;
        let id = self.conns.insert(conn);
        if let Some(endpoint) = self.eps.get_mut(ep) {
            self.conns[id].listed.place = endpoint.list(id);
        }
        id
    }

    /// Removes a connection from all tables.
    pub(super) fn remove(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = self.conns.remove(id);
        let peer = &conn.session.peer;
        domain.session_removed(peer.ep, &peer.addr);
        if let Some(endpoint) = self.eps.get_mut(peer.ep)
            && let Some(moved) = endpoint.unlink(&peer.addr, id, conn.listed)
        {
            self.conns[moved].listed.place = conn.listed.place;
        }
    }

    /// Applies an address that was inserted into the vector of an endpoint: connections from that address get its
    /// index, and so do kept messages of earlier connections. Returns the connections that have proved another key than
    /// that of the address.
    pub(super) fn learn_address(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        index: u64,
    ) -> Vec<usize> {
        let mut others = Vec::new();
        let (Some(av), Some(endpoint)) = (domain.eps[ep].av, self.eps.get_mut(ep)) else {
            return others;
        };
        let Some(peer) = domain.avs[av].get(index).cloned() else {
            return others;
        };
        let wanted = domain.avs[av].keys.of(index).cloned();
        for key in [None, wanted.clone()] {
            if let Some(unnamed) = endpoint.strangers.inserted(&(peer.clone(), key)) {
                domain.rename_source(ep, unnamed, index);
            }
        }
        for id in endpoint.conns_with(&peer) {
            let key = N::key(&self.conns[id].own);
            if N::keys_of_av(&endpoint.own) && key.is_some() && key != wanted.as_ref() {
                others.push(id);
                continue;
            }
            let session = &mut self.conns[id].session;
            if session.peer.fi_addr == FI_ADDR_NOTAVAIL {
                domain.rename_source(ep, session.peer.source(), index);
                session.peer.fi_addr = index;
            }
        }
        others
    }

    /// Applies the removal of an address from the vector of an endpoint: messages that arrived from that peer have no
    /// source from now on. Returns the connections with the peer.
    pub(super) fn forget_address(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        index: u64,
        peer: &N::Addr,
    ) -> Vec<usize> {
        let Some(endpoint) = self.eps.get_mut(ep) else {
            return Vec::new();
        };
        if let Some(id) = endpoint.address_removed(index) {
            self.conns[id].listed.index = UNASSIGNED;
        }
        let ids = endpoint.conns_with(peer);
        let mut unnamed = None;
        for &id in &ids {
            let session = &mut self.conns[id].session;
            if session.peer.fi_addr == index {
                session.peer.fi_addr = FI_ADDR_NOTAVAIL;
                unnamed.get_or_insert(session.peer.source());
            }
        }
        // There may be kept messages whose connection has ended, and the index may be given to another peer next.
        let unexpected = domain.unexpected_len(ep);
        let unnamed = unnamed.unwrap_or_else(|| {
            let av = domain.eps[ep].av.map(|av| &domain.avs[av]);
            let key = av.and_then(|av| av.keys.of(index).cloned());
            let strangers = &mut endpoint.strangers;
            strangers.number(&(peer.clone(), key), unexpected)
        });
        domain.forget_source(ep, index, unnamed, peer);
        if unexpected > 0 && unnamed != FI_ADDR_NOTAVAIL {
            domain.keeps_messages(ep, peer);
        }
        ids
    }

    /// Applies what other processes have changed in a named address vector. Returns the connections to end.
    pub(super) fn renew(
        &mut self,
        domain: &mut DomainOf<N>,
        av: usize,
    ) -> Result<Vec<(usize, Error)>> {
        let news = domain.avs[av].read_news()?;
        let mut ended = Vec::new();
        for index in news.inserted {
            for ep in domain.address_inserted(av, index) {
                let others = self.learn_address(domain, ep, index);
                ended.extend(others.into_iter().map(|id| (id, Error::KEYREJECTED)));
            }
        }
        for (index, addr) in news.removed {
            for ep in domain.address_removed(av, &addr) {
                let with_peer = self.forget_address(domain, ep, index, &addr);
                if Settings::get().av_remove_cleanup {
                    ended.extend(with_peer.into_iter().map(|id| (id, Error::CANCELED)));
                }
            }
        }
        Ok(ended)
    }

    /// Records the source of a closed connection. If the peer is in no vector, kept messages get their address when it
    /// is inserted; otherwise they lose it when it is removed.
    pub(super) fn keep_source(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = &self.conns[id];
        let peer = &conn.session.peer;
        let ep = peer.ep;
        let Some(endpoint) = self.eps.get_mut(ep) else {
            return;
        };
        if domain.eps.get(ep).is_none() {
            return;
        }
        let unexpected = domain.unexpected_len(ep);
        let mut source = peer.source();
        if peer.fi_addr == FI_ADDR_NOTAVAIL {
            let key = N::key(&conn.own).filter(|_| N::keys_of_av(&endpoint.own));
            let sender = (peer.addr.clone(), key.cloned());
            let strangers = &mut endpoint.strangers;
            source = strangers.disconnected(sender, peer.source(), unexpected);
            domain.rename_source(ep, peer.source(), source);
        }
        if unexpected > 0 && source != FI_ADDR_NOTAVAIL {
            domain.keeps_messages(ep, &peer.addr);
        }
    }

    /// Keeps the error of a failed connection for which no operation is pending that could report it.
    pub(super) fn keep_error(&mut self, id: usize, error: Error, now: Instant, limit: Duration) {
        let conn = &self.conns[id];
        if conn.session.refused.is_none() {
            return;
        }
        if let Some(endpoint) = self.eps.get_mut(conn.session.peer.ep) {
            let peer = conn.session.peer.addr.clone();
            endpoint.unreachable.insert(peer, error, now, limit);
        }
    }

    /// Removes an operation of which the peer has seen nothing: it waits for its connection or behind a fence, or no
    /// byte of its frame was written. A message that was announced to the peer stays, because the peer may be fetching
    /// it.
    pub(super) fn take_unsent(&mut self, port: usize, ep: usize, context: usize) -> Option<TxOp> {
        let is_meant = |op: &TxOp| op.is_named(ep, context);
        let Peers { eps, conns } = self;
        let endpoint = eps.get_mut(port)?;
        endpoint.cancel(|id| conns[id].session.tx.take_unsent(is_meant))
    }

    /// Returns the connection of an MSG endpoint. RDM endpoints have one for each peer.
    pub(super) fn only_conn(&self, ep: usize) -> Result<&Conn<N>> {
        let endpoint = self.ep(ep)?;
        if endpoint.rdm {
            return Err(Error::NOSYS);
        }
        Ok(&self.conns[endpoint.conn().ok_or(Error::NOTCONN)?])
    }
}
