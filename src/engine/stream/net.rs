// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What a provider brings whose endpoints talk over streams: how streams come about, how their ends are named and what they
//! are worth. What goes over them is the same for all.
#![forbid(unsafe_code)]

use core::ffi::c_void;
use core::time::Duration;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

use crate::abi::fid_pep;
use crate::base::info::Info;
use crate::base::log::Source;
use crate::base::{Error, Result};
use crate::engine::auth::Key;
use crate::engine::fabric::FabricShared;
use crate::engine::stream::conn::Conn;
use crate::engine::stream::ep::Ep;
use crate::engine::stream::hello::{Hello, Verdict};
use crate::engine::stream::pending_peer::PendingPeer;
use crate::engine::stream::session::common::Limits;
use crate::engine::stream::transport::{DomainOf, Stream};
use crate::engine::transport::{Address, AddressFormat};
use crate::sys::event::Ready;
use crate::sys::socket::Socket;

pub trait Net: Sized + Send + 'static {
    type Addr: Address;
    type Format: AddressFormat<Addr = Self::Addr> + Default;
    /// The settings of the provider.
    type Params: Clone + Send + Sync + 'static;
    /// What it keeps of a domain, of an endpoint, and of a connection until it is up and for its end.
    type Domain: Send;
    type Ep: Send;
    type Conn: Default + Send;

    const SOURCE: &'static Source;
    /// As in `Transport`.
    fn provider(_params: &Self::Params) -> &'static Source {
        Self::SOURCE
    }
    const CQ_SIZE: usize;
    /// All connections go over shared memory.
    const ALL_SHM: bool = false;
    /// Some may.
    const MAY_SHARE: bool = Self::ALL_SHM;
    /// As in `Transport`.
    const HMEM: bool = false;
    /// The pause before a second attempt to connect is twice that.
    const FIRST_PAUSE: Duration;
    const AUTH_KEY_SIZE: usize = 0;
    const AUTH_KEYS: usize = 0;

    fn limits(params: &Self::Params) -> Limits;
    /// What is the provider's of a new domain.
    fn open(params: &Self::Params) -> Result<Self::Domain>;
    fn open_ep(stream: &mut Stream<Self>, ep: usize, info: &Info) -> Result;
    fn enable_ep(stream: &mut Stream<Self>, ep: usize) -> Result;
    /// The endpoint is gone from the tables, and its connections are closed.
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
    /// Which of the members of a group this endpoint is.
    fn own_rank(stream: &Stream<Self>, ep: usize, members: &[Self::Addr]) -> Result<usize>;
    /// The bytes by which all members of a group know this one.
    fn identity(addr: &Self::Addr) -> Vec<u8>;

    /// Begins to connect to the peer of `id`, unless that is under way.
    fn begin_connect(stream: &mut Stream<Self>, domain: &mut DomainOf<Self>, id: usize) -> Result;
    /// News of a connection that is not up.
    fn opening(stream: &mut Stream<Self>, domain: &mut DomainOf<Self>, id: usize);
    /// An attempt to connect has failed: `Stream::try_later`, after what the provider has to do.
    fn attempt_failed(
        stream: &mut Stream<Self>,
        domain: &mut DomainOf<Self>,
        id: usize,
        error: Error,
    );
    /// Whether an attempt that the peer's kernel has accepted may be given up at some time.
    fn has_attempt_limit(_conn: &Conn<Self>) -> bool {
        false
    }
    /// Whether that time has come.
    fn gives_up(_conn: &Conn<Self>, _now: Instant) -> bool {
        false
    }
    /// Whether the peer's address is one of this host. The kernel of this host refuses where nothing listens, so its
    /// silence means that the listener's queue is full.
    fn is_on_this_host(_conn: &Conn<Self>) -> bool {
        true
    }
    /// Somebody connects to this endpoint.
    fn accept_waiting(stream: &mut Stream<Self>, ep: usize);
    /// News of somebody who has connected and not said who it is.
    fn handshake_ready(
        _stream: &mut Stream<Self>,
        _core: &mut DomainOf<Self>,
        _id: usize,
        _event: &Ready,
    ) {
    }
    fn handshake_due(_stream: &mut Stream<Self>, _id: usize) {}
    /// Whether a handshake of this number is under way.
    fn shakes_hands(_stream: &Stream<Self>, _id: usize) -> bool {
        false
    }
    /// Where those are met who are to share memory with an endpoint.
    fn shm_listener(_stream: &Stream<Self>, _ep: usize) -> Option<&Socket> {
        None
    }
    /// One of them has said who it is, or something that nobody can understand.
    fn hello_received(
        _stream: &mut Stream<Self>,
        _core: &mut DomainOf<Self>,
        _pending: PendingPeer,
        _hello: core::result::Result<Hello, Verdict>,
    ) {
    }
    /// Bytes go to peers: whether they are still there is to be seen.
    fn watch_peers(stream: &mut Stream<Self>);
    /// The time for that has come.
    fn check_peers(stream: &mut Stream<Self>, domain: &mut DomainOf<Self>);

    /// The authorization key that a peer has proved.
    #[inline]
    fn key(_conn: &Conn<Self>) -> Option<&Key> {
        None
    }

    /// Each address of the endpoint's vector has a key of its own (FI_AV_AUTH_KEY).
    fn keys_of_av(_ep: &Ep<Self>) -> bool {
        false
    }

    /// Connected endpoints (FI_EP_MSG): the calls from here on, as in `Connects`.
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
    /// A connection that was up is over.
    fn ended(_stream: &mut Stream<Self>, _core: &mut DomainOf<Self>, _id: usize) {}
    fn peer(_stream: &Stream<Self>, _ep: usize) -> Result<Vec<u8>> {
        Err(Error::NOSYS)
    }
    fn socket(_stream: &Stream<Self>, _ep: usize) -> Result<RawFd> {
        Err(Error::NOSYS)
    }
}
