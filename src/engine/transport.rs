// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The interface of a provider: how bytes move. The engine does everything else for a domain.
//!
//! `Transport` has the methods that every transport must have; `parts` has optional ones, with defaults.
//!
//! `transport/tests.rs` contains a minimal transport.

mod parts;
#[cfg(test)]
pub(crate) mod tests;

use std::ffi::CStr;
use std::sync::Arc;

use crate::auth::Key;
use crate::cntr::Counter;
use crate::domain_state::{DomainState, TxOp};
use crate::mr::Region;
use crate::report::Peer;
use crate::srx::{Claimed, Envelope};
use base::info::Info;
use base::log::Source;
use base::{Caps, Error, Result};

use object::ops::mr::MrRequest;
use object::ops::transfer::{OneTx, OneWrite, Tx};
use object::peer::PeerTransfer;
use sync::{Children, Serialized};

pub use crate::address::{Address, AddressFormat};
pub use sys::event::SharedFd;

pub use self::parts::{
    Atomics, Batches, Connects, Contexts, Drains, Groups, Listener, Multicast, NewQueue, Prepares,
    Queues,
};

/// The engine's state of a domain over this transport.
pub type DomainStateOf<T> = DomainState<<T as Addressing>::Addr>;

/// Registered memory; its counter counts peers' writes.
pub type MrRegion = Region<Arc<Counter>>;

/// Result of registering memory.
pub struct Registration {
    /// The region, which peers access by its key.
    pub region: Arc<MrRegion>,
    /// The value for fi_mr_desc, which the application passes with the memory; 0 if it is not needed.
    pub desc: usize,
}

/// The address format of a transport, and its requirements on the application's memory. All parts of a transport depend
/// on these types.
pub trait Addressing: Sized + Send + 'static {
    type Addr: Address;
    /// A type without size if the format is fixed.
    type Format: AddressFormat<Addr = Self::Addr>;
}

/// Moves bytes for the endpoints of one domain. All calls are made under the domain lock. An endpoint is identified by
/// its index in `domain.eps`.
pub trait Transport:
    Connects + Contexts + Groups + Multicast + Atomics + Prepares + Queues + Batches + Drains
{
    /// Data of the provider for each fabric: its settings; a layered provider also the fabric below.
    type Fabric: Send + Sync + 'static;

    const SOURCE: &'static Source;
    /// The provider of a fabric, if several providers share the transport.
    fn provider(_fabric: &Self::Fabric) -> &'static Source {
        Self::SOURCE
    }
    /// The provider name in `fi_info`; in a layered provider it includes the provider below.
    fn prov_name(fabric: &Self::Fabric) -> &'static CStr {
        Self::provider(fabric).name()
    }
    /// Size of a completion queue whose attributes have size 0.
    const CQ_SIZE: usize;
    /// Bytes of remote CQ data that a message can carry.
    const CQ_DATA_SIZE: usize = 0;
    /// Most bytes of an authorization key; 0 if keys are not supported.
    const AUTH_KEY_SIZE: usize = 0;
    /// Most authorization keys of an address vector (FI_AV_AUTH_KEY).
    const AUTH_KEYS: usize = 0;
    /// Processes may exchange data through shared memory.
    const SHARES_MEMORY: bool = false;
    /// Endpoints hold a descriptor for each peer that they communicate with.
    const CONNECTS_TO_PEERS: bool = false;
    /// Event queues that are opened with FI_WAIT_NONE, the value of zeroed attributes, have a descriptor: programs for
    /// the provider may wait for them.
    const EVENTS_CAN_WAIT: bool = false;
    /// Endpoints may have FI_HMEM.
    const HMEM: bool = false;
    /// Adapters access memory of devices themselves. Only what a request carries itself is copied.
    const READS_DEVICES: bool = false;
    /// Atomic operations go to providers below as they are, and those know devices.
    const FORWARDS_ATOMICS: bool = false;
    /// Messages up to the inject size are copied when they are posted.
    const COPIES: bool = false;
    /// FI_OPT_CUDA_API_PERMITTED is known without FI_HMEM, too.
    const KNOWS_CUDA: bool = false;
    /// Objects belong to another provider, which moves the messages: fi_peer(3), FI_PEER and FI_PEER_TRANSFER.
    const IS_PEER: bool = false;

    /// The text of `prov_errno` of an event; `None` if it is an FI_ number.
    fn event_text(_number: i32) -> Option<&'static CStr> {
        None
    }
    /// Whether domains with automatic progress get a progress thread.
    fn offers_auto_progress(_fabric: &Self::Fabric) -> bool {
        true
    }
    /// `info` has the attributes of the domain. It may request more of progress than the domain gets, which is in
    /// `DomainState::auto`.
    ///
    /// `serialized`: the engine calls the transport from one thread at a time, so a layered transport may promise that
    /// to the provider below (FI_THREAD_DOMAIN), if it calls that from nowhere else.
    fn open(fabric: &Self::Fabric, info: &Info, serialized: Serialized) -> Result<Self>;
    /// The address format of this domain.
    fn format(&self) -> Self::Format;
    /// Whether buffers of other devices can be registered (FI_MR_DMABUF).
    const TAKES_BUFFERS: bool = false;

    /// Whether operations use the descriptors that `Registration` has.
    fn reads_descs(&self) -> bool {
        false
    }
    /// The calls that child processes of the process that opened the domain may make.
    fn children_may(&self) -> Children {
        Children::Go
    }

    /// A snapshot of the endpoint's peers, for reports (`engine::report`).
    fn peers(&self, _ep: usize) -> Vec<Peer> {
        Vec::new()
    }

    /// Becomes readable when `progress` may find something to do.
    fn poll_fd(&self) -> SharedFd;
    fn progress(&mut self, domain: &mut DomainStateOf<Self>);
    /// Like `progress`, for a read of one completion queue: the transport need not look for entries of the others.
    #[inline(always)]
    fn progress_queue(&mut self, domain: &mut DomainStateOf<Self>, _cq: usize) {
        self.progress(domain);
    }
    /// Like `progress`, but handles everything that is ready.
    fn progress_all(&mut self, domain: &mut DomainStateOf<Self>) {
        self.progress(domain);
    }
    /// Makes the next `progress` handle everything that is ready, because the last one was long ago.
    fn poll_wide(&mut self) {}
    /// Takes events for which no system call is needed.
    fn take_ready(&mut self, _domain: &mut DomainStateOf<Self>) {}

    fn open_ep(&mut self, domain: &mut DomainStateOf<Self>, ep: usize, info: &Info) -> Result;
    /// Gives an endpoint that was opened the endpoint that moves its messages. For `IS_PEER`.
    fn lend_ep(&mut self, _ep: usize, _owner: &Arc<PeerTransfer>) {}
    /// A message was moved, or not: its number; with a receive its length and its sender. For `IS_PEER`.
    fn transferred(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _ep: usize,
        _number: usize,
        _result: Result<(usize, u64)>,
    ) {
    }
    fn enable_ep(&mut self, domain: &mut DomainStateOf<Self>, ep: usize) -> Result;
    /// Sets the keys of the endpoint's address vector before the endpoint is enabled, with FI_AV_AUTH_KEY.
    fn set_keys(&mut self, _ep: usize, _keys: Vec<Key>) -> Result {
        Err(Error::NOSYS)
    }
    fn close_ep(&mut self, domain: &mut DomainStateOf<Self>, ep: usize);
    fn name(&self, ep: usize) -> Result<Vec<u8>>;
    /// The name in a shorter form, if there is one and only that has no more bytes than `room`.
    fn name_within(&self, ep: usize, _room: usize) -> Result<Vec<u8>> {
        self.name(ep)
    }
    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result;
    /// FI_OPT_SHARED_MEMORY_PERMITTED; the endpoint is not enabled yet.
    fn permit_sharing(&mut self, _ep: usize, _on: bool) -> Result {
        Err(Error::NOPROTOOPT)
    }
    /// FI_OPT_FIREWALL_ADDR.
    fn set_firewalled(&mut self, _ep: usize, _on: bool) -> Result {
        Err(Error::NOPROTOOPT)
    }

    /// Sends a message of one buffer if it can leave at once on the fastest path and need not wait for a read. Returns
    /// false without effect otherwise; then `transmit` decides.
    #[inline]
    fn transmit_one(&mut self, _domain: &mut DomainStateOf<Self>, _ep: usize, _tx: &OneTx) -> bool {
        false
    }
    /// Writes one buffer to one place, under the rules of `transmit_one`.
    #[inline]
    fn write_one(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _ep: usize,
        _write: &OneWrite,
    ) -> bool {
        false
    }
    /// Takes the memory of `tx` if the operation is posted. (`tx` is a reference because each function on the path
    /// would copy a value.)
    fn transmit(&mut self, domain: &mut DomainStateOf<Self>, ep: usize, tx: &mut Tx<'_>) -> Result;
    /// Like `transmit`, if the destination may name a receive context of the peer (FI_NAMED_RX_CTX). `port` is the
    /// endpoint, `ep` the same or one of its transmit contexts.
    fn transmit_from(
        &mut self,
        domain: &mut DomainStateOf<Self>,
        _port: usize,
        ep: usize,
        tx: &mut Tx<'_>,
    ) -> Result {
        self.transmit(domain, ep, tx)
    }
    /// Number of operations that the endpoint's queues accept now at least, of any kind and for any peer:
    /// fi_tx_size_left(3). Each copies `inject` bytes if it is injected; `caps` limits the kinds of operations.
    fn tx_room(&mut self, _ep: usize, _inject: usize, _caps: Caps) -> usize {
        usize::MAX
    }
    /// fi_cancel(3): removes an initiated operation with this context that has not begun. The caller completes it as
    /// cancelled.
    fn cancel(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _ep: usize,
        _context: usize,
    ) -> Option<TxOp> {
        None
    }

    /// The fi_addr of the message's sender in completions, or FI_ADDR_NOTAVAIL.
    #[inline]
    fn source(envelope: &Envelope) -> u64 {
        envelope.source
    }
    /// Called when a receive matched a message whose bytes the transport has not delivered yet. Unused by transports
    /// whose messages always arrive as a whole.
    fn claim(&mut self, _domain: &mut DomainStateOf<Self>, _claimed: Claimed) {}
    /// Called when unexpected messages may be kept again.
    fn room_again(&mut self, _domain: &mut DomainStateOf<Self>) {}

    /// fi_mr(3): registers memory. The engine handles the flags of the request.
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
    /// Called when peers may access this region from now on, or when registering it failed after all; its memory is
    /// then not accessed any more.
    fn region_opened(&mut self, _domain: &mut DomainStateOf<Self>, _region: &MrRegion) {}
    /// Called when peers can no longer find the region. If it `is_closed`, accesses to it must end.
    fn region_closed(&mut self, _domain: &mut DomainStateOf<Self>, _region: &Arc<MrRegion>) {}
    /// Called when a counter is bound to a region, for transports that do not see accesses to the region.
    fn count_region(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _region: &MrRegion,
        _counter: &Arc<Counter>,
    ) -> Result {
        Ok(())
    }
    /// Called when accesses of peers must be counted from now on, at an endpoint that peers may know already.
    fn counts_accesses(&mut self, _domain: &mut DomainStateOf<Self>) {}

    /// Prepares to send to an address that is about to be inserted into a vector. An error refuses the address.
    fn reach(&mut self, _domain: &mut DomainStateOf<Self>, _addr: &Self::Addr) -> Result {
        Ok(())
    }
    /// Called when an address vector of the domain has got an address that it did not have.
    fn address_joined(&mut self, _domain: &mut DomainStateOf<Self>, _av: usize, _index: u64) {}
    /// Called when `index` of an address vector has lost its address.
    fn address_left(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _av: usize,
        _index: u64,
        _addr: &Self::Addr,
    ) {
    }
    /// Called when `index` of the endpoint's address vector gets a (new) address, if the endpoint has a session with
    /// that peer or keeps messages of it: `DomainState::session_added` and `keeps_messages`. Others are not visited,
    /// because a vector may have many thousand addresses, and a domain many endpoints.
    fn av_inserted(&mut self, _domain: &mut DomainStateOf<Self>, _ep: usize, _index: u64) {}
    /// Called for the same endpoints when `index` of their address vector loses its address.
    fn av_removed(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _ep: usize,
        _index: u64,
        _addr: &Self::Addr,
    ) {
    }
    /// The index of a peer that hosts or routers reported as unreachable since the last call. `NOMSG`: there is none.
    /// Providers above decide what follows.
    fn take_unreachable(&mut self, _domain: &DomainStateOf<Self>, _ep: usize) -> Result<u64> {
        Err(Error::NOPROTOOPT)
    }
    /// The bytes that fi_av_lookup returns.
    fn looked_up(&self, addr: &Self::Addr) -> Vec<u8> {
        addr.to_bytes()
    }
}
