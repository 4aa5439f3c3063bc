// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Registered memory of this side, as far as the peer may read, write and change it by messages: fi_rma(3).
//!
//! `at_once` handles complete frames on one segment without special flags, `atomic` handles other atomic operations.

mod at_once;
mod atomic;

use std::sync::Arc;

use crate::proto::{MAX_SEGS, ReadRequest, Refused, RmaSeg, Write};
use crate::session::Cx;
use crate::session::peer::Peer;
use crate::session::receive::Fault;
use crate::session::receive_state::{Regions, Sink};
use base::log::{Subsys, log_warn};
use base::{Access, Caps, Error, Span};
use engine::auth::Key;
use engine::domain_state::DomainState;
use engine::mr::Target;
use engine::transport::{Address, MrRegion};
use sys::memory;

pub use atomic::{AtomicIn, access_of, payload_of, room_for};

/// The peer's access to local memory.
#[derive(Default)]
pub struct Exposed {
    /// The authorization key that the peer has proved.
    key: Option<Key>,
    /// The peer has changed local memory by messages, so their room in the ring must be returned to it soon.
    was_written: bool,
}

/// A request of the peer that is not allowed.
pub struct Refusal {
    /// The answer that the peer waits for.
    pub answer: Option<Refused>,
    pub why: Fault,
}

impl Exposed {
    /// Sets the authorization key that the peer has proved.
    pub fn set_key(&mut self, key: Option<Key>) {
        self.key = key;
    }

    /// Whether the peer has changed local memory since `take_written`.
    #[inline(always)]
    pub fn was_written(&self) -> bool {
        self.was_written
    }

    #[inline(always)]
    pub fn take_written(&mut self) -> bool {
        std::mem::take(&mut self.was_written)
    }

    /// Returns the place for a write of the peer.
    pub fn write<A: Address>(
        &mut self,
        domain: &mut DomainState<A>,
        peer: &Peer<A>,
        write: &Write,
    ) -> Result<Sink, Refusal> {
        if write.segs.total() != write.payload {
            return Err(Refusal {
                answer: None,
                why: Fault::Rule("a write of another length than its segments"),
            });
        }
        self.was_written = true;
        let named = self.named(domain, peer, &write.segs, Caps::RMA, Access::REMOTE_WRITE);
        let (target, regions) = named.map_err(|why| Refusal {
            answer: (write.ack || write.commit).then_some(Refused::Ack),
            why,
        })?;
        Ok(Sink::Write {
            target,
            data: write.data,
            durable: match write.commit {
                true => Some(Durable::of(&write.segs, &regions)),
                false => None,
            },
            regions,
            lens: write.segs.lens(),
        })
    }

    /// Returns the memory that the peer reads.
    pub fn read<A: Address>(
        &self,
        domain: &mut DomainState<A>,
        peer: &Peer<A>,
        read: &ReadRequest,
    ) -> Result<(Target, Regions), Refusal> {
        let named = self.named(domain, peer, &read.segs, Caps::RMA, Access::REMOTE_READ);
        let (target, regions) = named.map_err(|why| Refusal {
            answer: Some(Refused::Response),
            why,
        })?;
        match regions[0].is_none() {
            true => Err(Refusal {
                answer: None,
                why: Fault::Rule("a read of nothing"),
            }),
            false => Ok((target, regions)),
        }
    }

    /// Returns the memory that a request names, if the peer may access it, and the regions that contain it.
    /// `capability` is `RMA` or `ATOMIC`. The authorization key is that of the connection.
    fn named<A: Address>(
        &self,
        domain: &mut DomainState<A>,
        peer: &Peer<A>,
        segs: &[RmaSeg],
        capability: Caps,
        access: Access,
    ) -> Result<(Target, Regions), Fault> {
        // fi_getinfo(3): a primary capability that was not requested is not available.
        if !domain.eps[peer.ep]
            .caps
            .contains(capability | access.capabilities())
        {
            return Err(Fault::Rule(
                "an access to memory through an endpoint without the capability",
            ));
        }
        let mut target = Target::default();
        let mut regions = Regions::default();
        for (seg, place) in segs.iter().zip(&mut regions) {
            let (key, mrs) = (self.key.as_ref(), &domain.mrs);
            let found = mrs.lookup_all(key, seg.key, seg.addr, seg.len, access);
            let (region, pieces) = found.map_err(refused)?;
            target.push(pieces);
            *place = Some(region.clone());
        }
        let all = regions.iter().flatten();
        all.for_each(|region| domain.mrs.used(region));
        Ok((target, regions))
    }
}

/// Addresses and lengths that a write has to make durable before the acknowledgement (FI_COMMIT_COMPLETE).
pub struct Durable(Box<[Span]>);

impl Durable {
    /// Returns the parts of the target that lie in persistent memory (fi_cq(3), FI_COMMIT_COMPLETE).
    #[cold]
    fn of(segs: &[RmaSeg], regions: &Regions) -> Durable {
        let targets = segs.iter().zip(regions.iter().flatten());
        let persistent = targets.filter(|(seg, region)| region.is_persistent() && seg.len > 0);
        let pieces = persistent.filter_map(|(seg, region)| region.reach(seg.addr, seg.len).ok());
        let spans = pieces.flat_map(|pieces| pieces.spans().collect::<Vec<Span>>());
        Durable(spans.collect())
    }

    /// Makes written data durable. On failure it shuts the link down, so that the peer's operation fails.
    #[cold]
    pub fn commit<A: Address>(&self, cx: &Cx<'_, A>, peer: &Peer<A>) -> bool {
        let mut parts = self.0.iter();
        let result = parts.try_for_each(|part| memory::make_durable(part.start, part.len));
        if let Err(error) = &result {
            log_warn!(
                cx.common.source,
                Subsys::EpData,
                "{}: connection ended: a write could not be made durable: {error}",
                peer.addr
            );
            cx.link.shutdown();
        }
        result.is_ok()
    }
}

/// Returns and forgets the failure of a device that did not take or give bytes of these regions.
#[inline]
pub fn fault_of(regions: &Regions) -> Option<hmem::faults::Fault> {
    let fault = |region: &Arc<_>| MrRegion::take_fault(region);
    regions.iter().flatten().find_map(fault)
}

/// Whether a device has failed to take or give the bytes of an access to these regions. If so, shuts the link down, so
/// that the peer's operation fails.
#[inline]
pub fn device_failed<A: Address>(cx: &Cx<'_, A>, peer: &Peer<A>, regions: &Regions) -> bool {
    match fault_of(regions) {
        None => false,
        Some(fault) => {
            log_warn!(
                cx.common.source,
                Subsys::EpData,
                "{}: connection ended: {}",
                peer.addr,
                hmem::driver::words(fault)
            );
            cx.link.shutdown();
            true
        }
    }
}

/// Counts a complete write of the peer: one event for each region that it modified, with the bytes written there.
#[inline]
pub fn count_regions<A: Address>(
    domain: &mut DomainState<A>,
    regions: &Regions,
    lens: &[u64; MAX_SEGS],
) {
    for (i, region) in regions.iter().enumerate() {
        let Some(region) = region else {
            return;
        };
        if let Some(counter) = region.counter() {
            let is_it = |other: &Option<_>| other.as_ref().is_some_and(|o| Arc::ptr_eq(o, region));
            if !regions[..i].iter().any(is_it) {
                let segments = regions.iter().zip(lens).skip(i);
                let mine = segments.filter(|(other, _)| is_it(other));
                domain.count_region(counter, mine.map(|(_, &len)| len as usize).sum());
            }
        }
    }
}

fn refused(error: Error) -> Fault {
    Fault::Rule(match error {
        Error::NOKEY => "it names a memory region that does not exist",
        Error::ACCES => "it has no right to that access to a memory region",
        Error::KEYREJECTED => "it reaches for a memory region of another authorization key",
        _ => "it reaches outside a memory region",
    })
}
