// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_fabric(3): who opens a fabric, and which fabrics and domains are open already.
#![forbid(unsafe_code)]

use core::ffi::c_void;
use std::ffi::{CStr, CString};

use super::below::View;
use super::names::Wanted;
use super::providers;
use crate::abi;
use crate::base::info::{FabricAttr, Hints, Info};
use crate::base::log::{CORE, Subsys, log_warn};
use crate::base::{Error, Result};
use crate::ffi::live;
use crate::prov::Provider;

/// Opens the fabric that `attr` names, by the provider that it names.
pub fn open_fabric(
    attr: &FabricAttr,
    api_version: u32,
    flags: u64,
    context: *mut c_void,
) -> Result<*mut abi::fid_fabric> {
    let name = attr.prov_name.as_deref();
    let (Some(name), true) = (name, attr.name.is_some()) else {
        log_warn!(
            &CORE,
            Subsys::Fabric,
            "a fabric needs a name and a provider"
        );
        return Err(Error::INVAL);
    };
    let provider = find(name).ok_or(Error::NODEV)?;
    if attr.prov_version > provider.version() {
        log_warn!(
            provider.source(),
            Subsys::Fabric,
            "provider version {:#x} wanted, {:#x} is here",
            attr.prov_version,
            provider.version()
        );
        return Err(Error::NODATA);
    }
    let application = View::of_application(providers(), None);
    let below = application.below(provider);
    provider.open_fabric(attr, api_version, flags, context, &below)
}

fn find(name: &CStr) -> Option<&'static dyn Provider> {
    let wanted = name.to_string_lossy();
    if wanted.contains('^') {
        return None;
    }
    let wanted = Wanted::parse(Some(&wanted));
    let found = providers()
        .iter()
        .find(|provider| wanted.core(&provider.source().name().to_string_lossy()));
    if found.is_none() {
        log_warn!(&CORE, Subsys::Fabric, "no provider is called {name:?}");
    }
    found.map(AsRef::as_ref)
}

/// fi_fabric(3), fi_domain(3): hints that hold an open object restrict the entries to those of its name. A handle that is
/// not open any more, which copies of older entries may hold, restricts nothing.
pub fn restrict(entries: &mut Vec<Info>, hints: &Hints) {
    let fabric = hints.fabric.as_ref().map_or(0, |attr| attr.fabric);
    if let Some((provider, name)) = live::names_of(abi::FI_CLASS_FABRIC, fabric) {
        entries
            .retain(|info| is(&info.fabric.prov_name, &provider) && is(&info.fabric.name, &name));
    }
    let domain = hints.domain.as_ref().map_or(0, |attr| attr.domain);
    if let Some((provider, name)) = live::names_of(abi::FI_CLASS_DOMAIN, domain) {
        entries
            .retain(|info| is(&info.fabric.prov_name, &provider) && is(&info.domain.name, &name));
    }
}

fn is(name: &Option<CString>, wanted: &CStr) -> bool {
    name.as_deref() == Some(wanted)
}

/// fi_fabric(3), fi_domain(3): an entry points to the first opened object of its name.
pub fn find_open(entries: &mut [Info]) {
    for info in entries {
        let Some(provider) = info.fabric.prov_name.as_deref() else {
            continue;
        };
        if let Some(name) = info.fabric.name.as_deref() {
            info.fabric.fabric = live::find_named(abi::FI_CLASS_FABRIC, provider, name);
        }
        if let Some(name) = info.domain.name.as_deref() {
            info.domain.domain = live::find_named(abi::FI_CLASS_DOMAIN, provider, name);
        }
    }
}
