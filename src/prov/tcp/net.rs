// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The part of the stream transport that is specific to tcp: see `engine::stream::net`.
#![forbid(unsafe_code)]

use core::ffi::c_void;
use core::time::Duration;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

use crate::abi::{FI_SHUTDOWN, fid_pep};
use crate::base::info::Info;
use crate::base::log::Source;
use crate::base::{Error, Result};
use crate::engine::address::ip::{Addr, Format};
use crate::engine::auth::Key;
use crate::engine::fabric::FabricShared;
use crate::engine::half_open::HalfOpen;
use crate::engine::stream::conn::Conn;
use crate::engine::stream::ep::Ep;
use crate::engine::stream::hello::{Hello, Verdict};
use crate::engine::stream::pending_peer::PendingPeer;
use crate::engine::stream::session::State;
use crate::engine::stream::session::common::Limits;
use crate::engine::stream::transport::DomainOf;
use crate::engine::stream::{Net, Stream};
use crate::prov::tcp::accept::Crossing;
use crate::prov::tcp::handshake::{Auth, Handshake};

use crate::prov::tcp::same_host::{Sharing, ShmListener, within_host};
use crate::prov::tcp::site::Site;
use crate::prov::tcp::{SOURCE, Tcp, ep, pep};
use crate::sys::event::Ready;
use crate::sys::socket::Socket;

/// State of a domain besides its connections.
pub struct Domain {
    /// Accepted sockets whose request has not arrived yet.
    pub handshakes: HalfOpen<Handshake>,
    /// Shared-memory listeners of endpoints, created when a peer of this host first needs one.
    pub shm_listeners: HashMap<usize, ShmListener>,
    /// Number of this process in connection messages.
    pub pid: u32,
}

/// State of a connection until it is up.
#[derive(Default)]
pub struct Opening {
    /// Number of the peer's process in its connection message.
    pub peer_pid: u32,
    /// The peer's connection message, as far as it has arrived.
    pub exchange: Vec<u8>,
    /// The peer's request, while the local one is not answered.
    pub crossing: Option<Box<Crossing>>,
    /// State of the key proof, if the endpoint has an authorization key.
    pub auth: Option<Box<Auth>>,
    /// State of the negotiation of shared memory.
    pub sharing: Option<Box<Sharing>>,
}

impl Net for Tcp {
    type Addr = Addr;
    type Format = Format;
    type Params = Site;
    type Domain = Domain;
    type Ep = ep::Own;
    type Conn = Opening;

    const SOURCE: &'static Source = &SOURCE;

    fn provider(site: &Site) -> &'static Source {
        site.source
    }

    const CQ_SIZE: usize = 1024;
    const MAY_SHARE: bool = true;
    const FIRST_PAUSE: Duration = Duration::from_millis(5);
    const AUTH_KEY_SIZE: usize = 256;
    const AUTH_KEYS: usize = 64;

    fn limits(site: &Site) -> Limits {
        let params = &site.set;
        Limits {
            saved_size: params.max_saved_size,
            saved_bytes: params.max_saved_bytes,
            no_progress_thread: params.disable_auto_progress,
            keeps_offers: false,
            answers_writes: site.answers_writes,
            copies: true,
            connect: params.conn_timeout,
            close: params.close_timeout,
            op_timeout: params.op_timeout,
            stall_report: params.stall_report,
            ring_size: None,
        }
    }

    fn open(_site: &Site) -> Result<Domain> {
        Ok(Domain {
            handshakes: HalfOpen::default(),
            shm_listeners: HashMap::new(),
            pid: super::exchange::process_id(),
        })
    }

    fn open_pep(
        fabric: &Arc<FabricShared<Stream<Tcp>>>,
        info: Info,
        context: *mut c_void,
    ) -> Result<*mut fid_pep> {
        pep::Pep::open(fabric, info, context)
    }

    fn open_ep(stream: &mut Stream<Tcp>, ep: usize, info: &Info) -> Result {
        stream.open_endpoint(ep, info)
    }

    fn enable_ep(stream: &mut Stream<Tcp>, ep: usize) -> Result {
        stream.enable_endpoint(ep)
    }

    fn close_ep(stream: &mut Stream<Tcp>, ep: usize) {
        stream.send_away(ep);
        stream.close_shm_listener(ep);
    }

    fn set_keys(stream: &mut Stream<Tcp>, ep: usize, keys: Vec<Key>) -> Result {
        let own = &mut stream.ep_mut(ep)?.own;
        own.keys = Some(keys);
        own.keys_of_av = true;
        Ok(())
    }

    fn set_name(stream: &mut Stream<Tcp>, ep: usize, addr: &[u8]) -> Result {
        stream.rename_endpoint(ep, addr)
    }

    fn set_firewalled(stream: &mut Stream<Tcp>, ep: usize, on: bool) -> Result {
        stream.ep_mut(ep)?.own.firewalled = on;
        Ok(())
    }

    fn permit_sharing(stream: &mut Stream<Tcp>, ep: usize, on: bool) -> Result {
        let shared_memory = stream.params.set.shared_memory;
        stream.ep_mut(ep)?.own.shares = on && shared_memory;
        Ok(())
    }

    fn own_rank(stream: &Stream<Tcp>, ep: usize, members: &[Addr]) -> Result<usize> {
        stream.rank_among(ep, members)
    }

    fn identity(addr: &Addr) -> Vec<u8> {
        let ip = match addr {
            SocketAddr::V4(v4) => v4.ip().to_ipv6_mapped(),
            SocketAddr::V6(v6) => *v6.ip(),
        };
        let mut bytes = ip.octets().to_vec();
        bytes.extend_from_slice(&addr.port().to_be_bytes());
        bytes
    }

    fn begin_connect(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>, id: usize) -> Result {
        stream.begin_connect(domain, id)
    }

    fn opening(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>, id: usize) {
        match stream.conns[id].session.state {
            State::Connecting => stream.connected(domain, id),
            State::Requested => stream.answered(domain, id),
            State::Proving => stream.proving(domain, id),
            State::Sharing => stream.sharing(domain, id),
            State::Idle | State::Up | State::Down => {}
        }
    }

    fn attempt_failed(
        stream: &mut Stream<Tcp>,
        domain: &mut DomainOf<Tcp>,
        id: usize,
        error: Error,
    ) {
        stream.connect_failed(domain, id, error);
    }

    fn has_attempt_limit(conn: &Conn<Tcp>) -> bool {
        conn.own.crossing.is_some()
    }

    fn is_on_this_host(conn: &Conn<Tcp>) -> bool {
        let peer = conn.session.peer.ip();
        let local = conn.link.socket().and_then(|socket| socket.local().ok());
        local.is_some_and(|local| within_host(local.ip(), peer))
    }

    fn gives_up(conn: &Conn<Tcp>, now: Instant) -> bool {
        let crossing = conn.own.crossing.as_deref();
        crossing.is_some_and(|crossing| crossing.is_over(now))
    }

    fn accept_waiting(stream: &mut Stream<Tcp>, ep: usize) {
        stream.accept_waiting(ep);
        stream.let_in(ep);
    }

    fn shm_listener(stream: &Stream<Tcp>, ep: usize) -> Option<&Socket> {
        stream.shm_listener_socket(ep)
    }

    fn hello_received(
        stream: &mut Stream<Tcp>,
        domain: &mut DomainOf<Tcp>,
        pending: PendingPeer,
        hello: core::result::Result<Hello, Verdict>,
    ) {
        stream.peer_said_hello(domain, pending, hello);
    }

    fn handshake_ready(
        stream: &mut Stream<Tcp>,
        domain: &mut DomainOf<Tcp>,
        id: usize,
        _event: &Ready,
    ) {
        stream.requested(domain, id);
    }

    fn handshake_due(stream: &mut Stream<Tcp>, id: usize) {
        stream.handshake_due(id);
    }

    fn shakes_hands(stream: &Stream<Tcp>, id: usize) -> bool {
        stream.own.handshakes.contains(id)
    }

    fn watch_peers(stream: &mut Stream<Tcp>) {
        stream.watch_peers();
    }

    fn check_peers(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>) {
        stream.check_peers(domain);
    }

    #[inline]
    fn key(conn: &Conn<Tcp>) -> Option<&Key> {
        conn.own.auth.as_ref()?.key()
    }

    fn keys_of_av(ep: &Ep<Tcp>) -> bool {
        ep.own.keys_of_av
    }

    fn connect(
        stream: &mut Stream<Tcp>,
        domain: &mut DomainOf<Tcp>,
        ep: usize,
        addr: Option<&[u8]>,
        param: &[u8],
    ) -> Result {
        stream.connect_msg(domain, ep, addr, param)
    }

    fn accept(
        stream: &mut Stream<Tcp>,
        domain: &mut DomainOf<Tcp>,
        ep: usize,
        param: &[u8],
    ) -> Result {
        stream.accept_msg(domain, ep, param)
    }

    fn shutdown(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>, ep: usize) -> Result {
        stream.shutdown_msg(domain, ep)
    }

    fn ended(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>, id: usize) {
        stream.cm_event(domain, id, FI_SHUTDOWN, &[]);
    }

    fn peer(stream: &Stream<Tcp>, ep: usize) -> Result<Vec<u8>> {
        stream.peer_name(ep)
    }

    fn socket(stream: &Stream<Tcp>, ep: usize) -> Result<RawFd> {
        stream.socket_of(ep)
    }
}

// Memory of an idle peer besides its socket.
const _: () = assert!(size_of::<Conn<Tcp>>() <= 864);
