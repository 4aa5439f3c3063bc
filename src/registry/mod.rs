// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Which providers exist, in which order they are asked, and which of them may answer: fi_getinfo(3), fi_fabric(3).

mod getinfo;
pub mod names;
mod open;
mod order;

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Once;

use crate::base::log::{CORE, Subsys, log_warn};
use crate::base::params;
use crate::base::settings::Settings;
use crate::prov::{Provider, shm, tcp};

pub use getinfo::getinfo;
pub use open::open_fabric;

/// The one list of providers, in the order in which FI_PROV_ATTR_ONLY shows them.
static PROVIDERS: [&dyn Provider; 3] = [&shm::Shm, &tcp::Tcp, &shm::Sm2];

/// All providers, with their variables defined after those of the library.
pub fn providers() -> &'static [&'static dyn Provider] {
    static DEFINED: Once = Once::new();
    static CHECKED: AtomicBool = AtomicBool::new(false);
    DEFINED.call_once(|| {
        Settings::get();
        for provider in PROVIDERS {
            provider.define_params();
        }
    });
    // Lines of the log may go to a callback that comes back here, so not within the call above. Relaxed: who comes second
    // leaves it to the first.
    if !CHECKED.swap(true, Ordering::Relaxed) {
        check_settings();
    }
    &PROVIDERS
}

/// Says what in the environment is most likely misspelt.
fn check_settings() {
    let names = PROVIDERS.map(|provider| provider.source().name().to_string_lossy());
    let there = names.each_ref().map(AsRef::as_ref);
    let variable = Settings::get().provider.as_deref();
    if let Some(complaint) = variable.and_then(|text| names::complaint(text, &there)) {
        log_warn!(&CORE, Subsys::Core, "{complaint}");
    }
    for (provider, name) in PROVIDERS.iter().zip(there) {
        for variable in params::unknown(name) {
            log_warn!(
                provider.source(),
                Subsys::Core,
                "{variable} is no variable of {name}; `fi_info -g {name}` lists them"
            );
        }
    }
}
