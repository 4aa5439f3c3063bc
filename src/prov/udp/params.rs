// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The FI_UDP_ variables.

use super::SOURCE;

base::params::variables! {
    /// The settings of the provider, read once.
    pub struct Params of SOURCE {
        /// The only interface whose addresses are offered, if it is set.
        iface: Option<String> = text(), "iface",
            "name of the only network interface to use (default: all)";
    }
}

impl Params {
    /// Reads the settings from the environment.
    pub fn read() -> Params {
        Params::given()
    }
}
