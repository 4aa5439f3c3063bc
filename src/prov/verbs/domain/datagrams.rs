// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Datagram endpoints: their queue pairs, and the ways to their peers.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::adapter::Adapter;
use super::super::datagram::{self, KEY, PKEY_INDEX, PORT};
use super::super::ep::State;
use super::super::names::{NameServer, Serving};
use super::super::params;
use super::{Domain, SOURCE};
use base::log::{Subsys, log_info, log_warn};
use base::{Error, Result};
use engine::address::ib_ud;
use engine::address::mixed::Addr;
use engine::domain_state::DomainState;
use rustc_hash::FxBuildHasher;
use sys::verbs::{AddressHandle, DatagramAttributes, Destination, Pair, Route, Status};

const ATTRIBUTES: DatagramAttributes = DatagramAttributes {
    port: PORT,
    key: KEY,
    pkey_index: PKEY_INDEX,
};

/// The part of a domain that only those for datagrams have.
pub struct Unconnected {
    /// The index of the own identifier.
    own_gid: u8,
    /// Ports to which datagrams were addressed. The adapter may still use a handle for requests in flight, so handles
    /// stay until the domain is closed.
    handles: HashMap<Route, Arc<AddressHandle>, FxBuildHasher>,
    _serving: Option<Serving>,
}

impl Unconnected {
    pub fn new(adapter: &Adapter) -> Unconnected {
        Unconnected {
            own_gid: datagram::own_gid(adapter, params()),
            handles: HashMap::default(),
            _serving: NameServer::of(params()).map(|server| server.serve()),
        }
    }
}

impl Domain {
    /// Refuses calls for connections in a domain for datagrams.
    pub(super) fn check_connects(&self) -> Result {
        match self.unconnected {
            None => Ok(()),
            Some(_) => Err(Error::NOSYS),
        }
    }

    /// Most bytes of a message.
    pub(super) fn longest_message(&self) -> usize {
        match self.unconnected {
            None => self.adapter.port.max_msg_sz as usize,
            Some(_) => self.adapter.longest_datagram(),
        }
    }

    /// Enables a datagram endpoint: makes its queue pair.
    pub(super) fn open_pair(&mut self, ep: usize) -> Result {
        let queues = self.pair_queues(ep)?;
        let own_gid = self.unconnected.as_ref().ok_or(Error::INVAL)?.own_gid;
        let (device, protection) = (self.adapter.device, self.protection.clone());
        let endpoint = self.ep_mut(ep)?;
        let mut limits = endpoint.limits;
        if endpoint.shared.is_some() {
            limits.receives = 0;
        }
        let pair = Pair::of_datagrams(&protection, &queues, limits, ATTRIBUTES)?;
        let number = pair.number();
        let datagrams = endpoint.datagrams.as_mut().ok_or(Error::INVAL)?;
        datagrams.local = datagram::local(device, own_gid, number)?;
        datagrams.pair = Some(pair);
        if let Some(server) = NameServer::of(params()) {
            datagrams.register(server);
        }
        endpoint.state = State::Open;
        self.health.forget(number);
        let endpoint = self.ep(ep)?;
        if endpoint.shared.is_some() {
            self.pairs.insert(number, ep);
        }
        self.reserve(ep)
    }

    /// Whether the pair takes requests; false if it waits until everything is flushed.
    #[inline]
    pub(super) fn is_usable(&mut self, ep: usize) -> bool {
        let is_broken = |domain: &Domain| {
            let endpoint = domain.ep(ep);
            endpoint.is_ok_and(|endpoint| endpoint.state == State::Broken)
        };
        if is_broken(self) {
            self.recover(ep, Status::FLUSHED);
        }
        !is_broken(self)
    }

    /// Handles an error, which stops a pair of datagrams. Everything that is posted is flushed, and then the pair
    /// starts again with its number.
    #[cold]
    pub(super) fn recover(&mut self, ep: usize, status: Status) {
        let Ok(endpoint) = self.ep_mut(ep) else {
            return;
        };
        let state = endpoint.state;
        let Some(pair) = endpoint.any_pair() else {
            return;
        };
        let result = match state {
            State::Open if status != Status::FLUSHED => {
                log_info!(
                    &SOURCE,
                    Subsys::EpData,
                    "endpoint {ep} stops with the status {}: {}",
                    status.0,
                    status.text()
                );
                pair.stop()
            }
            State::Broken => Ok(()),
            _ => return,
        };
        let is_drained = endpoint.is_drained();
        let result = result.and_then(|()| match is_drained {
            true => pair.restart(ATTRIBUTES).map(|()| State::Open),
            false => Ok(State::Broken),
        });
        endpoint.state = result.unwrap_or_else(|error| {
            log_warn!(
                &SOURCE,
                Subsys::EpData,
                "endpoint {ep} does not start again: {error}"
            );
            State::Failed
        });
    }

    /// The handle of the port with this address, which is made when the port is addressed for the first time.
    pub(super) fn find_way(&mut self, addr: &Addr) -> Result<Option<Arc<AddressHandle>>> {
        let (Some(unconnected), Addr::Ud(addr)) = (&mut self.unconnected, addr) else {
            return Ok(None);
        };
        let route = Route {
            gid: addr.gid,
            own_gid: unconnected.own_gid,
            lid: addr.lid,
            service_level: addr.service_level,
            port: PORT,
        };
        if let Some(handle) = unconnected.handles.get(&route) {
            return Ok(Some(handle.clone()));
        }
        let made = AddressHandle::new(&self.protection, &route).inspect_err(|error| {
            log_info!(&SOURCE, Subsys::Av, "no way to {addr}: {error}");
        });
        let handle = Arc::new(made?);
        unconnected.handles.insert(route, handle.clone());
        Ok(Some(handle))
    }

    /// The destination of a datagram; nothing for messages of connected endpoints.
    pub(super) fn destination(
        &mut self,
        domain: &DomainState<Addr>,
        ep: usize,
        index: u64,
    ) -> Result<Option<Destination>> {
        let Some(datagrams) = &self.ep(ep)?.datagrams else {
            return Ok(None);
        };
        if datagrams.pair.is_none() {
            return Err(Error::OPBADSTATE);
        }
        if let Some(known) = datagrams.known(domain, ep, index) {
            return Ok(Some(known.clone()));
        }
        let av = domain.eps[ep].av.ok_or(Error::INVAL)?;
        let addr = *domain.avs[av].get(index).ok_or(Error::INVAL)?;
        let (Some(handle), Addr::Ud(to)) = (self.find_way(&addr)?, addr) else {
            return Err(Error::INVAL);
        };
        let destination = to_pair(handle, &to);
        let datagrams = self.ep_mut(ep)?.datagrams.as_mut().ok_or(Error::INVAL)?;
        datagrams.keep(index, to, destination.clone());
        Ok(Some(destination))
    }
}

fn to_pair(handle: Arc<AddressHandle>, addr: &ib_ud::Addr) -> Destination {
    Destination {
        handle,
        pair: addr.pair,
        key: KEY,
    }
}
