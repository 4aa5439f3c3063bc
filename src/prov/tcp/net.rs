// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The connector of tcp: see `stream::connector`.

use core::ffi::c_void;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use crate::tcp::accept::{Crossing, Request};
use crate::tcp::handshake::{Auth, Handshake};
use crate::tcp::same_host::{Sharing, ShmListener, within_host};
use crate::tcp::site::Site;
use crate::tcp::{Desk, SOURCE, ep, pep};
use abi::fid_pep;
use base::info::Info;
use base::log::Source;
use base::{Error, Result};
use engine::address::ip::{self, Addr, Format};
use engine::auth::Key;
use engine::fabric::FabricShared;
use engine::half_open::HalfOpen;
use stream::conn::Conn;
use stream::connector::Event;
use stream::ep::Ep;
use stream::poller::Poller;
use stream::session::State;
use stream::session::common::Limits;
use stream::{Connector, Stream};
use sys::addr;
use sys::socket::Socket;

/// Establishes the connections of one domain.
pub struct Connections {
    pub(super) site: Site,
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

impl Connector for Connections {
    type Addr = Addr;
    type Format = Format;
    type Params = Site;
    type Ep = ep::Own;
    type Conn = Opening;
    type Request = Request;

    const SOURCE: &'static Source = &SOURCE;

    fn provider(site: &Site) -> &'static Source {
        site.source
    }

    const CQ_SIZE: usize = 1024;
    const CLOSES_IDLE: bool = true;
    const HAS_MSG: bool = true;
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
            peer_timeout: params.peer_timeout,
            connections: params.max_connections,
            ring_size: None,
        }
    }

    fn open(site: &Site) -> Result<Connections> {
        Ok(Connections {
            site: site.clone(),
            handshakes: HalfOpen::default(),
            shm_listeners: HashMap::new(),
            pid: super::exchange::process_id(),
        })
    }

    fn open_ep(&mut self, ep: usize, info: &Info) -> Result<Ep<Connections>> {
        self.open_endpoint(ep, info)
    }

    fn rename_ep(&mut self, endpoint: &mut Ep<Connections>, addr: &[u8]) -> Result {
        self.rename_endpoint(endpoint, addr)
    }

    fn set_keys(&mut self, own: &mut ep::Own, keys: Vec<Key>) -> Result {
        own.keys = Some(keys);
        own.keys_of_av = true;
        Ok(())
    }

    fn set_firewalled(&mut self, own: &mut ep::Own, on: bool) -> Result {
        own.firewalled = on;
        Ok(())
    }

    fn permit_sharing(&mut self, own: &mut ep::Own, on: bool) -> Result {
        own.shares = on && self.site.set.shared_memory;
        Ok(())
    }

    fn ep_closed(&mut self, poller: &mut Poller, ep: usize) {
        self.send_away(poller, ep);
        self.close_shm_listener(poller, ep);
    }

    fn own_rank(local: &Addr, members: &[Addr]) -> Result<usize> {
        ip::rank_among(*local, members)
    }

    fn identity(addr: &Addr) -> Vec<u8> {
        ip::identity(addr)
    }

    fn begin(&mut self, desk: &mut Desk<'_>, id: usize) -> Result {
        self.begin_connect(desk, id)
    }

    fn handle(&mut self, desk: &mut Desk<'_>, event: Event<Connections>) {
        match event {
            Event::Opening(id) => match desk.peers[id].session.state {
                State::Connecting => self.connected(desk, id),
                State::Requested => self.answered(desk, id),
                State::Proving => self.proving(desk, id),
                State::Sharing => self.sharing(desk, id),
                State::Idle | State::Up | State::Resting | State::Down => {}
            },
            Event::AttemptFailed(id, error) => self.connect_failed(desk, id, error),
            Event::Incoming { ep, accepts } => {
                self.accept_waiting(desk, ep, accepts);
                let said = self
                    .shm_listener(ep)
                    .map(|listener| desk.shm.accept_waiting(desk.poller, listener, ep, accepts))
                    .unwrap_or_default();
                for (pending, hello) in said {
                    self.peer_said_hello(desk, pending, hello);
                }
            }
            Event::Handshake(id) => self.requested(desk, id),
            Event::HandshakeDue(id) => self.handshake_due(desk, id),
            Event::Hello((pending, hello)) => self.peer_said_hello(desk, pending, hello),
            Event::Request(request) => self.admit(desk, *request),
        }
    }

    fn attempt_limit(own: &Opening) -> Option<Instant> {
        own.crossing.as_deref().map(Crossing::until)
    }

    fn is_on_this_host(conn: &Conn<Connections>) -> bool {
        let peer = conn.session.peer.addr.ip();
        let local = conn.link.socket().and_then(|socket| socket.local().ok());
        local.is_some_and(|local| within_host(local.ip(), peer))
    }

    fn handshakes(&self) -> usize {
        self.handshakes.len()
    }

    fn has_handshake(&self, id: usize) -> bool {
        self.handshakes.contains(id)
    }

    fn shm_listener(&self, ep: usize) -> Option<&Socket> {
        self.shm_listener_of_ep(ep)
    }

    #[inline]
    fn key(own: &Opening) -> Option<&Key> {
        own.auth.as_ref()?.key()
    }

    fn keys_of_av(own: &ep::Own) -> bool {
        own.keys_of_av
    }

    fn open_pep(
        fabric: &Arc<FabricShared<Stream<Connections>>>,
        info: Info,
        context: *mut c_void,
    ) -> Result<*mut fid_pep> {
        pep::Pep::open(fabric, info, context)
    }

    fn destination(own: &ep::Own, addr: Option<&[u8]>) -> Result<Addr> {
        if own.request.is_some() {
            return Err(Error::OPBADSTATE);
        }
        let peer = match addr {
            Some(bytes) => addr::from_bytes(bytes),
            None => own.dest,
        };
        peer.map(addr::canonical).ok_or(Error::INVAL)
    }

    fn accept(&mut self, desk: &mut Desk<'_>, ep: usize, param: &[u8]) -> Result {
        self.accept_msg(desk, ep, param)
    }
}

// Memory of an idle peer besides its socket.
const _: () = assert!(size_of::<Conn<Connections>>() <= 880);
