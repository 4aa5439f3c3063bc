// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! FI_HMEM in entries of providers that have it only if a device is there: fi_getinfo(3).

use base::info::{Info, Query};
use base::settings::Settings;
use base::{Caps, MrMode};

/// FI_HMEM, if the hints request it and there is a driver of a device. Only then is its library opened.
pub fn capability(query: &Query) -> Caps {
    if !query
        .hints
        .is_some_and(|hints| hints.caps.contains(Caps::HMEM))
    {
        return Caps::empty();
    }
    hmem::driver::allow(|kind| Settings::get().wants_hmem(kind));
    match hmem::driver::all().next() {
        Some(_) => Caps::HMEM,
        None => Caps::empty(),
    }
}

/// Adds FI_MR_HMEM to an entry with FI_HMEM if the hints offer it. It is not required: memory without a descriptor is
/// looked up.
pub fn add_mode(info: &mut Info, query: &Query) {
    let domain = query.hints.and_then(|hints| hints.domain.as_ref());
    let offered = domain.map_or(MrMode::empty(), |domain| domain.mr_mode);
    let is_asked = offered != MrMode::UNSPEC && offered.contains(MrMode::HMEM);
    if is_asked && info.caps.contains(Caps::HMEM) {
        info.domain.mr_mode |= MrMode::HMEM;
    }
}
