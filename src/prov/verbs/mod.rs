// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider `verbs`: connected endpoints and datagram endpoints over RDMA devices (InfiniBand, RoCE, iWARP), see
//! fi_verbs(7). It is experimental: it was tested over a stand-in for rdma-core and on soft RoCE, not on adapters.
//!
//! `params` has the FI_VERBS_ variables. `adapter` finds the devices, `ib` has facts of InfiniBand, `place` finds the
//! device for the addresses of a query (`recent` has answers of some moments ago), `info` makes the entries, which
//! `affinity` orders.
//! `domain` is the transport, with its endpoints in `ep`; `ticket` numbers their work requests, `credits` counts
//! receives for peers. `pep` with `listeners` and `request` serves passive endpoints, `private` has the format of
//! private data.
//! `datagram` has the addresses of datagram endpoints, `names` the name server for them.

mod adapter;
mod affinity;
mod credits;
mod datagram;
mod domain;
mod ep;
mod health;
mod ib;
mod info;
mod listeners;
mod names;
mod params;
mod pep;
mod place;
mod private;
mod recent;
mod request;
mod ticket;

use core::ffi::c_void;
use std::sync::OnceLock;

use self::domain::Domain;
use self::params::Params;
use super::{Below, Provider};
use base::info::{Answer, FabricAttr, Query};
use base::log::Source;
use base::{Error, Result};
use engine::fabric::Fabric;

/// Log source, and prefix of the FI_VERBS_ variables.
pub static SOURCE: Source = Source::new(c"verbs");

/// The provider for the registry.
pub struct Verbs;

/// The settings of this process.
fn params() -> &'static Params {
    static PARAMS: OnceLock<Params> = OnceLock::new();
    PARAMS.get_or_init(Params::read)
}

impl Provider for Verbs {
    fn source(&self) -> &'static Source {
        &SOURCE
    }

    fn version(&self) -> u32 {
        abi::release::PROVIDER_VERSION
    }

    fn define_params(&self) {
        Params::define();
    }

    fn offers(&self, query: &Query, _below: &dyn Below) -> Answer {
        info::offers(query, params())
    }

    fn open_fabric(
        &self,
        attr: &FabricAttr,
        api_version: u32,
        flags: u64,
        context: *mut c_void,
        _below: &dyn Below,
    ) -> Result<*mut abi::fid_fabric> {
        // fi_fabric2 defines flags only for providers that can be peers of other providers.
        if flags != 0 {
            return Err(Error::INVAL);
        }
        Fabric::<Domain>::open((), attr, api_version, context)
    }
}
