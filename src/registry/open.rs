// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_fabric(3): opens fabrics, and finds fabrics and domains that are open already.

use core::ffi::c_void;
use std::ffi::{CStr, CString};

use super::below::View;
use super::kind::Kind;
use super::providers;
use super::registered::Registered;
use base::info::{FabricAttr, Hints, Info};
use base::log::{CORE, Subsys, log_warn};
use base::{Error, Result};
use client::wrap::innermost;
use object::live;
use prov::Provider;

/// Opens the fabric that `attr` names with the provider that it names; returns both.
pub fn open_fabric(
    attr: &FabricAttr,
    api_version: u32,
    flags: u64,
    context: *mut c_void,
) -> Result<(*mut abi::fid_fabric, &'static dyn Provider)> {
    let name = attr.prov_name.as_deref();
    let (Some(name), true) = (name, attr.name.is_some()) else {
        log_warn!(
            &CORE,
            Subsys::Fabric,
            "a fabric needs a name and a provider"
        );
        return Err(Error::INVAL);
    };
    let provider = find(name)?.ok_or(Error::NODEV)?;
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
    let application = View::of_application(providers()?, None);
    let below = application.below(provider);
    let fabric = provider.open_fabric(attr, api_version, flags, context, &below)?;
    Ok((fabric, provider))
}

/// Returns the provider that is named last, regardless of FI_PROVIDER: the names before it are layers below.
fn find(name: &CStr) -> Result<Option<&'static dyn Provider>> {
    let wanted = name.to_string_lossy();
    let last = wanted.rsplit(';').next().unwrap_or_default();
    let counts =
        |other: &&Registered| !other.hidden && other.kind != Kind::Hook && other.is_called(last);
    let found = match wanted.contains('^') {
        true => None,
        false => providers()?.iter().find(counts),
    };
    if found.is_none() {
        log_warn!(&CORE, Subsys::Fabric, "no provider is called {name:?}");
    }
    Ok(found.map(|registered| &*registered.provider))
}

/// Restricts the entries to the names of the open objects in the hints (fi_fabric(3), fi_domain(3)). A handle that is
/// not open any more, which copies of older entries may hold, restricts nothing.
pub fn restrict(entries: &mut Vec<Info>, hints: &Hints) {
    let fabric = hints
        .fabric
        .as_ref()
        .map_or(0, |attr| innermost(attr.fabric));
    if let Some((provider, name)) = live::names_of(abi::FI_CLASS_FABRIC, fabric) {
        entries
            .retain(|info| is(&info.fabric.prov_name, &provider) && is(&info.fabric.name, &name));
    }
    let domain = hints
        .domain
        .as_ref()
        .map_or(0, |attr| innermost(attr.domain));
    if let Some((provider, name)) = live::names_of(abi::FI_CLASS_DOMAIN, domain) {
        entries
            .retain(|info| is(&info.fabric.prov_name, &provider) && is(&info.domain.name, &name));
    }
}

fn is(name: &Option<CString>, wanted: &CStr) -> bool {
    name.as_deref() == Some(wanted)
}

/// Sets the first open object of the same name in each entry (fi_fabric(3), fi_domain(3)).
pub fn find_open(entries: &mut [Info]) {
    // Loadable providers set those of their entries themselves.
    for info in entries.iter_mut().filter(|info| info.made.is_none()) {
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
