// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Registered memory: fi_mr(3). The adapter checks the accesses, also those of operations of this process, so the
//! descriptor of a region is its local key.

use super::Domain;
use abi::{FI_MR_SINGLE_USE, FI_RMA_EVENT, FI_RMA_PMEM};
use base::{Access, Error, Result, Span};
use engine::address::mixed::Addr;
use engine::domain_state::DomainState;
use engine::transport::{MrRegion, Registration};
use object::ops::mr::MrRequest;
use sys::verbs::{self, Region, Transport};

/// The adapter's part of a region.
pub struct Registered {
    region: Region,
    span: Span,
    access: verbs::Access,
}

impl Domain {
    pub(super) fn register_memory(
        &mut self,
        domain: &mut DomainState<Addr>,
        request: MrRequest<'_>,
    ) -> Result<Registration> {
        // The adapter reports no accesses to regions.
        if request.flags & (FI_RMA_EVENT | FI_RMA_PMEM | FI_MR_SINGLE_USE) != 0 {
            return Err(Error::BADFLAGS);
        }
        let [segment] = request.segments.as_slice() else {
            return Err(Error::INVAL);
        };
        let (span, access) = (segment.span(), self.rights(request.access));
        // Adapters have no regions without bytes. Such a region has no key and no descriptor.
        let region = match span.len {
            0 => None,
            _ => Some(segment.register(&self.protection, access)?),
        };
        let keys = region
            .as_ref()
            .map(|region| (region.local_key(), u64::from(region.remote_key())));
        let (local, remote) = keys.unwrap_or_default();
        let handed_out = domain.mrs.register_as(
            request.segments,
            request.access,
            request.offset,
            remote,
            request.context,
        )?;
        if let Some(region) = region {
            let registered = Registered {
                region,
                span,
                access,
            };
            self.regions.insert(place_of(&handed_out), registered);
        }
        Ok(Registration {
            region: handed_out,
            desc: local as usize,
        })
    }

    /// The rights of the adapter for accesses of fi_mr(3). On iWARP the answer to a read is a peer's write.
    fn rights(&self, access: Access) -> verbs::Access {
        let written_by_peers = verbs::Access::LOCAL_WRITE
            .and(verbs::Access::REMOTE_WRITE)
            .and(verbs::Access::REMOTE_ATOMIC);
        let read_into = match self.adapter.transport {
            Transport::Iwarp => verbs::Access::LOCAL_WRITE.and(verbs::Access::REMOTE_WRITE),
            _ => verbs::Access::LOCAL_WRITE,
        };
        let rights = [
            (Access::RECV, verbs::Access::LOCAL_WRITE),
            (Access::READ, read_into),
            (Access::REMOTE_READ, verbs::Access::REMOTE_READ),
            (Access::REMOTE_WRITE, written_by_peers),
        ];
        let wanted = rights.iter().filter(|(right, _)| access.contains(*right));
        wanted.fold(verbs::Access::READ, |all, (_, right)| all.and(*right))
    }

    /// Ends the adapter's accesses to a region.
    pub(super) fn end_region(&mut self, region: &MrRegion) {
        self.regions.remove(&place_of(region));
    }

    /// The local key of a region that contains this memory, for operations without a common descriptor. `brings`: the
    /// adapter writes to the memory.
    #[cold]
    pub(super) fn key_of(&self, span: Span, brings: bool) -> Option<u32> {
        let needed = match brings {
            true => verbs::Access::LOCAL_WRITE,
            false => verbs::Access::READ,
        };
        let mut all = self.regions.values();
        let found = all.find(|it| it.span.contains(span) && it.access.contains(needed))?;
        Some(found.region.local_key())
    }
}

/// The region of the engine identifies that of the adapter. Keys do not: all regions that peers may not access can have
/// the same one.
fn place_of(region: &MrRegion) -> usize {
    core::ptr::from_ref(region).addr()
}
