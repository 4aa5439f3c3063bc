// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What a fabric's handle and the objects opened from it share.

use std::ffi::CString;

use crate::transport::Transport;
use abi::*;
use base::info::Info;
use sync::Uses;

/// Shared by a fabric's handle and its objects.
pub struct FabricShared<T: Transport> {
    pub provider: T::Fabric,
    pub api_version: u32,
    pub name: Option<CString>,
    pub uses: Uses,
}

impl<T: Transport> FabricShared<T> {
    /// Whether a domain opened with `info` has a thread for progress.
    pub fn wants_auto_progress(&self, info: &Info) -> bool {
        let asked = fi_progress(info.domain.progress);
        matches!(asked, FI_PROGRESS_AUTO | FI_PROGRESS_UNSPEC)
            && T::offers_auto_progress(&self.provider)
    }
}
