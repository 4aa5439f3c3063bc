// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider `tcp`: MSG and RDM endpoints over TCP sockets, see fi_tcp(7).
//!
//! `stream` has the protocol over the sockets. Here `net` is the connector; `ep` opens and names endpoints, on sockets
//! of `bound`. `connect`, `accept`, `msg`, `pep` with `acceptor`, and `alive` establish and watch connections, with the
//! messages of `exchange`; `verdict` decides on requests of peers. `handshake` is the state before a connection is up,
//! `auth` and `keyed` serve endpoints with an authorization key, and `same_host` serves peers on the same host.
//! `request` holds connection requests until they are answered, and `delayed` refuses forgotten ones. `site` has the
//! name and settings of a fabric's provider: tcp, or another one over this transport.

mod accept;
mod acceptor;
mod alive;
mod auth;
mod bound;
mod congestion;
mod connect;
mod delayed;
mod ep;
mod exchange;
mod fabric;
mod handshake;
mod info;
mod keyed;
mod msg;
mod net;
pub mod params;
mod pep;
mod request;
mod same_host;
mod site;
mod verdict;

use core::ffi::c_void;
use std::sync::OnceLock;

use self::params::Params;
use self::site::Site;
use super::{Below, Provider};
use base::info::{Answer, FabricAttr, Query};
use base::log::Source;
use base::{Error, Result};

pub use self::fabric::BACKING;

/// Log source and variable prefix of this provider.
pub static SOURCE: Source = Source::new(c"tcp");

/// The parts of a domain that the connector uses during a call.
type Desk<'a> = stream::Desk<'a, net::Connections>;

/// The provider for the registry.
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
        abi::release::PROVIDER_VERSION
    }

    fn define_params(&self) {
        Params::define();
    }

    fn offers(&self, query: &Query, _below: &dyn Below) -> Answer {
        info::offers(query, self.params())
    }

    fn open_fabric(
        &self,
        attr: &FabricAttr,
        api_version: u32,
        flags: u64,
        context: *mut c_void,
        _below: &dyn Below,
    ) -> Result<*mut abi::fid_fabric> {
        // fi_fabric2 defines flags only for providers that can be peers of others.
        if flags != 0 {
            return Err(Error::INVAL);
        }
        fabric::open(Site::own(), attr, api_version, context)
    }
}
