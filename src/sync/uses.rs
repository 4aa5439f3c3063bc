// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! "In use" as a type: a dependent object holds a `Use`; closing the object while a `Use` exists is refused.
#![forbid(unsafe_code)]

use std::sync::Arc;

/// Owned by the object that may be in use.
#[derive(Default)]
pub struct Uses(Arc<()>);

/// Held by a dependent object for as long as it lives.
#[derive(Clone)]
pub struct Use(#[allow(dead_code)] Arc<()>);

impl Uses {
    pub fn take(&self) -> Use {
        Use(self.0.clone())
    }

    /// Whether a dependent object exists.
    pub fn any(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}
