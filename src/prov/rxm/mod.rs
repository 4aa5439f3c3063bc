// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider `ofi_rxm`: RDM endpoints over the MSG endpoints of another provider; fi_rxm(7). Its wire format is that
//! of any libfabric: docs/wire/rxm.md.
//!
//! - `info`: the entries that it offers over those of the provider below; `params`: the FI_OFI_RXM_ variables
//! - `proto`: the bytes of packets
//! - `session`: the protocol state between an endpoint and a peer; `sessions`: all of a domain, by endpoint (`port`)
//!   and address. These do no I/O
//! - `lower`: the objects of the provider below, which execute the requests of sessions; `fabric` opens them
//! - `state`: a domain, which has the sessions and the objects below; `domain`: calls from the engine; `post`: posted
//!   operations; `progress`: completions from below; `connect`: connection events from below; `tell`: reports

mod connect;
mod domain;
mod fabric;
mod info;
mod lower;
mod params;
mod port;
mod post;
mod progress;
pub mod proto;
mod session;
mod sessions;
mod state;
mod tell;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use core::ffi::c_void;
use std::sync::OnceLock;

use self::params::Params;
use super::{Below, Provider};
use base::info::{Answer, FabricAttr, Query};
use base::log::Source;
use base::{Error, Result};

/// Log source and variable prefix of this provider.
pub static SOURCE: Source = Source::new(c"ofi_rxm");

/// The provider in the registry's list.
pub struct Rxm;

/// The settings of this process.
fn params() -> &'static Params {
    static PARAMS: OnceLock<Params> = OnceLock::new();
    PARAMS.get_or_init(Params::read)
}

impl Provider for Rxm {
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
        fabric::open(attr, api_version, context, below, params())
    }
}

/// Size of a slot for a packet that consists of a header only.
const HEAD_SIZE: usize = proto::HEADER + proto::RENDEZVOUS_SIZE;
