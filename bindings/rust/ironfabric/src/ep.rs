// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Active endpoints: fi_endpoint(3), fi_cm(3). The module `ops` has their operations.

use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use core::mem::forget;
use core::ptr::null_mut;
use std::sync::Arc;

use ironfabric_sys::*;

use crate::av::{Address, AddressVector, VectorInner};
use crate::buffer::{OperationId, new_sides};
use crate::cntr::{Counter, CounterInner};
use crate::cq::{CompletionQueue, QueueInner};
use crate::domain::{Domain, DomainInner};
use crate::eq::{ConnectionRequest, EndpointId, EventInner, EventQueue, param};
use crate::error::{Error, Result, status};
use crate::handle::{Raw, Shared, Threads, padded, sized, slot};
use crate::info::{Caps, EndpointType, Info};

/// An endpoint: sends and receives messages, reads and writes memory of peers. fi_endpoint(3)
///
/// [`Domain::endpoint`] makes it. Its operations take buffers, which the bound completion queue gives back. When the
/// endpoint is dropped, operations in flight end without a completion. Their buffers are freed when the queue was read
/// until it is empty, or is closed.
pub struct Endpoint<T: Threads = Shared> {
    pub(crate) raw: Raw<fid_ep>,
    pub(crate) domain: Arc<DomainInner>,
    /// Number of the address vector; 0 on connections.
    pub(crate) vector: u64,
    /// `Tables` that are complete and have a completion queue.
    pub(crate) tables: u32,
    /// The numbers by which buffers in flight name it: transmit, receive.
    pub(crate) sides: [u64; 2],
    bound: Bound,
    model: PhantomData<T>,
}

/// Objects that an endpoint uses, and so keeps open.
#[derive(Default)]
struct Bound {
    transmit: Option<Arc<QueueInner>>,
    receive: Option<Arc<QueueInner>>,
    vector: Option<Arc<VectorInner>>,
    events: Option<Arc<EventInner>>,
    counters: Vec<(Arc<CounterInner>, u64)>,
}

/// Bits of `Endpoint::tables`.
pub(crate) mod tables {
    pub const MSG_TX: u32 = 1;
    pub const MSG_RX: u32 = 2;
    pub const TAGGED_TX: u32 = 4;
    pub const TAGGED_RX: u32 = 8;
    pub const RMA: u32 = 16;
    /// Without a completion queue: operations without a completion.
    pub const MSG_INJECT: u32 = 32;
    pub const TAGGED_INJECT: u32 = 64;
    pub const RMA_INJECT: u32 = 128;
    pub const ATOMIC: u32 = 256;
    pub const ATOMIC_INJECT: u32 = 512;
}

impl<T: Threads> Domain<T> {
    /// Returns a builder of an endpoint for an entry of this domain. `INVAL`: the entry is of another one.
    ///
    /// ```
    /// # use ironfabric::*;
    /// # fn main() -> Result {
    /// # let list = Hints::new().caps(Caps::MSG).endpoint_type(EndpointType::Rdm).provider("tcp")
    /// #     .source("127.0.0.1", None).query()?;
    /// # let info = list.first().unwrap();
    /// let fabric = Fabric::open(&info)?;
    /// let domain = Domain::<Shared>::open(&fabric, &info)?;
    /// let queue = CompletionQueue::open(&domain, QueueOptions::default())?;
    /// let vector = AddressVector::open(&domain, 0)?;
    /// let endpoint = domain.endpoint(&info)?.queue(&queue)?.address_vector(&vector)?.enable()?;
    /// println!("{}", endpoint.address()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn endpoint(&self, info: &Info) -> Result<EndpointBuilder<T>> {
        EndpointBuilder::new(self, info, None)
    }
}

/// An endpoint that is to be opened. [`EndpointBuilder::enable`] opens it, binds it to these objects and enables it.
pub struct EndpointBuilder<T: Threads = Shared> {
    domain: Arc<DomainInner>,
    info: Info,
    request: Option<ConnectionRequest<T>>,
    bound: Bound,
    model: PhantomData<T>,
}

impl<T: Threads> EndpointBuilder<T> {
    pub(crate) fn new(
        domain: &Domain<T>,
        info: &Info,
        request: Option<ConnectionRequest<T>>,
    ) -> Result<EndpointBuilder<T>> {
        domain.0.check(info)?;
        Ok(EndpointBuilder {
            domain: domain.0.clone(),
            info: info.clone(),
            request,
            bound: Bound::default(),
            model: PhantomData,
        })
    }

    /// Binds a completion queue for all operations: fi_ep_bind of fi_endpoint(3).
    pub fn queue(self, queue: &CompletionQueue<T>) -> Result<EndpointBuilder<T>> {
        self.transmit_queue(queue)?.receive_queue(queue)
    }

    /// Binds a completion queue for sends, reads and writes.
    pub fn transmit_queue(mut self, queue: &CompletionQueue<T>) -> Result<EndpointBuilder<T>> {
        self.is_free(self.bound.transmit.is_none(), &queue.inner.domain)?;
        self.bound.transmit = Some(queue.inner.clone());
        Ok(self)
    }

    /// Binds a completion queue for receives.
    pub fn receive_queue(mut self, queue: &CompletionQueue<T>) -> Result<EndpointBuilder<T>> {
        self.is_free(self.bound.receive.is_none(), &queue.inner.domain)?;
        self.bound.receive = Some(queue.inner.clone());
        Ok(self)
    }

    /// Binds the addresses of peers.
    pub fn address_vector(mut self, vector: &AddressVector<T>) -> Result<EndpointBuilder<T>> {
        self.is_free(self.bound.vector.is_none(), &vector.0.domain)?;
        self.bound.vector = Some(vector.0.clone());
        Ok(self)
    }

    /// Binds the queue for events of the connection.
    pub fn event_queue(mut self, queue: &EventQueue<T>) -> Result<EndpointBuilder<T>> {
        if self.bound.events.is_some() || !Arc::ptr_eq(&queue.0.fabric, &self.domain.fabric) {
            return Err(Error::INVAL);
        }
        self.bound.events = Some(queue.0.clone());
        Ok(self)
    }

    /// Binds a counter of operations: `SEND`, `RECV`, `READ`, `WRITE`, `REMOTE_READ` and `REMOTE_WRITE`.
    pub fn counter(mut self, counter: &Counter<T>, operations: Caps) -> Result<EndpointBuilder<T>> {
        let allowed = Caps::SEND
            | Caps::RECV
            | Caps::READ
            | Caps::WRITE
            | Caps::REMOTE_READ
            | Caps::REMOTE_WRITE;
        self.is_free(allowed.contains(operations), &counter.0.domain)?;
        self.bound
            .counters
            .push((counter.0.clone(), operations.bits()));
        Ok(self)
    }

    /// Checks that an object may be bound, and is of this domain.
    fn is_free(&self, is_free: bool, domain: &Arc<DomainInner>) -> Result {
        match is_free && Arc::ptr_eq(domain, &self.domain) {
            true => Ok(()),
            false => Err(Error::INVAL),
        }
    }

    /// Opens and enables the endpoint: fi_endpoint, fi_ep_bind, fi_enable. `NOAV`: an endpoint without connection has
    /// no address vector.
    pub fn enable(mut self) -> Result<Endpoint<T>> {
        let kind = self.info.endpoint_type();
        if kind != Some(EndpointType::Msg) && self.bound.vector.is_none() {
            return Err(Error::NOAV);
        }
        let parent = self.domain.raw.get();
        let mut ep = null_mut();
        let mut open = |info: *mut fi_info| {
            // SAFETY: the domain is open and kept; the entry is one of it, and is read during the call; `ep` is written
            // on success.
            unsafe {
                let call = slot!((*parent).ops, fi_ops_domain, endpoint)?;
                let code = call(parent, info, &raw mut ep, null_mut());
                Raw::opened(code, ep)
            }
        };
        let raw = match self.request.take() {
            Some(request) => request.open(open)?,
            None => open(self.info.raw())?,
        };
        // From here on, an error closes the endpoint first and then releases the objects that it is bound to.
        let mut endpoint = Endpoint {
            raw,
            vector: self.bound.vector.as_ref().map_or(0, |vector| vector.number),
            domain: self.domain,
            tables: 0,
            sides: new_sides(),
            bound: self.bound,
            model: PhantomData,
        };
        endpoint.bind()?;
        endpoint.raw.enable()?;
        endpoint.tables = endpoint.complete_tables();
        Ok(endpoint)
    }
}

impl<T: Threads> Endpoint<T> {
    fn bind(&self) -> Result {
        let bound = &self.bound;
        // SAFETY: all objects are open and of one domain or fabric, as the builder has checked. The endpoint keeps
        // them.
        unsafe {
            if let Some(events) = &bound.events {
                self.raw.bind(events.raw.fid(), 0)?;
            }
            if let Some(vector) = &bound.vector {
                self.raw.bind(vector.raw.fid(), 0)?;
            }
            match (&bound.transmit, &bound.receive) {
                (Some(transmit), Some(receive)) if Arc::ptr_eq(transmit, receive) => {
                    self.raw.bind(transmit.raw.fid(), FI_TRANSMIT | FI_RECV)?;
                }
                (transmit, receive) => {
                    for (queue, flag) in [(transmit, FI_TRANSMIT), (receive, FI_RECV)] {
                        if let Some(queue) = queue {
                            self.raw.bind(queue.raw.fid(), flag)?;
                        }
                    }
                }
            }
            for (counter, operations) in &bound.counters {
                self.raw.bind(counter.raw.fid(), *operations)?;
            }
        }
        Ok(())
    }

    /// Returns which operations have all their slots, and a queue for their completions.
    fn complete_tables(&self) -> u32 {
        let ep = self.raw.get();
        let mut found = 0;
        let mut offer = |is_complete: bool, bits: u32| found |= if is_complete { bits } else { 0 };
        let (tx, rx) = (self.bound.transmit.is_some(), self.bound.receive.is_some());
        macro_rules! has {
            ($table:ident, $type:ident: $($slot:ident)+) => {
                // SAFETY: the endpoint is open, and its table begins with the size.
                unsafe { $(slot!((*ep).$table, $type, $slot).is_ok())&&+ }
            };
        }
        offer(tx && has!(msg, fi_ops_msg: send senddata), tables::MSG_TX);
        offer(has!(msg, fi_ops_msg: inject injectdata), tables::MSG_INJECT);
        offer(rx && has!(msg, fi_ops_msg: recv), tables::MSG_RX);
        offer(
            tx && has!(tagged, fi_ops_tagged: send senddata),
            tables::TAGGED_TX,
        );
        offer(
            has!(tagged, fi_ops_tagged: inject injectdata),
            tables::TAGGED_INJECT,
        );
        offer(rx && has!(tagged, fi_ops_tagged: recv), tables::TAGGED_RX);
        offer(
            tx && has!(rma, fi_ops_rma: read write writedata),
            tables::RMA,
        );
        offer(has!(rma, fi_ops_rma: inject injectdata), tables::RMA_INJECT);
        offer(
            tx && has!(atomic, fi_ops_atomic: write readwrite compwrite),
            tables::ATOMIC,
        );
        offer(has!(atomic, fi_ops_atomic: inject), tables::ATOMIC_INJECT);
        found
    }

    /// Returns the name of the endpoint in events.
    pub fn id(&self) -> EndpointId {
        EndpointId(self.raw.fid().addr())
    }

    /// Returns the local address: fi_getname of fi_cm(3).
    pub fn address(&self) -> Result<Address> {
        let ep = self.raw.get();
        // SAFETY: the endpoint is open.
        let call = unsafe { slot!((*ep).cm, fi_ops_cm, getname) }?;
        // SAFETY: the same; `sized` passes the size of its buffer.
        sized(|at, len| unsafe { call(self.raw.fid(), at, len) }).map(Address::from)
    }

    /// Returns the address of the peer of a connection: fi_getpeer of fi_cm(3).
    pub fn peer_address(&self) -> Result<Address> {
        let ep = self.raw.get();
        // SAFETY: the endpoint is open.
        let call = unsafe { slot!((*ep).cm, fi_ops_cm, getpeer) }?;
        // SAFETY: the same; `sized` passes the size of its buffer.
        sized(|at, len| unsafe { call(ep, at, len) }).map(Address::from)
    }

    /// Starts to connect: fi_connect of fi_cm(3). An event reports the result. The peer gets `data` with the request.
    pub fn connect(&self, address: &Address, data: &[u8]) -> Result {
        let ep = self.raw.get();
        let address = padded(address.as_bytes());
        let (param, len) = param(data);
        // SAFETY: the endpoint is open; address and data are read during the call.
        unsafe {
            let call = slot!((*ep).cm, fi_ops_cm, connect)?;
            status(call(ep, address.as_ptr().cast(), param, len))
        }
    }

    /// Accepts the connection request for which the endpoint was opened: fi_accept of fi_cm(3). An event reports the
    /// result. The peer gets `data` with its event.
    pub fn accept(&self, data: &[u8]) -> Result {
        let ep = self.raw.get();
        let (param, len) = param(data);
        // SAFETY: the endpoint is open; the data are read during the call.
        unsafe {
            let call = slot!((*ep).cm, fi_ops_cm, accept)?;
            status(call(ep, param, len))
        }
    }

    /// Ends the connection: fi_shutdown of fi_cm(3).
    pub fn shutdown(&self) -> Result {
        let ep = self.raw.get();
        // SAFETY: the endpoint is open.
        unsafe {
            let call = slot!((*ep).cm, fi_ops_cm, shutdown)?;
            status(call(ep, 0))
        }
    }

    /// Cancels an operation in flight, if that is possible: fi_cancel of fi_endpoint(3). Then it completes with
    /// [`Error::CANCELED`]. `NOENT`: it is not in flight on this endpoint.
    ///
    /// ```
    /// # use ironfabric::*;
    /// fn give_up(endpoint: &Endpoint, buffer: Buffer) -> Result {
    ///     let id = buffer.id();
    ///     endpoint.recv(buffer, Peer::ANY)?;
    ///     endpoint.cancel(id)
    /// }
    /// ```
    pub fn cancel(&self, operation: OperationId) -> Result {
        let ep = self.raw.get();
        // SAFETY: the endpoint is open.
        let call = unsafe { slot!((*ep).ops, fi_ops_ep, cancel) }?;
        self.domain
            .buffers
            .in_flight(operation, self.sides, |context| {
                // SAFETY: the endpoint is open; the context exists during the call, and is of an operation of it.
                let code = unsafe { call(self.raw.fid(), context) };
                crate::error::count(code).map(drop)
            })
    }

    /// Returns the value of an option whose type is `size_t`, such as `FI_OPT_CM_DATA_SIZE`: fi_endpoint(3).
    pub fn option(&self, name: c_int) -> Result<usize> {
        let ep = self.raw.get();
        let (mut value, mut len) = (0usize, size_of::<usize>());
        // SAFETY: the endpoint is open; `len` is the size of `value`, for which all bytes are valid.
        unsafe {
            let call = slot!((*ep).ops, fi_ops_ep, getopt)?;
            let at = (&raw mut value).cast::<c_void>();
            status(call(
                self.raw.fid(),
                FI_OPT_ENDPOINT,
                name,
                at,
                &raw mut len,
            ))?;
        }
        (len == size_of::<usize>())
            .then_some(value)
            .ok_or(Error::INVAL)
    }

    /// Sets an option whose type is `size_t`.
    pub fn set_option(&self, name: c_int, value: usize) -> Result {
        let ep = self.raw.get();
        // SAFETY: the endpoint is open; the value is read during the call.
        unsafe {
            let call = slot!((*ep).ops, fi_ops_ep, setopt)?;
            let at = (&raw const value).cast::<c_void>();
            status(call(
                self.raw.fid(),
                FI_OPT_ENDPOINT,
                name,
                at,
                size_of::<usize>(),
            ))
        }
    }

    /// Returns the C object, for calls that this crate does not have. It is open as long as the endpoint.
    ///
    /// Operations that are posted through it need contexts that this crate's queues can read: see
    /// [`Endpoint::send_raw`].
    pub fn as_raw(&self) -> *mut fid_ep {
        self.raw.get()
    }
}

impl<T: Threads> Drop for Endpoint<T> {
    fn drop(&mut self) {
        // SAFETY: no call is in progress, because this is the last reference.
        if unsafe { self.raw.close() }.is_err() {
            // The provider still uses these objects, and the buffers in flight.
            forget(self.domain.clone());
            forget(core::mem::take(&mut self.bound));
            return;
        }
        let [transmit, receive] = self.sides;
        for (queue, side) in [
            (&self.bound.transmit, transmit),
            (&self.bound.receive, receive),
        ] {
            if let Some(queue) = queue {
                queue.closed(&[side]);
            }
        }
    }
}
