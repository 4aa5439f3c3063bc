// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider of a fabric: tcp, or another one over this transport under its own name.

use super::SOURCE;
use super::params::Params;
use crate::Alias;
use base::log::Source;

/// The provider and its settings.
#[derive(Clone)]
pub struct Site {
    /// Log source of the provider.
    pub source: &'static Source,
    /// Whether FI_EP_DGRAM endpoints are offered: they open like FI_EP_RDM ones, for messages only.
    pub datagrams: bool,
    /// See `Alias::answers_writes`.
    pub answers_writes: bool,
    pub set: Params,
}

impl Site {
    /// Returns the site of tcp itself.
    pub fn own() -> Site {
        Site {
            source: &SOURCE,
            datagrams: false,
            answers_writes: false,
            set: Params::read(),
        }
    }

    /// Returns the site of a provider with another name. Settings that it does not define come from the FI_TCP_
    /// variables.
    pub fn of(alias: &Alias) -> Site {
        let set = Params::read();
        Site {
            source: alias.source,
            datagrams: alias.datagrams,
            answers_writes: alias.answers_writes,
            set: Params {
                max_inject: alias.max_inject,
                max_rx_size: set.max_rx_size.max(alias.max_inject),
                max_saved_size: set.max_saved_size.max(alias.max_inject),
                conn_timeout: alias.conn_timeout.unwrap_or(set.conn_timeout),
                ..set
            },
        }
    }
}
