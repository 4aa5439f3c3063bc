// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Fabrics: fi_fabric(3), fi_trywait of fi_poll(3).

use core::ffi::c_int;
use core::ptr::null_mut;
use std::sync::Arc;

use super::handle::{AnyHandle, Handle};
use super::info::Info;
use super::status;
use crate::library::Library;
use abi::*;
use base::{Error, Result};
use object::slots;

pub type Fabric = Handle<fid_fabric>;

impl Fabric {
    pub fn open(info: Info<'_>) -> Result<Arc<Fabric>> {
        let attr = info.raw().fabric_attr;
        let mut fabric = null_mut();
        // SAFETY: fi_fabric(3): the attributes live as long as the entry; `fabric` is written on success. A fabric has
        // its own copy of what it needs.
        unsafe {
            let code = (Library::get().fabric)(attr, &raw mut fabric, null_mut());
            Handle::opened(code, fabric, (), vec![])
        }
    }

    /// Takes over a fabric that a test has opened in another way.
    ///
    /// # Safety
    /// `fabric` is NULL or open, and only this handle closes it.
    #[cfg(any(test, feature = "testing"))]
    pub unsafe fn adopt(fabric: *mut fid_fabric) -> Result<Arc<Fabric>> {
        // SAFETY: promised by the caller.
        unsafe { Handle::opened(0, fabric, (), vec![]) }
    }

    /// Checks whether a thread may sleep on the wait objects of these objects. FI_EAGAIN: there is something to read
    /// first.
    pub fn trywait(&self, objects: &[&dyn AnyHandle]) -> Result {
        let mut fids: Vec<*mut fid> = objects.iter().map(|object| object.any_fid()).collect();
        let count = c_int::try_from(fids.len()).map_err(|_| Error::INVAL)?;
        // SAFETY: fi_poll(3): the fabric and the objects are open; `count` of them are there.
        status(unsafe { slots::fabric::trywait(self.as_ptr(), fids.as_mut_ptr(), count) })
    }
}
