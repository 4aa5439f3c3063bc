// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The groups that the endpoints of a domain have joined: fi_collective(3).

use std::collections::{BTreeMap, HashMap};

use crate::coll::Lane;
use crate::transport::{Address, DomainStateOf, Transport};
use base::{Error, IoVec, Result};

/// The data for reporting the end of a collective.
pub enum Token {
    Join { fid: usize, context: usize },
    Call { context: usize, output: IoVec },
}

/// The groups of a domain's endpoints.
pub struct Groups<A> {
    /// By endpoint.
    lanes: HashMap<usize, Lane<A, Token>>,
    /// By the endpoint and the address: the number by which the members identify the group.
    by_address: BTreeMap<(usize, u64), u64>,
    /// Number of addresses that were assigned.
    given: u64,
    /// Peers whose connections have ended, of endpoints for which the messages that came before are handled first.
    losses: HashMap<usize, Vec<(A, Error)>>,
}

impl<A> Default for Groups<A> {
    fn default() -> Self {
        Groups {
            lanes: HashMap::new(),
            by_address: BTreeMap::new(),
            given: 0,
            losses: HashMap::new(),
        }
    }
}

impl<A: Address> Groups<A> {
    /// Opens the lane of an endpoint, which is empty. It saves up to `limit` bytes of early frames and leaves
    /// `headroom` bytes in front of each payload.
    pub fn open_lane(&mut self, ep: usize, limit: usize, headroom: usize) {
        self.lanes.insert(ep, Lane::new(limit, headroom));
    }

    /// Lets losses of peers wait for `take_losses`.
    pub(crate) fn defer_losses(&mut self, ep: usize) {
        self.losses.insert(ep, Vec::new());
    }

    pub(crate) fn losses_mut(&mut self, ep: usize) -> Option<&mut Vec<(A, Error)>> {
        self.losses.get_mut(&ep)
    }

    pub fn forget(&mut self, ep: usize) {
        self.lanes.remove(&ep);
        self.losses.remove(&ep);
        let of_ep = self.by_address.range((ep, 0)..=(ep, u64::MAX));
        let keys: Vec<_> = of_ep.map(|(&key, _)| key).collect();
        keys.iter().for_each(|key| _ = self.by_address.remove(key));
    }

    /// Returns the collectives of an endpoint, if it is enabled and has the capability.
    pub fn lane(&self, ep: usize) -> Option<&Lane<A, Token>> {
        self.lanes.get(&ep)
    }

    pub fn lane_mut(&mut self, ep: usize) -> Option<&mut Lane<A, Token>> {
        self.lanes.get_mut(&ep)
    }

    /// Returns the number of a group.
    pub(crate) fn number(&self, ep: usize, address: u64) -> Result<u64> {
        let number = self.by_address.get(&(ep, address));
        number.copied().ok_or(Error::INVAL)
    }

    /// Assigns an address to a group.
    pub(crate) fn name(&mut self, ep: usize, number: u64) -> u64 {
        let address = GROUP | self.given;
        self.given += 1;
        self.by_address.insert((ep, address), number);
        address
    }

    /// Gives another number to a group in which no collective has begun: `Lane::rename`.
    pub(crate) fn rename(&mut self, ep: usize, from: u64, to: u64) -> Result {
        let lane = self.lanes.get_mut(&ep).ok_or(Error::INVAL)?;
        lane.rename(from, to)?;
        let of_ep = self.by_address.range_mut((ep, 0)..=(ep, u64::MAX));
        of_ep
            .filter(|(_, number)| **number == from)
            .for_each(|(_, number)| *number = to);
        Ok(())
    }

    pub(crate) fn unname(&mut self, ep: usize, address: u64) -> Option<u64> {
        self.by_address.remove(&(ep, address))
    }
}

/// The address at an index of a vector.
pub(crate) fn address_at<T: Transport>(
    domain: &DomainStateOf<T>,
    av: usize,
    index: u64,
) -> Option<T::Addr> {
    T::address_of(index).or_else(|| domain.avs[av].get(index).cloned())
}

/// Marks the address of a group; no index of an address vector has this bit.
const GROUP: u64 = 1 << 61;

/// Returns the hash of a list of members, from the bytes that identify them: FNV-1a.
pub(crate) fn hash_of(members: impl Iterator<Item = Vec<u8>>) -> u64 {
    members.fold(START, |hash, member| hashed(hash, &member))
}

/// Returns the number that all members have for a group: it continues the hash of their list with how often they formed
/// a group before.
pub(crate) fn number_of(list: u64, before: u64) -> u64 {
    hashed(list, &before.to_be_bytes())
}

/// The FNV-1a hash of no bytes.
const START: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues a hash.
fn hashed(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/wire/tcp.md, "Collectives".
    #[test]
    fn a_group_is_numbered_by_fnv_1a_of_its_list_and_the_joins_before() {
        let list = hash_of([b"a".to_vec()].into_iter());
        assert_eq!(list, 0xaf63_dc4c_8601_ec8c);
        assert_eq!(
            number_of(list, 0x0102),
            hashed(START, b"a\0\0\0\0\0\0\x01\x02")
        );
    }
}
