// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The part of a stream transport that differs between providers: how connections are established, the address format,
//! the limits. The protocol over the streams is the same for all.
//!
//! A connector is a state machine. Events go in; it uses the `Desk` that each call passes, and queues the actions that
//! concern sessions (`Action`), which the stream carries out after the call. It has no access to the stream.

use core::ffi::c_void;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use crate::Stream;
use crate::conn::Conn;
use crate::desk::Desk;
use crate::ep::Ep;
use crate::poller::Poller;
use crate::session::common::Limits;
use crate::shm_host::connect::SaidHello;
use abi::fid_pep;
use base::info::Info;
use base::log::Source;
use base::{Error, Result};
use engine::auth::Key;
use engine::fabric::FabricShared;
use engine::transport::{Address, AddressFormat};
use sys::socket::Socket;

/// An event for the connector.
pub enum Event<N: Connector> {
    /// The socket of a connection that is not up has an event.
    Opening(usize),
    /// An attempt to connect has failed. The connector undoes it, then queues `Action::Failed`.
    AttemptFailed(usize, Error),
    /// Connections wait at the listener of this endpoint, which may accept so many.
    Incoming { ep: usize, accepts: usize },
    /// An accepted socket has an event whose peer has not identified itself yet.
    Handshake(usize),
    /// The deadline of such a socket has passed.
    HandshakeDue(usize),
    /// A peer that wants to share memory has identified itself, or its hello cannot be decoded.
    Hello(SaidHello),
    /// A request that the connector has postponed by `Action::Readmit`.
    Request(Box<N::Request>),
}

/// Establishes the connections of one domain.
pub trait Connector: Sized + Send + 'static {
    type Addr: Address;
    type Format: AddressFormat<Addr = Self::Addr> + Default;
    /// The settings of the provider.
    type Params: Clone + Send + Sync + 'static;
    /// The connector's state of an endpoint and of a connection.
    type Ep: Send;
    type Conn: Default + Send;
    /// A request of a peer for a connection.
    type Request: Send;

    const SOURCE: &'static Source;
    /// As in `Transport`.
    fn provider(_params: &Self::Params) -> &'static Source {
        Self::SOURCE
    }
    const CQ_SIZE: usize;
    /// Whether all connections use shared memory.
    const ALL_SHM: bool = false;
    /// Whether some connections may use shared memory.
    const MAY_SHARE: bool = Self::ALL_SHM;
    /// As in `Transport`.
    const HMEM: bool = true;
    /// As in `Transport`.
    const KNOWS_CUDA: bool = Self::ALL_SHM;
    /// The pause before the second attempt to connect is twice this at most.
    const FIRST_PAUSE: Duration;
    /// Whether idle connections are closed if the process runs out of descriptors.
    const CLOSES_IDLE: bool = false;
    /// Whether there are connected endpoints (FI_EP_MSG).
    const HAS_MSG: bool = false;
    const AUTH_KEY_SIZE: usize = 0;
    const AUTH_KEYS: usize = 0;

    fn limits(params: &Self::Params) -> Limits;
    /// Creates the connector of a new domain.
    fn open(params: &Self::Params) -> Result<Self>;

    /// Creates the endpoint with this number.
    fn open_ep(&mut self, ep: usize, info: &Info) -> Result<Ep<Self>>;
    /// Binds an endpoint to another address (fi_setname).
    fn rename_ep(&mut self, endpoint: &mut Ep<Self>, addr: &[u8]) -> Result;
    fn set_keys(&mut self, _own: &mut Self::Ep, _keys: Vec<Key>) -> Result {
        Err(Error::NOSYS)
    }
    fn set_firewalled(&mut self, _own: &mut Self::Ep, _on: bool) -> Result {
        Err(Error::NOPROTOOPT)
    }
    fn permit_sharing(&mut self, _own: &mut Self::Ep, _on: bool) -> Result {
        Err(Error::NOPROTOOPT)
    }
    /// Handles the end of an endpoint: it is gone from the tables, and its connections are closed.
    fn ep_closed(&mut self, _poller: &mut Poller, _ep: usize) {}

    /// As in `Transport`.
    fn looked_up(&self, addr: &Self::Addr) -> Vec<u8> {
        addr.to_bytes()
    }
    /// Returns the rank of the endpoint with this address among the members of a group.
    fn own_rank(local: &Self::Addr, members: &[Self::Addr]) -> Result<usize>;
    /// Returns the bytes by which all members of a group identify this address.
    fn identity(addr: &Self::Addr) -> Vec<u8>;

    /// Starts to connect to the peer of `id`, unless an attempt is in progress. If the attempt fails at once, it queues
    /// `Action::Failed` and returns the error.
    fn begin(&mut self, desk: &mut Desk<'_, Self>, id: usize) -> Result;
    fn handle(&mut self, desk: &mut Desk<'_, Self>, event: Event<Self>);

    /// Returns the end of an attempt that the peer's kernel has accepted, if it has a time limit.
    fn attempt_limit(_own: &Self::Conn) -> Option<Instant> {
        None
    }
    /// Whether the peer's address is one of this host. This host's kernel refuses at once if nothing listens, so its
    /// silence means that the listener's queue is full.
    fn is_on_this_host(_conn: &Conn<Self>) -> bool {
        true
    }
    /// Number of accepted connections whose request has not arrived.
    fn handshakes(&self) -> usize {
        0
    }

    /// Whether a handshake with this number is in progress.
    fn has_handshake(&self, _id: usize) -> bool {
        false
    }
    /// Returns the listener for peers that will share memory with an endpoint, if it is not that of the endpoint.
    fn shm_listener(&self, _ep: usize) -> Option<&Socket> {
        None
    }

    /// Returns the authorization key that a peer has proved.
    #[inline]
    fn key(_own: &Self::Conn) -> Option<&Key> {
        None
    }
    /// Whether each address of the endpoint's address vector has its own key (FI_AV_AUTH_KEY).
    fn keys_of_av(_own: &Self::Ep) -> bool {
        false
    }

    /// Connected endpoints (FI_EP_MSG): as in `Connects`.
    fn open_pep(
        _fabric: &Arc<FabricShared<Stream<Self>>>,
        _info: Info,
        _context: *mut c_void,
    ) -> Result<*mut fid_pep> {
        Err(Error::NOSYS)
    }
    /// Returns the peer for fi_connect with this address or without one.
    fn destination(_own: &Self::Ep, _addr: Option<&[u8]>) -> Result<Self::Addr> {
        Err(Error::NOSYS)
    }
    /// Accepts the request for which the endpoint was opened.
    fn accept(&mut self, _desk: &mut Desk<'_, Self>, _ep: usize, _param: &[u8]) -> Result {
        Err(Error::NOSYS)
    }
}
