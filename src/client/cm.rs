// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Names and connections of endpoints, and endpoints that listen: fi_cm(3), fi_endpoint(3).

use core::ffi::{c_int, c_void};
use core::ptr::{null, null_mut};
use std::sync::Arc;

use super::av::{padded, sized};
use super::ep::Ep;
use super::fabric::Fabric;
use super::handle::{Handle, Object};
use super::info::Info;
use super::status;
use abi::*;
use base::Result;
use object::slots;

pub type PassiveEp = Handle<fid_pep>;

/// Objects with a table for fi_cm(3).
pub trait Named: Object {}
impl Named for fid_ep {}
impl Named for fid_pep {}

impl<T: Named> Handle<T> {
    /// Returns the local address.
    pub fn name(&self) -> Result<Vec<u8>> {
        // SAFETY: the endpoint is open; `sized` passes the size of its buffer.
        sized(|at, len| unsafe { slots::cm::getname(self.fid(), at, len) })
    }

    pub fn set_name(&self, address: &[u8]) -> Result {
        let mut padded = padded(address);
        // SAFETY: the endpoint is open; the buffer has this many bytes.
        status(unsafe { slots::cm::setname(self.fid(), padded.as_mut_ptr().cast(), address.len()) })
    }
}

impl Ep {
    /// Returns the address of the peer of a connection.
    pub fn peer(&self) -> Result<Vec<u8>> {
        // SAFETY: the endpoint is open; `sized` passes the size of its buffer.
        sized(|at, len| unsafe { slots::cm::getpeer(self.as_ptr(), at, len) })
    }

    /// Starts to connect; an event reports the result. The peer gets `data` with the request.
    pub fn connect(&self, address: &[u8], data: &[u8]) -> Result {
        let address = padded(address);
        let (param, len) = param(data);
        // SAFETY: the endpoint is open; address and data are read during the call.
        status(unsafe { slots::cm::connect(self.as_ptr(), address.as_ptr().cast(), param, len) })
    }

    /// Accepts the connection request that this endpoint was opened for; an event reports the result.
    pub fn accept(&self, data: &[u8]) -> Result {
        let (param, len) = param(data);
        // SAFETY: the endpoint is open; the data are read during the call.
        status(unsafe { slots::cm::accept(self.as_ptr(), param, len) })
    }

    /// Ends the connection.
    pub fn shutdown(&self) -> Result {
        // SAFETY: the endpoint is open.
        status(unsafe { slots::cm::shutdown(self.as_ptr(), 0) })
    }
}

impl PassiveEp {
    pub fn open(fabric: &Arc<Fabric>, info: Info<'_>) -> Result<Arc<PassiveEp>> {
        let mut pep = null_mut();
        // SAFETY: the fabric is open and kept; the entry is read during the call; `pep` is written on success.
        unsafe {
            let parent = fabric.as_ptr();
            let code = slots::fabric::passive_ep(parent, info.as_ptr(), &raw mut pep, null_mut());
            Handle::opened(code, pep, (), vec![fabric.clone()])
        }
    }

    pub fn listen(&self) -> Result {
        // SAFETY: the endpoint is open.
        status(unsafe { slots::cm::listen(self.as_ptr()) })
    }

    /// Refuses the request that `info` belongs to. The peer gets `data`.
    pub fn reject(&self, info: Info<'_>, data: &[u8]) -> Result {
        let (param, len) = param(data);
        // SAFETY: the endpoint is open; the handle is the request's; the data are read during the call.
        status(unsafe { slots::cm::reject(self.as_ptr(), info.raw().handle, param, len) })
    }

    /// Sets the number of requests that may wait.
    pub fn set_backlog(&self, backlog: c_int) -> Result {
        let mut backlog = backlog;
        // SAFETY: fi_control(3): the argument of FI_BACKLOG is an int.
        unsafe { self.control(FI_BACKLOG, (&raw mut backlog).cast()) }
    }
}

/// Converts data for the peer to its C form.
fn param(data: &[u8]) -> (*const c_void, usize) {
    match data {
        [] => (null(), 0),
        data => (data.as_ptr().cast(), data.len()),
    }
}
