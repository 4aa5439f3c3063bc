// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider `ofi_rxd`: reliable endpoints (FI_EP_RDM) over the DGRAM endpoints of another provider, see fi_rxd(7).
//! The wire format is the one of any libfabric: docs/wire/rxd.md.
//!
//! `info` computes the entries offered over those of the providers below, `params` reads the FI_OFI_RXD_ variables.
//! `proto` encodes packets, `session` holds the protocol state between two endpoints, and `port` all sessions of one
//! endpoint; these three do no I/O. `domain` is the transport and `endpoint` one endpoint of it, over the objects of
//! the provider below in `fabric` and `lower`.

mod domain;
mod endpoint;
mod fabric;
mod info;
mod lower;
mod params;
mod port;
pub mod proto;
mod session;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use core::ffi::c_void;
use std::sync::OnceLock;

use self::params::Params;
use super::{Below, Provider};
use base::info::{Answer, FabricAttr, Query};
use base::log::Source;
use base::{Error, Result};
use engine::fabric::Fabric;

/// Log source and variable prefix of this provider.
pub static SOURCE: Source = Source::new(c"ofi_rxd");

/// The provider as it is registered.
pub struct Rxd;

/// The settings of this process.
fn params() -> &'static Params {
    static PARAMS: OnceLock<Params> = OnceLock::new();
    PARAMS.get_or_init(Params::read)
}

impl Provider for Rxd {
    fn source(&self) -> &'static Source {
        &SOURCE
    }

    fn version(&self) -> u32 {
        abi::release::PROVIDER_VERSION
    }

    fn define_params(&self) {
        Params::define();
    }

    fn offers(&self, query: &Query, below: &dyn Below) -> Answer {
        info::offers(query, below)
    }

    fn open_fabric(
        &self,
        attr: &FabricAttr,
        api_version: u32,
        flags: u64,
        context: *mut c_void,
        below: &dyn Below,
    ) -> Result<*mut abi::fid_fabric> {
        // fi_fabric2 defines flags only for providers that can be peers of other providers.
        if flags != 0 {
            return Err(Error::INVAL);
        }
        let lower = fabric::open(attr, below, params())?;
        Fabric::<domain::Rxd>::open(lower, attr, api_version, context)
    }
}
