// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The fabric object of tcp: fi_fabric(3).
#![forbid(unsafe_code)]

use core::ffi::c_void;

use crate::abi;
use crate::base::info::FabricAttr;
use crate::base::{Error, Result};

pub fn open(
    _attr: &FabricAttr,
    _api_version: u32,
    _context: *mut c_void,
) -> Result<*mut abi::fid_fabric> {
    Err(Error::NOSYS)
}
