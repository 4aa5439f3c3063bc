// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The part of a stream transport that differs between providers: connection setup, address format, attributes. The
//! protocol over the streams is the same for all.

use core::ffi::c_void;
use core::time::Duration;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

use crate::conn::Conn;
use crate::ep::Ep;
use crate::hello::{Hello, Verdict};
use crate::peers::Peers;
use crate::pending_peer::PendingPeer;
use crate::session::common::Limits;
use crate::transport::{DomainOf, Stream};
use abi::fid_pep;
use base::info::Info;
use base::log::Source;
use base::{Error, Result};
use engine::auth::Key;
use engine::fabric::FabricShared;
use engine::transport::{Address, AddressFormat};
use sys::event::Ready;
use sys::socket::Socket;

pub trait Net: Sized + Send + 'static {
    type Addr: Address;
    type Format: AddressFormat<Addr = Self::Addr> + Default;
    /// The settings of the provider.
    type Params: Clone + Send + Sync + 'static;
    /// The provider's state of a domain, an endpoint and a connection.
    type Domain: Send;
    type Ep: Send;
    type Conn: Default + Send;

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
    const HMEM: bool = false;
    /// The pause before the second attempt to connect is twice this.
    const FIRST_PAUSE: Duration;
    const AUTH_KEY_SIZE: usize = 0;
    const AUTH_KEYS: usize = 0;

    fn limits(params: &Self::Params) -> Limits;
    /// Creates the provider's state of a new domain.
    fn open(params: &Self::Params) -> Result<Self::Domain>;
    fn open_ep(stream: &mut Stream<Self>, ep: usize, info: &Info) -> Result;
    fn enable_ep(stream: &mut Stream<Self>, ep: usize) -> Result;
    /// Handles the end of an endpoint: it is gone from the tables, and its connections are closed.
    fn close_ep(stream: &mut Stream<Self>, ep: usize);
    fn set_keys(_stream: &mut Stream<Self>, _ep: usize, _keys: Vec<Key>) -> Result {
        Err(Error::NOSYS)
    }
    fn set_name(stream: &mut Stream<Self>, ep: usize, addr: &[u8]) -> Result;
    fn set_firewalled(_stream: &mut Stream<Self>, _ep: usize, _on: bool) -> Result {
        Err(Error::NOPROTOOPT)
    }
    fn permit_sharing(_stream: &mut Stream<Self>, _ep: usize, _on: bool) -> Result {
        Err(Error::NOPROTOOPT)
    }
    /// As in `Transport`.
    fn looked_up(_stream: &Stream<Self>, addr: &Self::Addr) -> Vec<u8> {
        addr.to_bytes()
    }
    /// Returns the rank of this endpoint among the members of a group.
    fn own_rank(stream: &Stream<Self>, ep: usize, members: &[Self::Addr]) -> Result<usize>;
    /// Returns the bytes by which all members of a group identify this address.
    fn identity(addr: &Self::Addr) -> Vec<u8>;

    /// Starts to connect to the peer of `id`, unless an attempt is in progress.
    fn begin_connect(stream: &mut Stream<Self>, domain: &mut DomainOf<Self>, id: usize) -> Result;
    /// Handles an event of a connection that is not up.
    fn opening(stream: &mut Stream<Self>, domain: &mut DomainOf<Self>, id: usize);
    /// Handles a failed attempt to connect: does the provider's part, then calls `Stream::try_later`.
    fn attempt_failed(
        stream: &mut Stream<Self>,
        domain: &mut DomainOf<Self>,
        id: usize,
        error: Error,
    );
    /// Whether an attempt that the peer's kernel has accepted has a time limit.
    fn has_attempt_limit(_conn: &Conn<Self>) -> bool {
        false
    }
    /// Whether that limit has passed.
    fn gives_up(_conn: &Conn<Self>, _now: Instant) -> bool {
        false
    }
    /// Whether the peer's address is one of this host. This host's kernel refuses at once if nothing listens, so its
    /// silence means that the listener's queue is full.
    fn is_on_this_host(_conn: &Conn<Self>) -> bool {
        true
    }
    /// Accepts the connections that wait at the endpoint's listener.
    fn accept_waiting(stream: &mut Stream<Self>, ep: usize);
    /// Handles an event of an accepted connection whose peer has not identified itself yet.
    fn handshake_ready(
        _stream: &mut Stream<Self>,
        _core: &mut DomainOf<Self>,
        _id: usize,
        _event: &Ready,
    ) {
    }
    fn handshake_due(_stream: &mut Stream<Self>, _id: usize) {}
    /// Whether a handshake with this number is in progress.
    fn shakes_hands(_stream: &Stream<Self>, _id: usize) -> bool {
        false
    }
    /// Returns the listener for peers that will share memory with an endpoint.
    fn shm_listener<'a>(
        _own: &'a Self::Domain,
        _peers: &'a Peers<Self>,
        _ep: usize,
    ) -> Option<&'a Socket> {
        None
    }
    /// Handles the hello of such a peer, or its rejection if the hello cannot be decoded.
    fn hello_received(
        _stream: &mut Stream<Self>,
        _core: &mut DomainOf<Self>,
        _pending: PendingPeer,
        _hello: core::result::Result<Hello, Verdict>,
    ) {
    }
    /// Starts to check whether peers are still alive, because data is being sent to them.
    fn watch_peers(stream: &mut Stream<Self>);
    /// Runs that check when its time has come.
    fn check_peers(stream: &mut Stream<Self>, domain: &mut DomainOf<Self>);

    /// Returns the authorization key that a peer has proved.
    #[inline]
    fn key(_conn: &Conn<Self>) -> Option<&Key> {
        None
    }

    /// Whether each address of the endpoint's address vector has its own key (FI_AV_AUTH_KEY).
    fn keys_of_av(_ep: &Ep<Self>) -> bool {
        false
    }

    /// Connected endpoints (FI_EP_MSG): the functions from here on do the same as in `Connects`.
    fn open_pep(
        _fabric: &Arc<FabricShared<Stream<Self>>>,
        _info: Info,
        _context: *mut c_void,
    ) -> Result<*mut fid_pep> {
        Err(Error::NOSYS)
    }
    fn connect(
        _stream: &mut Stream<Self>,
        _core: &mut DomainOf<Self>,
        _ep: usize,
        _addr: Option<&[u8]>,
        _param: &[u8],
    ) -> Result {
        Err(Error::NOSYS)
    }
    fn accept(
        _stream: &mut Stream<Self>,
        _core: &mut DomainOf<Self>,
        _ep: usize,
        _param: &[u8],
    ) -> Result {
        Err(Error::NOSYS)
    }
    fn shutdown(_stream: &mut Stream<Self>, _core: &mut DomainOf<Self>, _ep: usize) -> Result {
        Err(Error::NOSYS)
    }
    /// Handles the end of a connection that was up.
    fn ended(_stream: &mut Stream<Self>, _core: &mut DomainOf<Self>, _id: usize) {}
    fn peer(_stream: &Stream<Self>, _ep: usize) -> Result<Vec<u8>> {
        Err(Error::NOSYS)
    }
    fn socket(_stream: &Stream<Self>, _ep: usize) -> Result<RawFd> {
        Err(Error::NOSYS)
    }
}
