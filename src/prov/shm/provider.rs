// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The two providers as the registry knows them.

use core::ffi::c_void;
use std::sync::OnceLock;

use super::info;
use super::kind::Kind;
use super::params::Params;
use crate::abi;
use crate::base::info::{Answer, FabricAttr, Query};
use crate::base::log::Source;
use crate::base::{Error, Result};
use crate::prov::Provider;

pub struct Shm;
pub struct Sm2;

/// The settings of this process.
fn params() -> &'static Params {
    static PARAMS: OnceLock<Params> = OnceLock::new();
    PARAMS.get_or_init(Params::read)
}

impl Provider for Shm {
    fn source(&self) -> &'static Source {
        Kind::Shm.source()
    }

    fn version(&self) -> u32 {
        info::VERSION
    }

    fn define_params(&self) {
        Params::define();
    }

    fn offers(&self, query: &Query) -> Answer {
        info::offers(query, params(), Kind::Shm)
    }

    fn open_fabric(
        &self,
        _attr: &FabricAttr,
        _api_version: u32,
        _flags: u64,
        _context: *mut c_void,
    ) -> Result<*mut abi::fid_fabric> {
        Err(Error::NOSYS)
    }
}

impl Provider for Sm2 {
    fn source(&self) -> &'static Source {
        Kind::Sm2.source()
    }

    fn version(&self) -> u32 {
        info::VERSION
    }

    /// It has none of its own.
    fn define_params(&self) {}

    fn offers(&self, query: &Query) -> Answer {
        info::offers(query, params(), Kind::Sm2)
    }

    fn open_fabric(
        &self,
        _attr: &FabricAttr,
        _api_version: u32,
        _flags: u64,
        _context: *mut c_void,
    ) -> Result<*mut abi::fid_fabric> {
        Err(Error::NOSYS)
    }
}
