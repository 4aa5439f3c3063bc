// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The description of a network card, fi_nic(3). Entries of layered providers share it with the entries below.
#![forbid(unsafe_code)]

use core::fmt;
use std::sync::Arc;

use crate::Result;

/// An open NIC object.
pub trait Card: Send + Sync {
    /// Returns a copy for a C entry, which closes the copy when it is freed.
    fn copy(&self) -> Result<*mut abi::fid_nic>;
}

#[derive(Clone)]
pub struct Nic(Arc<dyn Card>);

impl Nic {
    pub fn of(card: Arc<dyn Card>) -> Nic {
        Nic(card)
    }

    pub(super) fn copy(&self) -> Result<*mut abi::fid_nic> {
        self.0.copy()
    }
}

impl PartialEq for Nic {
    fn eq(&self, other: &Nic) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nic")
    }
}
