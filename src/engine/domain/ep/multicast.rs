// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Multicast groups of an endpoint: joining them, and the handle of one. fi_cm(3), fi_join.

use core::ffi::c_void;
use std::sync::Arc;

use super::{Ep, Shared};
use crate::domain::State;
use crate::ep_state::EpState;
use crate::transport::{Address, Transport};
use abi::*;
use base::log::{Subsys, log_info};
use base::{Caps, Error, Result};
use object::Kind;
use object::handle;
use sync::Use;

/// A group that the endpoint has joined, or failed to join.
struct Mc<T: Transport> {
    ep: Arc<Shared<T>>,
    /// Address of the group in operations; none if joining failed.
    address: Option<u64>,
    /// Groups keep the endpoint open.
    _ep: Use,
}

impl<T: Transport> Ep<T> {
    /// Joins a group. Requests that the endpoint cannot serve are refused at once; the result of others is an event.
    pub(super) fn join_address(
        &self,
        addr: Option<&[u8]>,
        flags: u64,
        context: *mut c_void,
    ) -> Result<*mut fid_mc> {
        let shared = &self.shared;
        let caps = EpState::caps_of(&shared.info);
        if !caps.contains(Caps::MULTICAST) {
            return Err(Error::NOSYS);
        }
        let sides = sides(caps, flags)?;
        let group = addr.and_then(T::Addr::from_bytes).ok_or(Error::INVAL)?;
        let mut guard = shared.engine.lock()?;
        let State { domain, transport } = &mut *guard;
        let ep = &domain.eps[shared.id];
        if !ep.enabled {
            return Err(Error::OPBADSTATE);
        }
        if ep.eq.is_none() {
            return Err(Error::NOEQ);
        }
        let joined = transport.join_multicast(domain, shared.id, &group, sides);
        if let Err(error) = joined {
            log_info!(
                T::SOURCE,
                Subsys::EpCtrl,
                "group {group} not joined: {error}"
            );
        }
        let mc = Mc {
            ep: shared.clone(),
            address: joined.ok(),
            _ep: shared.aliases.take(),
        };
        let handle = handle::open(mc, FI_CLASS_MC, context, |fid| fid_mc {
            fid,
            fi_addr: joined.unwrap_or(FI_ADDR_NOTAVAIL),
        });
        let (fid, context) = (handle as usize, context as usize);
        domain.joined(shared.id, fid, context, joined.map(drop));
        Ok(handle)
    }
}

/// fi_cm(3): the endpoint joins for all its capabilities, unless flags name a side.
fn sides(caps: Caps, flags: u64) -> Result<Caps> {
    let both = Caps::SEND | Caps::RECV;
    let able = match caps & both {
        none if none.is_empty() => both,
        some => some,
    };
    if flags & !both.bits() != 0 {
        return Err(Error::BADFLAGS);
    }
    match Caps::from_bits_retain(flags) {
        none if none.is_empty() => Ok(able),
        wanted if able.contains(wanted) => Ok(wanted),
        _ => Err(Error::OPNOTSUPP),
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
        let State { domain, transport } = &mut *guard;
        if let Some(address) = self.address {
            transport.leave_multicast(domain, self.ep.id, address);
        }
        let eq = domain.eps[self.ep.id].eq.clone();
        drop(guard);
        if let Some(eq) = eq {
            eq.forget(handle::number_of(self));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_joined_for_what_the_endpoint_can_do() {
        let both = Caps::SEND | Caps::RECV;
        assert_eq!(sides(Caps::MSG, 0), Ok(both));
        assert_eq!(sides(Caps::MSG | Caps::RECV, 0), Ok(Caps::RECV));
        assert_eq!(sides(both, FI_SEND), Ok(Caps::SEND));
        assert_eq!(sides(both, FI_SEND | FI_RECV), Ok(both));
        assert_eq!(sides(Caps::RECV, FI_SEND), Err(Error::OPNOTSUPP));
        assert_eq!(sides(Caps::RECV, FI_SEND | FI_RECV), Err(Error::OPNOTSUPP));
        assert_eq!(sides(both, FI_PEEK), Err(Error::BADFLAGS));
    }
}
