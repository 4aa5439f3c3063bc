// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider `sockets`, fi_sockets(7): for programs that insist on its name, or on attributes that only it has by
//! default: scalable endpoints, shared contexts, triggers, fences, atomic operations, datagrams without a limit.
//!
//! It has a name, attributes (`info`) and variables (`params`). Bytes are moved by the transport that the registry
//! gives it, tcp's: what goes over the wire is tcp's too, also between FI_EP_DGRAM endpoints, whose messages are never
//! lost. Its endpoints and those of tcp can talk to each other. The wire protocol that upstream's provider of this name
//! has is not known here.
#![forbid(unsafe_code)]

mod info;
mod params;

use core::ffi::c_void;
use std::sync::OnceLock;

use self::params::Params;
use super::{Alias, Backing, Below, Provider};
use crate::abi;
use crate::base::info::{Answer, FabricAttr, Query};
use crate::base::log::Source;
use crate::base::{Error, Result};

/// Who logs and owns the FI_SOCKETS_ variables.
pub static SOURCE: Source = Source::new(c"sockets");

/// The provider as the registry knows it.
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
        // fi_fabric2 knows flags only for providers that can be peers of others.
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
