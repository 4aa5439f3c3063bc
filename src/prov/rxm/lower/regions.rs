// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Registration of local memory for access by peers: fi_mr(3).

use super::Lower;
use crate::rxm::state::StateOf;
use base::{Access, Result};
use engine::transport::Registration;
use object::ops::mr::MrRequest;

impl Lower {
    /// Registers memory with rxm, for atomic operations, and with the provider below, for everything else.
    pub fn register_both(
        &mut self,
        domain: &mut StateOf,
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
        // Memory for local operations is registered with each operation, if the provider below requires that.
        let registrar = &self.domain.registrar;
        if !access.intersects(Access::REMOTE) || registrar.of_endpoints() {
            let region = domain
                .mrs
                .register(segments, access, offset, requested_key, context)?;
            return Ok(Registration { region, desc: 0 });
        }
        let below =
            registrar.register_application(&segments, access.bits(), requested_key, flags)?;
        let mrs = &mut domain.mrs;
        let region = mrs.register_as(segments, access, offset, below.key(), context)?;
        self.regions.insert(region.key, below);
        Ok(Registration { region, desc: 0 })
    }
}
