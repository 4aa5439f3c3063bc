// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Entries of ours for objects of others: what a layered provider opens the provider below with.
//!
//! Trusted with: what `Info::write` has just made. The programs of src/bin have no such entries, so this is not in `client`.

// For layered providers, of which a build may have none.
#![allow(dead_code)]

use crate::base::Result;
use crate::base::info::Info;
use crate::ffi::client::InfoList;

impl InfoList {
    /// A list of one entry. It names no open objects: nobody here knows whether they still are.
    pub fn of(info: &Info) -> Result<InfoList> {
        let mut info = info.clone();
        (info.handle, info.fabric.fabric, info.domain.domain) = (0, 0, 0);
        let first = info.write()?;
        // SAFETY: `write` has made the entry just now, and nobody else has seen it.
        Ok(unsafe { InfoList::from_raw(first) })
    }
}
