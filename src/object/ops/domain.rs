// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_domain`: fi_domain(3), and the open calls of fi_av(3), fi_cq(3), fi_cntr(3), fi_endpoint(3),
//! fi_poll(3).

use core::ffi::{c_int, c_void};

use crate::handle::{self, Kind, Other};
use crate::ops::atomic::{Elements, Family};
use crate::ops::missing::Missing;
use crate::ops::{object, status};
use crate::peer::{PeerAv, PeerCntr, PeerCq, PeerSrx, PeerTransfer, Transferred};
use crate::user::{opt, store, text};
use abi::*;
use base::info::{Info, Layout, RxAttr, TxAttr, grown};
use base::{Error, OpFlags, Result};

/// The content of a `struct fi_av_attr`.
pub struct AvRequest<'a> {
    pub av_type: fi_av_type,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    /// Name by which processes share the vector.
    pub name: Option<&'a str>,
    pub flags: u64,
    /// With FI_PEER: the owner's vector.
    pub owner: Option<PeerAv>,
}

/// Result of fi_av_open.
pub struct OpenedAv {
    pub handle: *mut fid_av,
    /// The actual type.
    pub av_type: fi_av_type,
    /// For a named vector: the array of the fi_addr_t values of its addresses.
    pub map_addr: Option<*const fi_addr_t>,
}

/// The content of a `struct fi_cq_attr`.
pub struct CqRequest<'a> {
    pub size: usize,
    /// The interrupt vector, with FI_AFFINITY.
    pub vector: usize,
    pub flags: u64,
    pub format: fi_cq_format,
    pub wait_obj: fi_wait_obj,
    pub wait_cond: fi_cq_wait_cond,
    pub wait_set: Option<Other<'a>>,
    /// With FI_PEER: the owner's queue.
    pub owner: Option<PeerCq>,
}

/// The content of a `struct fi_cntr_attr`.
pub struct CntrRequest<'a> {
    pub events: fi_cntr_events,
    pub wait_obj: fi_wait_obj,
    pub wait_set: Option<Other<'a>>,
    pub flags: u64,
    /// With FI_PEER: the owner's counter.
    pub owner: Option<PeerCntr>,
}

/// The arguments of fi_query_collective.
#[derive(Clone, Copy, Debug)]
pub struct CollectiveQuery {
    pub what: fi_collective_op,
    pub datatype: fi_datatype,
    pub op: fi_op,
}

/// Its result: elements in a call, bytes of an element, members of a group.
#[derive(Clone, Copy, Debug)]
pub struct CollectiveLimits {
    pub count: usize,
    pub size: usize,
    pub members: usize,
}

pub trait DomainCalls: Kind<Head = fid_domain> {
    /// The endpoints of the domain.
    type Ep: Transferred;
    /// Whether vectors and endpoints belong to another provider: fi_peer(3).
    const IS_PEER: bool;

    fn api_version(&self) -> u32;
    /// Returns the handle and the actual type.
    fn open_av(&self, request: AvRequest<'_>, context: *mut c_void) -> Result<OpenedAv>;
    fn open_cq(&self, request: CqRequest<'_>, context: *mut c_void) -> Result<*mut fid_cq>;
    fn open_cntr(&self, request: CntrRequest<'_>, context: *mut c_void) -> Result<*mut fid_cntr>;
    /// `owner`: with FI_PEER_TRANSFER, the endpoint that moves the messages.
    fn open_ep(
        &self,
        info: Info,
        owner: Option<PeerTransfer>,
        context: *mut c_void,
    ) -> Result<*mut fid_ep>;
    /// `owner`: with FI_PEER, the owner of the receives.
    fn open_srx(
        &self,
        attr: Option<RxAttr>,
        owner: Option<PeerSrx>,
        context: *mut c_void,
    ) -> Result<*mut fid_ep>;
    fn open_stx(&self, attr: Option<TxAttr>, context: *mut c_void) -> Result<*mut fid_stx>;
    fn open_sep(&self, info: Info, context: *mut c_void) -> Result<*mut fid_ep>;
    fn open_poll(&self) -> Result<*mut fid_poll>;
    fn query_collective(&self, query: &CollectiveQuery) -> Result<CollectiveLimits>;
    /// Returns `OPNOTSUPP` if no endpoint supports the operation.
    fn query_atomic(&self, family: Family, datatype: fi_datatype, op: fi_op) -> Result<Elements>;
}

pub fn table<T: DomainCalls>() -> &'static fi_ops_domain {
    &fi_ops_domain {
        size: size_of::<fi_ops_domain>(),
        av_open: Some(av_open::<T>),
        cq_open: Some(cq_open::<T>),
        endpoint: Some(endpoint::<T>),
        scalable_ep: Some(scalable_ep::<T>),
        cntr_open: Some(cntr_open::<T>),
        poll_open: Some(poll_open::<T>),
        stx_ctx: Some(stx_ctx::<T>),
        srx_ctx: Some(srx_ctx::<T>),
        query_atomic: Some(query_atomic::<T>),
        query_collective: Some(query_collective::<T>),
        endpoint2: Some(endpoint2::<T>),
        ..Missing::TABLE
    }
}

/// # Safety
/// `domain` must be NULL or open.
unsafe fn domain<'a, T: DomainCalls>(domain: *mut fid_domain) -> Result<&'a T> {
    // SAFETY: promised by the caller.
    object(unsafe { handle::get::<T, fid_domain>(domain) })
}

/// fi_xpu(3): no provider supports queues and counters for a device.
fn for_the_host(flags: u64) -> Result {
    match flags & FI_XPU {
        0 => Ok(()),
        _ => Err(Error::NOSYS),
    }
}

/// Returns the wait set in attributes.
///
/// # Safety
/// The wait set must stay open during the call.
pub(super) unsafe fn wait_set<'a>(
    set: *mut fid_wait,
    obj: fi_wait_obj,
) -> Result<Option<Other<'a>>> {
    match (obj, set.is_null()) {
        (FI_WAIT_SET, true) => Err(Error::INVAL),
        // SAFETY: promised by the caller.
        (FI_WAIT_SET, false) => Ok(Some(unsafe { Other::new(set.cast()) })),
        _ => Ok(None),
    }
}

unsafe extern "C" fn av_open<T: DomainCalls>(
    d: *mut fid_domain,
    attr: *mut fi_av_attr,
    av: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_av(3): an open domain; `attr` is readable and writable; `av` gets the handle.
    status(unsafe {
        domain::<T>(d).and_then(|domain| {
            let wanted = opt(attr).ok_or(Error::INVAL)?;
            let request = AvRequest {
                av_type: wanted.r#type,
                rx_ctx_bits: wanted.rx_ctx_bits,
                count: wanted.count,
                name: text(wanted.name)?,
                flags: wanted.flags,
                owner: match wanted.flags & FI_PEER {
                    0 => None,
                    _ if !T::IS_PEER => return Err(Error::INVAL),
                    _ => Some(PeerAv::import(context)?),
                },
            };
            let asks_for_map = wanted.map_addr.is_null();
            store(av, || {
                let opened = domain.open_av(request, context)?;
                (*attr).r#type = opened.av_type;
                if let Some(map_addr) = opened.map_addr.filter(|_| asks_for_map) {
                    (*attr).map_addr = map_addr.cast_mut().cast();
                }
                Ok(opened.handle)
            })
        })
    })
}

unsafe extern "C" fn cq_open<T: DomainCalls>(
    d: *mut fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_cq(3): an open domain; `attr` is NULL or readable; `cq` gets the handle.
    status(unsafe {
        domain::<T>(d).and_then(|domain| {
            let attr = grown(attr, Layout::CQ_ATTR).ok_or(Error::INVAL)?;
            for_the_host(attr.flags)?;
            let request = CqRequest {
                size: attr.size,
                vector: usize::try_from(attr.signaling_vector).unwrap_or(usize::MAX),
                flags: attr.flags,
                format: attr.format,
                wait_obj: attr.wait_obj,
                wait_cond: attr.wait_cond,
                wait_set: wait_set(attr.wait_set, attr.wait_obj)?,
                owner: match attr.flags & FI_PEER {
                    0 => None,
                    _ => Some(PeerCq::import(context)?),
                },
            };
            store(cq, || domain.open_cq(request, context))
        })
    })
}

unsafe extern "C" fn cntr_open<T: DomainCalls>(
    d: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    cntr: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_cntr(3): an open domain; `attr` is NULL or readable; `cntr` gets the handle.
    status(unsafe {
        domain::<T>(d).and_then(|domain| {
            let attr = grown(attr, Layout::CNTR_ATTR).ok_or(Error::INVAL)?;
            for_the_host(attr.flags)?;
            let request = CntrRequest {
                events: attr.events,
                wait_obj: attr.wait_obj,
                wait_set: wait_set(attr.wait_set, attr.wait_obj)?,
                flags: attr.flags,
                owner: match attr.flags & FI_PEER {
                    0 => None,
                    _ => Some(PeerCntr::import(context)?),
                },
            };
            store(cntr, || domain.open_cntr(request, context))
        })
    })
}

unsafe extern "C" fn endpoint<T: DomainCalls>(
    d: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_endpoint(3): an open domain; `info` comes from fi_getinfo; `ep` gets the handle.
    status(unsafe {
        domain::<T>(d).and_then(|domain| {
            let info = Info::read(info, Layout::of_api(domain.api_version()))?;
            let (owner, context) = match T::IS_PEER {
                false => (None, context),
                true if info.mode.bits() & FI_PEER_TRANSFER == 0 => return Err(Error::INVAL),
                // The context was for this call only.
                true => (
                    Some(PeerTransfer::import::<T::Ep>(context)?),
                    core::ptr::null_mut(),
                ),
            };
            store(ep, || domain.open_ep(info, owner, context))
        })
    })
}

unsafe extern "C" fn endpoint2<T: DomainCalls>(
    d: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    match flags {
        // SAFETY: the caller's promise, passed on.
        0 => unsafe { endpoint::<T>(d, info, ep, context) },
        FI_XPU => Error::NOSYS.negative(),
        _ => Error::BADFLAGS.negative(),
    }
}

unsafe extern "C" fn srx_ctx<T: DomainCalls>(
    d: *mut fid_domain,
    attr: *mut fi_rx_attr,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_endpoint(3): an open domain; `attr` is NULL or readable; `ep` gets the handle.
    status(unsafe {
        domain::<T>(d).and_then(|domain| {
            let attr = RxAttr::read(attr, Layout::of_api(domain.api_version()));
            let imports = |attr: &RxAttr| attr.op_flags.contains(OpFlags::PEER);
            let owner = match attr.as_ref().is_some_and(imports) {
                true => Some(PeerSrx::import(context)?),
                false => None,
            };
            store(ep, || domain.open_srx(attr, owner, context))
        })
    })
}

unsafe extern "C" fn stx_ctx<T: DomainCalls>(
    d: *mut fid_domain,
    attr: *mut fi_tx_attr,
    stx: *mut *mut fid_stx,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_endpoint(3): an open domain; `attr` is NULL or readable; `stx` gets the handle.
    status(unsafe {
        domain::<T>(d).and_then(|domain| {
            let attr = TxAttr::read(attr, Layout::of_api(domain.api_version()));
            store(stx, || domain.open_stx(attr, context))
        })
    })
}

unsafe extern "C" fn scalable_ep<T: DomainCalls>(
    d: *mut fid_domain,
    info: *mut fi_info,
    sep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_endpoint(3): an open domain; `info` comes from fi_getinfo; `sep` gets the handle.
    status(unsafe {
        domain::<T>(d).and_then(|domain| {
            let info = Info::read(info, Layout::of_api(domain.api_version()))?;
            store(sep, || domain.open_sep(info, context))
        })
    })
}

unsafe extern "C" fn poll_open<T: DomainCalls>(
    d: *mut fid_domain,
    attr: *mut fi_poll_attr,
    poll: *mut *mut fid_poll,
) -> c_int {
    // SAFETY: fi_poll(3): an open domain; `attr` is NULL or readable; `poll` gets the handle.
    status(unsafe {
        domain::<T>(d).and_then(|domain| match opt(attr) {
            Some(attr) if attr.flags != 0 => Err(Error::INVAL),
            _ => store(poll, || domain.open_poll()),
        })
    })
}

unsafe extern "C" fn query_collective<T: DomainCalls>(
    d: *mut fid_domain,
    coll: fi_collective_op,
    attr: *mut fi_collective_attr,
    flags: u64,
) -> c_int {
    // SAFETY: fi_collective(3): an open domain; `attr` is NULL or readable and writable.
    status(unsafe {
        domain::<T>(d).and_then(|domain| {
            let asked = opt(attr).ok_or(Error::INVAL)?;
            let what = match flags {
                0 => coll,
                // Another notation of a reduction whose result is scattered.
                flags if flags == u64::from(FI_SCATTER.0) => FI_REDUCE_SCATTER,
                _ => return Err(Error::BADFLAGS),
            };
            let limits = domain.query_collective(&CollectiveQuery {
                what,
                datatype: asked.datatype,
                op: asked.op,
            })?;
            (*attr).datatype_attr = fi_atomic_attr {
                count: limits.count,
                size: limits.size,
            };
            (*attr).max_members = limits.members;
            Ok(())
        })
    })
}

unsafe extern "C" fn query_atomic<T: DomainCalls>(
    d: *mut fid_domain,
    datatype: fi_datatype,
    op: fi_op,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    // SAFETY: fi_atomic(3): an open domain; `attr` receives the limits.
    status(unsafe {
        domain::<T>(d).and_then(|domain| {
            let family = match flags & (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC) {
                0 => Family::Base,
                FI_FETCH_ATOMIC => Family::Fetch,
                FI_COMPARE_ATOMIC => Family::Compare,
                _ => return Err(Error::INVAL),
            };
            match flags & !(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC) {
                0 => {}
                // FI_TAGGED makes posted receives of tagged messages the target, which no provider here supports.
                FI_TAGGED => return Err(Error::OPNOTSUPP),
                _ => return Err(Error::BADFLAGS),
            }
            if attr.is_null() {
                return Err(Error::INVAL);
            }
            let Elements { size, count } = domain.query_atomic(family, datatype, op)?;
            attr.write(fi_atomic_attr { count, size });
            Ok(())
        })
    })
}
