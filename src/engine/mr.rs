// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Registered memory of a domain: fi_mr(3). Regions are found by key, and an access by a peer is checked (key, range,
//! rights) before a byte moves. The transports move the bytes.

pub mod cache;
pub mod descs;
mod keys;
pub mod monitor;
mod region;
mod target;
#[cfg(test)]
mod tests;

use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use crate::auth::Key;
use base::{Access, Error, IoVec, Piece, Registered, Result};

pub use base::rights::KeyPolicy;
use keys::Keys;
use region::Segments;
pub use region::{Region, map_raw_key};
pub use target::Target;

/// The regions that peers can access. `C` is the counter of remote events that can be bound to a region.
pub struct MrTable<C> {
    policy: KeyPolicy,
    regions: HashMap<u64, Arc<Region<C>>, FxBuildHasher>,
    /// Generates the keys that the provider chooses.
    keys: Keys,
}

impl<C> MrTable<C> {
    pub fn new(policy: KeyPolicy) -> Self {
        MrTable {
            policy,
            regions: HashMap::default(),
            keys: Keys::default(),
        }
    }

    /// A region may have length zero. A region that no peer may access has a key, too, but is not in the table.
    ///
    /// `INVAL`: no segment or too many, one that exceeds the address space, a right that fi_mr(3) does not define.
    /// `NOKEY`: the application's key is in use.
    pub fn register(
        &mut self,
        segments: Vec<Registered>,
        access: Access,
        offset: u64,
        requested_key: u64,
        context: usize,
    ) -> Result<Arc<Region<C>>> {
        let key = self.choose_key(requested_key)?;
        self.register_as(segments, access, offset, key, context)
    }

    /// Returns the key of a region that is registered next: the requested one, if applications choose keys.
    pub fn choose_key(&mut self, requested: u64) -> Result<u64> {
        match self.policy.prov_key {
            true => self.keys.next(),
            false => Ok(requested),
        }
    }

    /// Like `register`, with a key that another provider has chosen.
    pub fn register_as(
        &mut self,
        segments: Vec<Registered>,
        access: Access,
        offset: u64,
        key: u64,
        context: usize,
    ) -> Result<Arc<Region<C>>> {
        if !Access::KNOWN.contains(access) {
            return Err(Error::INVAL);
        }
        let segments = Segments::checked(segments, offset)?;
        let region = |segments, key| {
            let virt = self.policy.virt_addr;
            Arc::new(Region::new(segments, offset, key, access, virt, context))
        };
        if !access.intersects(Access::REMOTE) {
            return Ok(region(segments, key));
        }
        let Entry::Vacant(place) = self.regions.entry(key) else {
            return Err(Error::NOKEY);
        };
        Ok(place.insert(region(segments, key)).clone())
    }

    /// FI_MR_SINGLE_USE: called when the only access has begun. That access continues; later ones do not find the
    /// region.
    pub fn used(&mut self, region: &Region<C>) {
        if region.is_single_use() {
            self.forget(region);
        }
    }

    /// fi_close(3): later accesses do not find the region. The transport must end those in flight.
    pub fn close(&mut self, region: &Region<C>) {
        self.forget(region);
        region.close();
    }

    fn forget(&mut self, region: &Region<C>) {
        if let Entry::Occupied(place) = self.regions.entry(region.key)
            && std::ptr::eq(&**place.get(), region)
        {
            place.remove();
        }
    }

    /// The regions that peers can access.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Region<C>>> {
        self.regions.values()
    }

    /// Closes the region that has this key.
    #[cfg(test)]
    pub fn remove(&mut self, key: u64) -> Option<Arc<Region<C>>> {
        let region = self.regions.remove(&key)?;
        region.close();
        Some(region)
    }

    /// Finds the region of an access and the memory that it covers, which is in one segment.
    ///
    /// `NOKEY`: no such region. `INVAL`: not within the region. `ACCES`: the region does not grant `need`.
    #[cfg(test)] // Accesses come over connections, which may have an authorization key.
    pub fn lookup(
        &self,
        key: u64,
        addr: u64,
        len: u64,
        need: Access,
    ) -> Result<(&Arc<Region<C>>, Piece)> {
        self.lookup_with(None, key, addr, len, need)
    }

    /// Like `lookup`, over a connection on which the peer has proved this authorization key.
    ///
    /// `KEYREJECTED`: the region requires another key.
    #[inline]
    pub fn lookup_with(
        &self,
        auth: Option<&Key>,
        key: u64,
        addr: u64,
        len: u64,
        need: Access,
    ) -> Result<(&Arc<Region<C>>, Piece)> {
        let region = self.find(key)?;
        let piece = region.reach_one(addr, len)?;
        region.check(need)?;
        match region.admits(auth) {
            true => Ok((region, piece)),
            false => Err(Error::KEYREJECTED),
        }
    }

    /// Like `lookup_with`, for an access that may cover several segments. Returns all parts.
    pub fn lookup_all(
        &self,
        auth: Option<&Key>,
        key: u64,
        addr: u64,
        len: u64,
        need: Access,
    ) -> Result<(&Arc<Region<C>>, IoVec)> {
        let region = self.find(key)?;
        let pieces = region.reach(addr, len)?;
        region.check(need)?;
        match region.admits(auth) {
            true => Ok((region, pieces)),
            false => Err(Error::KEYREJECTED),
        }
    }

    /// Number of regions that peers can access.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.regions.len()
    }

    #[inline]
    fn find(&self, key: u64) -> Result<&Arc<Region<C>>> {
        self.regions.get(&key).ok_or(Error::NOKEY)
    }
}
