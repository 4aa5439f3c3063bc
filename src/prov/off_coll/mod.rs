// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider `off_coll`: collectives for providers that have none. Its objects belong to such a provider, which is
//! their owner and moves the messages with its own tagged calls: fi_peer(3), FI_PEER and FI_PEER_TRANSFER.
//! docs/wire/collectives.md
//!
//! - `info`: the entry, which only other providers find
//! - `domain`: calls from the engine; `moved`: messages that the owner moves

mod domain;
mod info;
mod moved;

use core::ffi::c_void;

use super::{Below, Provider};
use base::info::{Answer, FabricAttr, Query};
use base::log::Source;
use base::{Error, Result};
use engine::fabric::Fabric;

/// Log source and variable prefix of this provider.
pub static SOURCE: Source = Source::new(c"off_coll");

/// The provider in the registry's list.
pub struct OffColl;

impl Provider for OffColl {
    fn source(&self) -> &'static Source {
        &SOURCE
    }

    fn version(&self) -> u32 {
        abi::release::PROVIDER_VERSION
    }

    fn define_params(&self) {}

    fn offers(&self, query: &Query, _below: &dyn Below) -> Answer {
        info::offers(query)
    }

    fn open_fabric(
        &self,
        attr: &FabricAttr,
        api_version: u32,
        flags: u64,
        context: *mut c_void,
        _below: &dyn Below,
    ) -> Result<*mut abi::fid_fabric> {
        if flags != 0 {
            return Err(Error::INVAL);
        }
        Fabric::<domain::Offload>::open((), attr, api_version, context)
    }
}
