// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Opens the fabric below with the entries of its provider: fi_fabric(3).

use core::ffi::c_void;
use std::ffi::CString;

use super::lower::LowerFabric;
use super::params::Params;
use super::state::Rxm;
use super::{SOURCE, info};
use crate::Below;
use crate::layered::{fabric_entries, fabric_query, kept};
use base::flags::flags;
use base::info::{FabricAttr, Hints, Query, TxAttr};
use base::{Error, OpFlags, Result};
use client::with_entry;
use engine::fabric::Fabric;

pub fn open(
    attr: &FabricAttr,
    api_version: u32,
    context: *mut c_void,
    below: &dyn Below,
    params: &'static Params,
) -> Result<*mut abi::fid_fabric> {
    let (hints, entries) = fabric_entries(attr, |query| info::cores(query, below, params).0);
    let query = fabric_query(&hints);
    let offers = |level| {
        let hints = Hints {
            tx: Some(TxAttr {
                op_flags: level,
                ..TxAttr::default()
            }),
            ..hints.clone()
        };
        let hints = info::levels_wishes(&hints);
        let query = Query {
            hints: Some(&hints),
            ..query
        };
        !below.offers(&query).entries.is_empty()
    };
    let mut levels = flags!(OpFlags: TRANSMIT_COMPLETE | DELIVERY_COMPLETE | COMMIT_COMPLETE);
    for level in levels.iter().filter(|&level| !offers(level)) {
        levels &= !level;
    }
    let first = entries.first().ok_or(Error::NODATA)?;
    let core = first.fabric.prov_name.as_deref().unwrap_or_default();
    let name = [core.to_bytes(), b";", SOURCE.name().to_bytes()].concat();
    let lower = LowerFabric {
        fabric: with_entry(first, client::Fabric::open)?,
        prov_name: kept(CString::new(name).map_err(|_| Error::INVAL)?),
        entries,
        levels,
        params,
    };
    Fabric::<Rxm>::open(lower, attr, api_version, context)
}
