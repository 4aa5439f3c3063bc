// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider `lnx`: links other providers to one, for example shared memory within a host and a network between
//! hosts. Each endpoint has an endpoint of every rail of its link; all of them receive into the same context, which
//! they use as peers: fi_peer(3). Names are those of any libfabric's lnx: docs/wire/lnx.md.
//!
//! - `params`, `links`: the FI_LNX_ variables; `info`: the entries; `fabric`: the links of a fabric
//! - `address`: names of endpoints; `book`: the addresses that they have on each rail
//! - `rails`: the objects of the providers below; `held`: the messages that peers hold, as their calls find them
//! - `stripes`, `lanes`, `note`: large messages over several rails; `unsorted`: notes and messages of collectives
//! - `domain`: calls from the engine; `post`: posted operations; `progress`: completions and arrivals;
//!   `tell`: peers in reports

mod address;
mod book;
mod domain;
mod fabric;
mod held;
mod info;
mod lanes;
mod links;
mod note;
mod params;
mod parts;
mod post;
mod progress;
mod rails;
mod regions;
mod stripes;
mod tell;
mod unsorted;

use core::ffi::c_void;
use std::sync::OnceLock;

use self::params::Params;
use super::{Below, Provider};
use base::info::{Answer, FabricAttr, Query};
use base::log::Source;
use base::{Error, Result};
use engine::fabric::Fabric;

/// Log source and variable prefix of this provider.
pub static SOURCE: Source = Source::new(c"lnx");

/// The provider in the registry's list.
pub struct Lnx;

/// The settings of this process.
fn params() -> &'static Params {
    static PARAMS: OnceLock<Params> = OnceLock::new();
    PARAMS.get_or_init(Params::read)
}

impl Provider for Lnx {
    fn source(&self) -> &'static Source {
        &SOURCE
    }

    fn version(&self) -> u32 {
        abi::release::PROVIDER_VERSION
    }

    fn define_params(&self) {
        Params::define();
    }

    fn is_set_up(&self) -> bool {
        params().links.is_some()
    }

    fn offers(&self, query: &Query, below: &dyn Below) -> Answer {
        info::offers(query, below, params())
    }

    fn open_fabric(
        &self,
        attr: &FabricAttr,
        api_version: u32,
        flags: u64,
        context: *mut c_void,
        below: &dyn Below,
    ) -> Result<*mut abi::fid_fabric> {
        // fi_fabric2 has flags only for providers that can be peers of others.
        if flags != 0 {
            return Err(Error::INVAL);
        }
        let links = fabric::open(below, params())?;
        Fabric::<domain::Linked>::open(links, attr, api_version, context)
    }
}
