// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Kinds of providers by their names: fi_provider(7).

/// Kind of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Core,
    /// `ofi_...`: layered upon other providers.
    Utility,
    /// `off_...`: queried only on explicit request.
    Offload,
    /// `lnx...`: the names in its entries are complete.
    Link,
    /// Never queried.
    Hook,
}

impl Kind {
    pub fn of(name: &str) -> Kind {
        let begins = |prefix: &str| {
            let start = name.get(..prefix.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        if begins("ofi_") {
            Kind::Utility
        } else if begins("off_") {
            Kind::Offload
        } else if begins("lnx") {
            Kind::Link
        } else {
            Kind::Core
        }
    }
}

/// Providers with a fixed position in the list, in its order. Other loadable providers follow, then this library's.
pub const KNOWN: [&str; 24] = [
    "efa",
    "psm2",
    "opx",
    "usnic",
    "verbs",
    "cxi",
    "psm3",
    "ucx",
    "ofi_rxm",
    "ofi_rxd",
    "shm",
    "udp",
    "tcp",
    "sockets",
    "net",
    "ofi_hook_perf",
    "ofi_hook_trace",
    "ofi_hook_profile",
    "ofi_hook_monitor",
    "ofi_hook_debug",
    "ofi_hook_noop",
    "ofi_hook_hmem",
    "ofi_hook_dmabuf_peer_mem",
    "off_coll",
];
