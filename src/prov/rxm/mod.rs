// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider `ofi_rxm`: RDM endpoints over the MSG endpoints of another provider; fi_rxm(7). Its peers are those of
//! any libfabric: docs/wire/rxm.md.
//!
//! `info` is what it offers over what is below, as data, `params` the FI_OFI_RXM_ variables, `proto` the bytes. `state`
//! is what is kept for a domain, over what `fabric` and `lower` have of the provider below; `domain` is what the engine
//! calls. `endpoint` and `conn` are endpoints and their peers, which `peers` finds, `connect` brings together and
//! `loss` parts. `send`, `announce`, `receive`, `rendezvous`, `rma` and `atomic` are what operations become; `flight`
//! is what is under way below, `posted` what waits there for packets, and `progress` hears of the end of both.
//! `waiting` limits the packets that wait here, for each peer. `counts` says what peers did to memory, by the counters
//! below that `tally` is about; `tell` writes dumps and the counters of fi_top.
#![forbid(unsafe_code)]

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
use crate::abi;
use crate::base::info::{Answer, FabricAttr, Query};
use crate::base::log::Source;
use crate::base::{Error, Result};

/// Who logs and owns the FI_OFI_RXM_ variables.
pub static SOURCE: Source = Source::new(c"ofi_rxm");

/// The provider as the registry knows it.
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
        // fi_fabric2 knows flags only for providers that can be peers of others.
        if flags != 0 {
            return Err(Error::INVAL);
        }
        fabric::open(attr, api_version, context, below, params())
    }
}

/// Room of a slot for a packet that is all header.
const HEAD_SIZE: usize = proto::HEADER + proto::RENDEZVOUS_SIZE;
