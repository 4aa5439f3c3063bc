// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The endpoints of a domain that have something to do with a peer. A change of an address vector concerns only these:
//! endpoints with a session, and endpoints with kept messages of a peer whose session has ended.
//!
//! An index without addresses is small: 24 bytes for each peer of an endpoint. Two addresses with the same hash share
//! an entry, so an endpoint may be visited without need. The transport checks the address anyway.

use core::hash::{BuildHasher, Hash};
use std::collections::BTreeMap;

use rustc_hash::FxBuildHasher;

use crate::domain_state::DomainState;
use crate::transport::{Address, DomainStateOf, Transport};

/// Endpoints by the addresses of their peers.
#[derive(Default)]
pub struct PeerIndex {
    /// By the hash of the address, and the number of the endpoint.
    entries: BTreeMap<(u64, u32), Entry>,
    /// Number of entries whose endpoints may keep messages.
    keeping: usize,
    /// Number of such entries from which those without messages are removed.
    purge_at: usize,
}

/// The relation of an endpoint to a peer.
#[derive(Clone, Copy, Default)]
struct Entry {
    sessions: u32,
    /// Messages of the peer may be kept although no session is left.
    keeps: bool,
}

/// Least number of entries that are purged. Further purges follow when the number has doubled, so each costs as much as
/// the entries that were added since the last one.
const FIRST_PURGE: usize = 1024;

fn key_of(ep: usize, peer: &impl Hash) -> (u64, u32) {
    (FxBuildHasher.hash_one(peer), ep as u32)
}

impl PeerIndex {
    fn eps_with(&self, peer: &impl Hash) -> impl Iterator<Item = usize> {
        let (hash, _) = key_of(0, peer);
        let found = self.entries.range((hash, 0)..=(hash, u32::MAX));
        found.map(|(&(_, ep), _)| ep as usize)
    }

    /// Removes the mark of all entries whose endpoint keeps no message.
    fn purge(&mut self, mut has_kept: impl FnMut(usize) -> bool) {
        let keeping = &mut self.keeping;
        self.entries.retain(|&(_, ep), entry| {
            if entry.keeps && !has_kept(ep as usize) {
                entry.keeps = false;
                *keeping -= 1;
            }
            entry.keeps || entry.sessions > 0
        });
        self.purge_at = FIRST_PURGE.max(2 * self.keeping);
    }
}

impl<A: Address> DomainState<A> {
    /// Records that an endpoint has one more session with this peer.
    pub fn session_added(&mut self, ep: usize, peer: &A) {
        let entry = self.peer_index.entries.entry(key_of(ep, peer));
        entry.or_default().sessions += 1;
    }

    /// Records that a session of an endpoint with this peer is over. Call `keeps_messages`, too, if messages of the
    /// peer are kept.
    pub fn session_removed(&mut self, ep: usize, peer: &A) {
        let key = key_of(ep, peer);
        if let Some(entry) = self.peer_index.entries.get_mut(&key) {
            entry.sessions = entry.sessions.saturating_sub(1);
            if entry.sessions == 0 && !entry.keeps {
                self.peer_index.entries.remove(&key);
            }
        }
    }

    /// Records that an endpoint keeps messages of this peer, which may have no session.
    pub fn keeps_messages(&mut self, ep: usize, peer: &A) {
        let entry = self.peer_index.entries.entry(key_of(ep, peer));
        if std::mem::replace(&mut entry.or_default().keeps, true) {
            return;
        }
        self.peer_index.keeping += 1;
        if self.peer_index.keeping >= self.peer_index.purge_at.max(FIRST_PURGE) {
            let mut index = std::mem::take(&mut self.peer_index);
            index.purge(|ep| self.eps.contains(ep) && self.unexpected_len(ep) > 0);
            self.peer_index = index;
        }
    }

    /// Applies the insertion of an address. Returns the endpoints with this vector that it concerns.
    pub fn address_inserted(&self, av: usize, index: u64) -> Vec<usize> {
        let peer = self.avs[av].get(index);
        peer.map_or(Vec::new(), |peer| self.eps_of(av, peer))
    }

    /// Applies the removal of an address. Returns the endpoints with this vector that it concerns.
    pub fn address_removed(&mut self, av: usize, peer: &A) -> Vec<usize> {
        self.removals = self.removals.wrapping_add(1);
        self.eps_of(av, peer)
    }

    fn eps_of(&self, av: usize, peer: &A) -> Vec<usize> {
        let has_it = |&ep: &usize| self.eps.get(ep).is_some_and(|ep| ep.av == Some(av));
        self.peer_index.eps_with(peer).filter(has_it).collect()
    }
}

/// Notifies the transport about a new address of a vector.
pub fn inserted<T: Transport>(
    transport: &mut T,
    domain: &mut DomainStateOf<T>,
    av: usize,
    index: u64,
) {
    for ep in domain.address_inserted(av, index) {
        transport.av_inserted(domain, ep, index);
    }
    transport.address_joined(domain, av, index);
}

/// Notifies the transport about an address that has left a vector.
pub fn removed<T: Transport>(
    transport: &mut T,
    domain: &mut DomainStateOf<T>,
    av: usize,
    index: u64,
    peer: &T::Addr,
) {
    for ep in domain.address_removed(av, peer) {
        transport.av_removed(domain, ep, index, peer);
    }
    transport.address_left(domain, av, index, peer);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::av::AvTable;
    use crate::domain_state::MessageInfo;
    use crate::srx::Bytes;
    use crate::testing;
    use crate::transport::tests::Bare;
    use base::Caps;
    use base::info::Info;
    use object::ops::transfer::What;

    type State = DomainState<String>;

    /// Returns a domain whose only endpoint uses the only vector, and that endpoint.
    fn domain() -> (State, usize, usize) {
        let (mut domain, _, ep) = testing::domain(Caps::MSG, 8);
        let av = domain.avs.insert(AvTable::new());
        domain.eps[ep].av = Some(av);
        (domain, ep, av)
    }

    fn name(peer: usize) -> String {
        format!("peer {peer}")
    }

    /// Keeps an unexpected message at the endpoint.
    fn keep(domain: &mut State, ep: usize) {
        let message = MessageInfo {
            what: What::Msg,
            len: 1,
            tag: 0,
            data: None,
        };
        let srx = domain.eps[ep].srx;
        domain.srxs[srx].keep(message.envelope(0, ep, 0), Bytes::There);
    }

    #[test]
    fn only_endpoints_with_something_about_a_peer_are_concerned() {
        let (mut domain, ep, av) = domain();
        let (index, _) = domain.avs[av].insert(name(1));
        assert_eq!(domain.address_inserted(av, index), []);
        domain.session_added(ep, &name(1));
        domain.session_added(ep, &name(1));
        assert_eq!(domain.address_inserted(av, index), [ep]);
        assert_eq!(domain.address_removed(av, &name(2)), []);
        domain.session_removed(ep, &name(1));
        assert_eq!(domain.address_removed(av, &name(1)), [ep]);
        // Endpoints with another vector are not concerned.
        domain.eps[ep].av = None;
        assert_eq!(domain.address_removed(av, &name(1)), []);
        domain.eps[ep].av = Some(av);
        domain.session_removed(ep, &name(1));
        assert_eq!(domain.address_removed(av, &name(1)), []);
        assert!(domain.peer_index.entries.is_empty());
    }

    /// With 400 endpoints in the domain, as in the measurement.
    #[test]
    fn an_address_costs_no_visits_of_endpoints_without_a_session() {
        let (mut domain, _, av) = domain();
        for _ in 1..400 {
            let (mut other, ..) = self::domain();
            domain.eps.insert(other.eps.remove(0));
        }
        domain.session_added(7, &name(500));
        let mut transport = Bare::open(&(), &Info::default(), sync::Serialized::by_test()).unwrap();
        for peer in 0..1000 {
            let (index, is_new) = domain.avs[av].insert(name(peer));
            assert!(is_new);
            inserted(&mut transport, &mut domain, av, index);
        }
        assert_eq!(transport.notified, [(7, 500)]);
        for peer in 0..1000 {
            let removed_peer = domain.avs[av].remove(peer).unwrap().unwrap();
            removed(&mut transport, &mut domain, av, peer, &removed_peer);
        }
        assert_eq!(transport.notified, [(7, 500), (7, 500)]);
        assert_eq!(domain.removals, 1000);
        let generations = [0, 500, 999].map(|index| domain.avs[av].generation(index));
        assert_eq!(generations, [1; 3]);
    }

    #[test]
    fn an_endpoint_that_keeps_messages_is_concerned_without_a_session() {
        let (mut domain, ep, av) = domain();
        domain.session_added(ep, &name(1));
        keep(&mut domain, ep);
        domain.keeps_messages(ep, &name(1));
        domain.session_removed(ep, &name(1));
        assert_eq!(domain.address_removed(av, &name(1)), [ep]);
    }

    #[test]
    fn peers_that_come_and_go_cost_no_memory() {
        let (mut domain, ep, _) = domain();
        for peer in 0..3 * FIRST_PURGE {
            domain.session_added(ep, &name(peer));
            domain.keeps_messages(ep, &name(peer));
            domain.session_removed(ep, &name(peer));
            assert!(domain.peer_index.entries.len() <= FIRST_PURGE);
        }
        // As long as messages are kept, their senders are.
        keep(&mut domain, ep);
        domain.keeps_messages(ep, &name(9999));
        for peer in 0..3 * FIRST_PURGE {
            domain.keeps_messages(ep, &name(peer));
        }
        assert!(domain.peer_index.entries.len() >= 3 * FIRST_PURGE);
        let index = &domain.peer_index;
        assert_eq!(index.keeping, index.entries.len());
    }
}
