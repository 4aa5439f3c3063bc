// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One endpoint: its address, the index of its peers by address, and the senders without an address.

mod conn_list;

use std::collections::HashMap;

use self::conn_list::ConnList;
use crate::conn::{Listed, UNASSIGNED};
use crate::connector::Connector;
use engine::auth::Key;
use engine::strangers::UnknownSenders;
use engine::unreachable::Unreachable;
use sys::socket::Socket;

/// The state of an RDM endpoint for one index of its address vector.
#[derive(Clone, Copy)]
pub struct PeerSlot {
    /// The connection, or `NONE`.
    conn: u32,
    /// `AvTable::generation` of the address when the connection was assigned.
    generation: u32,
}

/// No connection; `Slab` never gives out this number.
const NONE: u32 = u32::MAX;

impl PeerSlot {
    const EMPTY: PeerSlot = PeerSlot {
        conn: NONE,
        generation: 0,
    };

    /// Returns the generation of the address to which the connection belongs.
    #[inline(always)]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns the number of the connection. It is no valid number if there is no connection.
    #[inline(always)]
    pub(super) fn conn_number(&self) -> usize {
        self.conn as usize
    }

    /// Returns the number of the connection if there is one.
    #[inline(always)]
    pub(super) fn conn(&self) -> Option<usize> {
        (self.conn != NONE).then_some(self.conn as usize)
    }
}

/// An endpoint of either type.
pub struct Ep<N: Connector> {
    /// State of the provider; dropped before the listener.
    pub own: N::Ep,
    pub rdm: bool,
    /// The address to which the endpoint is bound; for RDM the address at which it listens.
    pub local: N::Addr,
    /// RDM only.
    pub listener: Option<Socket>,
    /// RDM: the state for each index of the address vector.
    slots: Vec<PeerSlot>,
    /// RDM: the connection that carries messages to a peer, by the address of the peer's listener.
    by_addr: HashMap<N::Addr, usize>,
    /// RDM: additional connections of a peer that only receive.
    receive_only: HashMap<N::Addr, Vec<usize>>,
    /// RDM: errors of failed connections for which no operation was pending.
    pub(super) unreachable: Unreachable<N::Addr>,
    /// RDM: senders of kept messages that have neither a connection nor an address in the vector. With FI_AV_AUTH_KEY
    /// the same address with another key is another sender.
    pub(super) strangers: UnknownSenders<(N::Addr, Option<Key>)>,
    /// MSG: the connection, as soon as it is being set up.
    pub(super) conn: Option<usize>,
    /// All connections; `Conn::listed` has the place of each.
    conns: ConnList,
}

impl<N: Connector> Ep<N> {
    pub fn new(own: N::Ep, rdm: bool, local: N::Addr, listener: Option<Socket>) -> Ep<N> {
        Ep {
            own,
            rdm,
            local,
            listener,
            slots: Vec::new(),
            by_addr: HashMap::new(),
            receive_only: HashMap::new(),
            unreachable: Unreachable::new(),
            strangers: UnknownSenders::new(),
            conn: None,
            conns: ConnList::default(),
        }
    }

    /// MSG: returns the connection, as soon as it is being set up.
    #[inline]
    pub fn conn(&self) -> Option<usize> {
        self.conn
    }

    /// RDM: returns the connection that carries messages to the peer with this address.
    pub fn conn_to(&self, peer: &N::Addr) -> Option<usize> {
        self.by_addr.get(peer).copied()
    }

    /// Returns the state for an index of the address vector.
    #[inline(always)]
    pub(super) fn slot(&self, index: u64) -> Option<&PeerSlot> {
        self.slots.get(index as usize)
    }

    /// Sets the connection for an index of the address vector. `listed` is that of the connection.
    pub(super) fn assign(&mut self, index: u64, generation: u32, id: usize, listed: &mut Listed) {
        if u64::from(listed.index) != index {
            self.unassign(id, listed);
        }
        let at = index as usize;
        if self.slots.len() <= at {
            self.slots.resize(at + 1, PeerSlot::EMPTY);
        }
        self.slots[at] = PeerSlot {
            conn: id as u32,
            generation,
        };
        listed.index = index as u32;
    }

    /// Empties the slot of a connection.
    fn unassign(&mut self, id: usize, listed: &mut Listed) {
        let index = std::mem::replace(&mut listed.index, UNASSIGNED);
        if let Some(slot) = self.slots.get_mut(index as usize)
            && slot.conn == id as u32
        {
            *slot = PeerSlot::EMPTY;
        }
    }

    /// Empties the slot of an address that was removed. Returns the connection that was assigned to it.
    pub(super) fn address_removed(&mut self, index: u64) -> Option<usize> {
        let slot = self.slots.get_mut(index as usize)?;
        std::mem::replace(slot, PeerSlot::EMPTY).conn()
    }

    /// Returns the numbers of all connections with this peer.
    pub(super) fn conns_with(&self, peer: &N::Addr) -> Vec<usize> {
        let receive_only = self.receive_only.get(peer).into_iter().flatten();
        let all = self.by_addr.get(peer).into_iter().chain(receive_only);
        all.copied().collect()
    }

    /// Adds a connection to the list of all. Returns its place.
    pub(super) fn list(&mut self, id: usize) -> u32 {
        self.conns.push(id)
    }

    /// Returns the numbers of all connections.
    pub(super) fn conns(&self) -> impl Iterator<Item = usize> + '_ {
        self.conns.iter()
    }

    /// Returns the operation that `cancel` takes from one of the connections.
    pub(super) fn cancel<R>(&mut self, cancel: impl FnMut(usize) -> Option<R>) -> Option<R> {
        self.conns.cancel(cancel)
    }

    /// Returns whether one of the connections owes data.
    pub(super) fn owes(&self, owes: impl FnMut(usize) -> bool) -> bool {
        self.conns.owes(owes)
    }

    /// Adds the connection that carries messages to a peer.
    pub(super) fn link(&mut self, peer: N::Addr, id: usize) {
        self.by_addr.insert(peer, id);
    }

    /// Adds a connection of a peer that only receives.
    pub(super) fn link_receive_only(&mut self, peer: N::Addr, id: usize) {
        self.receive_only.entry(peer).or_default().push(id);
    }

    /// Removes a connection from all tables. Returns the connection that has its place in the list now.
    pub(super) fn unlink(
        &mut self,
        peer: &N::Addr,
        id: usize,
        mut listed: Listed,
    ) -> Option<usize> {
        if self.by_addr.get(peer) == Some(&id) {
            self.by_addr.remove(peer);
        }
        if let Some(others) = self.receive_only.get_mut(peer) {
            others.retain(|&other| other != id);
            if others.is_empty() {
                self.receive_only.remove(peer);
            }
        }
        self.unassign(id, &mut listed);
        self.conns.remove(listed.place)
    }
}

/// Endpoints by their number in `domain.eps`, because every operation looks up its endpoint.
pub(super) struct Eps<N: Connector>(Vec<Option<Box<Ep<N>>>>);

impl<N: Connector> Default for Eps<N> {
    fn default() -> Self {
        Eps(Vec::new())
    }
}

impl<N: Connector> Eps<N> {
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

    pub fn iter(&self) -> impl Iterator<Item = &Ep<N>> {
        self.0.iter().flatten().map(|endpoint| &**endpoint)
    }
}
