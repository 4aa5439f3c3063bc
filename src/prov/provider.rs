// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What the registry wants from each provider.
#![forbid(unsafe_code)]

use core::ffi::c_void;

use crate::abi;
use crate::base::Result;
use crate::base::info::{FabricAttr, Info, Query};

pub trait Provider: Sync {
    /// The name in `fi_fabric_attr.prov_name` and in `FI_PROVIDER`.
    fn name(&self) -> &'static str;

    /// Makes the provider's variables known, so that fi_getparams lists them.
    fn define_params(&self);

    /// The entries that satisfy the query, best first. What is refused is logged with its reason.
    fn offers(&self, query: &Query) -> Vec<Info>;

    /// fi_fabric(3).
    fn open_fabric(
        &self,
        attr: &FabricAttr,
        api_version: u32,
        flags: u64,
        context: *mut c_void,
    ) -> Result<*mut abi::fid_fabric>;
}
