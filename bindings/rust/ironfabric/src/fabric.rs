// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Fabrics: fi_fabric(3).

use core::ptr::null_mut;
use std::sync::Arc;

use ironfabric_sys::fid_fabric;

use crate::error::{Error, Result};
use crate::handle::Raw;
use crate::info::{Info, library};

/// A fabric: domains and event queues that can be used together. fi_fabric(3)
///
/// A clone is another reference to the same fabric. The fabric is closed when the last reference is dropped, including
/// those of objects that were opened on it.
#[derive(Clone)]
pub struct Fabric(pub(crate) Arc<FabricInner>);

pub(crate) struct FabricInner {
    pub raw: Raw<fid_fabric>,
    /// Provider and fabric of the entry.
    provider: String,
    name: String,
}

impl Fabric {
    /// Opens the fabric of an entry: fi_fabric(3).
    pub fn open(info: &Info) -> Result<Fabric> {
        let mut fabric = null_mut();
        // SAFETY: the attributes are a part of the entry, and are read during the call; `fabric` is written on success.
        let raw = unsafe {
            let code = (library()?.fabric)(info.get().fabric_attr, &raw mut fabric, null_mut());
            Raw::opened(code, fabric)?
        };
        Ok(Fabric(Arc::new(FabricInner {
            raw,
            provider: info.provider().into(),
            name: info.fabric().into(),
        })))
    }
}

impl FabricInner {
    /// Checks that an entry is one of this fabric. A provider may trust entries that are its own.
    pub fn check(&self, info: &Info) -> Result {
        match info.provider() == self.provider && info.fabric() == self.name {
            true => Ok(()),
            false => Err(Error::INVAL),
        }
    }
}

impl Drop for FabricInner {
    fn drop(&mut self) {
        // SAFETY: every object of the fabric holds a reference to it, and this was the last one.
        let _ = unsafe { self.raw.close() };
    }
}
