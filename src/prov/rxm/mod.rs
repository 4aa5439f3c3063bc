// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider `ofi_rxm`: RDM endpoints over the MSG endpoints of another provider; fi_rxm(7). Its wire format is that
//! of any libfabric: docs/wire/rxm.md.
//!
//! - `info`: the entries that it offers over those of the provider below; `params`: the FI_OFI_RXM_ variables
//! - `proto`: the bytes of packets
//! - `fabric`, `lower`: the objects of the provider below; `state`: the state of a domain; `domain`: calls from the
//!   engine
//! - `endpoint`, `conn`: endpoints and their peers; `peers` looks peers up, `connect` connects and `loss` disconnects
//!   them
//! - `send`, `announce`, `receive`, `rendezvous`, `rma`, `atomic`: the kinds of operations
//! - `flight`: operations in flight below; `posted`: receives that are posted below; `progress`: completions from below
//! - `waiting`: limits on the packets that wait here, for each peer
//! - `counts`: accesses of peers to memory, from the counters of the provider below, which `tally` reads
//! - `tell`: dumps and the counters of fi_top

mod announce;
mod atomic;
mod conn;
mod connect;
mod contexts;
mod counts;
mod domain;
mod endpoint;
mod fabric;
mod flight;
mod info;
mod loss;
mod lower;
mod params;
mod peers;
mod posted;
mod progress;
pub mod proto;
mod receive;
mod rendezvous;
mod rma;
mod send;
mod state;
mod tally;
mod tell;
mod waiting;

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
