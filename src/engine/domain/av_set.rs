// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A set of addresses of a vector: fi_av_set(3). Sets are local; `ep::coll` makes groups of them.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::coll::groups::address_at;
use crate::domain::{Engine, State};
use crate::shared_av;
use crate::transport::Transport;
use abi::*;
use base::{Error, Result};
use object::handle;
use object::ops;
use object::ops::av_set::{Merge, SetCalls, SetRequest};
use object::peer::PeerAv;
use object::{Kind, Other};
use sync::Use;

pub struct AvSet<T: Transport> {
    engine: Arc<Engine<T>>,
    /// The vector, in `domain.avs`.
    av: usize,
    /// Indexes into the vector, in order.
    members: Mutex<Members>,
    /// The address that fi_av_set_addr returns.
    address: u64,
    /// The vector of another provider: fi_peer(3).
    owner: Option<Arc<PeerAv>>,
    _av: Use,
}

const COLLECTIVES: u64 = FI_BARRIER_SET
    | FI_BROADCAST_SET
    | FI_ALLTOALL_SET
    | FI_ALLREDUCE_SET
    | FI_ALLGATHER_SET
    | FI_REDUCE_SCATTER_SET
    | FI_REDUCE_SET
    | FI_SCATTER_SET
    | FI_GATHER_SET;

/// Marks addresses of sets and of groups, which are no indexes into an address vector.
const SET: u64 = 1 << 62;

impl<T: Transport> AvSet<T> {
    /// `ranges`: sets of this vector may be given as a range of indexes.
    pub fn open(
        engine: &Arc<Engine<T>>,
        av: usize,
        ranges: bool,
        (owner, kept): (Option<Arc<PeerAv>>, Use),
        request: SetRequest,
        context: *mut c_void,
    ) -> Result<*mut fid_av_set> {
        let is_peer = request.members.is_some();
        let peer = if is_peer { FI_PEER } else { 0 };
        if request.flags & !(COLLECTIVES | FI_UNIVERSE | peer) != 0 {
            return Err(Error::BADFLAGS);
        }
        // Keys are for fabrics with a group manager.
        if request.keyed {
            return Err(Error::OPNOTSUPP);
        }
        let count = owner.as_ref().map(|owner| owner.count()).transpose()?;
        let members = match request.members {
            Some(members) => members,
            None => first_members(engine, av, (ranges, count), &request)?,
        };
        // Relaxed: the addresses only have to be distinct.
        static LAST: AtomicU64 = AtomicU64::new(0);
        let set = AvSet {
            engine: engine.clone(),
            av,
            members: Mutex::new(members.into_iter().collect()),
            address: SET | LAST.fetch_add(1, Ordering::Relaxed),
            owner,
            _av: kept,
        };
        Ok(handle::open(set, FI_CLASS_AV_SET, context, |fid| {
            fid_av_set {
                fid,
                ops: core::ptr::from_ref(ops::av_set::table::<AvSet<T>>()).cast_mut(),
            }
        }))
    }

    /// The members, for an endpoint of this domain that uses this vector.
    pub fn members_in(&self, engine: &Arc<Engine<T>>, av: Option<usize>) -> Option<Vec<u64>> {
        let same = Arc::ptr_eq(engine, &self.engine) && av == Some(self.av);
        same.then(|| self.members().in_order().collect())
    }

    /// The owner of the vector, if that belongs to another provider.
    pub fn owner(&self) -> Option<&PeerAv> {
        self.owner.as_deref()
    }

    pub fn is_called(&self, address: u64) -> bool {
        address == self.address
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The members of a set, in the order of their ranks. A call costs little however many there are, because programs
/// build sets member by member.
#[derive(Default)]
struct Members {
    /// By a number that grows with each member.
    by_order: BTreeMap<u64, u64>,
    orders: HashMap<u64, u64>,
    next: u64,
}

impl Members {
    fn in_order(&self) -> impl Iterator<Item = u64> + '_ {
        self.by_order.values().copied()
    }

    fn contains(&self, addr: u64) -> bool {
        self.orders.contains_key(&addr)
    }

    /// Adds a member behind all others. Returns whether it is new.
    fn append(&mut self, addr: u64) -> bool {
        if self.contains(addr) {
            return false;
        }
        self.orders.insert(addr, self.next);
        self.by_order.insert(self.next, addr);
        self.next += 1;
        true
    }

    /// Returns whether the address was a member.
    fn remove(&mut self, addr: u64) -> bool {
        let order = self.orders.remove(&addr);
        order.is_some_and(|order| self.by_order.remove(&order).is_some())
    }

    fn retain(&mut self, mut keeps: impl FnMut(u64) -> bool) {
        self.by_order.retain(|_, addr| keeps(*addr));
        self.orders.retain(|addr, _| keeps(*addr));
    }
}

impl FromIterator<u64> for Members {
    fn from_iter<I: IntoIterator<Item = u64>>(addrs: I) -> Members {
        let mut members = Members::default();
        addrs.into_iter().for_each(|addr| _ = members.append(addr));
        members
    }
}

/// fi_av_set(3): all addresses, those of a range, or none. `count`: the number of addresses in the vector of another
/// provider.
fn first_members<T: Transport>(
    engine: &Engine<T>,
    av: usize,
    (ranges, count): (bool, Option<u64>),
    request: &SetRequest,
) -> Result<Vec<u64>> {
    let state = engine.lock()?;
    let table = &state.domain.avs[av];
    let used = |index: &u64| count.is_some() || table.get(*index).is_some();
    let table_end = count.unwrap_or(table.end());
    if request.flags & FI_UNIVERSE != 0 {
        return Ok((0..table_end).filter(used).collect());
    }
    let (start, end) = (request.start, request.end);
    match (start == FI_ADDR_NOTAVAIL, end == FI_ADDR_NOTAVAIL) {
        (true, true) => return Ok(Vec::new()),
        (false, false) if ranges && start <= end && request.stride > 0 => {}
        _ => return Err(Error::INVAL),
    }
    let stride = usize::try_from(request.stride).unwrap_or(usize::MAX);
    let range = start..end.saturating_add(1).min(table_end);
    let members: Vec<u64> = range.step_by(stride).filter(used).collect();
    match request.count > 0 && members.len() > request.count {
        true => Err(Error::INVAL),
        false => Ok(members),
    }
}

impl<T: Transport> Kind for AvSet<T> {
    type Head = fid_av_set;
}

impl<T: Transport> SetCalls for AvSet<T> {
    fn merge(&self, source: Other<'_>, how: Merge) -> Result {
        let source = source.downcast::<AvSet<T>>().ok_or(Error::INVAL)?;
        let theirs = source.members_in(&self.engine, Some(self.av));
        let theirs = theirs.ok_or(Error::INVAL)?;
        let theirs: Members = theirs.into_iter().collect();
        let mut members = self.members();
        match how {
            Merge::Union => theirs.in_order().for_each(|addr| _ = members.append(addr)),
            Merge::Intersect => members.retain(|addr| theirs.contains(addr)),
            Merge::Diff => members.retain(|addr| !theirs.contains(addr)),
        }
        Ok(())
    }

    fn insert(&self, addr: u64) -> Result {
        let known = {
            let mut guard = self.engine.lock()?;
            let State { domain, transport } = &mut *guard;
            shared_av::renew(transport, domain, self.av)?;
            address_at::<T>(domain, self.av, addr).is_some()
        };
        match known && self.members().append(addr) {
            true => Ok(()),
            false => Err(Error::INVAL),
        }
    }

    fn remove(&self, addr: u64) -> Result {
        match self.members().remove(addr) {
            true => Ok(()),
            false => Err(Error::INVAL),
        }
    }

    fn address(&self) -> u64 {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    /// The same calls on a plain list, as before.
    #[test]
    fn random_calls_keep_the_order_of_a_plain_list() {
        let mut random = Rng::with_seed(3);
        let (mut members, mut plain) = (Members::default(), Vec::new());
        for _ in 0..5000 {
            let addr = random.u64(0..40);
            let at = plain.iter().position(|&member| member == addr);
            match random.u8(0..20) {
                0 => {
                    members.retain(|addr| addr % 3 > 0);
                    plain.retain(|addr| addr % 3 > 0);
                }
                1..13 => {
                    assert_eq!(members.append(addr), at.is_none());
                    if at.is_none() {
                        plain.push(addr);
                    }
                }
                _ => {
                    assert_eq!(members.remove(addr), at.is_some());
                    at.map(|at| plain.remove(at));
                }
            }
            assert_eq!(members.in_order().collect::<Vec<_>>(), plain);
            assert_eq!(members.contains(addr), plain.contains(&addr));
        }
    }
}
