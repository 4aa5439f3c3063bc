// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Registration of the application's memory with every rail, under the same key: fi_mr(3).

use std::collections::HashMap;
use std::sync::Arc;

use super::domain::Linked;
use super::held::State;
use abi::FI_MR_DMABUF;
use base::{Access, Result};
use client::Mr;
use engine::transport::{MrRegion, Registration};
use object::ops::mr::MrRequest;

/// The regions below, by the addresses of those above, which are unique while they are open.
#[derive(Default)]
pub struct Regions(HashMap<usize, Vec<Arc<Mr>>>);

impl Regions {
    pub fn remove(&mut self, region: &MrRegion) {
        self.0.remove(&core::ptr::from_ref(region).addr());
    }
}

impl Linked {
    /// Registers memory here, which chooses the key if the application does not, and with each rail if peers may access
    /// it.
    pub fn register_all(
        &mut self,
        domain: &mut State,
        request: MrRequest<'_>,
    ) -> Result<Registration> {
        let MrRequest {
            segments,
            access,
            offset,
            requested_key,
            flags,
            context,
            ..
        } = request;
        let mut below = Vec::new();
        let for_peers = access.intersects(Access::REMOTE) && self.limits.accesses;
        let mrs = &mut domain.mrs;
        if !for_peers {
            let region = mrs.register(segments, access, offset, requested_key, context)?;
            return Ok(Registration { region, desc: 0 });
        }
        // This domain chooses the key, if the application does not.
        let chosen = mrs.choose_key(requested_key)?;
        // The segments are those of the buffer.
        let flags = flags & !FI_MR_DMABUF;
        for rail in &self.rails {
            let key = Some(chosen);
            let registered =
                rail.registrar
                    .register_application(&segments, access.bits(), key, flags);
            below.push(registered?);
        }
        let region = mrs.register_as(segments, access, offset, chosen, context)?;

        self.regions.0.insert(Arc::as_ptr(&region).addr(), below);
        Ok(Registration { region, desc: 0 })
    }
}
