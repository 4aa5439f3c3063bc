// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_fabric`: fi_fabric(3), and the open calls of fi_domain(3), fi_eq(3), fi_endpoint(3), fi_poll(3).

use core::ffi::{c_int, c_void};

use crate::handle::{self, Kind, Other};
use crate::live;
use crate::ops::domain::wait_set;
use crate::ops::{object, status};
use crate::peer::{PeerEq, check_domain};
use crate::user::{opt, store};
use abi::*;
use base::info::{Hints, Info, Layout};
use base::{Error, Result};
use sync::Serialized;

/// The content of a `struct fi_eq_attr`.
pub struct EqRequest<'a> {
    pub size: usize,
    pub flags: u64,
    pub wait_obj: fi_wait_obj,
    pub wait_set: Option<Other<'a>>,
    /// With FI_PEER: the owner's queue.
    pub owner: Option<PeerEq>,
}

pub trait FabricCalls: Kind<Head = fid_fabric> {
    fn api_version(&self) -> u32;
    /// Whether domains and event queues belong to another provider: fi_peer(3), FI_PEER.
    fn is_peer(&self) -> bool {
        false
    }
    /// `serialized`: the application observes the threading level that `info` requests.
    fn open_domain(
        &self,
        info: Info,
        serialized: Serialized,
        context: *mut c_void,
    ) -> Result<*mut fid_domain>;
    fn open_pep(&self, info: Info, context: *mut c_void) -> Result<*mut fid_pep>;
    fn open_eq(&self, request: EqRequest<'_>, context: *mut c_void) -> Result<*mut fid_eq>;
    fn open_wait(&self, wait_obj: fi_wait_obj) -> Result<*mut fid_wait>;
}

pub fn table<T: FabricCalls>() -> &'static fi_ops_fabric {
    &fi_ops_fabric {
        size: size_of::<fi_ops_fabric>(),
        domain: Some(domain::<T>),
        passive_ep: Some(passive_ep::<T>),
        eq_open: Some(eq_open::<T>),
        wait_open: Some(wait_open::<T>),
        trywait: Some(trywait),
        domain2: Some(domain2::<T>),
    }
}

/// # Safety
/// `fabric` must be NULL or open.
unsafe fn fabric<'a, T: FabricCalls>(fabric: *mut fid_fabric) -> Result<&'a T> {
    // SAFETY: promised by the caller.
    object(unsafe { handle::get::<T, fid_fabric>(fabric) })
}

unsafe extern "C" fn domain<T: FabricCalls>(
    f: *mut fid_fabric,
    info: *mut fi_info,
    dom: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_domain(3): an open fabric; `info` comes from fi_getinfo; `dom` gets the handle.
    status(unsafe {
        fabric::<T>(f).and_then(|fabric| {
            let info = Hints::read(info, Layout::of_api(fabric.api_version()))?;
            if info.domain.is_none() {
                return Err(Error::INVAL);
            }
            // SAFETY: fi_domain(3), threading and progress: with FI_THREAD_DOMAIN the application serializes the calls
            // of the data path, with unified control progress all calls. `info` contains what it requested.
            let serialized = Serialized::promise();
            store(dom, || fabric.open_domain(info.into(), serialized, context))
        })
    })
}

unsafe extern "C" fn domain2<T: FabricCalls>(
    f: *mut fid_fabric,
    info: *mut fi_info,
    dom: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    match flags {
        // SAFETY: the caller's promise, passed on.
        0 => unsafe { domain::<T>(f, info, dom, context) },
        FI_PEER => {
            // SAFETY: fi_peer(3): an open fabric, and the context of the owner, which is for this call only.
            let checked = unsafe {
                fabric::<T>(f).and_then(|fabric| match fabric.is_peer() {
                    true => check_domain(context),
                    false => Err(Error::INVAL),
                })
            };
            match checked {
                // SAFETY: the caller's promise, passed on.
                Ok(()) => unsafe { domain::<T>(f, info, dom, core::ptr::null_mut()) },
                Err(error) => error.negative(),
            }
        }
        _ => Error::BADFLAGS.negative(),
    }
}

unsafe extern "C" fn passive_ep<T: FabricCalls>(
    f: *mut fid_fabric,
    info: *mut fi_info,
    pep: *mut *mut fid_pep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_endpoint(3): an open fabric; `info` comes from fi_getinfo; `pep` gets the handle.
    status(unsafe {
        fabric::<T>(f).and_then(|fabric| {
            let info = Info::read(info, Layout::of_api(fabric.api_version()))?;
            store(pep, || fabric.open_pep(info, context))
        })
    })
}

unsafe extern "C" fn eq_open<T: FabricCalls>(
    f: *mut fid_fabric,
    attr: *mut fi_eq_attr,
    eq: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_eq(3): an open fabric; `attr` is NULL or readable; `eq` gets the handle.
    status(unsafe {
        fabric::<T>(f).and_then(|fabric| {
            let attr = opt(attr).ok_or(Error::INVAL)?;
            let request = EqRequest {
                size: attr.size,
                flags: attr.flags,
                wait_obj: attr.wait_obj,
                wait_set: wait_set(attr.wait_set, attr.wait_obj)?,
                owner: match attr.flags & FI_PEER {
                    0 => None,
                    _ if !fabric.is_peer() => return Err(Error::INVAL),
                    _ => Some(PeerEq::import(context)?),
                },
            };
            store(eq, || fabric.open_eq(request, context))
        })
    })
}

unsafe extern "C" fn wait_open<T: FabricCalls>(
    f: *mut fid_fabric,
    attr: *mut fi_wait_attr,
    waitset: *mut *mut fid_wait,
) -> c_int {
    // SAFETY: fi_poll(3): an open fabric; `attr` is NULL or readable; `waitset` gets the handle.
    status(unsafe {
        fabric::<T>(f).and_then(|fabric| match opt(attr) {
            Some(attr) if attr.flags == 0 => store(waitset, || fabric.open_wait(attr.wait_obj)),
            _ => Err(Error::INVAL),
        })
    })
}

/// fi_trywait: returns FI_EAGAIN if any of the objects has something to read; otherwise a thread may wait on each.
unsafe extern "C" fn trywait(f: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int {
    if f.is_null() || count < 0 || (fids.is_null() && count > 0) {
        return Error::INVAL.negative();
    }
    for i in 0..count as usize {
        // SAFETY: fi_poll(3): an array of `count` open objects.
        if let Err(error) = unsafe { live::trywait(*fids.add(i)) } {
            return error.negative();
        }
    }
    0
}
