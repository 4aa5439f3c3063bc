// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The handle of an address vector: fi_av(3). The table is in `domain_state`.

mod calls;

use core::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use crate::auth::Key;
use crate::av::AvTable;
use crate::descriptors::vector_has;
use crate::domain::{Engine, Locked, State};
use crate::eq::{Eq, EventQueue};
use crate::named_av::{Change, NamedAv};
use crate::peer_index;
use crate::shared_av;
use crate::transport::{Address, DomainStateOf, Transport};
use abi::*;
use base::log::{Subsys, log_warn};
use base::{Caps, Error, Result};
use object::handle;
use object::ops;
use object::ops::av::{Inserted, Insertion};
use object::ops::domain::{AvRequest, OpenedAv};
use object::peer::PeerAv;
use object::{Kind, Other};
use sync::{Use, Uses};

pub struct Av<T: Transport> {
    engine: Arc<Engine<T>>,
    id: usize,
    /// FI_AV_USER_ID: fi_av_set_user_id sets the identifiers of addresses, not the insertion.
    set_later: bool,
    /// FI_EVENT: insertions are reported to the bound event queue.
    by_event: bool,
    /// FI_AV_TABLE: the application may rely on consecutive indexes.
    is_table: bool,
    eq: Mutex<Option<(Arc<EventQueue>, Use)>>,
    /// The vector of another provider, for which this one is only a stand-in: fi_peer(3).
    pub owner: Option<Arc<PeerAv>>,
    pub uses: Uses,
    _domain: Use,
}

impl<T: Transport> Av<T> {
    pub fn open(
        engine: &Arc<Engine<T>>,
        request: AvRequest<'_>,
        context: *mut c_void,
    ) -> Result<OpenedAv> {
        let mut known = FI_EVENT | FI_READ | FI_SYMMETRIC | FI_PEER;
        if engine.info.domain.caps.contains(Caps::AV_USER_ID) {
            known |= FI_AV_USER_ID;
        }
        if request.flags & !known != 0 {
            return Err(Error::BADFLAGS);
        }
        let named = match request.name {
            Some(name) => Some(open_named(engine, name, &request)?),
            // fi_av(3), FI_READ: it must be named.
            None if request.flags & FI_READ != 0 => return Err(Error::INVAL),
            None => None,
        };
        let map_addr = named.as_ref().map(NamedAv::map_addr);
        let context_bits = u32::try_from(request.rx_ctx_bits).map_err(|_| Error::INVAL)?;
        let named_contexts =
            engine.info.domain.max_ep_rx_ctx > 1 || engine.info.caps.contains(Caps::NAMED_RX_CTX);
        if context_bits > if named_contexts { MAX_CONTEXT_BITS } else { 0 } {
            return Err(Error::INVAL);
        }
        let in_force = match request.av_type {
            FI_AV_UNSPEC | FI_AV_TABLE => FI_AV_TABLE,
            FI_AV_MAP => FI_AV_MAP,
            _ => return Err(Error::INVAL),
        };
        let set_later = request.flags & FI_AV_USER_ID != 0;
        let mut table = match set_later {
            true => AvTable::with_user_ids(),
            false => AvTable::new(),
        };
        table.context_bits = context_bits;
        table.named = named;
        let id = {
            let mut guard = engine.lock()?;
            let State { domain, transport } = &mut *guard;
            let id = domain.avs.insert(table);
            if let Err(error) = shared_av::renew(transport, domain, id) {
                domain.avs.remove(id);
                return Err(error);
            }
            id
        };
        let av = Av {
            engine: engine.clone(),
            id,
            set_later,
            by_event: request.flags & FI_EVENT != 0,
            is_table: in_force == FI_AV_TABLE,
            eq: Mutex::default(),
            owner: request.owner.map(Arc::new),
            uses: Uses::default(),
            _domain: engine.uses.take(),
        };
        let handle = handle::open(av, FI_CLASS_AV, context, |fid| fid_av {
            fid,
            ops: core::ptr::from_ref(ops::av::table::<Av<T>>()).cast_mut(),
        });
        Ok(OpenedAv {
            handle,
            av_type: in_force,
            map_addr,
        })
    }

    /// The index in `domain.avs`, for an endpoint of this domain.
    pub fn id_in(&self, engine: &Arc<Engine<T>>) -> Option<usize> {
        Arc::ptr_eq(engine, &self.engine).then_some(self.id)
    }

    /// All keys that the vector has now, or the one with this handle.
    pub fn keys(&self, handle: Option<u64>) -> Result<Vec<Key>> {
        let state = self.engine.lock()?;
        let keys = &state.domain.avs[self.id].keys;
        match handle {
            None => Ok(keys.all().cloned().collect()),
            Some(handle) => Ok(vec![keys.get(handle).cloned().ok_or(Error::INVAL)?]),
        }
    }

    fn insert_all(
        &self,
        addrs: impl Iterator<Item = Result<T::Addr>>,
        insertion: Insertion,
    ) -> Result<Inserted> {
        let keyed = self.engine.has_keys_in_av();
        let known = if keyed { KEYED_FLAGS } else { FLAGS };
        if insertion.flags & !known != 0 {
            return Err(Error::BADFLAGS);
        }
        // fi_av(3): an address without a key need not be accepted. This provider rejects it.
        if keyed && insertion.flags & FI_AUTH_KEY == 0 {
            return Err(Error::OPNOTSUPP);
        }
        if self.set_later && insertion.flags & FI_AV_USER_ID != 0 {
            return Err(Error::INVAL);
        }
        let eq = self.event_queue()?;
        let mut guard = self.engine.lock()?;
        let state = &mut *guard;
        let results = match state.domain.avs[self.id].named {
            None => self.insert_own(state, addrs, &insertion.keys),
            Some(_) => {
                let State { domain, transport } = &mut *state;
                let changes = addrs.map(|addr| addr.map(Change::Insert));
                shared_av::change(transport, domain, self.id, changes)?
            }
        };
        self.name(&mut state.domain, &results, &insertion.user_ids)?;
        if T::CONNECTS_TO_PEERS {
            let (len, added) = (state.domain.avs[self.id].end() as usize, results.len());
            vector_has(T::SOURCE, len, added);
        }
        let owners = state.domain.owners_of_receives();
        drop(guard);
        owners.iter().for_each(|owner| owner.addresses_changed());
        if let Some(eq) = &eq {
            let taken = results.iter().filter(|r| r.is_ok()).count();
            report(eq, self.handle(), insertion.context, taken, &results);
        }
        Ok(Inserted {
            results,
            by_event: eq.is_some(),
        })
    }

    /// Inserts into a vector that only this process uses.
    fn insert_own(
        &self,
        state: &mut State<T>,
        addrs: impl Iterator<Item = Result<T::Addr>>,
        keys: &[u64],
    ) -> Vec<Result<u64>> {
        let mut results = Vec::with_capacity(addrs.size_hint().0);
        for (i, addr) in addrs.enumerate() {
            let State { domain, transport } = &mut *state;
            let addr = addr.and_then(|addr| transport.reach(domain, &addr).map(|()| addr));
            let table = &mut domain.avs[self.id];
            let result = match keys.get(i) {
                None => addr.map(|addr| table.insert(addr)),
                Some(&key) => addr.and_then(|addr| insert_keyed(table, addr, key)),
            };
            if let Ok((index, true)) = result {
                peer_index::inserted(transport, domain, self.id, index);
            }
            results.push(result.map(|(index, _)| index));
        }
        results
    }

    /// The locked state, after changes of other processes to the vector were applied.
    fn current(&self) -> Result<Locked<'_, T>> {
        let mut guard = self.engine.lock()?;
        let State { domain, transport } = &mut *guard;
        shared_av::renew(transport, domain, self.id)?;
        Ok(guard)
    }

    /// FI_AV_USER_ID: sets the identifiers that completions report for the inserted addresses.
    fn name(&self, domain: &mut DomainStateOf<T>, results: &[Result<u64>], ids: &[u64]) -> Result {
        let had_ids = domain.avs[self.id].has_user_ids();
        for (result, &id) in results.iter().zip(ids) {
            if let Ok(index) = *result {
                domain.avs[self.id].set_user_id(index, id)?;
            }
        }
        if !had_ids && domain.avs[self.id].has_user_ids() {
            for (_, ep) in &mut domain.eps {
                ep.user_ids |= ep.av == Some(self.id);
            }
        }
        Ok(())
    }

    fn event_queue(&self) -> Result<Option<Arc<EventQueue>>> {
        if !self.by_event {
            return Ok(None);
        }
        let eq = self.eq.lock().unwrap_or_else(PoisonError::into_inner);
        match &*eq {
            Some((queue, _)) => Ok(Some(queue.clone())),
            None => Err(Error::NOEQ),
        }
    }

    fn handle(&self) -> usize {
        handle::number_of(self)
    }
}

/// Opens the vector with this name among those of all processes of this user on this host. The scope contains the
/// domain name, so vectors of other domains are distinct.
fn open_named<T: Transport>(
    engine: &Engine<T>,
    name: &str,
    request: &AvRequest<'_>,
) -> Result<NamedAv> {
    // Keys are valid in one process only.
    if !engine.info.caps.contains(Caps::SHARED_AV) || engine.has_keys_in_av() {
        return Err(Error::NOSYS);
    }
    let domain = engine.info.domain.name.as_deref().unwrap_or_default();
    let scope = [
        engine.provider.name().to_bytes(),
        domain.to_bytes(),
        &engine.info.addr_format.to_ne_bytes(),
    ];
    let read_only = request.flags & FI_READ != 0;
    NamedAv::open(&scope, name, read_only, request.count).inspect_err(|error| {
        log_warn!(
            engine.provider,
            Subsys::Av,
            "shared address vector {name:?}: {}",
            std::io::Error::from_raw_os_error(error.code())
        );
    })
}

/// Addresses use the lower 32 bits of a fi_addr_t; the others are free for contexts.
const MAX_CONTEXT_BITS: u32 = 32;

/// Inserts an address of peers with this key. An address has exactly one key.
fn insert_keyed<A: Address>(table: &mut AvTable<A>, addr: A, key: u64) -> Result<(u64, bool)> {
    let other = table
        .find(&addr)
        .and_then(|index| table.keys.handle_at(index));
    if table.keys.get(key).is_none() || other.is_some_and(|other| other != key) {
        return Err(Error::INVAL);
    }
    let (index, new) = table.insert(addr);
    table.keys.assign(index, key);
    Ok((index, new))
}

/// Flags of all insertion calls.
const FLAGS: u64 = FI_MORE | FI_SYNC_ERR | FI_FIREWALL_ADDR | FI_AV_USER_ID;
/// The same with FI_AV_AUTH_KEY.
const KEYED_FLAGS: u64 = FI_MORE | FI_SYNC_ERR | FI_FIREWALL_ADDR | FI_AUTH_KEY;

/// fi_av(3): one error entry per address that was not taken, then FI_AV_COMPLETE with the number of those that were.
fn report(eq: &EventQueue, fid: usize, context: usize, taken: usize, results: &[Result<u64>]) {
    for (i, result) in results.iter().enumerate() {
        if let Err(error) = result {
            eq.error(ops::eq::EqErr {
                fid,
                context,
                data: i as u64,
                err: error.code(),
                prov_errno: error.code(),
                err_data: None,
            });
        }
    }
    eq.complete(FI_AV_COMPLETE, fid, context, taken as u64);
}

impl<T: Transport> Drop for Av<T> {
    fn drop(&mut self) {
        // fi_av(3): events that refer to the vector are left untouched.
        if let Ok(mut state) = self.engine.lock_to_close() {
            state.domain.avs.remove(self.id);
        }
    }
}

impl<T: Transport> Kind for Av<T> {
    type Head = fid_av;

    fn check_close(&self) -> Result {
        match self.uses.any() {
            true => Err(Error::BUSY),
            false => Ok(()),
        }
    }

    fn bind(&self, other: Other<'_>, flags: u64) -> Result {
        let eq = other.downcast::<Eq>().ok_or(Error::INVAL)?;
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        let mut bound = self.eq.lock().unwrap_or_else(PoisonError::into_inner);
        if bound.is_some() {
            return Err(Error::BUSY);
        }
        *bound = Some((eq.queue.clone(), eq.queue.uses.take()));
        Ok(())
    }
}
