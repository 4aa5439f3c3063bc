// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What only some transports can do. Each part has defaults for all of its calls, which answer as the man pages say of
//! a provider that does not offer it: `impl Groups for Udp {}` is a transport without collectives.
#![forbid(unsafe_code)]

use core::ffi::c_void;
use core::time::Duration;
use std::os::fd::RawFd;
use std::sync::Arc;

use super::{Addressing, DomainStateOf, Transport};
use crate::abi::{fi_collective_op, fi_datatype, fi_op, fid_pep};
use crate::base::info::Info;
use crate::base::{Caps, Error, Result};
use crate::engine::coll::Shape;
use crate::engine::fabric::FabricShared;
use crate::engine::flusher::Held;
use crate::ffi::ops::atomic::{Atomic, Family};
use crate::ffi::ops::collective::Collective;
use crate::ffi::ops::transfer::{OneTx, Tx};
use crate::ffi::ops::wr::record::Route;

/// State of the listener at the peer's address, as far as an endpoint that is not connected yet has seen it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listener {
    /// Nothing has answered.
    Unknown = 0,
    /// The listener is on this host, whose kernel would refuse if nothing listened. Its queue is full, or a firewall
    /// drops packets.
    Silent = 1,
    /// Its kernel has accepted the connection.
    Accepted = 2,
}

/// Connected endpoints (FI_EP_MSG) and passive ones: fi_cm(3).
pub trait Connects: Addressing {
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
    fn socket(&self, _ep: usize) -> Result<RawFd> {
        Err(Error::NOSYS)
    }
}

/// The contexts of scalable endpoints: fi_endpoint(3). `port` is the endpoint, `ep` the context. What is posted through
/// them comes by `Transport::transmit_from`.
pub trait Contexts: Addressing {
    /// FI_EP_DGRAM endpoints may have them, too, not only FI_EP_RDM ones.
    const OF_DATAGRAMS: bool = false;

    /// What was posted through this transmit context uses no memory of the application any more. What is left of it
    /// completes at `successor`.
    fn close_tx_context(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _port: usize,
        _ep: usize,
        _successor: usize,
    ) {
    }
    /// Nothing is written to receives of this context any more.
    fn close_rx_context(&mut self, _domain: &mut DomainStateOf<Self>, _port: usize, _ep: usize) {}
}

/// Who is to form a group.
pub struct Membership<'a> {
    /// Indexes into the endpoint's address vector, in order.
    pub members: &'a [u64],
    /// A group that all of them belong to.
    pub parent: Option<u64>,
}

/// Collectives: fi_collective(3).
pub trait Groups: Addressing {
    /// Endpoints may have them.
    const COLLECTIVES: bool = false;

    /// A group that an endpoint is going to join; its address.
    fn open_group(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _ep: usize,
        _membership: &Membership<'_>,
    ) -> Result<u64> {
        Err(Error::NOSYS)
    }
    /// Joins the group, asynchronously; `alone`: without asking the others. `token`: the group's handle and the
    /// context.
    fn join_group(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _ep: usize,
        _group: u64,
        _token: (usize, usize),
        _alone: bool,
    ) {
    }
    /// The group's handle is closed.
    fn leave_group(&mut self, _domain: &mut DomainStateOf<Self>, _ep: usize, _group: u64) {}
    /// How this endpoint would take part in a collective, without the sizes.
    fn shape(
        &self,
        _domain: &DomainStateOf<Self>,
        _ep: usize,
        _what: fi_collective_op,
        _group: u64,
        _root: u64,
    ) -> Result<Shape> {
        Err(Error::NOSYS)
    }
    fn collect(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _ep: usize,
        _call: Collective<Self::Memory>,
    ) -> Result {
        Err(Error::NOSYS)
    }
}

/// Multicast groups: fi_cm(3), fi_join. For endpoints with FI_MULTICAST.
pub trait Multicast: Addressing {
    /// The endpoint joins a group, to send to it, to receive from it, or both: the fi_addr by which operations with
    /// FI_MULTICAST name it. No two groups have the same, nor a group and an index of an address vector.
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
    /// Bytes of operands of one operation at most; none if there are no such operations.
    const ATOMIC_SIZE: usize = 0;

    /// The same of one operation; 0 if it is not there. For transports whose peers do not have all of them.
    fn most_of(_family: Family, _datatype: fi_datatype, _op: fi_op) -> usize {
        Self::ATOMIC_SIZE
    }

    /// `port` is the endpoint, `ep` the same or a transmit context of it.
    fn atomic(
        &mut self,
        _domain: &mut DomainStateOf<Self>,
        _port: usize,
        _ep: usize,
        _atomic: &mut Atomic<'_, Self::Memory>,
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
        tx: &Tx<'_, Self::Memory>,
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
        _tx: &OneTx<Self::Memory>,
        _route: &Route,
    ) -> bool {
        false
    }
}

/// Small messages are held back for a moment, to be sent together.
pub trait Batches: Addressing {
    /// Whether something is held back.
    #[inline]
    fn holds_back(&self) -> bool {
        false
    }
    /// Whether something is held back that no thread flushes.
    #[inline]
    fn must_flush(&self) -> bool {
        false
    }
    /// Sends what was held back.
    #[inline]
    fn flush(&mut self, _domain: &mut DomainStateOf<Self>) {}
    /// fi_tx_flush: starts everything that FI_MORE has deferred at this endpoint; it may start more.
    fn start_deferred(&mut self, domain: &mut DomainStateOf<Self>, _port: usize) {
        self.flush(domain);
    }
    /// A poll is not followed by `flush`: what it left held back is the thread's.
    #[inline]
    fn hold(&mut self) {}
    /// What is held back, for the thread that flushes it; if there may be anything.
    fn held_back(&self) -> Option<&Arc<Held>> {
        None
    }
    /// The thread has flushed: tells it whether anything is left.
    fn end_holding(&self) {}
}

/// What was accepted is kept here until the peer takes it, so closing has to wait for that.
pub trait Drains: Addressing {
    /// How long that may be waited for.
    fn close_limit(&self) -> Duration {
        Duration::ZERO
    }
    /// Whether something was accepted that the application cannot hear of any more, and that has not left: of this
    /// endpoint, or of all. `patient`: also what the kernel has not sent.
    fn owes(&self, _ep: Option<usize>, _patient: bool) -> bool {
        false
    }
    /// Nothing is written to the application's memory any more. Only where something is owed.
    fn leave_memory(&mut self, _domain: &mut DomainStateOf<Self>) {}
    /// Says in the log what of it is lost, and for whom.
    fn tell_lost(&self, _ep: Option<usize>) {}
}
