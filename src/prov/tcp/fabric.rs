// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The fabric object of tcp, and of other providers over its transport: fi_fabric(3).

use core::ffi::c_void;

use crate::tcp::net::Connections;
use crate::tcp::site::Site;
use crate::{Alias, Backing};
use base::Result;
use base::info::FabricAttr;
use engine::fabric::Fabric;
use stream::{Connector, Stream};

pub fn open(
    site: Site,
    attr: &FabricAttr,
    api_version: u32,
    context: *mut c_void,
) -> Result<*mut abi::fid_fabric> {
    Fabric::<Stream<Connections>>::open(site, attr, api_version, context)
}

/// For providers that offer this transport under their own name.
pub const BACKING: Backing = Backing {
    open: open_as,
    auth_key_size: Connections::AUTH_KEY_SIZE,
    auth_keys: Connections::AUTH_KEYS,
};

fn open_as(
    alias: Alias,
    attr: &FabricAttr,
    api_version: u32,
    context: *mut c_void,
) -> Result<*mut abi::fid_fabric> {
    open(Site::of(&alias), attr, api_version, context)
}
