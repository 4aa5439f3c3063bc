// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Registered memory: fi_mr(3). The adapter checks the accesses, also those of operations of this process, so the
//! descriptor of a region is its local key.

use std::io;
use std::os::fd::AsFd;

use super::super::{SOURCE, params};
use super::Domain;
use abi::{FI_MR_SINGLE_USE, FI_RMA_EVENT, FI_RMA_PMEM};
use base::log::{Subsys, log_warn};
use base::rights::{KEPT, UNCACHED};
use base::settings::Settings;
use base::{Access, Error, Result, Span};
use engine::address::mixed::Addr;
use engine::domain_state::DomainState;
use engine::mr::cache::{Cached, Key};
use engine::transport::{MrRegion, Registration};
use object::ops::mr::{DeviceBuffer, MrRequest};
use sys::verbs::{self, Region, Transport};

/// The adapter's part of a region.
pub struct Registered {
    region: Held,
    span: Span,
    access: verbs::Access,
}

enum Held {
    /// It ends when the application closes its handle.
    Own(Region),
    /// It returns to the cache then.
    Cached(Cached<Region>),
}

impl Held {
    fn region(&self) -> &Region {
        match self {
            Held::Own(region) => region,
            Held::Cached(cached) => &cached.region,
        }
    }
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
        let (span, access) = (segment.span(), self.rights(&request));
        // Adapters have no regions without bytes. Such a region has no key and no descriptor.
        let has_peers = request.access.intersects(Access::REMOTE);
        let cached = request.flags & UNCACHED == 0 && (!has_peers || request.flags & KEPT != 0);
        let region = match (&request.buffer, span.len, cached) {
            (_, 0, _) => None,
            (Some(buffer), ..) => Some(Held::Own(self.register_buffer(segment, access, buffer)?)),
            _ if segment.is_device() => Some(Held::Own(self.register_device(segment, access)?)),
            (_, _, true) => Some(self.obtain(segment, access)?),
            _ => Some(Held::Own(segment.register(&self.protection, access)?)),
        };
        let keys = region.as_ref().map(Held::region);
        let keys = keys.map(|region| (region.local_key(), u64::from(region.remote_key())));
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

    /// Registers a buffer of another device. The kernel keeps it, so the program may close its descriptor.
    fn register_buffer(
        &self,
        segment: &base::Registered,
        access: verbs::Access,
        buffer: &DeviceBuffer<'_>,
    ) -> Result<Region> {
        if !params().use_dmabuf {
            return Err(Error::NOSYS);
        }
        let (fd, offset) = (buffer.fd, buffer.offset);
        let region = segment.register_buffer(&self.protection, access, fd, offset);
        region.map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported => Error::NOSYS,
            _ => error.into(),
        })
    }

    /// Registers memory of a device, by a dma-buf, or by its addresses where the kernel knows the device's memory.
    #[cold]
    fn register_device(&self, segment: &base::Registered, access: verbs::Access) -> Result<Region> {
        let Span { start, len } = segment.span();
        let driver = hmem::driver::owner(start).ok_or(Error::INVAL)?;
        if params().use_dmabuf
            && Settings::get().exports_buffers(driver.kind().name())
            && let Some((fd, offset)) = driver.buffer(start, len)
        {
            let buffer = DeviceBuffer {
                fd: fd.as_fd(),
                offset,
            };
            if let Ok(region) = self.register_buffer(segment, access, &buffer) {
                return Ok(region);
            }
        }
        let region = segment.register(&self.protection, access);
        Ok(region.inspect_err(|error| {
            log_warn!(
                &SOURCE,
                Subsys::Mr,
                "{len} bytes of device memory are registered neither by a dma-buf nor by their addresses: {error}"
            );
        })?)
    }

    /// Takes a region from the cache, or makes one.
    fn obtain(&mut self, segment: &base::Registered, access: verbs::Access) -> Result<Held> {
        let key = Key {
            span: segment.span(),
            rights: access.bits(),
            kind: hmem::Kind::Host,
        };
        let protection = &self.protection;
        let make = || segment.register(protection, access);
        // The limit on locked memory, or the adapter's tables.
        let is_full = |error: &io::Error| error.kind() == io::ErrorKind::OutOfMemory;
        Ok(match self.cache.obtain(key, make, is_full)? {
            Ok(cached) => Held::Cached(cached),
            Err(region) => Held::Own(region),
        })
    }

    /// The rights of the adapter for accesses of fi_mr(3). On iWARP the answer to a read is a peer's write.
    fn rights(&self, request: &MrRequest<'_>) -> verbs::Access {
        let access = request.access;
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
        let none = match request.buffer {
            Some(_) => verbs::Access::READ,
            None => self.paging(),
        };
        wanted.fold(none, |all, (_, right)| all.and(*right))
    }

    /// FI_VERBS_USE_ODP: whether pages of host memory are locked.
    fn paging(&self) -> verbs::Access {
        match self.adapter.on_demand {
            true => verbs::Access::ON_DEMAND,
            false => verbs::Access::READ,
        }
    }

    /// Ends the adapter's accesses to a region, unless the cache keeps it.
    pub(super) fn end_region(&mut self, region: &MrRegion) {
        if let Some(Registered {
            region: Held::Cached(cached),
            ..
        }) = self.regions.remove(&place_of(region))
        {
            self.cache.give_back(cached);
        }
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
        Some(found.region.region().local_key())
    }
}

/// Identifies a region while it is open. Its key does not: some drivers give the key 0 to all regions without remote
/// rights.
fn place_of(region: &MrRegion) -> usize {
    core::ptr::from_ref(region).addr()
}
