// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory regions: fi_mr(3).

use core::ffi::c_void;
use core::ptr::null_mut;
use std::sync::Arc;

use super::domain::Domain;
use super::handle::{Handle, Kept};
use super::memory::Memory;
use abi::*;
use base::rights::UNCACHED;
use base::{Error, Result};
use object::slots;

pub type Mr = Handle<fid_mr>;

impl Mr {
    /// Registers all of `memory`, which stays as long as the region. The region needs no cache; a provider that does
    /// not know the flag for that is asked without it.
    pub fn register(
        domain: &Arc<Domain>,
        memory: &Arc<Memory>,
        access: u64,
        requested_key: u64,
    ) -> Result<Arc<Mr>> {
        match Mr::register_with(domain, memory, access, requested_key, UNCACHED) {
            Err(Error::BADFLAGS | Error::INVAL) => {
                Mr::register_with(domain, memory, access, requested_key, 0)
            }
            result => result,
        }
    }

    fn register_with(
        domain: &Arc<Domain>,
        memory: &Arc<Memory>,
        access: u64,
        requested_key: u64,
        flags: u64,
    ) -> Result<Arc<Mr>> {
        let (base, len) = (memory.base(), memory.len());
        let kept: Vec<Kept> = vec![domain.clone(), memory.clone()];
        let mut mr = null_mut();
        // SAFETY: the domain is open and kept, and so is the memory; its owner accesses it as memory that others write,
        // too. `mr` is written on success.
        unsafe {
            let (ops, key) = (domain.as_ptr().cast(), requested_key);
            let code = slots::mr::reg(
                ops,
                base,
                len,
                access,
                0,
                key,
                flags,
                &raw mut mr,
                null_mut(),
            );
            Handle::opened(code, mr, (), kept)
        }
    }

    /// fi_mr_regattr of memory that this library does not own.
    ///
    /// # Safety
    /// The attributes are as fi_mr(3) describes them. The memory may be read and written, as the access rights say,
    /// until the region is closed.
    pub unsafe fn register_attr(
        domain: &Arc<Domain>,
        attr: &fi_mr_attr,
        flags: u64,
    ) -> Result<Arc<Mr>> {
        let mut mr = null_mut();
        // SAFETY: the domain is open and kept; `mr` is written on success; the rest is promised by the caller.
        unsafe {
            let code = slots::mr::regattr(domain.as_ptr().cast(), attr, flags, &raw mut mr);
            Handle::opened(code, mr, (), vec![domain.clone()])
        }
    }

    /// Returns the key by which peers name the region.
    pub fn key(&self) -> u64 {
        // SAFETY: an open region has its key.
        unsafe { (*self.as_ptr()).key }
    }

    /// Returns the descriptor for operations on the region's memory.
    pub fn desc(&self) -> *mut c_void {
        // SAFETY: an open region has its descriptor.
        unsafe { (*self.as_ptr()).mem_desc }
    }
}
