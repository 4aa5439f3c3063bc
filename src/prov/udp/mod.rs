// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider `udp`: DGRAM endpoints over UDP sockets, see fi_udp(7). The datagram of a message has only its bytes,
//! so peers may use any libfabric, or plain sockets.
//!
//! `info` has the entries, as data, `params` the FI_UDP_ variables. `domain` is the transport: the endpoints of a
//! domain, and the loop that polls them for datagrams. `ep` is one endpoint: its socket, and how it sends; `outbox` has
//! the messages that are held back for a moment, `rx` the receiving side, and `group` a multicast group.
//!
//! This is the smallest transport, and the first to read: the core of `engine::transport`, and few of the optional
//! parts.

mod domain;
mod ep;
mod group;
mod info;
mod outbox;
mod params;
mod payload;
mod rx;
#[cfg(test)]
mod tests;

use core::ffi::c_void;
use std::sync::OnceLock;

use self::domain::Domain;
use self::params::Params;
use super::{Below, Provider};
use base::info::{Answer, FabricAttr, Query};
use base::log::Source;
use base::{Error, Result};
use engine::fabric::Fabric;

/// Log source, and prefix of the FI_UDP_ variables.
pub static SOURCE: Source = Source::new(c"udp");

/// The provider for the registry.
pub struct Udp;

/// The settings of this process.
fn params() -> &'static Params {
    static PARAMS: OnceLock<Params> = OnceLock::new();
    PARAMS.get_or_init(Params::read)
}

impl Provider for Udp {
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
