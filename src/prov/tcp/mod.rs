// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider `tcp`: MSG and RDM endpoints over TCP sockets, see fi_tcp(7).
//!
//! `transport` is the state of a domain and what the engine calls; `ep` opens and names endpoints; `connect`, `accept`,
//! `msg`, `pep`, `alive` and `lose` make and end connections, `auth` and `keyed` those of endpoints with an authorization key;
//! `tx`, `flush`, `rx`, `rma`, `atomic`, `rendezvous` and `context` move bytes; `progress` decides which sockets are
//! looked at; `conn` is one peer; `proto` the bytes themselves.

mod accept;
pub mod addr;
mod alive;
mod atomic;
mod auth;
mod coll;
mod conn;
mod connect;
mod context;
mod ep;
mod fabric;
mod flush;
mod info;
mod keyed;
mod lose;
mod msg;
pub mod params;
mod pep;
mod progress;
pub mod proto;
mod rendezvous;
mod rma;
mod rx;
mod transport;
mod tx;

use core::ffi::c_void;
use std::sync::OnceLock;

use self::params::Params;
use super::Provider;
use crate::abi;
use crate::base::info::{Answer, FabricAttr, Query};
use crate::base::log::Source;
use crate::base::{Error, Result};

/// Who logs and owns the FI_TCP_ variables.
pub static SOURCE: Source = Source::new(c"tcp");

/// The provider as the registry knows it.
pub struct Tcp;

impl Tcp {
    /// The settings of this process.
    fn params(&self) -> &'static Params {
        static PARAMS: OnceLock<Params> = OnceLock::new();
        PARAMS.get_or_init(Params::read)
    }
}

impl Provider for Tcp {
    fn source(&self) -> &'static Source {
        &SOURCE
    }

    fn version(&self) -> u32 {
        info::VERSION
    }

    fn define_params(&self) {
        Params::define();
    }

    fn offers(&self, query: &Query) -> Answer {
        info::offers(query, self.params())
    }

    fn open_fabric(
        &self,
        attr: &FabricAttr,
        api_version: u32,
        flags: u64,
        context: *mut c_void,
    ) -> Result<*mut abi::fid_fabric> {
        // fi_fabric2 knows flags only for providers that can be peers of others.
        if flags != 0 {
            return Err(Error::INVAL);
        }
        fabric::open(attr, api_version, context)
    }
}
