// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Domains: fi_domain(3).

use core::ptr::null_mut;
use std::sync::Arc;

use super::fabric::Fabric;
use super::handle::Handle;
use super::info::Info;
use super::status;
use abi::*;
use base::{Error, Result};
use object::slots;
use sync::Serialized;

pub type Domain = Handle<fid_domain>;

impl Domain {
    /// # Safety
    /// Threads call the domain and its objects concurrently only as far as the threading level and the control progress
    /// of the entry allow: fi_domain(3).
    pub unsafe fn open(fabric: &Arc<Fabric>, info: Info<'_>) -> Result<Arc<Domain>> {
        let mut domain = null_mut();
        // SAFETY: the fabric is open and kept; the entry is read during the call; `domain` is written on success.
        unsafe {
            let parent = fabric.as_ptr();
            let code = slots::fabric::domain(parent, info.as_ptr(), &raw mut domain, null_mut());
            Handle::opened(code, domain, (), vec![fabric.clone()])
        }
    }

    /// Opens a domain that one thread may call at a time, as its caller has been promised.
    pub fn open_serialized(
        fabric: &Arc<Fabric>,
        info: Info<'_>,
        _: Serialized,
    ) -> Result<Arc<Domain>> {
        // SAFETY: fi_domain(3), FI_THREAD_DOMAIN, which every level permits: the promise of the argument's maker.
        unsafe { Domain::open(fabric, info) }
    }

    /// Opens a domain that any number of threads may call. FI_EINVAL: the entry's threading level promises less.
    pub fn open_thread_safe(fabric: &Arc<Fabric>, info: Info<'_>) -> Result<Arc<Domain>> {
        let serialized = |attr: &fi_domain_attr| {
            // SAFETY: both members of the union have the same type.
            let progress = unsafe { attr.anonymous.progress };
            attr.threading != FI_THREAD_SAFE || progress == FI_PROGRESS_CONTROL_UNIFIED
        };
        if info.domain().is_none_or(serialized) {
            return Err(Error::INVAL);
        }
        // SAFETY: fi_domain(3): with this level, and without unified control progress, all threads may call at a time.
        unsafe { Domain::open(fabric, info) }
    }

    /// Returns the limit on elements of an atomic operation, and the size of an element: fi_atomic(3). `flags` selects
    /// the family.
    pub fn query_atomic(
        &self,
        datatype: fi_datatype,
        op: fi_op,
        flags: u64,
    ) -> Result<fi_atomic_attr> {
        let mut attr = fi_atomic_attr { count: 0, size: 0 };
        // SAFETY: the domain is open; `attr` is written during the call.
        status(unsafe {
            slots::domain::query_atomic(self.as_ptr(), datatype, op, &raw mut attr, flags)
        })?;
        Ok(attr)
    }
}
