// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The calls of an address vector: fi_av(3).

use core::ffi::c_void;

use super::Av;
use crate::auth::Key;
use crate::domain::State;
use crate::domain::av_set::AvSet;
use crate::named_av::Change;
use crate::peer_index;
use crate::shared_av;
use crate::transport::{Address, AddressFormat, Transport};
use abi::*;
use base::{Error, Result, Secret};
use object::AddrForm;
use object::ops::av::{AvCalls, Inserted, Insertion};
use object::ops::av_set::SetRequest;

impl<T: Transport> AvCalls for Av<T> {
    fn addr_form(&self) -> AddrForm {
        self.engine.format.form()
    }

    fn insert(&self, addrs: &[&[u8]], insertion: Insertion) -> Result<Inserted> {
        let addrs = addrs
            .iter()
            .map(|bytes| T::Addr::from_bytes(bytes).ok_or(Error::INVAL));
        self.insert_all(addrs, insertion)
    }

    fn insert_names(
        &self,
        names: &[(String, Option<String>)],
        insertion: Insertion,
    ) -> Result<Inserted> {
        let format = &self.engine.format;
        // Names are resolved before the lock is taken.
        let addrs: Vec<_> = names
            .iter()
            .map(|(node, service)| match service {
                Some(service) => format.resolve(node, service),
                None => format.parse(node).ok_or(Error::INVAL),
            })
            .collect();
        // The format has no names.
        if addrs
            .iter()
            .any(|addr| addr.as_ref().err() == Some(&Error::NOSYS))
        {
            return Err(Error::NOSYS);
        }
        self.insert_all(addrs.into_iter(), insertion)
    }

    fn remove(&self, addrs: &[u64], flags: u64) -> Result {
        if flags == FI_AUTH_KEY && self.engine.has_keys_in_av() {
            let mut state = self.engine.lock()?;
            let keys = &mut state.domain.avs[self.id].keys;
            return addrs.iter().try_for_each(|&handle| keys.remove(handle));
        }
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        let mut guard = self.current()?;
        let state = &mut *guard;
        let table = &state.domain.avs[self.id];
        if addrs.iter().any(|&index| table.get(index).is_none()) {
            return Err(Error::INVAL);
        }
        if table.named.is_some() {
            let State { domain, transport } = state;
            let changes = addrs.iter().map(|&index| Ok(Change::Remove(index)));
            let results = shared_av::change(transport, domain, self.id, changes)?;
            return results
                .into_iter()
                .try_for_each(|result| result.map(|_| ()));
        }
        for &index in addrs {
            let table = &mut state.domain.avs[self.id];
            // An address that was inserted several times stays until it was removed as many times.
            if let Some(addr) = table.remove(index)? {
                table.retire(index);
                let State { domain, transport } = state;
                // The transport still needs the key that the address had.
                peer_index::removed(transport, domain, self.id, index, &addr);
                domain.avs[self.id].keys.forget(index);
            }
        }
        Ok(())
    }

    fn lookup(&self, addr: u64) -> Result<Vec<u8>> {
        let state = self.current()?;
        let addr = state.domain.avs[self.id].get(addr).ok_or(Error::INVAL)?;
        Ok(state.transport.looked_up(addr))
    }

    fn insert_auth_key(&self, key: &[u8], flags: u64) -> Result<u64> {
        if !self.engine.has_keys_in_av() {
            return Err(Error::NOSYS);
        }
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        let key = Key::given(key.len(), Some(key), None, T::AUTH_KEY_SIZE)?;
        let mut state = self.engine.lock()?;
        let keys = &mut state.domain.avs[self.id].keys;
        keys.insert(key.ok_or(Error::INVAL)?, T::AUTH_KEYS)
    }

    fn lookup_auth_key(&self, addr: u64) -> Result<Secret> {
        if !self.engine.has_keys_in_av() {
            return Err(Error::NOSYS);
        }
        let state = self.engine.lock()?;
        let keys = &state.domain.avs[self.id].keys;
        let key = keys.get(addr).or_else(|| keys.of(addr));
        Ok(key.ok_or(Error::INVAL)?.secret().clone())
    }

    fn straddr(&self, addr: &[u8]) -> String {
        self.engine.format.text(addr)
    }

    fn is_peer(&self) -> bool {
        self.owner.is_some()
    }

    fn open_set(&self, request: SetRequest, context: *mut c_void) -> Result<*mut fid_av_set> {
        if !T::COLLECTIVES {
            return Err(Error::NOSYS);
        }
        drop(self.current()?);
        let kept = self.uses.take();
        // The context of a set of another provider was for this call only.
        let context = match request.members {
            Some(_) => core::ptr::null_mut(),
            None => context,
        };
        let owner = (self.owner.clone(), kept);
        AvSet::open(
            &self.engine,
            self.id,
            self.is_table,
            owner,
            request,
            context,
        )
    }

    fn set_user_id(&self, addr: u64, id: u64, flags: u64) -> Result {
        if !self.set_later {
            return Err(Error::NOSYS);
        }
        match flags {
            0 => self.current()?.domain.avs[self.id].set_user_id(addr, id),
            FI_AUTH_KEY if self.engine.has_keys_in_av() => {
                let mut state = self.engine.lock()?;
                state.domain.avs[self.id].keys.set_user_id(addr, id)
            }
            _ => Err(Error::BADFLAGS),
        }
    }
}
