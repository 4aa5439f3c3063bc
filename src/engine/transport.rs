// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What a provider brings: how bytes move. Everything else about a domain is the engine's.
#![forbid(unsafe_code)]

use core::ffi::c_void;
use core::hash::Hash;
use core::time::Duration;
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::abi::{fi_collective_op, fid_pep};
use crate::base::info::Info;
use crate::base::log::Source;
use crate::base::{Error, Result};
use crate::engine::auth::Key;
use crate::engine::cntr::Counter;
use crate::engine::coll::Shape;
use crate::engine::core::Core;
use crate::engine::fabric::FabricShared;
use crate::engine::flusher::Held;
use crate::engine::mr::Region;
use crate::engine::srx::{Claimed, Envelope};
use crate::ffi::ops::atomic::Atomic;
use crate::ffi::ops::collective::Collective;
use crate::ffi::ops::transfer::{OneTx, Tx};
use crate::hmem::Memory;
use crate::sync::Children;

/// What the engine keeps for a domain over this transport.
pub type CoreOf<T> = Core<<T as Transport>::Addr, <T as Transport>::Memory>;

/// Registered memory; its counter counts what peers write.
pub type MrRegion = Region<Arc<Counter>>;

/// An address as an address vector holds it.
pub trait Address: Clone + Eq + Hash + Send + 'static {
    /// How many bytes the address at this place in C's memory has; 0 if it is none.
    fn len_at(addr: *const core::ffi::c_void) -> usize;
    /// The same for an array; nothing if that is more than there can be.
    fn array_len_at(addr: *const core::ffi::c_void, count: usize) -> Option<usize> {
        match count {
            0 => Some(0),
            _ => Self::len_at(addr).checked_mul(count),
        }
    }
    /// The addresses of such an array, `count` of them.
    fn split(bytes: &[u8], count: usize) -> impl Iterator<Item = &[u8]> {
        let len = bytes.len() / count.max(1);
        (0..count).map(move |i| &bytes[i * len..][..len])
    }
    /// Nothing for an address that cannot be a peer's.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
    fn to_bytes(&self) -> Vec<u8>;
    /// As fi_av_straddr shows it.
    fn text(bytes: &[u8]) -> String;
    /// The address that is shown so; fi_getinfo(3), FI_ADDR_STR.
    fn from_text(text: &str) -> Option<Self>;
    /// A name and a service.
    fn resolve(node: &str, service: &str) -> Result<Self>;
}

/// Who is to form a group.
pub struct Membership<'a> {
    /// Indexes into the endpoint's address vector, in order.
    pub members: &'a [u64],
    /// A group that all of them belong to.
    pub parent: Option<u64>,
}

/// Moves bytes for the endpoints of one domain. All calls come under the domain's lock. Endpoints are named by their
/// number in `core.eps`.
pub trait Transport: Sized + Send + 'static {
    type Addr: Address;
    /// What it has to know of the application's memory: nothing of the host's, or what descriptors say.
    type Memory: Memory;
    /// What the provider keeps per fabric.
    type Fabric: Send + Sync + 'static;

    const SOURCE: &'static Source;
    /// The provider that a fabric belongs to, where several share the transport.
    fn provider(_fabric: &Self::Fabric) -> &'static Source {
        Self::SOURCE
    }
    /// Entries of a completion queue that names no size.
    const CQ_SIZE: usize;
    /// Bytes of remote CQ data that a message can carry.
    const CQ_DATA_SIZE: usize;
    /// Bytes of an authorization key at most; 0 if there are none.
    const AUTH_KEY_SIZE: usize = 0;
    /// Authorization keys of an address vector at most (FI_AV_AUTH_KEY).
    const AUTH_KEYS: usize = 0;
    /// Bytes of operands of one atomic operation at most; none if there are no such operations.
    const ATOMIC_SIZE: usize = 0;
    /// Data goes through memory that processes share.
    const SHARES_MEMORY: bool = false;
    /// Endpoints may have FI_HMEM.
    const HMEM: bool = false;

    /// Whether domains get a thread when progress is to be automatic.
    fn offers_auto_progress(fabric: &Self::Fabric) -> bool;
    fn open(fabric: &Self::Fabric) -> Result<Self>;
    /// A passive endpoint (fi_endpoint(3)).
    fn open_pep(
        fabric: &Arc<FabricShared<Self>>,
        info: Info,
        context: *mut c_void,
    ) -> Result<*mut fid_pep>;
    /// Readable when `progress` may find something to do.
    fn poll_fd(&self) -> RawFd;
    fn progress(&mut self, core: &mut CoreOf<Self>);
    /// Takes what has come as far as no call of the kernel is needed for that.
    fn take_at_hand(&mut self, _core: &mut CoreOf<Self>) {}
    /// As `progress`, and leaves nothing that is ready to a later look.
    fn progress_all(&mut self, core: &mut CoreOf<Self>);
    /// Sends what was held back to be sent together.
    fn flush(&mut self, core: &mut CoreOf<Self>);
    /// Whether something is held back.
    fn holds_back(&self) -> bool;
    /// What is held back, for the thread that flushes it.
    fn held_back(&self) -> &Arc<Held>;
    /// The thread has flushed: tells it whether anything is left.
    fn end_holding(&self);
    /// Whether something is held back that no thread flushes.
    fn must_flush(&self) -> bool;

    fn open_ep(&mut self, core: &mut CoreOf<Self>, ep: usize, info: &Info) -> Result;
    fn enable_ep(&mut self, core: &mut CoreOf<Self>, ep: usize) -> Result;
    /// With FI_AV_AUTH_KEY, before it is enabled: the keys that its vector has now.
    fn set_keys(&mut self, _ep: usize, _keys: Vec<Key>) -> Result {
        Err(Error::NOSYS)
    }
    /// How long what follows may be waited for.
    fn close_limit(&self) -> Duration;
    /// Whether something was accepted that the application cannot hear of any more, and that has not left: of this endpoint, or
    /// of all. `patient`: also what the kernel has not sent.
    fn owes(&self, ep: Option<usize>, patient: bool) -> bool;
    /// Nothing is written to the application's memory any more.
    fn leave_memory(&mut self, core: &mut CoreOf<Self>);
    /// Says in the log what of it is lost, and for whom.
    fn tell_lost(&self, ep: Option<usize>);
    fn close_ep(&mut self, core: &mut CoreOf<Self>, ep: usize);
    /// A message of one buffer, if it can leave at once by the shortest way, behind no read. False: nothing has happened, `transmit`
    /// decides.
    #[inline]
    fn transmit_one(
        &mut self,
        _core: &mut CoreOf<Self>,
        _ep: usize,
        _tx: &OneTx<Self::Memory>,
    ) -> bool {
        false
    }
    fn transmit(&mut self, core: &mut CoreOf<Self>, ep: usize, tx: Tx<'_, Self::Memory>) -> Result;
    /// How many operations of an endpoint are taken now at least, of whatever kind and for whatever peer, as far as its
    /// queues go: fi_tx_size_left(3). Of each `inject` bytes are copied if it is injected; `caps` says which there may be.
    fn tx_room(&mut self, _ep: usize, _inject: usize, _caps: u64) -> usize {
        usize::MAX
    }
    /// `port` is the endpoint, `ep` the same or a transmit context of it.
    fn atomic(
        &mut self,
        _core: &mut CoreOf<Self>,
        _port: usize,
        _ep: usize,
        _atomic: Atomic<'_, Self::Memory>,
    ) -> Result {
        Err(Error::OPNOTSUPP)
    }
    /// As `transmit`, where the destination may name a receive context of the peer. `port` is the endpoint, `ep` the same or a
    /// transmit context of it.
    fn transmit_from(
        &mut self,
        core: &mut CoreOf<Self>,
        port: usize,
        ep: usize,
        tx: Tx<'_, Self::Memory>,
    ) -> Result;
    /// What was posted through this transmit context uses no memory of the application any more. What is left of it
    /// completes at `heir`.
    fn close_tx_context(&mut self, core: &mut CoreOf<Self>, port: usize, ep: usize, heir: usize);
    /// Nothing is written to receives of this context any more.
    fn close_rx_context(&mut self, core: &mut CoreOf<Self>, port: usize, ep: usize);
    /// From now on accesses of peers to memory are counted at an endpoint that they may know already.
    fn counts_accesses(&mut self, _core: &mut CoreOf<Self>) {}
    /// A receive has met a message whose bytes the transport still has to bring.
    fn claim(&mut self, core: &mut CoreOf<Self>, claimed: Claimed<Self::Memory>);
    /// Peers may use this region from now on, or as it is not any more; its memory is not touched after that.
    fn region_opened(&mut self, _core: &mut CoreOf<Self>, _region: &MrRegion) {}
    /// Peers no longer find the region by themselves. If it `is_closed`, accesses to it end.
    fn region_closed(&mut self, _core: &mut CoreOf<Self>, _region: &Arc<MrRegion>) {}
    /// The bytes that fi_av_lookup gives.
    fn looked_up(&self, addr: &Self::Addr) -> Vec<u8> {
        addr.to_bytes()
    }
    /// The fi_addr that a completion names for the sender of a message, or FI_ADDR_NOTAVAIL.
    fn source(envelope: &Envelope) -> u64;
    /// There is room again for messages that nobody has asked for.
    fn room_again(&mut self, core: &mut CoreOf<Self>);

    fn name(&self, ep: usize) -> Result<Vec<u8>>;
    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result;
    fn peer(&self, ep: usize) -> Result<Vec<u8>>;
    fn connect(
        &mut self,
        core: &mut CoreOf<Self>,
        ep: usize,
        addr: Option<&[u8]>,
        param: &[u8],
    ) -> Result;
    fn accept(&mut self, core: &mut CoreOf<Self>, ep: usize, param: &[u8]) -> Result;
    fn shutdown(&mut self, core: &mut CoreOf<Self>, ep: usize) -> Result;

    /// `index` of this address vector has a (new) address.
    fn av_inserted(&mut self, core: &mut CoreOf<Self>, av: usize, index: u64);
    /// `index` of this address vector has lost its address.
    fn av_removed(&mut self, core: &mut CoreOf<Self>, av: usize, index: u64, addr: &Self::Addr);

    /// fi_cancel(3): completes an operation of the initiator that has not begun, and has this context, as cancelled.
    fn cancel(&mut self, _core: &mut CoreOf<Self>, _ep: usize, _context: usize) {}

    /// FI_GET_FD: the socket of a connected endpoint.
    fn socket(&self, _ep: usize) -> Result<RawFd> {
        Err(Error::NOSYS)
    }

    /// Endpoints may have collectives: the calls from here on.
    const COLLECTIVES: bool = false;

    /// A group that an endpoint is going to join; its address.
    fn open_group(
        &mut self,
        _core: &mut CoreOf<Self>,
        _ep: usize,
        _membership: &Membership<'_>,
    ) -> Result<u64> {
        Err(Error::NOSYS)
    }

    /// Joins the group, asynchronously; `alone`: without asking the others. `token`: the group's handle and the context.
    fn join_group(
        &mut self,
        _core: &mut CoreOf<Self>,
        _ep: usize,
        _group: u64,
        _token: (usize, usize),
        _alone: bool,
    ) {
    }

    /// The group's handle is closed.
    fn leave_group(&mut self, _core: &mut CoreOf<Self>, _ep: usize, _group: u64) {}

    /// How this endpoint would take part in a collective, without the sizes.
    fn shape(
        &self,
        _core: &CoreOf<Self>,
        _ep: usize,
        _what: fi_collective_op,
        _group: u64,
        _root: u64,
    ) -> Result<Shape> {
        Err(Error::NOSYS)
    }

    fn collect(
        &mut self,
        _core: &mut CoreOf<Self>,
        _ep: usize,
        _call: Collective<Self::Memory>,
    ) -> Result {
        Err(Error::NOSYS)
    }

    /// What processes may do that were forked from the one that opened the domain.
    fn children_may(&self) -> Children {
        Children::Go
    }

    /// FI_OPT_SHARED_MEMORY_PERMITTED, of an endpoint that is not enabled.
    fn permit_sharing(&mut self, _ep: usize, _on: bool) -> Result {
        Err(Error::NOPROTOOPT)
    }

    /// FI_OPT_FIREWALL_ADDR.
    fn set_firewalled(&mut self, _ep: usize, _on: bool) -> Result {
        Err(Error::NOPROTOOPT)
    }
}
