// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The fabric of the provider below, and the `fi_info` entries that it offers: fi_fabric(3).

use std::ffi::CStr;
use std::sync::Arc;

use super::info;
use super::params::Params;
use crate::Below;
use crate::layered::{fabric_entries, kept};
use base::info::{FabricAttr, Info};
use base::{Error, Result};
use client::with_entry;

/// A fabric of the provider below, on which domains are opened.
pub struct LowerFabric {
    pub fabric: Arc<client::Fabric>,
    /// Entries with which endpoints can be opened on this fabric.
    pub entries: Vec<Info>,
    pub params: &'static Params,
    /// Provider name in our own entries.
    pub prov_name: &'static CStr,
}

/// Opens the fabric below for a fabric with this name.
pub fn open(attr: &FabricAttr, below: &dyn Below, params: &'static Params) -> Result<LowerFabric> {
    let (_, entries) = fabric_entries(attr, |query| info::cores(query, below).0);
    let first = entries.first().ok_or(Error::NODATA)?;
    Ok(LowerFabric {
        fabric: with_entry(first, client::Fabric::open)?,
        prov_name: kept(info::full_name(first).ok_or(Error::INVAL)?),
        entries,
        params,
    })
}
