// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_cm`: fi_cm(3).

use core::ffi::{c_int, c_void};

use crate::AddrForm;
use crate::handle::{self, Kind, Other};
use crate::ops::av::{fill_sized, fitted};
use crate::ops::missing::Missing;
use crate::ops::{object, status};
use crate::user;
use abi::*;
use base::{Error, Result};

/// The arguments of fi_join_collective.
pub struct Join<'a> {
    pub set: Other<'a>,
    pub coll_addr: u64,
    pub flags: u64,
}

/// Calls on endpoints and passive endpoints; each supports some of them.
pub trait CmCalls: Kind {
    /// Returns the local address as the provider's bytes.
    fn name(&self) -> Result<Vec<u8>>;
    /// Returns the same, in a shorter form if only that has no more bytes than `room`.
    fn name_within(&self, _room: usize) -> Result<Vec<u8>> {
        self.name()
    }
    fn set_name(&self, _addr: &[u8]) -> Result {
        Err(Error::NOSYS)
    }
    fn peer(&self) -> Result<Vec<u8>> {
        Err(Error::NOSYS)
    }
    fn addr_form(&self) -> AddrForm;
    fn connect(&self, _addr: Option<&[u8]>, _param: &[u8]) -> Result {
        Err(Error::NOSYS)
    }
    fn listen(&self) -> Result {
        Err(Error::NOSYS)
    }
    fn accept(&self, _param: &[u8]) -> Result {
        Err(Error::NOSYS)
    }
    fn reject(&self, _handle: Other<'_>, _param: &[u8]) -> Result {
        Err(Error::NOSYS)
    }
    fn shutdown(&self, _flags: u64) -> Result {
        Err(Error::NOSYS)
    }
    fn join(&self, _join: &Join<'_>, _context: *mut c_void) -> Result<*mut fid_mc> {
        Err(Error::NOSYS)
    }
    /// fi_join of a multicast address; `None` if there is no address in the endpoint's format.
    fn join_multicast(
        &self,
        _addr: Option<&[u8]>,
        _flags: u64,
        _context: *mut c_void,
    ) -> Result<*mut fid_mc> {
        Err(Error::NOSYS)
    }
}

pub fn table<T: CmCalls>() -> &'static fi_ops_cm {
    &fi_ops_cm {
        size: size_of::<fi_ops_cm>(),
        setname: Some(setname::<T>),
        getname: Some(getname::<T>),
        getpeer: Some(getpeer::<T>),
        connect: Some(connect::<T>),
        listen: Some(listen::<T>),
        accept: Some(accept::<T>),
        reject: Some(reject::<T>),
        shutdown: Some(shutdown::<T>),
        join: Some(join::<T>),
    }
}

pub static NONE: fi_ops_cm = Missing::TABLE;

/// # Safety
/// `fid` must be NULL or an open endpoint of this type.
unsafe fn ep<'a, T: CmCalls, H>(fid: *mut H) -> Result<&'a T> {
    // SAFETY: promised by the caller.
    object(unsafe { handle::get::<T, H>(fid) })
}

unsafe extern "C" fn setname<T: CmCalls>(fid: fid_t, addr: *mut c_void, addrlen: usize) -> c_int {
    // SAFETY: an open endpoint; `addr` has `addrlen` bytes.
    status(unsafe {
        ep::<T, _>(fid).and_then(|ep| {
            if addr.is_null() {
                return Err(Error::INVAL);
            }
            ep.set_name(user::bytes(addr, addrlen)?)
        })
    })
}

/// # Safety
/// `addrlen` must be NULL or have the size of the buffer at `addr`.
unsafe fn give(name: Result<Vec<u8>>, addr: *mut c_void, addrlen: *mut usize) -> c_int {
    if addrlen.is_null() {
        return Error::INVAL.negative();
    }
    // SAFETY: promised by the caller.
    fitted(name.and_then(|name| unsafe { fill_sized(&name, addr, addrlen) }))
}

unsafe extern "C" fn getname<T: CmCalls>(
    fid: fid_t,
    addr: *mut c_void,
    addrlen: *mut usize,
) -> c_int {
    // SAFETY: an open endpoint; `addr` and `addrlen` as fi_cm(3) requires.
    unsafe {
        let room = match addr.is_null() || addrlen.is_null() {
            true => 0,
            false => *addrlen,
        };
        let name = ep::<T, _>(fid).and_then(|ep| ep.name_within(room));
        give(name, addr, addrlen)
    }
}

unsafe extern "C" fn getpeer<T: CmCalls>(
    e: *mut fid_ep,
    addr: *mut c_void,
    addrlen: *mut usize,
) -> c_int {
    // SAFETY: an open endpoint; `addr` and `addrlen` as fi_cm(3) requires.
    unsafe { give(ep::<T, _>(e).and_then(T::peer), addr, addrlen) }
}

unsafe extern "C" fn connect<T: CmCalls>(
    e: *mut fid_ep,
    addr: *const c_void,
    param: *const c_void,
    paramlen: usize,
) -> c_int {
    // SAFETY: fi_cm(3): an open endpoint; `addr` is NULL or an address in the endpoint's format, `param` has `paramlen`
    // bytes; the caller changes neither during the call.
    status(unsafe {
        ep::<T, _>(e).and_then(|ep| {
            let addr = match addr.is_null() {
                true => None,
                false => Some(ep.addr_form().read(addr)?),
            };
            ep.connect(addr, user::bytes(param, paramlen)?)
        })
    })
}

unsafe extern "C" fn listen<T: CmCalls>(pep: *mut fid_pep) -> c_int {
    // SAFETY: an open passive endpoint.
    status(unsafe { ep::<T, _>(pep) }.and_then(T::listen))
}

unsafe extern "C" fn accept<T: CmCalls>(
    e: *mut fid_ep,
    param: *const c_void,
    paramlen: usize,
) -> c_int {
    // SAFETY: an open endpoint; `param` has `paramlen` bytes.
    status(unsafe { ep::<T, _>(e).and_then(|ep| ep.accept(user::bytes(param, paramlen)?)) })
}

unsafe extern "C" fn reject<T: CmCalls>(
    pep: *mut fid_pep,
    handle: fid_t,
    param: *const c_void,
    paramlen: usize,
) -> c_int {
    // SAFETY: an open passive endpoint; the handle of a connection request; `param` has `paramlen` bytes.
    status(unsafe {
        ep::<T, _>(pep)
            .and_then(|pep| pep.reject(Other::new(handle), user::bytes(param, paramlen)?))
    })
}

unsafe extern "C" fn shutdown<T: CmCalls>(e: *mut fid_ep, flags: u64) -> c_int {
    // SAFETY: an open endpoint.
    status(unsafe { ep::<T, _>(e) }.and_then(|ep| ep.shutdown(flags)))
}

unsafe extern "C" fn join<T: CmCalls>(
    e: *mut fid_ep,
    addr: *const c_void,
    flags: u64,
    mc: *mut *mut fid_mc,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_cm(3): an open endpoint; with FI_COLLECTIVE `addr` is a `struct fi_collective_addr`, whose set stays
    // open during the call, otherwise an address in the endpoint's format; `mc` receives the handle.
    status(unsafe {
        ep::<T, _>(e).and_then(|ep| {
            if flags & FI_COLLECTIVE == 0 {
                let addr = ep.addr_form().read(addr).ok();
                return user::store(mc, || ep.join_multicast(addr, flags, context));
            }
            let addr = user::opt(addr.cast::<fi_collective_addr>()).ok_or(Error::INVAL)?;
            let join = Join {
                set: Other::new(addr.set.cast_mut().cast()),
                coll_addr: addr.coll_addr,
                flags,
            };
            user::store(mc, || ep.join(&join, context))
        })
    })
}
