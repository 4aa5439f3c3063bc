// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What a provider brings: how bytes move. Everything else about a domain is the engine's.
//!
//! `Transport` is what every transport has to say; `parts` is what only some can do, with defaults for those that
//! cannot.
//!
//! `transport/tests.rs` has the least transport that there can be.
#![forbid(unsafe_code)]

mod parts;
#[cfg(test)]
mod tests;

use std::ffi::CStr;
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::base::info::Info;
use crate::base::log::Source;
use crate::base::{Caps, Error, Result};
use crate::engine::auth::Key;
use crate::engine::cntr::Counter;
use crate::engine::domain_state::DomainState;
use crate::engine::mr::Region;
use crate::engine::report::Peer;
use crate::engine::srx::{Claimed, Envelope};
use crate::ffi::ops::mr::MrRequest;
use crate::ffi::ops::transfer::{OneTx, OneWrite, Tx};
use crate::hmem::Memory;
use crate::sync::Children;

pub use crate::engine::address::{Address, AddressFormat};

pub use self::parts::{
    Atomics, Batches, Connects, Contexts, Drains, Groups, Listener, Membership, Multicast, Prepares,
};

/// What the engine keeps for a domain over this transport.
pub type DomainStateOf<T> = DomainState<<T as Addressing>::Addr, <T as Addressing>::Memory>;

/// Registered memory; its counter counts what peers write.
pub type MrRegion = Region<Arc<Counter>>;

/// What registering memory gives.
pub struct Registration {
    /// Peers name it by its key.
    pub region: Arc<MrRegion>,
    /// What fi_mr_desc gives, for the application to hand it back with the memory; 0 if there is no need to.
    pub desc: usize,
}

/// How the endpoints of a transport are named, and what it has to know of the application's memory: all parts of a
/// transport speak of that.
pub trait Addressing: Sized + Send + 'static {
    type Addr: Address;
    /// Of no size where the format is always the same.
    type Format: AddressFormat<Addr = Self::Addr>;
    /// Nothing of the host's, or what descriptors say.
    type Memory: Memory;
}

/// Moves bytes for the endpoints of one domain. All calls come under the domain's lock. Endpoints are named by their
/// number in `domain.eps`.
pub trait Transport:
    Connects + Contexts + Groups + Multicast + Atomics + Prepares + Batches + Drains
{
    /// What the provider keeps per fabric: its settings; a layered provider also the fabric below.
    type Fabric: Send + Sync + 'static;

    const SOURCE: &'static Source;
    /// The provider that a fabric belongs to, where several share the transport.
    fn provider(_fabric: &Self::Fabric) -> &'static Source {
        Self::SOURCE
    }
    /// What entries call the provider: a layered one together with what is below it.
    fn prov_name(fabric: &Self::Fabric) -> &'static CStr {
        Self::provider(fabric).name()
    }
    /// Entries of a completion queue that names no size.
    const CQ_SIZE: usize;
    /// Bytes of remote CQ data that a message can carry.
    const CQ_DATA_SIZE: usize = 0;
    /// Bytes of an authorization key at most; 0 if there are none.
    const AUTH_KEY_SIZE: usize = 0;
    /// Authorization keys of an address vector at most (FI_AV_AUTH_KEY).
    const AUTH_KEYS: usize = 0;
    /// Data goes through memory that processes share.
    const SHARES_MEMORY: bool = false;
    /// Endpoints may have FI_HMEM.
    const HMEM: bool = false;

    /// Whether domains get a thread when progress is to be automatic.
    fn offers_auto_progress(_fabric: &Self::Fabric) -> bool {
        true
    }
    /// `info` is what the domain is opened with. What it wants of threading and progress may be more than it gets:
    /// that is in `DomainState::contended` and `auto`.
    fn open(fabric: &Self::Fabric, info: &Info) -> Result<Self>;
    /// How addresses are written in this domain.
    fn format(&self) -> Self::Format;
    /// What processes may do that were forked from the one that opened the domain.
    fn children_may(&self) -> Children {
        Children::Go
    }

    /// What is known of the peers of an endpoint, for who looks on (`engine::report`).
    fn peers(&self, _ep: usize) -> Vec<Peer> {
        Vec::new()
    }

    /// Readable when `progress` may find something to do.
    fn poll_fd(&self) -> RawFd;
    fn progress(&mut self, domain: &mut DomainStateOf<Self>);
    /// As `progress`, and leaves nothing that is ready to a later poll.
    fn progress_all(&mut self, domain: &mut DomainStateOf<Self>) {
        self.progress(domain);
    }
    /// Takes what has come as far as no call of the kernel is needed for that.
    fn take_at_hand(&mut self, _domain: &mut DomainStateOf<Self>) {}

    fn open_ep(&mut self, domain: &mut DomainStateOf<Self>, ep: usize, info: &Info) -> Result;
    fn enable_ep(&mut self, domain: &mut DomainStateOf<Self>, ep: usize) -> Result;
    /// With FI_AV_AUTH_KEY, before it is enabled: the keys that its vector has now.
    fn set_keys(&mut self, _ep: usize, _keys: Vec<Key>) -> Result {
        Err(Error::NOSYS)
    }
    fn close_ep(&mut self, domain: &mut DomainStateOf<Self>, ep: usize);
    fn name(&self, ep: usize) -> Result<Vec<u8>>;
    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result;
    /// FI_OPT_SHARED_MEMORY_PERMITTED, of an endpoint that is not enabled.
    fn permit_sharing(&mut self, _ep: usize, _on: bool) -> Result {
        Err(Error::NOPROTOOPT)
    }
    /// FI_OPT_FIREWALL_ADDR.
    fn set_firewalled(&mut self, _ep: usize, _on: bool) -> Result {
        Err(Error::NOPROTOOPT)
    }

    /// A message of one buffer, if it can leave at once by the shortest way, behind no read. False: nothing has
    /// happened, `transmit` decides.
    #[inline]
    fn transmit_one(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _ep: usize,
        _tx: &OneTx<Self::Memory>,
    ) -> bool {
        false
    }
    /// A write of one buffer to one place, as `transmit_one`.
    #[inline]
    fn write_one(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _ep: usize,
        _write: &OneWrite<Self::Memory>,
    ) -> bool {
        false
    }
    /// If it is posted its memory is taken. (It goes by reference: each function on the way would copy it.)
    fn transmit(
        &mut self,
        domain: &mut DomainStateOf<Self>,
        ep: usize,
        tx: &mut Tx<'_, Self::Memory>,
    ) -> Result;
    /// As `transmit`, where the destination may name a receive context of the peer (FI_NAMED_RX_CTX). `port` is the
    /// endpoint, `ep` the same or a transmit context of it.
    fn transmit_from(
        &mut self,
        domain: &mut DomainStateOf<Self>,
        _port: usize,
        ep: usize,
        tx: &mut Tx<'_, Self::Memory>,
    ) -> Result {
        self.transmit(domain, ep, tx)
    }
    /// How many operations of an endpoint are taken now at least, of whatever kind and for whatever peer, as far as
    /// its queues go: fi_tx_size_left(3). Of each `inject` bytes are copied if it is injected; `caps` says which there
    /// may be.
    fn tx_room(&mut self, _ep: usize, _inject: usize, _caps: Caps) -> usize {
        usize::MAX
    }
    /// fi_cancel(3): completes an operation of the initiator that has not begun, and has this context, as cancelled.
    fn cancel(&mut self, _domain: &mut DomainStateOf<Self>, _ep: usize, _context: usize) {}

    /// The fi_addr that a completion names for the sender of a message, or FI_ADDR_NOTAVAIL.
    #[inline]
    fn source(envelope: &Envelope) -> u64 {
        envelope.source
    }
    /// A receive has met a message whose bytes the transport still has to bring. Not for transports whose messages are
    /// always there as a whole.
    fn claim(&mut self, _domain: &mut DomainStateOf<Self>, _claimed: Claimed<Self::Memory>) {}
    /// There is room again for messages that nobody has asked for.
    fn room_again(&mut self, _domain: &mut DomainStateOf<Self>) {}

    /// fi_mr(3): registers memory. What the flags of the request say of the region, the engine sees to.
    fn register(
        &mut self,
        domain: &mut DomainStateOf<Self>,
        request: MrRequest<'_>,
    ) -> Result<Registration> {
        let region = domain.mrs.register(
            request.segments,
            request.access,
            request.offset,
            request.requested_key,
            request.context,
        )?;
        Ok(Registration { region, desc: 0 })
    }
    /// Peers may use this region from now on, or as it is not any more; its memory is not touched after that.
    fn region_opened(&mut self, _domain: &mut DomainStateOf<Self>, _region: &MrRegion) {}
    /// Peers no longer find the region by themselves. If it `is_closed`, accesses to it end.
    fn region_closed(&mut self, _domain: &mut DomainStateOf<Self>, _region: &Arc<MrRegion>) {}
    /// The application binds a counter to a region, which has none: for transports that do not see accesses to it.
    fn count_region(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _region: &MrRegion,
        _counter: &Arc<Counter>,
    ) -> Result {
        Ok(())
    }
    /// From now on accesses of peers to memory are counted at an endpoint that they may know already.
    fn counts_accesses(&mut self, _domain: &mut DomainStateOf<Self>) {}

    /// `index` of this address vector has a (new) address.
    fn av_inserted(&mut self, _domain: &mut DomainStateOf<Self>, _av: usize, _index: u64) {}
    /// `index` of this address vector has lost its address.
    fn av_removed(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _av: usize,
        _index: u64,
        _addr: &Self::Addr,
    ) {
    }
    /// The index of a peer that hosts or routers reported as unreachable since the last call. `NOMSG`: there is none.
    /// This is for providers above, which decide what it means.
    fn take_unreachable(&mut self, _domain: &DomainStateOf<Self>, _ep: usize) -> Result<u64> {
        Err(Error::NOPROTOOPT)
    }
    /// The bytes that fi_av_lookup gives.
    fn looked_up(&self, addr: &Self::Addr) -> Vec<u8> {
        addr.to_bytes()
    }
}
