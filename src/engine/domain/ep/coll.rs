// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Collectives of an endpoint: joining groups, and the handle of a group. fi_collective(3).

use core::ffi::c_void;
use std::sync::Arc;

use super::{Ep, Shared};
use crate::coll;
use crate::domain::Locked;
use crate::domain::av_set::AvSet;
use crate::domain::groups::Membership;
use crate::domain::peers::Caller;
use crate::transport::Transport;
use abi::*;
use base::{Caps, Error, Result};
use object::Kind;
use object::handle;
use object::ops::cm::Join;
use object::ops::collective::{Collective, CollectiveCalls};
use sync::Use;

/// A group that the endpoint has joined, or is joining.
struct Mc<T: Transport> {
    ep: Arc<Shared<T>>,
    address: u64,
    /// Groups keep the endpoint open.
    _ep: Use,
}

impl<T: Transport> Ep<T> {
    pub(super) fn join_group(&self, join: &Join<'_>, context: *mut c_void) -> Result<*mut fid_mc> {
        let shared = &self.shared;
        if !shared.info.caps.contains(Caps::COLLECTIVE) {
            return Err(Error::NOSYS);
        }
        if join.flags & !(FI_COLLECTIVE | FI_SEND | FI_RECV) != 0 {
            return Err(Error::BADFLAGS);
        }
        // A member both sends and receives.
        if (join.flags & FI_SEND != 0) != (join.flags & FI_RECV != 0) {
            return Err(Error::OPNOTSUPP);
        }
        let set = join.set.downcast::<AvSet<T>>().ok_or(Error::INVAL)?;
        let guard = shared.engine.lock()?;
        let ep = &guard.domain.eps[shared.id];
        if !ep.enabled {
            return Err(Error::OPBADSTATE);
        }
        if ep.eq.is_none() {
            return Err(Error::NOEQ);
        }
        let av = ep.av;
        drop(guard);
        // The lock of the set is not taken while the domain lock is held.
        let members = set.members_in(&shared.engine, av).ok_or(Error::INVAL)?;
        let own = match (set.owner(), &shared.owner) {
            (Some(owner), Some(transfer)) => Some(owner.address_of(transfer).ok_or(Error::INVAL)?),
            _ => None,
        };
        let mut state = shared.engine.lock()?;
        let parent = match join.coll_addr {
            FI_ADDR_NOTAVAIL => None,
            address if set.is_called(address) => None,
            address => Some(address),
        };
        let members = &members;
        let membership = Membership {
            members,
            parent,
            own,
        };
        let address = state.open_group(shared.id, &membership)?;
        let mc = Mc {
            ep: shared.clone(),
            address,
            _ep: shared.aliases.take(),
        };
        let handle = handle::open(mc, FI_CLASS_MC, context, |fid| fid_mc {
            fid,
            fi_addr: address,
        });
        // Without a group address the application manages the membership.
        let alone = join.coll_addr == FI_ADDR_NOTAVAIL;
        let token = (handle as usize, context as usize);
        state.join_group(shared.id, address, token, alone);
        self.moved(state);
        Ok(handle)
    }
}

impl<T: Transport> Ep<T> {
    /// Calls owners, to which a call of a collective may have something to tell.
    fn moved(&self, state: Locked<'_, T>) {
        let owes = state.domain.has_owner_calls();
        drop(state);
        if owes {
            self.shared.engine.deliver(Caller::Control);
        }
    }
}

impl<T: Transport> Kind for Mc<T> {
    type Head = fid_mc;
}

impl<T: Transport> Drop for Mc<T> {
    fn drop(&mut self) {
        let Ok(mut guard) = self.ep.engine.lock_to_close() else {
            return;
        };
        guard.leave_group(self.ep.id, self.address);
        let eq = guard.domain.eps[self.ep.id].eq.clone();
        drop(guard);
        if let Some(eq) = eq {
            eq.forget(handle::number_of(self));
        }
    }
}

impl<T: Transport> CollectiveCalls for Ep<T> {
    fn element(&self, what: fi_collective_op, datatype: fi_datatype, op: fi_op) -> Result<usize> {
        coll::check(what, datatype, op).map(|(size, _)| size)
    }

    fn extent(&self, what: fi_collective_op, group: u64, root: u64) -> Result<(usize, usize)> {
        let state = self.shared.engine.lock()?;
        if !state.domain.eps[self.shared.id].enabled {
            return Err(Error::OPBADSTATE);
        }
        let shape = state.shape(self.shared.id, what, group, root)?;
        Ok(shape.extent())
    }

    fn collect(&self, mut call: Collective) -> Result {
        let _block = match self.shared.engine.takes_devices {
            true => self.prepare_collective(&mut call)?,
            false => None,
        };
        let mut state = self.shared.engine.lock()?;
        state.domain.may_post(self.shared.id)?;
        let begun = state.collect(self.shared.id, call);
        if begun.is_ok() {
            state.posted();
        }
        self.moved(state);
        begun
    }
}
