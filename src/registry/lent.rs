// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One of this library's providers as a plug-in for another libfabric. The registry of that library handles names,
//! FI_PROVIDER and the order.

use core::ffi::{CStr, c_void};

use super::below::View;
use super::filter::PRIVATE;
use super::registered::Registered;
use super::{open, providers};
use abi::fid_fabric;
use base::info::{FabricAttr, Info, Query};
use base::log::{Subsys, log_info};
use base::{Error, Result};
use prov::Provider;

/// Returns the names of this library's providers, in order.
pub fn names() -> Vec<&'static CStr> {
    let all = providers().into_iter().flatten();
    all.map(|one| one.provider.source().name()).collect()
}

fn find(name: &CStr) -> Result<&'static dyn Provider> {
    let mut all = providers()?.iter();
    let found = all.find(|one| one.provider.source().name() == name);
    found
        .map(|one: &Registered| &*one.provider)
        .ok_or(Error::NODEV)
}

/// Returns the provider's entries for the query, without a name: the other library adds it.
pub fn getinfo(name: &CStr, query: &Query) -> Result<Vec<Info>> {
    let provider = find(name)?;
    let query = Query {
        flags: query.flags & !PRIVATE,
        ..*query
    };
    let view = View::of_application(providers()?, None);
    let answer = provider.offers(&query, &view.below(provider));
    for reason in &answer.reasons {
        log_info!(provider.source(), Subsys::Core, "{reason}");
    }
    let mut entries = answer.entries;
    open::find_open(&mut entries);
    for info in &mut entries {
        info.fabric.prov_name = None;
    }
    match entries.is_empty() {
        true => Err(Error::NODATA),
        false => Ok(entries),
    }
}

/// fi_fabric(3).
pub fn open_fabric(
    name: &CStr,
    attr: &FabricAttr,
    context: *mut c_void,
) -> Result<*mut fid_fabric> {
    let provider = find(name)?;
    // The name may include a layer above the provider, and the version is that of the plug-in.
    let attr = FabricAttr {
        prov_name: Some(name.to_owned()),
        prov_version: provider.version(),
        ..attr.clone()
    };
    let view = View::of_application(providers()?, None);
    provider.open_fabric(&attr, attr.api_version, 0, context, &view.below(provider))
}
