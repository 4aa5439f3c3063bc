// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The interface between the registry and each provider.

use core::ffi::c_void;
use std::path::Path;

use base::info::{Answer, FabricAttr, Query};
use base::log::Source;
use base::{Error, Result};
use client::wrap::{self, Hooked};

/// The other providers, as a layered provider sees them.
pub trait Below {
    /// Returns the entries of other providers that satisfy the query, in the order of the registry, and the reasons for
    /// missing entries.
    fn offers(&self, query: &Query) -> Answer;
}

pub trait Provider: Send + Sync {
    /// The log source. Its name is the one in `fi_fabric_attr.prov_name` and in `FI_PROVIDER`.
    fn source(&self) -> &'static Source;

    /// `fi_fabric_attr.prov_version`.
    fn version(&self) -> u32;

    /// The file of a loadable provider.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// The newest interface version that the provider supports. The registry never requests a newer one.
    fn api(&self) -> u32 {
        u32::MAX
    }

    /// Defines the provider's variables, so that fi_getparams lists them. The registry calls this once, before all
    /// else.
    fn define_params(&self);

    /// Whether the user has set up the provider, for those that do nothing otherwise. The registry does not query
    /// others unless they are named, so that the log has no reasons why they are missing.
    fn is_set_up(&self) -> bool {
        true
    }

    /// Returns the entries that satisfy the query, best first, and the reasons for missing entries. The registry
    /// handles provider names. A layered provider finds its lower providers through `below`.
    fn offers(&self, query: &Query, below: &dyn Below) -> Answer;

    /// fi_fabric(3). A layered provider queries `below` for the entries with which it opens its lower objects.
    fn open_fabric(
        &self,
        attr: &FabricAttr,
        api_version: u32,
        flags: u64,
        context: *mut c_void,
        below: &dyn Below,
    ) -> Result<*mut abi::fid_fabric>;

    /// Whether this is a hook, fi_hook(7): it offers no entries, and wraps the objects of other providers.
    fn is_hook(&self) -> bool {
        false
    }

    /// Wraps a fabric that `hooked` has opened. Only for hooks. On failure the fabric is returned.
    fn hook(&self, fabric: wrap::Fabric, _hooked: &dyn Provider) -> Hooked {
        Err((fabric, Error::NOSYS))
    }

    /// The provider as a C struct, for hooks of plug-ins.
    fn raw(&self) -> &abi::fi_provider {
        self.source().provider()
    }

    /// Releases resources when the process ends.
    fn clean_up(&self) {}
}
