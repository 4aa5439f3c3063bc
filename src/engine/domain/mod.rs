// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A domain: fi_domain(3). The handle, and the engine behind it that the domain's objects share.
//!
//! FI_THREAD_COMPLETION uses the same mutex. To give each group of queues a lock, give each group its own `State`; only
//! `engine::domain` would change.

mod auto;
pub mod av;
pub mod av_set;
pub mod cntr;
pub mod cq;
mod drain;
mod due;
mod engine;
pub mod ep;
mod groups;
mod mr;
mod peers;
mod poll;
mod profile;
pub mod registered;
pub mod sep;
mod srx;
mod stx;
mod work;

use core::ffi::{CStr, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use crate::atomic::element_size;
use crate::coll;
use crate::eq::{Eq, EventQueue};
use crate::fabric::FabricShared;
use crate::flusher::Flusher;
use crate::mr::map_raw_key;
use crate::report::dump;
use crate::transport::Transport;
use abi::*;
use base::info::{DomainAttr, Info, RxAttr, TxAttr};
use base::{Error, Result};
use hmem::own_copies::Functions;
use object::handle::{self, Kind, Other};
use object::ops;
use object::ops::atomic::{Elements, Family};
use object::ops::credits::{self, CreditHandler, CreditedDomain, FlowControl};
use object::ops::domain::*;
use object::ops::work::WorkRequest;
use object::peer::{PeerSrx, PeerTransfer};
use sync::{Serialized, Use};

use self::engine::domain_key;
pub use self::engine::{Engine, Locked, State, driver};

/// The handle of a domain.
pub struct Domain<T: Transport> {
    engine: Arc<Engine<T>>,
    /// These end their threads when the handle is dropped.
    _auto: Option<auto::Thread>,
    _flusher: Option<Flusher>,
    /// Keeps the bound event queue open.
    eq: Mutex<Option<Use>>,
    _fabric: Use,
}

impl<T: Transport> Domain<T> {
    pub fn open(
        fabric: &Arc<FabricShared<T>>,
        info: Info,
        serialized: Serialized,
        context: *mut c_void,
    ) -> Result<*mut fid_domain> {
        check(&info.domain, T::CQ_DATA_SIZE)?;
        domain_key::<T>(&info.domain)?;
        let auto = fabric.wants_auto_progress(&info);
        let transport = T::open(&fabric.provider, &info, serialized)?;
        let held_back = transport.held_back().cloned();
        let engine = Engine::open(fabric, info, serialized, transport, auto)?;
        let thread = match auto {
            true => Some(auto::Thread::start(&engine)?),
            false => None,
        };
        registered::register(&engine);
        dump::start();
        if let Some(held_back) = &held_back {
            let engine = Arc::downgrade(&engine);
            held_back.serve_by(move || engine.upgrade().is_some_and(|engine| engine.flush_aside()));
        }
        let domain = Domain {
            _fabric: fabric.uses.take(),
            _auto: thread,
            _flusher: held_back.map(Flusher),
            eq: Mutex::default(),
            engine,
        };
        Ok(handle::open(domain, FI_CLASS_DOMAIN, context, |fid| {
            fid_domain {
                fid,
                ops: core::ptr::from_ref(ops::domain::table::<Domain<T>>()).cast_mut(),
                mr: core::ptr::from_ref(ops::mr::table::<Domain<T>>()).cast_mut(),
            }
        }))
    }

    pub fn engine(&self) -> &Arc<Engine<T>> {
        &self.engine
    }
}

impl<T: Transport> Kind for Domain<T> {
    type Head = fid_domain;

    fn check_close(&self) -> Result {
        match self.engine.uses.any() {
            true => Err(Error::BUSY),
            false => Ok(()),
        }
    }

    /// fi_domain_bind: the event queue of endpoints that have none of their own, and with FI_REG_MR the one for
    /// registrations.
    fn bind(&self, other: Other<'_>, flags: u64) -> Result {
        let eq = other.downcast::<Eq>().ok_or(Error::INVAL)?;
        if flags & !FI_REG_MR != 0 {
            return Err(Error::BADFLAGS);
        }
        let engine = &*self.engine;
        let mut bound = self.eq.lock().unwrap_or_else(PoisonError::into_inner);
        match engine.event_queue() {
            // The queue that is bound already may also become the one for registrations.
            Some(known) if flags == 0 || !Arc::ptr_eq(&known, &eq.queue) => {
                return Err(Error::INVAL);
            }
            Some(_) => {}
            None => {
                *bound = Some(eq.queue.uses.take());
                set(&engine.eq, &eq.queue);
                // Without a lock only the application's thread for this domain may drive it, but any thread may read
                // the queue. Events of the domain are then reported only by calls of that thread.
                if engine.state.is_shared() {
                    engine.lock()?.domain.watchers.add();
                    eq.queue.add_driver(driver(&self.engine))?;
                }
            }
        }
        if flags & FI_REG_MR != 0 {
            set(&engine.mr_eq, &eq.queue);
        }
        Ok(())
    }

    fn named(&self) -> Option<(&CStr, &CStr)> {
        Some((
            self.engine.prov_name,
            self.engine.info.domain.name.as_deref()?,
        ))
    }

    fn queue_work(&self, work: WorkRequest<'_>) -> Result {
        work::queue(&self.engine, work)
    }

    fn cancel_work(&self, name: usize) -> Result {
        work::cancel(&self.engine, name)
    }

    fn flush_work(&self, cntr: Option<Other<'_>>) -> Result {
        work::flush(&self.engine, cntr)
    }

    fn profile(&self, context: *mut c_void) -> Result<*mut fid_profile> {
        let of = self.engine.uses.take();
        Ok(profile::Profile::open(&self.engine, None, of, context))
    }

    fn credits(&self) -> Option<&'static FlowControl> {
        T::CREDITS.then(credits::table::<Domain<T>, ep::Ep<T>>)
    }

    fn copy_devices_by(&self, functions: Functions) -> Result {
        self.engine.copy_devices_by(functions)
    }

    fn map_raw_key(&self, raw: &[u8]) -> Result<u64> {
        map_raw_key(raw)
    }

    fn unmap_key(&self, _key: u64) -> Result {
        // A raw key is the key in bytes, so nothing is kept for it.
        Ok(())
    }
}

impl<T: Transport> CreditedDomain for Domain<T> {
    fn set_credit_handler(&self, handler: Option<CreditHandler>) {
        if let Ok(mut state) = self.engine.lock() {
            state.domain.credits = handler;
        }
    }
}

impl<T: Transport> DomainCalls for Domain<T> {
    type Ep = ep::Ep<T>;
    const IS_PEER: bool = T::IS_PEER;

    fn api_version(&self) -> u32 {
        self.engine.api_version
    }

    fn open_av(&self, request: AvRequest<'_>, context: *mut c_void) -> Result<OpenedAv> {
        av::Av::open(&self.engine, request, context)
    }

    fn open_cq(&self, request: CqRequest<'_>, context: *mut c_void) -> Result<*mut fid_cq> {
        cq::Cq::open(&self.engine, request, context)
    }

    fn open_cntr(&self, request: CntrRequest<'_>, context: *mut c_void) -> Result<*mut fid_cntr> {
        if !T::COUNTS {
            return Err(Error::NOSYS);
        }
        cntr::Cntr::open(&self.engine, request, context)
    }

    fn open_ep(
        &self,
        info: Info,
        owner: Option<PeerTransfer>,
        context: *mut c_void,
    ) -> Result<*mut fid_ep> {
        ep::Ep::open(&self.engine, info, owner, context)
    }

    fn open_srx(
        &self,
        attr: Option<RxAttr>,
        owner: Option<PeerSrx>,
        context: *mut c_void,
    ) -> Result<*mut fid_ep> {
        srx::SharedRx::open(&self.engine, attr, owner, context)
    }

    fn open_stx(&self, attr: Option<TxAttr>, context: *mut c_void) -> Result<*mut fid_stx> {
        stx::SharedTx::open(&self.engine, attr, context)
    }

    fn open_sep(&self, info: Info, context: *mut c_void) -> Result<*mut fid_ep> {
        sep::ScalableEp::open(&self.engine, info, context)
    }

    fn open_poll(&self) -> Result<*mut fid_poll> {
        poll::PollSet::open(&self.engine)
    }

    fn query_collective(&self, query: &CollectiveQuery) -> Result<CollectiveLimits> {
        if !T::COLLECTIVES {
            return Err(Error::OPNOTSUPP);
        }
        let size = match query.datatype {
            // Programs ask so whether there is a collective at all. Its calls need a type.
            FI_VOID if !coll::reduces(query.what) => {
                coll::check(query.what, FI_UINT8, FI_NOOP).map(|_| 0)
            }
            datatype => coll::check(query.what, datatype, query.op).map(|(size, _)| size),
        }?;
        Ok(CollectiveLimits {
            count: coll::MAX_BYTES.checked_div(size).unwrap_or(0),
            size,
            members: coll::MAX_MEMBERS,
        })
    }

    fn query_atomic(&self, family: Family, datatype: fi_datatype, op: fi_op) -> Result<Elements> {
        let size = element_size(family, datatype, op);
        let most = T::most_of(family, datatype, op);
        match size.filter(|&size| size <= most) {
            Some(size) => Ok(Elements {
                size,
                count: most / size,
            }),
            None => Err(Error::OPNOTSUPP),
        }
    }
}

fn set(place: &Mutex<Option<Arc<EventQueue>>>, queue: &Arc<EventQueue>) {
    *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(queue.clone());
}

/// Rejects values that are undefined, or that exceed what this provider supports.
fn check(attr: &DomainAttr, cq_data_size: usize) -> Result {
    let known = attr.threading <= FI_THREAD_ENDPOINT.0
        && attr.progress <= FI_PROGRESS_CONTROL_UNIFIED.0
        && attr.resource_mgmt <= FI_RM_ENABLED.0
        && attr.av_type <= FI_AV_TABLE.0;
    match known && attr.cq_data_size <= cq_data_size {
        true => Ok(()),
        false => Err(Error::INVAL),
    }
}
