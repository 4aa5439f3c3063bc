// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The fabric object of tcp: fi_fabric(3).
#![forbid(unsafe_code)]

use core::ffi::c_void;

use crate::abi;
use crate::base::Result;
use crate::base::info::FabricAttr;
use crate::engine::fabric::Fabric;
use crate::engine::stream::Stream;
use crate::prov::tcp::Tcp;
use crate::prov::tcp::params::Params;

pub fn open(
    attr: &FabricAttr,
    api_version: u32,
    context: *mut c_void,
) -> Result<*mut abi::fid_fabric> {
    Fabric::<Stream<Tcp>>::open(Params::read(), attr, api_version, context)
}
