// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Which providers exist, in which order they are asked, and which of them may answer: fi_getinfo(3), fi_fabric(3).

mod below;
mod filter;
mod getinfo;
pub mod names;
mod open;
mod order;

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use crate::base::log::{CORE, Subsys, log_warn};
use crate::base::params;
use crate::base::settings::Settings;
use crate::prov::{Provider, shm, tcp, udp};

pub use getinfo::getinfo;
pub use open::open_fabric;

/// The providers of the library, in the order in which FI_PROV_ATTR_ONLY shows them.
fn own() -> Vec<Box<dyn Provider>> {
    vec![
        Box::new(shm::Shm),
        Box::new(udp::Udp),
        Box::new(tcp::Tcp),
        Box::new(shm::Sm2),
        #[cfg(feature = "layered")]
        Box::new(crate::layered::Layered),
    ]
}

/// All providers, with their variables defined after those of the library. Which there are is settled by the first
/// call.
pub fn providers() -> &'static [Box<dyn Provider>] {
    static PROVIDERS: OnceLock<Vec<Box<dyn Provider>>> = OnceLock::new();
    static CHECKED: AtomicBool = AtomicBool::new(false);
    let providers = PROVIDERS.get_or_init(|| {
        Settings::get();
        let providers = own();
        for provider in &providers {
            provider.define_params();
        }
        providers
    });
    // Lines of the log may go to a callback that comes back here, so not within the call above. Relaxed: who comes
    // second leaves it to the first.
    if !CHECKED.swap(true, Ordering::Relaxed) {
        check_settings(providers);
    }
    providers
}

/// Says what in the environment is most likely misspelt.
fn check_settings(providers: &[Box<dyn Provider>]) {
    let names = providers.iter().map(|provider| provider.source().name());
    let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
    let there: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let variable = Settings::get().provider.as_deref();
    if let Some(complaint) = variable.and_then(|text| names::complaint(text, &there)) {
        log_warn!(&CORE, Subsys::Core, "{complaint}");
    }
    for (provider, name) in providers.iter().zip(there) {
        for variable in params::unknown(name) {
            log_warn!(
                provider.source(),
                Subsys::Core,
                "{variable} is no variable of {name}; `fi_info -g {name}` lists them"
            );
        }
    }
}
