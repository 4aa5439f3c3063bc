// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The parts of a transport that are optional. Each part has defaults for all of its calls, which return what the man
//! pages require of a provider without it: `impl Groups for Udp {}` is a transport without collectives.

use core::ffi::c_void;
use core::time::Duration;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::{Addressing, DomainStateOf, Transport};
use crate::coll::Token;
use crate::fabric::FabricShared;
use crate::flusher::Held;
use abi::{fi_datatype, fi_op, fid_pep};
use base::info::{Info, RxAttr};
use base::{Caps, Error, Result};
use object::ops::atomic::{Atomic, Family};
use object::ops::transfer::{OneTx, Rx, Tx};
use object::ops::wr::record::Route;

/// State of the listener at the peer's address, as far as an endpoint that is not connected yet knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listener {
    /// Nothing has answered.
    Unknown = 0,
    /// The listener is on this host, whose kernel would refuse the connection if there were no listener. So its queue
    /// is full, or a firewall drops packets.
    Silent = 1,
    /// The listener's kernel has accepted the connection.
    Accepted = 2,
}

/// Connected endpoints (FI_EP_MSG) and passive ones: fi_cm(3).
pub trait Connects: Addressing {
    /// Most bytes of private data (FI_OPT_CM_DATA_SIZE).
    const CM_DATA_SIZE: usize = crate::domain::ep::CM_DATA_SIZE;

    /// A passive endpoint (fi_endpoint(3)).
    fn open_pep(
        _fabric: &Arc<FabricShared<Self>>,
        _info: Info,
        _context: *mut c_void,
    ) -> Result<*mut fid_pep>
    where
        Self: Transport,
    {
        Err(Error::NOSYS)
    }
    fn peer(&self, _ep: usize) -> Result<Vec<u8>> {
        Err(Error::NOSYS)
    }
    fn connect(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _ep: usize,
        _addr: Option<&[u8]>,
        _param: &[u8],
    ) -> Result {
        Err(Error::NOSYS)
    }
    fn listener(&self, _ep: usize) -> Listener {
        Listener::Unknown
    }
    fn accept(&mut self, _domain: &mut DomainStateOf<Self>, _ep: usize, _param: &[u8]) -> Result {
        Err(Error::NOSYS)
    }
    fn shutdown(&mut self, _domain: &mut DomainStateOf<Self>, _ep: usize) -> Result {
        Err(Error::NOSYS)
    }
    /// FI_GET_FD: the socket of a connected endpoint.
    fn socket(&self, _ep: usize) -> Result<BorrowedFd<'_>> {
        Err(Error::NOSYS)
    }
}

/// The contexts of scalable endpoints: fi_endpoint(3). `port` is the endpoint, `ep` the context. Operations that are
/// posted through a context arrive by `Transport::transmit_from`.
pub trait Contexts: Addressing {
    /// FI_EP_DGRAM endpoints may have contexts, too, not only FI_EP_RDM ones.
    const OF_DATAGRAMS: bool = false;

    /// After this call, operations that were posted through this transmit context use no memory of the application.
    /// Pending ones complete at `successor`.
    fn close_tx_context(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _port: usize,
        _ep: usize,
        _successor: usize,
    ) {
    }
    /// After this call nothing is written to receives of this context.
    fn close_rx_context(&mut self, _domain: &mut DomainStateOf<Self>, _port: usize, _ep: usize) {}
}

/// Collectives: fi_collective(3). The frames of an endpoint's collectives are in `DomainState::groups`, from the call
/// of `open_lane`, which `enable_ep` makes, until that of `forget`.
pub trait Groups: Addressing {
    /// Whether endpoints may have collectives.
    const COLLECTIVES: bool = false;

    /// Members have no bytes by which all members identify them, so a member chooses the number of a group:
    /// `begin_join`. Indexes of an address vector are then addresses: `address_of`, `index_of`.
    const NAMELESS: bool = false;

    /// The bytes by which all members identify this address.
    fn identity(_addr: &Self::Addr) -> Vec<u8> {
        Vec::new()
    }
    fn address_of(_index: u64) -> Option<Self::Addr> {
        None
    }
    fn index_of(_addr: &Self::Addr) -> Option<u64> {
        None
    }
    /// Joins a group of which only this member knows the number.
    fn begin_join(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _ep: usize,
        _number: u64,
        _alone: bool,
        _token: Token,
    ) {
    }
    /// Returns the rank of the endpoint among the members; FI_EINVAL if it is not one.
    fn own_rank(&self, _ep: usize, _members: &[Self::Addr]) -> Result<usize> {
        Err(Error::NOSYS)
    }
    /// Carries out the actions that a call of the application has queued.
    fn groups_moved(&mut self, _domain: &mut DomainStateOf<Self>, _ep: usize) {}
}

/// Multicast groups: fi_cm(3), fi_join. For endpoints with FI_MULTICAST.
pub trait Multicast: Addressing {
    /// Joins a group, to send to it, to receive from it, or both. Returns the fi_addr that operations with FI_MULTICAST
    /// use for it, which differs from those of other groups and from the indexes of an address vector.
    fn join_multicast(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _ep: usize,
        _group: &Self::Addr,
        _sides: Caps,
    ) -> Result<u64> {
        Err(Error::NOSYS)
    }
    fn leave_multicast(&mut self, _domain: &mut DomainStateOf<Self>, _ep: usize, _group: u64) {}
}

/// Atomic operations: fi_atomic(3).
pub trait Atomics: Addressing {
    /// Greatest length of one operation's operands in bytes; 0 if there are no atomic operations.
    const ATOMIC_SIZE: usize = 0;

    /// The same limit as `ATOMIC_SIZE`, for one operation; 0 if it is not available. For transports whose peers
    /// do not support all of them.
    fn most_of(_family: Family, _datatype: fi_datatype, _op: fi_op) -> usize {
        Self::ATOMIC_SIZE
    }

    /// `port` is the endpoint, `ep` the same or a transmit context of it.
    fn atomic(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _port: usize,
        _ep: usize,
        _atomic: &mut Atomic<'_>,
    ) -> Result {
        Err(Error::OPNOTSUPP)
    }
}

/// Prepared work requests: fi_wr(3). For endpoints with FI_WR.
pub trait Prepares: Addressing {
    /// The route of an operation of the endpoint `port`: which peer its destination stands for now, and its short path.
    fn route(
        &mut self,
        domain: &mut DomainStateOf<Self>,
        port: usize,
        tx: &Tx<'_>,
    ) -> Result<Route> {
        Ok(Route::to(self.generation(domain, port, tx.dest)?))
    }
    /// A number that changes when the address at this index leaves the address vector. `INVAL`: there is none.
    fn generation(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _port: usize,
        _addr: u64,
    ) -> Result<u32> {
        Err(Error::NOSYS)
    }
    /// Whether that number is still the same.
    fn is_current(
        &self,
        _domain: &DomainStateOf<Self>,
        _port: usize,
        _addr: u64,
        _generation: u32,
    ) -> bool {
        false
    }
    /// Posts a message by the short path of its route. False: nothing has happened.
    #[inline]
    fn queue_short(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _ep: usize,
        _tx: &OneTx,
        _route: &Route,
    ) -> bool {
        false
    }
}

/// Queues that exist in an adapter, too: it matches messages with receives, and reports completions.
pub trait Queues: Addressing {
    /// Receives are posted to the adapter, by `receive` and `receive_shared`. The engine then matches nothing.
    const POSTS_RECEIVES: bool = false;
    /// Counters may be opened: fi_cntr(3).
    const COUNTS: bool = true;

    /// Opens the adapter's part of a completion queue of the domain.
    fn open_cq(&mut self, _cq: usize, _request: &NewQueue) -> Result {
        Ok(())
    }
    /// Closes it. No endpoint uses it any more.
    fn close_cq(&mut self, _cq: usize) {}
    /// Opens the adapter's part of a shared receive context, `DomainState::srxs[srx]`.
    fn open_srx(&mut self, _srx: usize, _attr: &RxAttr) -> Result {
        Ok(())
    }
    /// Closes it. No endpoint uses it any more.
    fn close_srx(&mut self, _srx: usize) {}
    /// Posts a receive of an enabled endpoint.
    fn receive(&mut self, _domain: &mut DomainStateOf<Self>, _ep: usize, _rx: &mut Rx) -> Result
    where
        Self: Transport,
    {
        Err(Error::NOSYS)
    }
    /// Whether endpoints may limit their messages to the receives that peers have posted: `object::ops::credits`.
    const CREDITS: bool = false;

    /// Whether credits can be enabled for an endpoint.
    fn has_credits(&self, _domain: &DomainStateOf<Self>, _ep: usize) -> bool {
        false
    }
    /// Enables credits, for an endpoint that has them.
    fn enable_credits(&mut self, _ep: usize, _threshold: u64) {}
    /// Adds credits that the peer has sent.
    fn add_credits(&mut self, _ep: usize, _count: u64) {}
    /// Takes the number of posted receives if it has reached the threshold.
    #[inline]
    fn take_due_credits(&mut self, _ep: usize) -> Option<u64> {
        None
    }
    /// Puts a number back that could not be sent to the peer.
    fn keep_credits(&mut self, _ep: usize, _count: u64) {}
    /// Posts a receive of a shared context.
    fn receive_shared(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _srx: usize,
        _rx: &mut Rx,
    ) -> Result
    where
        Self: Transport,
    {
        Err(Error::NOSYS)
    }
}

/// A completion queue that is opened.
pub struct NewQueue {
    pub size: usize,
    /// Threads may block on it.
    pub waits: bool,
    /// FI_AFFINITY: the interrupt vector that the application chose.
    pub vector: Option<usize>,
}

/// Small messages that are held back for a moment, so that they can be sent together.
pub trait Batches: Addressing {
    /// Returns true if messages are held back.
    #[inline]
    fn holds_back(&self) -> bool {
        false
    }
    /// Returns true if messages are held back that no thread will flush.
    #[inline]
    fn must_flush(&self) -> bool {
        false
    }
    /// Sends the messages that were held back.
    #[inline]
    fn flush(&mut self, _domain: &mut DomainStateOf<Self>) {}
    /// fi_tx_flush: starts everything that FI_MORE has deferred at this endpoint; it may start more.
    fn start_deferred(&mut self, domain: &mut DomainStateOf<Self>, _port: usize) {
        self.flush(domain);
    }
    /// Leaves the messages that are held back to the flusher thread: this poll is not followed by `flush`.
    #[inline]
    fn hold(&mut self) {}
    /// Returns the state that the flusher thread uses, if messages can be held back.
    fn held_back(&self) -> Option<&Arc<Held>> {
        None
    }
    /// Called after the flusher thread has flushed: records whether any messages are left.
    fn end_holding(&self) {}
}

/// Accepted messages stay here until the peer takes them, so closing has to wait for that.
pub trait Drains: Addressing {
    /// Time limit for that wait.
    fn close_limit(&self) -> Duration {
        Duration::ZERO
    }
    /// Returns true if messages of this endpoint, or of all, were accepted but have not left, and no completion will
    /// report them any more. `patient`: counts also bytes that the kernel has not sent.
    fn owes(&self, _ep: Option<usize>, _patient: bool) -> bool {
        false
    }
    /// Called while `owes` returns true, before each poll.
    fn prepare_drain(&mut self, _domain: &mut DomainStateOf<Self>, _ep: Option<usize>) {}
    /// After this call nothing is written to the application's memory. Called only if `owes` returned true.
    fn release_memory(&mut self, _domain: &mut DomainStateOf<Self>) {}
    /// Logs which messages are lost, and their peers.
    fn report_lost(&self, _ep: Option<usize>) {}
}
