// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoints and shared receive contexts: fi_endpoint(3). `msg`, `rma` and `atomic` have their operations, `cm` their
//! connections.

use core::ffi::{c_int, c_void};
use core::ptr::{null_mut, without_provenance_mut};
use std::sync::Arc;

use super::cq::Done;
use super::domain::Domain;
use super::handle::{Handle, Kept};
use super::info::Info;
use super::memory::{Buffer, InFlight};
use super::{count, posted, status};
use abi::*;
use base::{Error, Result};
use object::slots;

pub type Ep = Handle<fid_ep>;

/// A type of values of options of level FI_OPT_ENDPOINT.
///
/// # Safety
/// All bytes are valid values.
pub unsafe trait OptValue: Copy + Default {}
// SAFETY: an integer.
unsafe impl OptValue for usize {}
// SAFETY: an integer; also for options that store a C `bool` in an `int`.
unsafe impl OptValue for c_int {}
// SAFETY: an integer; also a C `bool`.
unsafe impl OptValue for u8 {}

impl Ep {
    /// Opens an active endpoint for `info`, which may be the entry of a connection request.
    pub fn open(domain: &Arc<Domain>, info: Info<'_>) -> Result<Arc<Ep>> {
        let mut ep = null_mut();
        // SAFETY: the domain is open and kept; the entry is read during the call; `ep` is written on success.
        unsafe {
            let parent = domain.as_ptr();
            let code = slots::domain::endpoint(parent, info.as_ptr(), &raw mut ep, null_mut());
            Handle::opened(code, ep, InFlight::default(), vec![domain.clone()])
        }
    }

    /// Opens a shared receive context. Endpoints are bound to it with `bind`.
    pub fn open_srx(domain: &Arc<Domain>, attr: Option<&fi_rx_attr>) -> Result<Arc<Ep>> {
        let attr = attr.map_or(null_mut(), |attr| core::ptr::from_ref(attr).cast_mut());
        let kept: Vec<Kept> = vec![domain.clone()];
        let mut srx = null_mut();
        // SAFETY: the domain is open and kept; the attributes are NULL or read during the call; `srx` is written on
        // success.
        unsafe {
            let code = slots::domain::srx_ctx(domain.as_ptr(), attr, &raw mut srx, null_mut());
            Handle::opened(code, srx, InFlight::default(), kept)
        }
    }

    /// Returns the value of an option.
    pub fn getopt<T: OptValue>(&self, name: c_int) -> Result<T> {
        let mut value = T::default();
        let mut len = size_of::<T>();
        // SAFETY: the endpoint is open; `len` is the size of `value`, whose type accepts any bytes.
        let code = unsafe {
            let at = (&raw mut value).cast();
            slots::ep::getopt(self.fid(), FI_OPT_ENDPOINT, name, at, &raw mut len)
        };
        status(code)?;
        (len == size_of::<T>()).then_some(value).ok_or(Error::INVAL)
    }

    pub fn setopt<T: OptValue>(&self, name: c_int, value: T) -> Result {
        let at = (&raw const value).cast::<c_void>();
        // SAFETY: the endpoint is open; the value is read during the call.
        status(unsafe { slots::ep::setopt(self.fid(), FI_OPT_ENDPOINT, name, at, size_of::<T>()) })
    }

    /// Starts the operations that FI_MORE has deferred; `NOSYS` if the provider does not have the call.
    pub fn tx_flush(&self) -> Result {
        // SAFETY: the endpoint is open.
        posted(unsafe { slots::ep::tx_flush(self.as_ptr(), 0) })
    }

    /// Cancels the operation that was posted with this context, if that is possible.
    pub fn cancel(&self, context: usize) -> Result {
        // SAFETY: the endpoint is open; the context is only compared, unless an operation has it.
        posted(unsafe { slots::ep::cancel(self.fid(), without_provenance_mut(context)) })
    }

    /// Returns how many more receives can be posted.
    pub fn rx_size_left(&self) -> Result<usize> {
        // SAFETY: the endpoint is open.
        count(unsafe { slots::ep::rx_size_left(self.as_ptr()) })
    }

    /// Returns how many more operations can be posted.
    pub fn tx_size_left(&self) -> Result<usize> {
        // SAFETY: the endpoint is open.
        count(unsafe { slots::ep::tx_size_left(self.as_ptr()) })
    }

    /// Returns the buffer of an operation that has ended; None if it has no buffer, or belongs to another endpoint.
    pub fn reclaim(&self, done: Done) -> Option<Buffer> {
        self.more().reclaim(done)
    }
}
