// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Which providers exist, in which order they are asked, and which of them may answer: fi_getinfo(3), fi_fabric(3).

mod getinfo;
pub mod names;
mod open;
mod order;

use std::sync::Once;

use crate::base::settings::Settings;
use crate::prov::{Provider, shm, tcp};

pub use getinfo::getinfo;
pub use open::open_fabric;

/// The one list of providers, in the order in which FI_PROV_ATTR_ONLY shows them.
static PROVIDERS: [&dyn Provider; 3] = [&shm::Shm, &tcp::Tcp, &shm::Sm2];

/// All providers, with their variables defined after those of the library.
pub fn providers() -> &'static [&'static dyn Provider] {
    static DEFINED: Once = Once::new();
    DEFINED.call_once(|| {
        Settings::get();
        for provider in PROVIDERS {
            provider.define_params();
        }
    });
    &PROVIDERS
}
