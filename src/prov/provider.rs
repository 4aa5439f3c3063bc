// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What the registry wants from each provider.
#![forbid(unsafe_code)]

use core::ffi::c_void;
use std::path::Path;

use crate::abi;
use crate::base::info::{Answer, FabricAttr, Query};
use crate::base::log::Source;
use crate::base::{Error, Result};
use crate::ffi::wrap;

/// The other providers, as one of them sees them that builds upon others.
pub trait Below {
    /// The entries of those that satisfy the query, in the order of the registry, and why others do not.
    fn offers(&self, query: &Query) -> Answer;
}

pub trait Provider: Send + Sync {
    /// Who logs. Its name is that in `fi_fabric_attr.prov_name` and in `FI_PROVIDER`.
    fn source(&self) -> &'static Source;

    /// `fi_fabric_attr.prov_version`.
    fn version(&self) -> u32;

    /// Of a loadable one: its file.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// The interface that its structs follow. It is not asked for a newer one.
    fn api(&self) -> u32 {
        u32::MAX
    }

    /// Makes the provider's variables known, so that fi_getparams lists them. Called once, before all else.
    fn define_params(&self);

    /// The entries that satisfy the query, best first, and why others do not. Names of providers are the registry's
    /// business. A layered provider finds in `below` what it can build upon.
    fn offers(&self, query: &Query, below: &dyn Below) -> Answer;

    /// fi_fabric(3). A layered provider asks `below` for the entries that it opens the objects below with.
    fn open_fabric(
        &self,
        attr: &FabricAttr,
        api_version: u32,
        flags: u64,
        context: *mut c_void,
        below: &dyn Below,
    ) -> Result<*mut abi::fid_fabric>;

    /// A hook, fi_hook(7): it offers nothing, and puts objects of its own around those of others.
    fn is_hook(&self) -> bool {
        false
    }

    /// Of a hook: what it makes of a fabric that `hooked` has opened.
    fn hook(&self, _fabric: wrap::Fabric, _hooked: &dyn Provider) -> Result<wrap::Fabric> {
        Err(Error::NOSYS)
    }

    /// The provider as C's structs describe it, for hooks of others.
    fn raw(&self) -> *const abi::fi_provider {
        self.source().provider()
    }

    /// The process ends.
    fn clean_up(&self) {}
}
