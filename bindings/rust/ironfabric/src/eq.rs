// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Event queues, passive endpoints and connection requests: fi_eq(3), fi_cm(3).

use core::ffi::{c_int, c_void};
use core::fmt;
use core::marker::PhantomData;
use core::mem::{forget, offset_of};
use core::ptr::{null, null_mut};
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ironfabric_sys::*;

use crate::Address;
use crate::domain::Domain;
use crate::ep::EndpointBuilder;
use crate::error::{Error, Result, status};
use crate::fabric::{Fabric, FabricInner};
use crate::handle::{Raw, Shared, Threads, Wait, filled, milliseconds, provider_text, sized, slot};
use crate::info::{Info, List};

/// Names an endpoint in events: [`Endpoint::id`](crate::Endpoint::id). The number of a closed endpoint may be given to
/// a new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct EndpointId(pub(crate) usize);

/// A queue of events of connections: fi_eq(3). A clone is another reference to the same queue.
pub struct EventQueue<T: Threads = Shared>(pub(crate) Arc<EventInner>, PhantomData<T>);

pub(crate) struct EventInner {
    pub raw: Raw<fid_eq>,
    pub fabric: Arc<FabricInner>,
    fd: Option<RawFd>,
    passive: Mutex<Vec<Weak<PassiveInner>>>,
}

/// An event: fi_eq(3), fi_cm(3).
#[non_exhaustive]
pub enum Event<T: Threads = Shared> {
    /// A peer requests a connection.
    Request(ConnectionRequest<T>),
    /// The connection of an endpoint is established. `data` is that of the peer's `accept`, for the side that connects.
    Connected {
        /// The endpoint.
        endpoint: EndpointId,
        /// Data of the peer. Some providers append zeros.
        data: Vec<u8>,
    },
    /// The connection of an endpoint has ended.
    Shutdown {
        /// The endpoint.
        endpoint: EndpointId,
    },
    /// A connection could not be established, or another call of this queue's objects failed later.
    Failed(EventError),
    /// An event that this crate does not know.
    Other {
        /// Kind of event: `FI_NOTIFY` and following.
        kind: u32,
    },
}

/// A failure in an event queue: fi_eq(3), `fi_eq_err_entry`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EventError {
    /// Cause of the failure.
    pub error: Error,
    /// The endpoint.
    pub endpoint: EndpointId,
    /// The provider's own number.
    pub provider_errno: c_int,
    /// The provider's text for it.
    pub provider_text: String,
    /// With [`Error::CONNREFUSED`]: data of the peer's `reject`.
    pub data: Vec<u8>,
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)
    }
}

impl std::error::Error for EventError {}

impl<T: Threads> EventQueue<T> {
    /// Opens a queue: fi_eq_open.
    pub fn open(fabric: &Fabric, wait: Wait) -> Result<EventQueue<T>> {
        let mut attr = fi_eq_attr {
            size: 0,
            flags: 0,
            wait_obj: wait.raw(),
            signaling_vector: 0,
            wait_set: null_mut(),
        };
        let parent = fabric.0.raw.get();
        let mut eq = null_mut();
        // SAFETY: the fabric is open and kept; the attributes are read during the call; `eq` is written on success.
        let raw = unsafe {
            let call = slot!((*parent).ops, fi_ops_fabric, eq_open)?;
            let code = call(parent, &raw mut attr, &raw mut eq, null_mut());
            Raw::opened(code, eq)?
        };
        let mut inner = EventInner {
            raw,
            fabric: fabric.0.clone(),
            fd: None,
            passive: Mutex::new(vec![]),
        };
        inner.fd = inner.raw.wait_fd(wait)?;
        Ok(EventQueue(Arc::new(inner), PhantomData))
    }

    /// Returns the next event, and drives progress: fi_eq_read. `None`: there is none.
    pub fn read(&self) -> Result<Option<Event<T>>> {
        let eq = self.0.raw.get();
        // SAFETY: the queue is open.
        let call = unsafe { slot!((*eq).ops, fi_ops_eq, read) }?;
        // SAFETY: the queue is open; there is room for `len` bytes.
        self.event(|kind, at, len| unsafe { call(eq, kind, at, len, 0) })
    }

    /// Does the same, but waits for an event: fi_eq_sread. `None` as limit waits without one. The queue was opened with
    /// [`Wait::Blocking`] or [`Wait::Fd`].
    pub fn sread(&self, limit: Option<Duration>) -> Result<Option<Event<T>>> {
        let eq = self.0.raw.get();
        // SAFETY: the queue is open.
        let call = unsafe { slot!((*eq).ops, fi_ops_eq, sread) }?;
        // SAFETY: as in `read`.
        self.event(|kind, at, len| unsafe { call(eq, kind, at, len, milliseconds(limit), 0) })
    }

    fn event(
        &self,
        read: impl Fn(*mut u32, *mut c_void, usize) -> isize,
    ) -> Result<Option<Event<T>>> {
        let mut entry = vec![0u64; 64];
        loop {
            let mut kind = 0;
            let room = size_of_val(&entry[..]);
            match filled(read(&raw mut kind, entry.as_mut_ptr().cast(), room)) {
                Ok(Some(len)) => {
                    // SAFETY: the queue has written this many bytes of the entry that belongs to this kind.
                    let event = unsafe { self.owned(kind, &entry, len.min(room)) };
                    return Ok(Some(event));
                }
                Ok(None) | Err(Error::TIMEDOUT | Error::CANCELED) => return Ok(None),
                Err(Error::AVAIL) => return Ok(self.failure().map(Event::Failed)),
                // The event stays in the queue: a peer has sent much data.
                Err(Error::TOOSMALL) if room < 64 * 1024 => entry.resize(entry.len() * 4, 0),
                Err(error) => return Err(error),
            }
        }
    }

    /// # Safety
    /// A queue has written `entry[..len]` as an event of this kind.
    unsafe fn owned(&self, kind: u32, entry: &[u64], len: usize) -> Event<T> {
        if !matches!(kind, FI_CONNREQ | FI_CONNECTED | FI_SHUTDOWN)
            || len < offset_of!(fi_eq_cm_entry, data)
        {
            return Event::Other { kind };
        }
        // SAFETY: fi_cm(3): these events are such an entry, followed by the data of the peer.
        let (fid, info, data) = unsafe {
            let entry = entry.as_ptr().cast::<fi_eq_cm_entry>();
            let header = offset_of!(fi_eq_cm_entry, data);
            let data = core::slice::from_raw_parts(entry.cast::<u8>().add(header), len - header);
            ((*entry).fid, (*entry).info, data.to_vec())
        };
        let endpoint = EndpointId(fid.addr());
        match kind {
            FI_CONNREQ => {
                // SAFETY: fi_cm(3): the entry belongs to the reader. Its handle is moved out, so that it is used once.
                let request = unsafe {
                    let handle = match info.is_null() {
                        true => null_mut(),
                        false => core::mem::replace(&mut (*info).handle, null_mut()),
                    };
                    Info::owned(info).map(|info| (info, handle))
                };
                let Some((info, handle)) = request else {
                    return Event::Other { kind };
                };
                let listener = self.passive(|passive| passive.raw.fid() == fid);
                Event::Request(ConnectionRequest {
                    info,
                    handle: Handle(handle),
                    data,
                    listener,
                    queue: self.clone(),
                })
            }
            FI_CONNECTED => Event::Connected { endpoint, data },
            _ => Event::Shutdown { endpoint },
        }
    }

    /// Returns a passive endpoint of the queue that is still open.
    fn passive(&self, is_it: impl Fn(&PassiveInner) -> bool) -> Option<Arc<PassiveInner>> {
        let mut all = self
            .0
            .passive
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.retain(|passive| passive.strong_count() > 0);
        let found = all
            .iter()
            .filter_map(Weak::upgrade)
            .find(|passive| is_it(passive));
        drop(all);
        found
    }

    #[cold]
    fn failure(&self) -> Option<EventError> {
        let eq = self.0.raw.get();
        let mut detail = [0u8; 512];
        let mut entry = fi_eq_err_entry {
            fid: null_mut(),
            context: null_mut(),
            data: 0,
            err: 0,
            prov_errno: 0,
            err_data: detail.as_mut_ptr().cast(),
            err_data_size: detail.len(),
        };
        // SAFETY: the queue is open; the entry has the size of `err_data`. The provider's text is copied before the
        // next read.
        unsafe {
            let call = slot!((*eq).ops, fi_ops_eq, readerr).ok()?;
            filled(call(eq, &raw mut entry, 0)).ok()??;
            let text = provider_text(entry.prov_errno, || {
                Some(slot!((*eq).ops, fi_ops_eq, strerror).ok()?(
                    eq,
                    entry.prov_errno,
                    entry.err_data,
                    null_mut(),
                    0,
                ))
            });
            let is_ours = entry.err_data == detail.as_mut_ptr().cast();
            Some(EventError {
                error: Error::new(entry.err),
                endpoint: EndpointId(entry.fid.addr()),
                provider_errno: entry.prov_errno,
                provider_text: text,
                data: if is_ours {
                    detail[..entry.err_data_size.min(detail.len())].to_vec()
                } else {
                    vec![]
                },
            })
        }
    }

    /// Returns whether a thread may sleep on the descriptor: fi_trywait of fi_poll(3). `false`: read the queue first.
    pub fn try_wait(&self) -> Result<bool> {
        // SAFETY: the queue keeps its fabric open.
        unsafe { self.0.raw.try_wait(self.0.fabric.raw.get()) }
    }

    /// Returns the descriptor that becomes readable when there may be events; `None` if the queue was not opened with
    /// [`Wait::Fd`]. It keeps the queue open.
    pub fn wait_fd(&self) -> Option<EventFd<T>> {
        let fd = self.0.fd?;
        Some(EventFd {
            fd,
            _queue: self.clone(),
        })
    }
}

impl<T: Threads> Clone for EventQueue<T> {
    fn clone(&self) -> EventQueue<T> {
        EventQueue(self.0.clone(), PhantomData)
    }
}

impl Drop for EventInner {
    fn drop(&mut self) {
        // SAFETY: bound endpoints hold a reference to the queue, and this was the last one.
        if unsafe { self.raw.close() }.is_err() {
            forget(self.fabric.clone());
        }
    }
}

/// The descriptor of an event queue.
pub struct EventFd<T: Threads = Shared> {
    fd: RawFd,
    _queue: EventQueue<T>,
}

impl<T: Threads> AsFd for EventFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: fi_eq(3): the descriptor is open as long as the queue, which `self` keeps open.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}

impl<T: Threads> AsRawFd for EventFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

/// An endpoint that listens for connection requests: fi_endpoint(3), `fi_passive_ep`. Requests are events of its queue.
pub struct PassiveEndpoint<T: Threads = Shared>(Arc<PassiveInner>, PhantomData<T>);

struct PassiveInner {
    raw: Raw<fid_pep>,
    queue: Arc<EventInner>,
}

impl<T: Threads> PassiveEndpoint<T> {
    /// Opens an endpoint, binds it to the queue and listens.
    pub fn listen(queue: &EventQueue<T>, info: &Info) -> Result<PassiveEndpoint<T>> {
        queue.0.fabric.check(info)?;
        let parent = queue.0.fabric.raw.get();
        let mut pep = null_mut();
        // SAFETY: the fabric is open and kept; the entry is read during the call; `pep` is written on success.
        let raw = unsafe {
            let call = slot!((*parent).ops, fi_ops_fabric, passive_ep)?;
            let code = call(parent, info.raw(), &raw mut pep, null_mut());
            Raw::opened(code, pep)?
        };
        let inner = Arc::new(PassiveInner {
            raw,
            queue: queue.0.clone(),
        });
        let pep = inner.raw.get();
        // SAFETY: both are open and of the same fabric; `inner` keeps the queue.
        unsafe {
            inner.raw.bind(queue.0.raw.fid(), 0)?;
            let mut all = queue
                .0
                .passive
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            all.push(Arc::downgrade(&inner));
            drop(all);
            status(slot!((*pep).cm, fi_ops_cm, listen)?(pep))?;
        }
        Ok(PassiveEndpoint(inner, PhantomData))
    }

    /// Returns the address that peers connect to: fi_getname of fi_cm(3).
    pub fn address(&self) -> Result<Address> {
        let pep = self.0.raw.get();
        // SAFETY: the endpoint is open.
        let call = unsafe { slot!((*pep).cm, fi_ops_cm, getname) }?;
        // SAFETY: the same; `sized` passes the size of its buffer.
        sized(|at, len| unsafe { call(self.0.raw.fid(), at, len) }).map(Address::from)
    }
}

impl Drop for PassiveInner {
    fn drop(&mut self) {
        // SAFETY: requests hold a reference to the endpoint, and this was the last one.
        if unsafe { self.raw.close() }.is_err() {
            forget(self.queue.clone());
        }
    }
}

/// The provider's object of a request; it belongs to the endpoint that is opened with it.
struct Handle(fid_t);

// SAFETY: a pointer that is only passed to the provider. The request has the thread model of its queue.
unsafe impl Send for Handle {}
// SAFETY: the same.
unsafe impl Sync for Handle {}

/// A request for a connection. Dropping it rejects it.
pub struct ConnectionRequest<T: Threads = Shared> {
    info: Info,
    handle: Handle,
    data: Vec<u8>,
    listener: Option<Arc<PassiveInner>>,
    queue: EventQueue<T>,
}

impl<T: Threads> ConnectionRequest<T> {
    /// Returns the entry for the endpoint that accepts. [`Domain::open`] takes it, too.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Returns the data that the peer has sent with the request. Some providers append zeros.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Returns a builder of an endpoint that is to [`accept`](crate::Endpoint::accept) the request. Events of the
    /// connection go to the queue of the request. Dropping the builder rejects the request.
    pub fn endpoint(self, domain: &Domain<T>) -> Result<EndpointBuilder<T>> {
        let (info, queue) = (self.info.clone(), self.queue.clone());
        EndpointBuilder::new(domain, &info, Some(self))?.event_queue(&queue)
    }

    /// Calls `open` with an entry that has the handle of the request. If that fails, the request is rejected.
    pub(crate) fn open(
        mut self,
        open: impl FnOnce(*mut fi_info) -> Result<Raw<fid_ep>>,
    ) -> Result<Raw<fid_ep>> {
        let list = List::copy(&self.info)?;
        // SAFETY: the copy belongs to this call. It does not own the handle.
        unsafe { (*list.get()).handle = self.handle.0 };
        let result = open(list.get());
        // SAFETY: as above.
        unsafe { (*list.get()).handle = null_mut() };
        if result.is_ok() {
            self.handle.0 = null_mut();
        }
        result
    }

    /// Refuses the request: fi_reject. The peer gets `data` with its error.
    pub fn reject(mut self, data: &[u8]) -> Result {
        self.refuse(data)
    }

    fn refuse(&mut self, data: &[u8]) -> Result {
        let handle = core::mem::replace(&mut self.handle.0, null_mut());
        let Some(listener) = self.listener.take().filter(|_| !handle.is_null()) else {
            return Ok(());
        };
        let pep = listener.raw.get();
        let (param, len) = param(data);
        // SAFETY: the passive endpoint is open; the handle is of a request to it; the data are read during the call.
        unsafe {
            let call = slot!((*pep).cm, fi_ops_cm, reject)?;
            status(call(pep, handle, param, len))
        }
    }
}

impl<T: Threads> Drop for ConnectionRequest<T> {
    fn drop(&mut self) {
        let _ = self.refuse(&[]);
    }
}

/// Converts data for the peer to its C form.
pub(crate) fn param(data: &[u8]) -> (*const c_void, usize) {
    match data {
        [] => (null(), 0),
        data => (data.as_ptr().cast(), data.len()),
    }
}
