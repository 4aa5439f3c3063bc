// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The connection manager: rdma_cm(7). Identifiers are its sockets, and channels report their events.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::abi::*;
use super::api::{api, api_here, api_to_destroy};
use super::check_errno;
use super::device::Device;
use super::memory::ProtectionDomain;
use super::pair::{Pair, PairLimits, PairQueues};
use super::queue::set_nonblocking;

/// A queue of events, which is read without blocking.
#[derive(Debug)]
pub struct EventChannel(NonNull<rdma_event_channel>);

// SAFETY: the functions of a channel may be called by any thread.
unsafe impl Send for EventChannel {}
// SAFETY: as above.
unsafe impl Sync for EventChannel {}

/// Name spaces of ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum PortSpace {
    Tcp = RDMA_PS_TCP,
    Ib = RDMA_PS_IB,
}

/// The kind of an event: `enum rdma_cm_event_type`, as far as this library handles it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    AddressResolved,
    RouteResolved,
    /// Address or route resolution or the connection failed, or the peer is unreachable.
    Failed,
    Request,
    Response,
    Rejected,
    Established,
    Disconnected,
    DeviceRemoved,
    AddressChanged,
    /// A request at an identifier that does not listen.
    Unexpected,
    Other,
}

impl EventKind {
    /// The event in logs.
    pub fn words(self) -> &'static str {
        match self {
            EventKind::AddressResolved => "device found",
            EventKind::RouteResolved => "route found",
            EventKind::Failed => "failed",
            EventKind::Request => "connection request",
            EventKind::Response => "response of the peer",
            EventKind::Rejected => "rejected by the peer",
            EventKind::Established => "established",
            EventKind::Disconnected => "disconnected",
            EventKind::DeviceRemoved => "device removed",
            EventKind::AddressChanged => "address changed",
            EventKind::Unexpected => "request that no listener expects",
            EventKind::Other => "other event",
        }
    }

    fn of(number: u32) -> EventKind {
        match number {
            0 => EventKind::AddressResolved,
            1 | 3 | 6 | 7 => EventKind::Failed,
            2 => EventKind::RouteResolved,
            4 => EventKind::Request,
            5 => EventKind::Response,
            8 => EventKind::Rejected,
            9 => EventKind::Established,
            10 => EventKind::Disconnected,
            11 => EventKind::DeviceRemoved,
            14 => EventKind::AddressChanged,
            _ => EventKind::Other,
        }
    }
}

/// An event, copied from the library and acknowledged.
pub struct Event {
    pub kind: EventKind,
    /// The token of the identifier; for a request that of the listening one.
    pub token: usize,
    /// A negative error number, or a number of the peer.
    pub status: i32,
    pub private: Vec<u8>,
    /// For a request: its identifier.
    pub request: Option<Id>,
}

impl EventChannel {
    pub fn new() -> io::Result<EventChannel> {
        // SAFETY: no arguments.
        let raw = unsafe { (api_here()?.rdma_create_event_channel)() };
        let channel = EventChannel(NonNull::new(raw).ok_or_else(io::Error::last_os_error)?);
        set_nonblocking(channel.as_fd())?;
        Ok(channel)
    }

    /// Takes the next event. It is acknowledged, because destroying an identifier waits for that.
    pub fn next(channel: &Arc<EventChannel>) -> Option<Event> {
        let mut event = ptr::null_mut();
        // SAFETY: an existing channel, whose descriptor does not block.
        if unsafe { (api().rdma_get_cm_event)(channel.0.as_ptr(), &raw mut event) } != 0 {
            return None;
        }
        let event = NonNull::new(event)?;
        // SAFETY: a valid event until it is acknowledged below. Its identifiers exist, because destroying one waits for
        // the acknowledgement.
        let copy = unsafe {
            let raw = event.as_ref();
            // The identifier of a request is new, and belongs to whoever reads the event. Others have an owner.
            let (kind, of) = match (EventKind::of(raw.event), raw.listen_id.is_null()) {
                (EventKind::Request, true) => (EventKind::Unexpected, raw.id),
                (EventKind::Request, false) => (EventKind::Request, raw.listen_id),
                (kind, _) => (kind, raw.id),
            };
            let conn = &raw.param.conn;
            let bytes = conn.private_data.cast::<u8>();
            let private = match bytes.is_null() || !kind.has_data() {
                true => Vec::new(),
                false => core::slice::from_raw_parts(bytes, conn.private_data_len.into()).to_vec(),
            };
            let request = (kind == EventKind::Request)
                .then(|| NonNull::new(raw.id))
                .flatten();
            Event {
                kind,
                token: (*of).context.addr(),
                status: raw.status,
                private,
                request: request.map(|raw| Id {
                    raw,
                    pair: None,
                    channel: Some(channel.clone()),
                }),
            }
        };
        // SAFETY: the event from above, of which everything was copied.
        unsafe { (api().rdma_ack_cm_event)(event.as_ptr()) };
        Some(copy)
    }
}

impl EventKind {
    /// Whether the event's parameters are those of connections.
    fn has_data(self) -> bool {
        matches!(
            self,
            EventKind::Request
                | EventKind::Response
                | EventKind::Rejected
                | EventKind::Established
                | EventKind::Failed
        )
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel has an open descriptor as long as it exists.
        unsafe { BorrowedFd::borrow_raw(self.0.as_ref().fd) }
    }
}

impl Drop for EventChannel {
    fn drop(&mut self) {
        let Some(api) = api_to_destroy() else { return };
        // SAFETY: identifiers that use it hold it, so it is unused now.
        unsafe { (api.rdma_destroy_event_channel)(self.0.as_ptr()) };
    }
}

/// Parameters of a connection: rdma_connect(3), rdma_accept(3).
pub struct ConnectParam<'a> {
    pub private: &'a [u8],
    /// Number of reads and atomic operations in flight. The library reduces it to what the device supports.
    pub depth: u8,
    pub retries: u8,
    pub rnr_retries: u8,
    pub shares_receives: bool,
}

impl ConnectParam<'_> {
    fn raw(&self) -> io::Result<rdma_conn_param> {
        Ok(rdma_conn_param {
            private_data: self.private.as_ptr().cast(),
            private_data_len: length(self.private)?,
            responder_resources: self.depth,
            initiator_depth: self.depth,
            flow_control: 1,
            retry_count: self.retries,
            rnr_retry_count: self.rnr_retries,
            srq: self.shares_receives.into(),
            qp_num: 0,
        })
    }
}

fn length(private: &[u8]) -> io::Result<u8> {
    u8::try_from(private.len()).map_err(|_| invalid())
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

/// An identifier, with the queue pair of its connection.
#[derive(Debug)]
pub struct Id {
    raw: NonNull<rdma_cm_id>,
    pair: Option<Pair>,
    /// The channel of its events. An identifier without one blocks in its calls.
    channel: Option<Arc<EventChannel>>,
}

// SAFETY: the functions of an identifier may be called by any thread.
unsafe impl Send for Id {}
// SAFETY: as above.
unsafe impl Sync for Id {}

/// An address in the layout of C, at the alignment that the library needs.
fn address(bytes: &[u8]) -> io::Result<Address> {
    let mut address = Address([0; 128]);
    address
        .0
        .get_mut(..bytes.len())
        .ok_or_else(invalid)?
        .copy_from_slice(bytes);
    Ok(address)
}

impl Id {
    /// Makes an identifier. Events have the token.
    pub fn new(
        channel: Option<&Arc<EventChannel>>,
        space: PortSpace,
        token: usize,
    ) -> io::Result<Id> {
        let mut id = ptr::null_mut();
        let raw = channel.map_or(ptr::null_mut(), |channel| channel.0.as_ptr());
        // SAFETY: an existing channel, which the identifier holds, or none. The token is never dereferenced.
        check_errno(unsafe {
            (api_here()?.rdma_create_id)(raw, &raw mut id, as_context(token), space as u32)
        })?;
        Ok(Id {
            raw: NonNull::new(id).ok_or_else(invalid)?,
            pair: None,
            channel: channel.cloned(),
        })
    }

    /// Moves it to another channel. Events have the token from now on.
    pub fn migrate(&mut self, channel: &Arc<EventChannel>, token: usize) -> io::Result<()> {
        // SAFETY: existing objects. All events were acknowledged when they were read, so the call does not wait.
        check_errno(unsafe {
            (api_here()?.rdma_migrate_id)(self.raw.as_ptr(), channel.0.as_ptr())
        })?;
        self.channel = Some(channel.clone());
        // SAFETY: the application's member of an existing identifier.
        unsafe { (*self.raw.as_ptr()).context = as_context(token) };
        Ok(())
    }

    /// The device, once it is known.
    pub fn device(&self) -> Option<Device> {
        // SAFETY: an existing identifier.
        Device::of(unsafe { self.raw.as_ref() }.verbs)
    }

    /// The local address, in the layout of C.
    pub fn local(&self) -> Vec<u8> {
        // SAFETY: as above.
        sized(&unsafe { self.raw.as_ref() }.route.src)
    }

    /// The peer's address, in the layout of C.
    pub fn peer(&self) -> Vec<u8> {
        // SAFETY: as above.
        sized(&unsafe { self.raw.as_ref() }.route.dst)
    }

    pub fn bind(&self, local: &[u8]) -> io::Result<()> {
        let mut local = address(local)?;
        // SAFETY: an address with its family.
        check_errno(unsafe {
            (api_here()?.rdma_bind_addr)(self.raw.as_ptr(), (&raw mut local.0).cast())
        })
    }

    pub fn resolve_address(
        &self,
        local: Option<&[u8]>,
        peer: &[u8],
        limit: Duration,
    ) -> io::Result<()> {
        let mut local = local.map(address).transpose()?;
        let mut peer = address(peer)?;
        let from = local
            .as_mut()
            .map_or(ptr::null_mut(), |local| &raw mut local.0);
        // SAFETY: addresses with their families, or none.
        check_errno(unsafe {
            (api_here()?.rdma_resolve_addr)(
                self.raw.as_ptr(),
                from.cast(),
                (&raw mut peer.0).cast(),
                milliseconds(limit),
            )
        })
    }

    pub fn resolve_route(&self, limit: Duration) -> io::Result<()> {
        // SAFETY: an existing identifier.
        check_errno(unsafe {
            (api_here()?.rdma_resolve_route)(self.raw.as_ptr(), milliseconds(limit))
        })
    }

    /// Makes the queue pair, after the device is known.
    pub fn create_pair(
        &mut self,
        domain: &Arc<ProtectionDomain>,
        queues: &PairQueues,
        limits: PairLimits,
    ) -> io::Result<()> {
        if self.pair.is_some() || self.device() != Some(domain.device()) {
            return Err(invalid());
        }
        // SAFETY: it has a device and no pair, and `drop` drops the pair first.
        self.pair = Some(unsafe { Pair::of_connection(self.raw, domain, queues, limits) }?);
        Ok(())
    }

    #[inline]
    pub fn pair(&self) -> Option<&Pair> {
        self.pair.as_ref()
    }

    pub fn listen(&self, backlog: i32) -> io::Result<()> {
        // SAFETY: an existing identifier.
        check_errno(unsafe { (api_here()?.rdma_listen)(self.raw.as_ptr(), backlog) })
    }

    pub fn connect(&self, param: &ConnectParam<'_>) -> io::Result<()> {
        let mut raw = param.raw()?;
        // SAFETY: parameters with their bytes, which are copied.
        check_errno(unsafe { (api_here()?.rdma_connect)(self.raw.as_ptr(), &raw mut raw) })
    }

    pub fn accept(&self, param: &ConnectParam<'_>) -> io::Result<()> {
        let mut raw = param.raw()?;
        // SAFETY: as above.
        check_errno(unsafe { (api_here()?.rdma_accept)(self.raw.as_ptr(), &raw mut raw) })
    }

    pub fn reject(&self, private: &[u8]) -> io::Result<()> {
        let len = length(private)?;
        // SAFETY: bytes with their length, which are copied.
        check_errno(unsafe {
            (api_here()?.rdma_reject)(self.raw.as_ptr(), private.as_ptr().cast(), len)
        })
    }

    pub fn disconnect(&self) -> io::Result<()> {
        // SAFETY: an existing identifier.
        check_errno(unsafe { (api_here()?.rdma_disconnect)(self.raw.as_ptr()) })
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        self.pair = None;
        let Some(api) = api_to_destroy() else { return };
        // SAFETY: made by the library, and used no more. Its events were acknowledged when they were read.
        unsafe { (api.rdma_destroy_id)(self.raw.as_ptr()) };
    }
}

fn as_context(token: usize) -> *mut c_void {
    ptr::without_provenance_mut(token)
}

fn milliseconds(limit: Duration) -> c_int {
    c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX)
}

/// The bytes of an address, by its family; none if it is not set.
fn sized(address: &Address) -> Vec<u8> {
    let family = u16::from_ne_bytes([address.0[0], address.0[1]]);
    address.0[..len_of(family)].to_vec()
}

/// Length of an address of this family.
fn len_of(family: u16) -> usize {
    match c_int::from(family) {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        libc::AF_IB => 48,
        _ => 0,
    }
}
