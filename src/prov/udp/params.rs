// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The FI_UDP_ variables.

use super::SOURCE;
use base::params::{self, Given, Kind};

/// The settings of the provider, read once.
pub struct Params {
    /// The only interface whose addresses are offered, if it is set.
    pub iface: Option<String>,
}

impl Params {
    /// Defines the variables, in the order in which `fi_getparams` lists them.
    pub fn define() {
        params::define_all(&SOURCE, &VARIABLES);
    }

    /// Reads the settings from the environment. `define` must come first.
    pub fn read() -> Params {
        let iface = Given(&SOURCE).text("iface");
        Params {
            iface: iface.filter(|iface| !iface.is_empty()),
        }
    }
}

const VARIABLES: [(&str, Kind, &str); 1] = [(
    "iface",
    Kind::String,
    "name of the only network interface to use (default: all)",
)];
