// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What the domains of a fabric know of the provider that it belongs to: this one, or one that has this transport under
//! a name of its own.
#![forbid(unsafe_code)]

use super::SOURCE;
use super::params::Params;
use crate::base::log::Source;
use crate::prov::Alias;

/// The provider and its settings.
#[derive(Clone)]
pub struct Site {
    /// Who logs.
    pub source: &'static Source,
    /// FI_EP_DGRAM endpoints are opened as FI_EP_RDM ones are, for messages alone.
    pub datagrams: bool,
    /// As `Alias::answers_writes`.
    pub answers_writes: bool,
    pub set: Params,
}

impl Site {
    /// Of tcp itself.
    pub fn own() -> Site {
        Site {
            source: &SOURCE,
            datagrams: false,
            answers_writes: false,
            set: Params::read(),
        }
    }

    /// Of a provider with another name. What it does not say is as the FI_TCP_ variables have it.
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
