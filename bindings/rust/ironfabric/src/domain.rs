// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Domains: fi_domain(3).

use core::marker::PhantomData;
use core::mem::forget;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use ironfabric_sys::*;

use crate::buffer::Registry;
use crate::error::{Error, Result};
use crate::fabric::{Fabric, FabricInner};
use crate::handle::{Raw, Shared, Threads, slot};
use crate::info::{Info, MrMode};

/// A domain: a network interface, or several as one. fi_domain(3)
///
/// A clone is another reference to the same domain. The parameter is the thread model.
pub struct Domain<T: Threads = Shared>(pub(crate) Arc<DomainInner>, pub(crate) PhantomData<T>);

pub(crate) struct DomainInner {
    pub raw: Raw<fid_domain>,
    pub fabric: Arc<FabricInner>,
    pub mr_mode: MrMode,
    /// All buffers of the domain.
    pub buffers: Registry,
    name: String,
    /// The key that the next region requests.
    key: AtomicU64,
}

impl<T: Threads> Domain<T> {
    /// Opens the domain of an entry: fi_domain(3).
    ///
    /// `INVAL`: the entry is not one of this fabric; its thread model allows less than `T` (see [`Hints::local`]); it
    /// has a duty that this crate does not fulfil.
    ///
    /// [`Hints::local`]: crate::Hints::local
    pub fn open(fabric: &Fabric, info: &Info) -> Result<Domain<T>> {
        fabric.0.check(info)?;
        let attr = info.domain_attr().ok_or(Error::INVAL)?;
        // SAFETY: a part of the entry; the members exist in all versions; all members of the union are the same.
        let (threading, progress, management) = unsafe {
            (
                (*attr).threading,
                (*attr).anonymous.progress,
                (*attr).resource_mgmt,
            )
        };
        let allowed = threading == FI_THREAD_SAFE || threading == T::LEVEL;
        let other_modes = info.get().mode & !(FI_CONTEXT | FI_CONTEXT2);
        if !allowed
            || progress == FI_PROGRESS_CONTROL_UNIFIED
            || management == FI_RM_DISABLED
            || !MrMode::SUPPORTED.contains(info.mr_mode())
            || other_modes != 0
        {
            return Err(Error::INVAL);
        }
        let parent = fabric.0.raw.get();
        let mut domain = null_mut();
        // SAFETY: the fabric is open and kept; the entry is read during the call; `domain` is written on success.
        let raw = unsafe {
            let call = slot!((*parent).ops, fi_ops_fabric, domain)?;
            let code = call(parent, info.raw(), &raw mut domain, null_mut());
            Raw::opened(code, domain)?
        };
        let inner = DomainInner {
            raw,
            fabric: fabric.0.clone(),
            mr_mode: info.mr_mode(),
            buffers: Registry::default(),
            name: info.domain().into(),
            key: AtomicU64::new(1),
        };
        Ok(Domain(Arc::new(inner), PhantomData))
    }
}

impl DomainInner {
    /// Checks that an entry is one of this domain.
    pub fn check(&self, info: &Info) -> Result {
        self.fabric.check(info)?;
        match info.domain() == self.name {
            true => Ok(()),
            false => Err(Error::INVAL),
        }
    }

    /// Returns a key that no other region of the domain has requested.
    pub fn next_key(&self) -> u64 {
        self.key.fetch_add(1, Ordering::Relaxed)
    }
}

impl<T: Threads> Clone for Domain<T> {
    fn clone(&self) -> Domain<T> {
        Domain(self.0.clone(), PhantomData)
    }
}

impl Drop for DomainInner {
    fn drop(&mut self) {
        // SAFETY: every object of the domain holds a reference to it, and this was the last one.
        if unsafe { self.raw.close() }.is_err() {
            forget(self.fabric.clone());
        }
    }
}
