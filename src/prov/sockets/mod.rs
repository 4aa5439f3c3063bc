// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider `sockets`, fi_sockets(7): for programs that require its name, or attributes that only it has by
//! default: scalable endpoints, shared contexts, triggers, fences, atomic operations, datagrams without a limit.
//!
//! It consists of a name, attributes (`info`) and variables (`params`). The registry passes it tcp's transport, which
//! moves the bytes. So the wire protocol is tcp's, too, even between FI_EP_DGRAM endpoints, whose messages are never
//! lost. Its endpoints and those of tcp can communicate. The wire protocol of upstream's provider of this name is not
//! supported.

mod info;
mod params;

use core::ffi::c_void;
use std::sync::OnceLock;

use self::params::Params;
use super::{Alias, Backing, Below, Provider};
use base::info::{Answer, FabricAttr, Query};
use base::log::Source;
use base::{Error, Result};

/// Log source, and prefix of the FI_SOCKETS_ variables.
pub static SOURCE: Source = Source::new(c"sockets");

/// The provider for the registry.
pub struct Sockets {
    transport: Backing,
}

impl Sockets {
    pub fn over(transport: Backing) -> Sockets {
        Sockets { transport }
    }

    /// The settings of this process.
    fn params(&self) -> &'static Params {
        static PARAMS: OnceLock<Params> = OnceLock::new();
        PARAMS.get_or_init(Params::read)
    }
}

impl Provider for Sockets {
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
        info::offers(query, self.params(), &self.transport)
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
        let alias = Alias {
            source: &SOURCE,
            max_inject: info::INJECT,
            conn_timeout: self.params().conn_timeout,
            datagrams: true,
            answers_writes: true,
        };
        (self.transport.open)(alias, attr, api_version, context)
    }
}
