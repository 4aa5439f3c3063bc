// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The part of the stream transport that is specific to tcp: see `stream::net`.

use core::ffi::c_void;
use core::time::Duration;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

use crate::tcp::accept::Crossing;
use crate::tcp::handshake::{Auth, Handshake};
use abi::{FI_SHUTDOWN, fid_pep};
use base::info::Info;
use base::log::Source;
use base::{Error, Result};
use engine::address::ip::{Addr, Format};
use engine::auth::Key;
use engine::fabric::FabricShared;
use engine::half_open::HalfOpen;
use stream::conn::Conn;
use stream::ep::Ep;
use stream::hello::{Hello, Verdict};
use stream::peers::Peers;
use stream::pending_peer::PendingPeer;
use stream::session::State;
use stream::session::common::Limits;
use stream::transport::DomainOf;
use stream::{Net, Stream};

use crate::tcp::same_host::{Sharing, ShmListener, within_host};
use crate::tcp::site::Site;
use crate::tcp::{SOURCE, Tcp, ep, pep};
use sys::event::Ready;
use sys::socket::Socket;

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
        super::ep::open_endpoint(stream, ep, info)
    }

    fn enable_ep(stream: &mut Stream<Tcp>, ep: usize) -> Result {
        super::ep::enable_endpoint(stream, ep)
    }

    fn close_ep(stream: &mut Stream<Tcp>, ep: usize) {
        super::ep::send_away(stream, ep);
        super::same_host::close_shm_listener(stream, ep);
    }

    fn set_keys(stream: &mut Stream<Tcp>, ep: usize, keys: Vec<Key>) -> Result {
        let own = &mut stream.peers.ep_mut(ep)?.own;
        own.keys = Some(keys);
        own.keys_of_av = true;
        Ok(())
    }

    fn set_name(stream: &mut Stream<Tcp>, ep: usize, addr: &[u8]) -> Result {
        super::ep::rename_endpoint(stream, ep, addr)
    }

    fn set_firewalled(stream: &mut Stream<Tcp>, ep: usize, on: bool) -> Result {
        stream.peers.ep_mut(ep)?.own.firewalled = on;
        Ok(())
    }

    fn permit_sharing(stream: &mut Stream<Tcp>, ep: usize, on: bool) -> Result {
        let shared_memory = stream.params.set.shared_memory;
        stream.peers.ep_mut(ep)?.own.shares = on && shared_memory;
        Ok(())
    }

    fn own_rank(stream: &Stream<Tcp>, ep: usize, members: &[Addr]) -> Result<usize> {
        super::accept::rank_among(stream, ep, members)
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
        super::connect::begin_connect(stream, domain, id)
    }

    fn opening(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>, id: usize) {
        match stream.peers[id].session.state {
            State::Connecting => super::connect::connected(stream, domain, id),
            State::Requested => super::connect::answered(stream, domain, id),
            State::Proving => super::keyed::proving(stream, domain, id),
            State::Sharing => super::same_host::sharing(stream, domain, id),
            State::Idle | State::Up | State::Down => {}
        }
    }

    fn attempt_failed(
        stream: &mut Stream<Tcp>,
        domain: &mut DomainOf<Tcp>,
        id: usize,
        error: Error,
    ) {
        super::connect::connect_failed(stream, domain, id, error);
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
        super::accept::accept_waiting(stream, ep);
        stream.let_in(ep);
    }

    fn shm_listener<'a>(own: &'a Domain, _peers: &'a Peers<Tcp>, ep: usize) -> Option<&'a Socket> {
        super::same_host::shm_listener_socket(own, ep)
    }

    fn hello_received(
        stream: &mut Stream<Tcp>,
        domain: &mut DomainOf<Tcp>,
        pending: PendingPeer,
        hello: core::result::Result<Hello, Verdict>,
    ) {
        super::same_host::peer_said_hello(stream, domain, pending, hello);
    }

    fn handshake_ready(
        stream: &mut Stream<Tcp>,
        domain: &mut DomainOf<Tcp>,
        id: usize,
        _event: &Ready,
    ) {
        super::accept::requested(stream, domain, id);
    }

    fn handshake_due(stream: &mut Stream<Tcp>, id: usize) {
        super::accept::handshake_due(stream, id);
    }

    fn shakes_hands(stream: &Stream<Tcp>, id: usize) -> bool {
        stream.own.handshakes.contains(id)
    }

    fn watch_peers(stream: &mut Stream<Tcp>) {
        super::alive::watch_peers(stream);
    }

    fn check_peers(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>) {
        super::alive::check_peers(stream, domain);
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
        super::msg::connect_msg(stream, domain, ep, addr, param)
    }

    fn accept(
        stream: &mut Stream<Tcp>,
        domain: &mut DomainOf<Tcp>,
        ep: usize,
        param: &[u8],
    ) -> Result {
        super::msg::accept_msg(stream, domain, ep, param)
    }

    fn shutdown(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>, ep: usize) -> Result {
        super::msg::shutdown_msg(stream, domain, ep)
    }

    fn ended(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>, id: usize) {
        super::msg::cm_event(stream, domain, id, FI_SHUTDOWN, &[]);
    }

    fn peer(stream: &Stream<Tcp>, ep: usize) -> Result<Vec<u8>> {
        super::ep::peer_name(stream, ep)
    }

    fn socket(stream: &Stream<Tcp>, ep: usize) -> Result<RawFd> {
        super::ep::socket_of(stream, ep)
    }
}

// Memory of an idle peer besides its socket.
const _: () = assert!(size_of::<Conn<Tcp>>() <= 864);
