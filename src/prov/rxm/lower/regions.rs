// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Registration of the application's memory: fi_mr(3).

use std::collections::HashMap;
use std::sync::Arc;

use super::Lower;
use crate::rxm::state::StateOf;
use abi::FI_MR_DMABUF;
use base::{Access, Result, Span};
use client::Mr;
use client::layer::KnownRegion;
use engine::transport::{MrRegion, Registration};
use hmem::Desc;
use object::ops::mr::MrRequest;
use slab::Slab;

/// The regions below of the application's regions.
#[derive(Default)]
pub(super) struct Regions {
    open: Slab<KnownRegion>,
    /// Places in `open` by the addresses of the regions above, which are unique while they are open.
    places: HashMap<usize, usize>,
}

impl Regions {
    /// Adds the region below; returns the number for fi_mr_desc(3).
    fn insert(&mut self, above: &Arc<MrRegion>, below: Arc<Mr>) -> usize {
        let place = self.open.insert(KnownRegion {
            below,
            place: Span::new(above.base, above.len),
            access: above.access.bits(),
        });
        self.places.insert(Arc::as_ptr(above).addr(), place);
        place + 1
    }

    pub fn get(&self, above: &MrRegion) -> Option<&Arc<Mr>> {
        let place = self.places.get(&core::ptr::from_ref(above).addr())?;
        Some(&self.open.get(*place)?.below)
    }

    pub fn remove(&mut self, above: &MrRegion) {
        if let Some(place) = self.places.remove(&core::ptr::from_ref(above).addr()) {
            self.open.try_remove(place);
        }
    }

    /// Returns the region that a descriptor names, if it is open.
    pub fn named(&self, desc: Desc) -> Option<&KnownRegion> {
        let number = usize::try_from(desc.number()?.get()).ok()?;
        self.open.get(number - 1)
    }
}

impl Lower {
    /// Registers memory with rxm, for atomic operations, and with the provider below for everything else: for accesses
    /// of peers, and for local operations if that provider requires it. Without descriptor the memory of a local
    /// operation is registered with the operation.
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
        let registrar = &self.domain.registrar;
        let for_peers = access.intersects(Access::REMOTE);
        // A region of an endpoint below would be valid for one peer only.
        if registrar.of_endpoints() || !for_peers && !registrar.wants_local() {
            let mrs = &mut domain.mrs;
            let region = mrs.register(segments, access, offset, requested_key, context)?;
            return Ok(Registration { region, desc: 0 });
        }
        let key = for_peers.then_some(requested_key);
        // A buffer of a device is named by its addresses.
        let flags = flags & !FI_MR_DMABUF;
        let below = registrar.register_application(&segments, access.bits(), key, flags)?;
        let in_one_piece = segments.len() == 1;
        let mrs = &mut domain.mrs;
        let region = match for_peers {
            true => mrs.register_as(segments, access, offset, below.key(), context),
            false => mrs.register(segments, access, offset, requested_key, context),
        }?;
        let number = self.regions.insert(&region, below);
        let named = in_one_piece && registrar.wants_local();
        let desc = if named { number } else { 0 };
        Ok(Registration { region, desc })
    }
}
