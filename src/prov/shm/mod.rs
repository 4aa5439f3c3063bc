// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The providers `shm` and `sm2`: RDM endpoints of processes of one host and one user, over memory that each pair
//! shares; see fi_shm(7).
//!
//! `stream` has the protocol over the memory. Here `net` is the connector; `ep` opens and
//! names endpoints; `listener` connects two processes. `kind` distinguishes the two providers; `info` has their
//! attributes, `params` the FI_SHM_ variables, `addr` the names of endpoints.
//!
//! If the process is killed, nothing is left in /dev/shm or elsewhere. Only FI_SHM_FOLDER creates files; the next
//! endpoint of the same name takes over a file that was left.

pub mod addr;
mod ep;
pub mod info;
pub mod kind;
mod listener;
mod net;
pub mod params;

use core::ffi::c_void;
use std::sync::OnceLock;

use self::kind::{Kind, SHM, SM2};
use self::net::{Connections, Site};
use self::params::Params;
use super::{Below, Provider};
use base::info::{Answer, FabricAttr, Query};
use base::log::Source;
use base::{Error, Result};
use engine::fabric::Fabric;
use stream::Stream;

/// The parts of a domain that the connector uses during a call.
type Desk<'a> = stream::Desk<'a, Connections>;

/// The provider `shm` for the registry.
pub struct Shm;

/// The provider `sm2` for the registry.
pub struct Sm2;

/// The settings of this process.
fn params() -> &'static Params {
    static PARAMS: OnceLock<Params> = OnceLock::new();
    PARAMS.get_or_init(Params::read)
}

fn open_fabric(
    kind: Kind,
    attr: &FabricAttr,
    api_version: u32,
    flags: u64,
    context: *mut c_void,
) -> Result<*mut abi::fid_fabric> {
    // fi_fabric2 defines flags only for providers that can be peers of others.
    if flags != 0 {
        return Err(Error::INVAL);
    }
    let site = Site::new(kind, params().clone());
    Fabric::<Stream<Connections>>::open(site, attr, api_version, context)
}

impl Provider for Shm {
    fn source(&self) -> &'static Source {
        &SHM
    }

    fn version(&self) -> u32 {
        abi::release::PROVIDER_VERSION
    }

    fn define_params(&self) {
        Params::define();
    }

    fn offers(&self, query: &Query, _below: &dyn Below) -> Answer {
        info::offers(query, params(), Kind::Shm)
    }

    fn open_fabric(
        &self,
        attr: &FabricAttr,
        api_version: u32,
        flags: u64,
        context: *mut c_void,
        _below: &dyn Below,
    ) -> Result<*mut abi::fid_fabric> {
        open_fabric(Kind::Shm, attr, api_version, flags, context)
    }
}

impl Provider for Sm2 {
    fn source(&self) -> &'static Source {
        &SM2
    }

    fn version(&self) -> u32 {
        abi::release::PROVIDER_VERSION
    }

    // sm2 has no variables of its own.
    fn define_params(&self) {}

    fn offers(&self, query: &Query, _below: &dyn Below) -> Answer {
        info::offers(query, params(), Kind::Sm2)
    }

    fn open_fabric(
        &self,
        attr: &FabricAttr,
        api_version: u32,
        flags: u64,
        context: *mut c_void,
        _below: &dyn Below,
    ) -> Result<*mut abi::fid_fabric> {
        open_fabric(Kind::Sm2, attr, api_version, flags, context)
    }
}
