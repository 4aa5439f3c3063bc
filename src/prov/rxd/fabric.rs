// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The fabric of the provider below, and the `fi_info` entries that it offers: fi_fabric(3).
#![forbid(unsafe_code)]

use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex, PoisonError};

use super::info;
use super::params::Params;
use crate::base::info::{FabricAttr, Hints, Info, Query};
use crate::base::{Error, Result};
use crate::ffi::{client, with_entry};
use crate::prov::Below;
use crate::prov::layered::BELOW_API;

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
    let hints = Hints {
        fabric: Some(FabricAttr {
            name: attr.name.clone(),
            prov_name: attr.prov_name.clone(),
            ..FabricAttr::default()
        }),
        ..Hints::default()
    };
    let query = Query {
        version: BELOW_API,
        node: None,
        service: None,
        flags: 0,
        hints: Some(&hints),
    };
    let (entries, _) = info::cores(&query, below);
    let first = entries.first().ok_or(Error::NODATA)?;
    Ok(LowerFabric {
        fabric: with_entry(first, client::Fabric::open)?,
        prov_name: kept(info::full_name(first).ok_or(Error::INVAL)?),
        entries,
        params,
    })
}

/// Keeps a name for the life of the process. There are as many as providers below.
fn kept(name: CString) -> &'static CStr {
    static NAMES: Mutex<Vec<&CStr>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.iter().find(|known| **known == name.as_c_str()) {
        return known;
    }
    let name: &'static CStr = Box::leak(name.into_boxed_c_str());
    names.push(name);
    name
}
