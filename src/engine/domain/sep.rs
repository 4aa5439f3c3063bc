// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Scalable endpoints: fi_endpoint(3). The handle, and the port behind it: one endpoint of the transport, whose address
//! and connections all contexts share. Each context is an `Ep` of its own for the application, and an `EpState` of its
//! own. The first receive context is the port itself, so messages that name no context arrive as at an ordinary
//! endpoint.
//!
//! The `EpState` of each context is made when the endpoint is opened and kept until it is closed, so no operation in
//! flight names a missing context. Closing a context detaches its buffers from operations in flight: receives are
//! dropped, partly sent operations continue from a copy, and operations that wait for an answer move to a `successor`,
//! an `EpState` to which nothing is bound. Peers that do not know contexts can use the port.

mod attributes;
mod member;

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use self::attributes::{narrow_rx, narrow_tx, own_caps};
pub use self::member::{Member, Side};
use crate::domain::av::Av;
use crate::domain::ep::Ep;
use crate::domain::ep::options::permit_cuda;
use crate::domain::{Engine, State};
use crate::domain_state::DomainState;
use crate::ep_state::Role;
use crate::srx::Srx;
use crate::transport::{Address, AddressFormat, DomainStateOf, Transport};
use abi::*;
use base::Caps;
use base::flags::flags;
use base::info::{Info, RxAttr, TxAttr};
use base::{Error, Result};

use object::handle;
use object::ops;
use object::ops::cm::CmCalls;
use object::ops::ep::EpCalls;
use object::ops::options::{Opt, OptValue, Owner, Settable};
use object::ops::scalable::ScalableCalls;
use object::{AddrForm, Kind, Other};
use sync::{Use, Uses};

/// State shared by the contexts of a scalable endpoint.
pub struct Port<T: Transport> {
    engine: Arc<Engine<T>>,
    /// Indexes in `domain.eps`: the endpoint of the transport, which is also the first receive context; all transmit
    /// contexts; all receive contexts.
    id: usize,
    tx: Vec<usize>,
    rx: Vec<usize>,
    /// The `EpState` of operations whose context was closed. Their completions are not reported.
    successor: usize,
    info: Info,
    /// Contexts that have a handle.
    open: Mutex<Vec<(Side, usize)>>,
    /// Uses by the contexts, which keep the endpoint open.
    contexts: Uses,
    /// Peers can connect, because the endpoint or one of its contexts was enabled.
    listens: AtomicBool,
    enabled: AtomicBool,
    /// Keeps bound objects open.
    bound: Mutex<Vec<Use>>,
    _domain: Use,
}

pub struct ScalableEp<T: Transport> {
    port: Arc<Port<T>>,
}

impl<T: Transport> ScalableEp<T> {
    pub fn open(engine: &Arc<Engine<T>>, info: Info, context: *mut c_void) -> Result<*mut fid_ep> {
        match fi_ep_type(info.ep.ep_type) {
            FI_EP_RDM => {}
            FI_EP_DGRAM if T::OF_DATAGRAMS => {}
            _ => return Err(Error::NOSYS),
        }
        let info = engine.with_defaults(info)?;
        let limits = &engine.info.domain;
        let tx = count(info.ep.tx_ctx_cnt, limits.max_ep_tx_ctx)?;
        let rx = count(info.ep.rx_ctx_cnt, limits.max_ep_rx_ctx)?;
        let mut guard = engine.lock()?;
        let state = &mut *guard;
        let domain = &mut state.domain;
        // All contexts share the statistics, under one lock.
        let name = engine.prov_name.to_string_lossy();
        let stats = domain.stats.record(&name, info.ep.ep_type);
        let receiver = |domain: &mut DomainStateOf<T>| {
            let mut srx = Srx::new();
            srx.eps = 1;
            srx.stats = stats.clone();
            let srx = domain.srxs.insert(srx);
            domain
                .eps
                .insert(Ep::state(engine, &info, srx, context, &stats))
        };
        let rx: Vec<usize> = (0..rx).map(|_| receiver(domain)).collect();
        let id = rx[0];
        domain.eps[id].contexts = rx[1..].to_vec();
        // Transmit contexts receive nothing, so any receive context serves.
        let srx = domain.eps[id].srx;
        let tx = (0..tx).map(|_| {
            domain
                .eps
                .insert(Ep::state(engine, &info, srx, context, &stats))
        });
        let tx: Vec<usize> = tx.collect();
        let successor = domain
            .eps
            .insert(Ep::state(engine, &info, srx, context, &stats));
        name_contexts(domain, &tx, &rx, successor);
        if let Err(error) = state.transport.open_ep(&mut state.domain, id, &info) {
            remove(state, &tx, &rx, successor);
            return Err(error);
        }
        drop(guard);
        let port = Arc::new(Port {
            engine: engine.clone(),
            id,
            tx,
            rx,
            successor,
            info,
            open: Mutex::default(),
            contexts: Uses::default(),
            listens: AtomicBool::new(false),
            enabled: AtomicBool::new(false),
            bound: Mutex::default(),
            _domain: engine.uses.take(),
        });
        let sep = ScalableEp { port };
        Ok(handle::open(sep, FI_CLASS_SEP, context, |fid| fid_ep {
            fid,
            ops: core::ptr::from_ref(ops::scalable::table::<ScalableEp<T>>()).cast_mut(),
            cm: core::ptr::from_ref(ops::cm::table::<ScalableEp<T>>()).cast_mut(),
            msg: core::ptr::from_ref(&ops::msg::NONE).cast_mut(),
            rma: core::ptr::from_ref(&ops::rma::NONE).cast_mut(),
            tagged: core::ptr::from_ref(&ops::tagged::NONE).cast_mut(),
            atomic: core::ptr::from_ref(&ops::atomic::NONE).cast_mut(),
            collective: core::ptr::from_ref(&ops::collective::NONE).cast_mut(),
            wr: core::ptr::from_ref(&ops::wr::NONE).cast_mut(),
        }))
    }

    /// Claims the context with this number, which must not have a handle yet.
    fn claim(&self, side: Side, index: c_int) -> Result<Member<T>> {
        let all = match side {
            Side::Transmit => &self.port.tx,
            Side::Receive => &self.port.rx,
        };
        let index = usize::try_from(index).map_err(|_| Error::INVAL)?;
        let id = *all.get(index).ok_or(Error::INVAL)?;
        let mut open = self
            .port
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if open.contains(&(side, id)) {
            return Err(Error::BUSY);
        }
        open.push((side, id));
        Ok(Member {
            port: self.port.clone(),
            side,
            id,
        })
    }
}

/// fi_endpoint(3), tx_ctx_cnt and rx_ctx_cnt: one if the hints have 0. An endpoint with several contexts of one kind
/// and a shared one of the other is not offered.
fn count(wanted: usize, most: usize) -> Result<usize> {
    match wanted {
        0 => Ok(1),
        FI_SHARED_CONTEXT => Err(Error::NOSYS),
        n if n <= most.max(1) => Ok(n),
        _ => Err(Error::INVAL),
    }
}

/// Removes the contexts of an endpoint from the domain.
fn remove<T: Transport>(state: &mut State<T>, tx: &[usize], rx: &[usize], successor: usize) {
    state.domain.eps.remove(successor);
    for &id in tx {
        state.domain.eps.remove(id);
    }
    for &id in rx {
        let ep = state.domain.eps.remove(id);
        state.domain.srxs.remove(ep.srx);
    }
}

impl<T: Transport> Port<T> {
    pub fn engine(&self) -> &Arc<Engine<T>> {
        &self.engine
    }

    pub fn id(&self) -> usize {
        self.id
    }

    /// Lets peers connect.
    fn listen(&self, state: &mut State<T>) -> Result {
        if self.listens.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let given = self.engine.give_keys(state, self.id);
        let result = given.and_then(|()| state.transport.enable_ep(&mut state.domain, self.id));
        let is_enabled = result.is_ok();
        state.domain.eps[self.id].role = Role::Scalable { is_enabled };
        if result.is_err() {
            self.listens.store(false, Ordering::Relaxed);
        }
        result
    }

    fn bind_av(&self, av: &Av<T>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        let id = av.id_in(&self.engine).ok_or(Error::DOMAIN)?;
        let mut state = self.engine.lock()?;
        if self.listens.load(Ordering::Relaxed) {
            return Err(Error::OPBADSTATE);
        }
        let domain = &mut state.domain;
        if domain.eps[self.id].av.is_some() {
            return Err(Error::INVAL);
        }
        for &ep in self.tx.iter().chain(&self.rx) {
            domain.bind_av(ep, id);
        }
        drop(state);
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        bound.push(av.uses.take());
        Ok(())
    }
}

impl<T: Transport> Drop for Port<T> {
    fn drop(&mut self) {
        self.engine.drain(self.id);
        let Ok(mut guard) = self.engine.lock_to_close() else {
            return;
        };
        let state = &mut *guard;
        state.transport.close_ep(&mut state.domain, self.id);
        if let Some(av) = state.domain.eps[self.id].av {
            state.domain.avs[av].keys.release(self.id);
        }
        remove(state, &self.tx, &self.rx, self.successor);
    }
}

/// Stores the names of the contexts for reports.
fn name_contexts<A: Address>(
    domain: &mut DomainState<A>,
    tx: &[usize],
    rx: &[usize],
    successor: usize,
) {
    let of = rx[0];
    domain.eps[of].role = Role::Scalable { is_enabled: false };
    for (index, &ep) in rx.iter().enumerate().skip(1) {
        domain.eps[ep].role = Role::Receive { of, index };
    }
    for (index, &ep) in tx.iter().enumerate() {
        domain.eps[ep].role = Role::Transmit { of, index };
    }
    domain.eps[successor].role = Role::Closed { of };
}

impl<T: Transport> Kind for ScalableEp<T> {
    type Head = fid_ep;

    fn check_close(&self) -> Result {
        match self.port.contexts.any() {
            true => Err(Error::BUSY),
            false => Ok(()),
        }
    }

    fn bind(&self, other: Other<'_>, flags: u64) -> Result {
        match other.downcast::<Av<T>>() {
            Some(av) => self.port.bind_av(av, flags),
            None => Err(Error::INVAL),
        }
    }

    fn enable(&self) -> Result {
        let mut state = self.port.engine.lock()?;
        if self.port.enabled.load(Ordering::Relaxed) {
            return Err(Error::OPBADSTATE);
        }
        if state.domain.eps[self.port.id].av.is_none() {
            return Err(Error::NOAV);
        }
        self.port.listen(&mut state)?;
        self.port.enabled.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl<T: Transport> EpCalls for ScalableEp<T> {
    fn is_owner(&self, owner: Owner) -> bool {
        matches!(owner, Owner::Queue | Owner::Whole)
    }

    fn get_opt(&self, opt: Opt) -> Result<OptValue> {
        match opt {
            Opt::TxSize => Ok(OptValue::Size(self.port.info.tx.size)),
            Opt::RxSize => Ok(OptValue::Size(self.port.info.rx.size)),
            _ => Err(Error::NOPROTOOPT),
        }
    }

    fn set_opt(&self, opt: Opt, value: OptValue) -> Result {
        let mut state = self.port.engine.lock()?;
        match (opt, value) {
            (Opt::SharedMemoryPermitted, _) if !T::SHARES_MEMORY => Err(Error::NOPROTOOPT),
            _ if opt.settable() == Settable::BeforeEnable
                && state.domain.eps[self.port.id].enabled =>
            {
                Err(Error::OPBADSTATE)
            }
            (Opt::FirewallAddr, OptValue::Bool(on)) => {
                state.transport.set_firewalled(self.port.id, on)
            }
            (Opt::SharedMemoryPermitted, OptValue::Bool(on)) => {
                state.transport.permit_sharing(self.port.id, on)
            }
            (Opt::CudaApiPermitted, OptValue::Bool(may)) => {
                permit_cuda::<T>(&self.port.engine, may)
            }
            _ => Err(Error::NOPROTOOPT),
        }
    }
}

impl<T: Transport> ScalableCalls for ScalableEp<T> {
    fn api_version(&self) -> u32 {
        self.port.engine.api_version
    }

    fn open_tx(
        &self,
        index: c_int,
        attr: Option<TxAttr>,
        context: *mut c_void,
    ) -> Result<(*mut fid_ep, TxAttr)> {
        let mut info = self.port.info.clone();
        if let Some(attr) = attr {
            narrow_tx(&mut info.tx, &attr, info.caps)?;
        }
        info.caps = own_caps(info.caps, info.tx.caps);
        let member = self.claim(Side::Transmit, index)?;
        let attr = info.tx.clone();
        Ok((Ep::open_context(member, info, context), attr))
    }

    fn open_rx(
        &self,
        index: c_int,
        attr: Option<RxAttr>,
        context: *mut c_void,
    ) -> Result<(*mut fid_ep, RxAttr)> {
        let mut info = self.port.info.clone();
        if let Some(attr) = attr {
            narrow_rx(&mut info.rx, &attr, info.caps)?;
        }
        // RMA and atomic capabilities belong to the endpoint.
        info.caps = own_caps(info.caps, info.rx.caps) & !flags!(Caps: RMA | ATOMIC | COLLECTIVE);
        let member = self.claim(Side::Receive, index)?;
        let attr = info.rx.clone();
        Ok((Ep::open_context(member, info, context), attr))
    }
}

impl<T: Transport> CmCalls for ScalableEp<T> {
    fn name(&self) -> Result<Vec<u8>> {
        self.port.engine.lock()?.transport.name(self.port.id)
    }

    fn set_name(&self, addr: &[u8]) -> Result {
        let mut state = self.port.engine.lock()?;
        match self.port.listens.load(Ordering::Relaxed) {
            true => Err(Error::OPBADSTATE),
            false => state.transport.set_name(self.port.id, addr),
        }
    }

    fn addr_form(&self) -> AddrForm {
        self.port.engine.format.form()
    }
}
