// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Making and ending connections: the exchange at the start of each stream, who wins when both sides begin at once,
//! what happens to operations when a peer is gone. fi_cm(3); docs/wire/tcp.md.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::cmp::Ordering;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use crate::abi::*;
use crate::base::log::{Subsys, log_info, log_warn};
use crate::base::settings::Settings;
use crate::base::{Error, Result};
use crate::engine::core::TxOp;
use crate::ffi::ops::eq::EqErr;
use crate::prov::tcp::SOURCE;
use crate::prov::tcp::addr::Addr;
use crate::prov::tcp::conn::{After, At, Conn, Out, Rx, Sink, State, Watch};
use crate::prov::tcp::ep::{LINGER, NONE};
use crate::prov::tcp::progress::{conn_token, handshake_token};
use crate::prov::tcp::proto::{
    CM_HEADER, CmHeader, CmKind, MAX_PRIVATE, RdmPrivate, decode_cm, encode_cm,
};
use crate::prov::tcp::transport::{Core, Due, Tcp};
use crate::sys::addr;
use crate::sys::socket::{Moved, Socket};

/// An accepted socket, while the peer's request comes in.
pub struct Handshake {
    pub ep: usize,
    socket: Socket,
    from: SocketAddr,
    exchange: Vec<u8>,
    deadline: Instant,
}

/// A connection exchange as it comes in.
pub enum Exchange {
    /// More is to come.
    Partial,
    Whole(CmHeader),
    /// Not what the protocol says, or the end.
    Broken(&'static str),
}

/// The first wait before a new attempt, and the longest; each is twice the one before.
const RETRY_FIRST: Duration = Duration::from_millis(5);
const RETRY_LAST: Duration = Duration::from_millis(500);

/// The feature bit of a peer that must be the one who connects.
const FIREWALL: u8 = 1;

/// A number for this process that is unlikely to be that of a former one, also where process ids start at 1 in each
/// container: peers tell a restart from a duplicate by it.
pub fn process_id() -> u32 {
    static ID: OnceLock<u32> = OnceLock::new();
    *ID.get_or_init(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |t| t.as_nanos() as u64);
        let mixed = (now ^ u64::from(std::process::id()) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 32) as u32).max(1)
    })
}

/// Reads more of an exchange from a socket, without blocking.
pub fn read_exchange(socket: &Socket, have: &mut Vec<u8>) -> Exchange {
    loop {
        let want = match have.len() < CM_HEADER {
            true => CM_HEADER,
            false => match decode_cm(&have[..CM_HEADER].try_into().unwrap_or([0; CM_HEADER])) {
                Ok(header) if have.len() == CM_HEADER + header.private_len => {
                    return Exchange::Whole(header);
                }
                Ok(header) => CM_HEADER + header.private_len,
                Err(_) => return Exchange::Broken("not a connection message of this protocol"),
            },
        };
        let mut room = [0; CM_HEADER + MAX_PRIVATE];
        match socket.read(&mut room[..want - have.len()]) {
            Ok(Moved::Bytes(n)) => have.extend_from_slice(&room[..n]),
            Ok(Moved::Later) => return Exchange::Partial,
            Ok(Moved::End) => return Exchange::Broken("the stream has ended"),
            Err(_) => return Exchange::Broken("the connection was reset"),
        }
    }
}

/// Sends a connection message in one write, as peers expect. The socket is new, so there is room.
pub fn write_exchange(socket: &Socket, kind: CmKind, private: &[u8]) -> bool {
    let mut bytes = Vec::with_capacity(CM_HEADER + private.len());
    encode_cm(kind, private, &mut bytes);
    matches!(socket.write(&bytes), Ok(Moved::Bytes(n)) if n == bytes.len())
}

/// The order of addresses that decides simultaneous connects: IP as bytes, then port.
fn compare(a: &Addr, b: &Addr) -> Ordering {
    fn key(addr: &Addr) -> ([u8; 16], usize, u16) {
        let mut bytes = [0; 16];
        let len = match addr.ip() {
            IpAddr::V4(ip) => {
                bytes[..4].copy_from_slice(&ip.octets());
                4
            }
            IpAddr::V6(ip) => {
                bytes = ip.octets();
                16
            }
        };
        (bytes, len, addr.port())
    }
    key(a).cmp(&key(b))
}

impl Tcp {
    pub(super) fn cleans_up_removed(&self) -> bool {
        Settings::get().av_remove_cleanup
    }

    /// Begins to connect to the peer of `id`, unless that is under way.
    pub(super) fn begin_connect(&mut self, core: &mut Core, id: usize) -> Result {
        let conn = &mut self.conns[id];
        if conn.state != State::Idle {
            return Ok(());
        }
        let now = Instant::now();
        let limit = Duration::from_millis(self.params.conn_timeout_ms);
        let deadline = *conn.deadline.get_or_insert(now + limit);
        let (peer, ep) = (conn.peer, conn.ep);
        let endpoint = self.eps.get_mut(ep).ok_or(Error::INVAL)?;
        let started = match endpoint.bound.take() {
            Some(bound) => bound.connect_to(peer),
            None => Socket::connect(Some(endpoint.local), peer),
        };
        match started {
            Ok((socket, up)) => {
                let _ = socket.set_nodelay(endpoint.nodelay);
                let conn = &mut self.conns[id];
                conn.state = State::Connecting;
                conn.opened_here = true;
                conn.exchange.clear();
                let fd = socket.as_raw_fd();
                conn.socket = Some(socket);
                conn.watch = Watch {
                    added: true,
                    read: false,
                    write: true,
                };
                if let Err(error) = self.epoll.add(fd, conn_token(id), false, true) {
                    self.connect_failed(core, id, error.into());
                    return Ok(());
                }
                self.schedule(deadline, Due::Conn(id));
                if up {
                    self.connected(core, id);
                }
            }
            Err(error) => {
                let error = Error::from(error);
                self.connect_failed(core, id, error);
                if !self.conns.contains(id) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The kernel has connected, or failed to.
    pub(super) fn connected(&mut self, core: &mut Core, id: usize) {
        let conn = &self.conns[id];
        let Some(socket) = &conn.socket else {
            return;
        };
        match socket.take_error() {
            Ok(None) => {
                // The name of an active endpoint is known from now on.
                let (local, ep) = (socket.local(), conn.ep);
                if let (Ok(local), Some(endpoint)) = (local, self.eps.get_mut(ep))
                    && !endpoint.rdm
                {
                    endpoint.local = local;
                }
                self.send_request(core, id);
            }
            Ok(Some(error)) | Err(error) => self.connect_failed(core, id, error.into()),
        }
    }

    fn send_request(&mut self, core: &mut Core, id: usize) {
        let conn = &self.conns[id];
        let Some(endpoint) = self.eps.get(conn.ep) else {
            return;
        };
        let private = match endpoint.rdm {
            true => RdmPrivate {
                version: 1,
                checked: false,
                features: if endpoint.firewalled { FIREWALL } else { 0 },
                port: endpoint.local.port(),
                pid: self.pid,
            }
            .encode()
            .to_vec(),
            false => conn.rx.leftover.clone(),
        };
        let Some(socket) = &conn.socket else {
            return;
        };
        let _ = socket.set_keepalive(true);
        if !write_exchange(socket, CmKind::Request, &private) {
            return self.connect_failed(core, id, Error::IO);
        }
        let conn = &mut self.conns[id];
        conn.state = State::Requested;
        conn.rx.leftover = Vec::new();
        self.rewatch(id, true, false);
    }

    /// The answer to our request, or a part of it.
    pub(super) fn answered(&mut self, core: &mut Core, id: usize) {
        let conn = &mut self.conns[id];
        let Some(socket) = &conn.socket else {
            return;
        };
        let header = match read_exchange(socket, &mut conn.exchange) {
            Exchange::Partial => return,
            Exchange::Broken(why) => {
                log_info!(&SOURCE, Subsys::EpCtrl, "{}: no answer: {why}", conn.peer);
                return self.connect_failed(core, id, Error::CONNREFUSED);
            }
            Exchange::Whole(header) => header,
        };
        let private = conn.exchange[CM_HEADER..].to_vec();
        let _ = socket.set_keepalive(false);
        match header.kind {
            CmKind::Response => self.established(core, id, &header, &private),
            _ => self.rejected(core, id, private),
        }
    }

    /// The peer has taken our request.
    fn established(&mut self, core: &mut Core, id: usize, header: &CmHeader, private: &[u8]) {
        let conn = &mut self.conns[id];
        conn.swap = header.swapped;
        let rdm = self.eps.get(conn.ep).is_some_and(|ep| ep.rdm);
        if rdm {
            let Some(answer) = RdmPrivate::decode(private) else {
                log_warn!(
                    &SOURCE,
                    Subsys::EpCtrl,
                    "{}: answers as something else than a tcp RDM endpoint",
                    conn.peer
                );
                return self.connect_failed(core, id, Error::CONNREFUSED);
            };
            conn.peer_pid = answer.pid;
            conn.rendezvous = answer.allows_rendezvous() && !conn.swap;
        }
        self.up(core, id);
        if !rdm {
            self.cm_event(core, id, FI_CONNECTED, private);
        }
    }

    /// The peer has refused.
    fn rejected(&mut self, core: &mut Core, id: usize, private: Vec<u8>) {
        let ep = self.conns[id].ep;
        if self.eps.get(ep).is_some_and(|ep| ep.rdm) {
            // It has begun to connect to us, or has not seen that our last connection is gone: its request or our next
            // attempt settles it.
            return self.connect_failed(core, id, Error::CONNREFUSED);
        }
        self.msg_failed(core, id, Error::CONNREFUSED, private);
    }

    /// The connection is up: what waited goes out.
    pub(super) fn up(&mut self, core: &mut Core, id: usize) {
        let conn = &mut self.conns[id];
        conn.state = State::Up;
        conn.deadline = None;
        conn.attempts = 0;
        conn.exchange = Vec::new();
        log_info!(
            &SOURCE,
            Subsys::EpCtrl,
            "connected to {}, opened by {}",
            conn.peer,
            if conn.opened_here { "us" } else { "the peer" }
        );
        self.rewatch(id, true, false);
        self.warm(id);
        self.send_waiting(core, id);
    }

    /// An attempt has failed: another one later, or the end.
    pub(super) fn connect_failed(&mut self, core: &mut Core, id: usize, error: Error) {
        let conn = &mut self.conns[id];
        let rdm = self.eps.get(conn.ep).is_some_and(|ep| ep.rdm);
        if !rdm {
            return self.msg_failed(core, id, error, Vec::new());
        }
        self.close_socket(id);
        let conn = &mut self.conns[id];
        conn.state = State::Idle;
        let now = Instant::now();
        let deadline = conn.deadline.unwrap_or(now);
        if now >= deadline || !is_passing(error) {
            log_warn!(
                &SOURCE,
                Subsys::EpCtrl,
                "no connection from {} to {} after {} attempts: {:?}",
                self.eps
                    .get(self.conns[id].ep)
                    .map_or_else(String::new, |ep| ep.local.to_string()),
                self.conns[id].peer,
                self.conns[id].attempts + 1,
                std::io::Error::from_raw_os_error(error.code()).to_string(),
            );
            return self.lose(core, id, error);
        }
        conn.attempts += 1;
        conn.last_error = Some(error);
        let wait = RETRY_FIRST * (1 << conn.attempts.min(8));
        let next = (now + wait.min(RETRY_LAST)).min(deadline);
        self.schedule(next, Due::Conn(id));
    }

    /// A deadline of this connection has come.
    pub(super) fn conn_due(&mut self, core: &mut Core, id: usize) {
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        if conn.state == State::Idle && !conn.has_work() {
            // Nobody waits for it any more; the next operation begins afresh.
            conn.deadline = None;
            conn.attempts = 0;
            return;
        }
        let over = conn.deadline.is_some_and(|end| Instant::now() >= end);
        match conn.state {
            State::Idle if over => {
                let error = conn.last_error.unwrap_or(Error::TIMEDOUT);
                self.connect_failed(core, id, error);
            }
            State::Idle => drop(self.begin_connect(core, id)),
            State::Connecting | State::Requested if over => {
                self.connect_failed(core, id, Error::TIMEDOUT);
            }
            _ => {}
        }
    }

    /// Connections that wait at a listener.
    pub(super) fn accept_waiting(&mut self, ep: usize) {
        loop {
            let Some(endpoint) = self.eps.get(ep) else {
                return;
            };
            let Some(listener) = &endpoint.listener else {
                return;
            };
            match listener.accept() {
                Ok(Some((socket, from))) => {
                    let _ = socket.set_nodelay(endpoint.nodelay);
                    let fd = socket.as_raw_fd();
                    let limit = Duration::from_millis(self.params.conn_timeout_ms);
                    let deadline = Instant::now() + limit;
                    let id = self.handshakes.insert(Handshake {
                        ep,
                        socket,
                        from,
                        exchange: Vec::new(),
                        deadline,
                    });
                    if self
                        .epoll
                        .add(fd, handshake_token(id), true, false)
                        .is_err()
                    {
                        self.handshakes.remove(id);
                        continue;
                    }
                    self.schedule(deadline, Due::Handshake(id));
                }
                Ok(None) => return,
                Err(error) => {
                    // Out of descriptors: leave the peers in the backlog for a moment.
                    log_warn!(&SOURCE, Subsys::EpCtrl, "cannot accept: {error}");
                    self.epoll.remove(listener.as_raw_fd());
                    let pause = Duration::from_millis(100);
                    self.schedule(Instant::now() + pause, Due::Listener(ep));
                    return;
                }
            }
        }
    }

    /// A request that has not come in time.
    pub(super) fn handshake_due(&mut self, id: usize) {
        let late = |handshake: &Handshake| Instant::now() >= handshake.deadline;
        if self.handshakes.get(id).is_some_and(late) {
            self.drop_handshake(id);
        }
    }

    pub(super) fn drop_handshake(&mut self, id: usize) {
        if self.handshakes.contains(id) {
            let handshake = self.handshakes.remove(id);
            self.epoll.remove(handshake.socket.as_raw_fd());
        }
    }

    /// A request, or a part of it, has come in at an RDM endpoint.
    pub(super) fn requested(&mut self, core: &mut Core, id: usize) {
        let handshake = &mut self.handshakes[id];
        let from = handshake.from;
        let header = match read_exchange(&handshake.socket, &mut handshake.exchange) {
            Exchange::Partial => return,
            Exchange::Broken(why) => {
                log_warn!(&SOURCE, Subsys::EpCtrl, "{from} closed: {why}");
                return self.drop_handshake(id);
            }
            Exchange::Whole(header) => header,
        };
        let private = RdmPrivate::decode(&handshake.exchange[CM_HEADER..]);
        let (CmKind::Request, Some(private)) = (header.kind, private) else {
            log_warn!(
                &SOURCE,
                Subsys::EpCtrl,
                "{from} closed: not a tcp RDM endpoint"
            );
            if header.kind == CmKind::Request {
                let echo = &handshake.exchange[CM_HEADER..];
                write_exchange(&handshake.socket, CmKind::Reject, echo);
            }
            return self.drop_handshake(id);
        };
        let handshake = self.handshakes.remove(id);
        self.epoll.remove(handshake.socket.as_raw_fd());
        self.admit(core, handshake, &header, &private);
    }

    /// Whether the peer's request makes a connection: docs/wire/tcp.md, "Both sides connect".
    fn admit(&mut self, core: &mut Core, from: Handshake, header: &CmHeader, private: &RdmPrivate) {
        let ep = from.ep;
        let Some(endpoint) = self.eps.get(ep) else {
            return;
        };
        let peer = addr::canonical(SocketAddr::new(from.from.ip(), private.port));
        let peer = with_scope(peer, from.from);
        let mut own = endpoint.local;
        if own.ip().is_unspecified()
            && let Ok(local) = from.socket.local()
        {
            own.set_ip(local.ip());
        }
        let own = addr::canonical(own);
        let existing = endpoint.by_addr.get(&peer).copied();
        let reject = |why: &str| {
            log_info!(&SOURCE, Subsys::EpCtrl, "{peer}: request rejected: {why}");
            write_exchange(&from.socket, CmKind::Reject, &from.exchange[CM_HEADER..]);
        };
        let id = match existing {
            None => self.new_peer(core, ep, peer),
            Some(id) => match self.conns[id].state {
                State::Idle | State::Down => id,
                State::Connecting | State::Requested => match compare(&peer, &own) {
                    Ordering::Less => return reject("both sides connect, ours counts"),
                    Ordering::Greater => {
                        // Our attempt is dropped; what waits for it goes over this one.
                        self.close_socket(id);
                        self.conns[id].state = State::Idle;
                        id
                    }
                    Ordering::Equal => self.half_to_self(core, ep, peer),
                },
                State::Up if self.conns[id].opened_here && peer == own => {
                    self.half_to_self(core, ep, peer)
                }
                State::Up
                    if self.conns[id].opened_here && self.conns[id].peer_pid == private.pid =>
                {
                    return reject("already connected");
                }
                State::Up => {
                    // The peer has restarted, or given up the connection that it had opened.
                    self.lose(core, id, Error::CANCELED);
                    self.new_peer(core, ep, peer)
                }
            },
        };
        let answer = private.answer(FIREWALL, self.pid);
        if !write_exchange(&from.socket, CmKind::Response, &answer.encode()) {
            return self.connect_failed(core, id, Error::IO);
        }
        let fd = from.socket.as_raw_fd();
        let conn = &mut self.conns[id];
        conn.opened_here = false;
        conn.peer_pid = private.pid;
        conn.swap = header.swapped;
        conn.rendezvous = answer.allows_rendezvous() && !conn.swap;
        conn.socket = Some(from.socket);
        conn.watch = Watch {
            added: true,
            read: true,
            write: false,
        };
        if let Err(error) = self.epoll.add(fd, conn_token(id), true, false) {
            return self.lose(core, id, error.into());
        }
        self.up(core, id);
    }

    /// A peer that begins; its address may be in the vector.
    fn new_peer(&mut self, core: &Core, ep: usize, peer: Addr) -> usize {
        let av = core.eps[ep].av;
        let found = av.and_then(|av| core.avs[av].find(&peer));
        let id = self
            .conns
            .insert(Conn::new(ep, peer, found.unwrap_or(FI_ADDR_NOTAVAIL)));
        if let Some(endpoint) = self.eps.get_mut(ep) {
            endpoint.by_addr.insert(peer, id);
        }
        id
    }

    /// The receiving half of a connection to oneself: not found by address.
    fn half_to_self(&mut self, core: &Core, ep: usize, peer: Addr) -> usize {
        let av = core.eps[ep].av;
        let found = av.and_then(|av| core.avs[av].find(&peer));
        let mut conn = Conn::new(ep, peer, found.unwrap_or(FI_ADDR_NOTAVAIL));
        conn.receive_only = true;
        self.conns.insert(conn)
    }

    pub(super) fn close_socket(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        if let Some(socket) = conn.socket.take() {
            self.epoll.remove(socket.as_raw_fd());
        }
        conn.watch = Watch::default();
        if std::mem::take(&mut conn.hot) {
            self.hot.retain(|&hot| hot != id);
        }
    }

    /// The peer is gone: everything that depended on it fails.
    pub(super) fn lose(&mut self, core: &mut Core, id: usize, error: Error) {
        let ep = self.conns[id].ep;
        let rdm = self.eps.get(ep).is_some_and(|ep| ep.rdm);
        let was_up = self.conns[id].state == State::Up;
        self.close_socket(id);
        self.fail_operations(core, id, error);
        if rdm {
            self.remove_conn(id);
            return;
        }
        self.conns[id].state = State::Down;
        let srx = core.eps[ep].srx;
        if core.srxs[srx].eps == 1 {
            for (recv, what) in core.srxs[srx].drain_posted() {
                core.receive_failed(ep, &recv, what, Error::CANCELED);
            }
        }
        if was_up {
            self.cm_event(core, id, FI_SHUTDOWN, &[]);
        }
    }

    /// Completes in error what was posted to the peer, and what the peer had begun.
    fn fail_operations(&mut self, core: &mut Core, id: usize, error: Error) {
        let conn = &mut self.conns[id];
        let ep = conn.ep;
        let tx = std::mem::take(&mut conn.tx);
        let rx = std::mem::replace(&mut conn.rx, Rx::new());
        let srx = core.eps[ep].srx;
        let mut failed: Vec<TxOp> = Vec::new();
        failed.extend(tx.waiting.iter().filter_map(|waiting| waiting.op));
        for out in tx.queue {
            if let Out::Frame(frame) = out
                && let After::Complete(op) = frame.after
            {
                failed.push(op);
            }
        }
        failed.extend(tx.await_ack);
        failed.extend(tx.await_read.into_iter().map(|read| read.op));
        failed.extend(tx.rendezvous.into_values().map(|out| out.op));
        for op in failed {
            core.eps[ep].tx_pending -= 1;
            core.send_failed(ep, &op, error);
        }
        match rx.at {
            At::Payload(incoming) => match incoming.sink {
                Sink::Recv(recv, envelope) => {
                    core.receive_failed(ep, &recv, envelope.what, Error::CANCELED);
                }
                Sink::Slot(srx, slot) => {
                    if let Some((recv, envelope)) = core.srxs[srx].lost(slot) {
                        core.receive_failed(ep, &recv, envelope.what, Error::CANCELED);
                    }
                }
                Sink::Read(read) => {
                    core.eps[ep].tx_pending -= 1;
                    core.send_failed(ep, &read.op, error);
                }
                Sink::Write { .. } | Sink::Drop => {}
            },
            At::Header | At::Stalled(_) => {}
        }
        for incoming in rx.rendezvous.into_values() {
            if let Some(recv) = incoming.recv {
                core.receive_failed(ep, &recv, incoming.envelope.what, Error::CANCELED);
            }
        }
        core.srxs[srx].forget(id as u64);
        self.dirty.retain(|&dirty| dirty != id);
        self.stalled.retain(|&stalled| stalled != id);
    }

    /// Takes a connection out of all tables.
    fn remove_conn(&mut self, id: usize) {
        let conn = self.conns.remove(id);
        if let Some(endpoint) = self.eps.get_mut(conn.ep) {
            if !conn.receive_only && endpoint.by_addr.get(&conn.peer) == Some(&id) {
                endpoint.by_addr.remove(&conn.peer);
            }
            for slot in &mut endpoint.peers {
                if *slot == id as u32 {
                    *slot = NONE;
                }
            }
        }
    }

    /// The endpoint is closed: what was posted is dropped without a word, as fi_endpoint(3) says of fi_close.
    pub(super) fn discard_conn(&mut self, core: &mut Core, id: usize) {
        self.close_socket(id);
        let conn = &mut self.conns[id];
        let srx = core.eps[conn.ep].srx;
        if let At::Payload(incoming) = &conn.rx.at
            && let Sink::Slot(srx, slot) = incoming.sink
        {
            core.srxs[srx].lost(slot);
        }
        core.srxs[srx].forget(id as u64);
        self.dirty.retain(|&dirty| dirty != id);
        self.stalled.retain(|&stalled| stalled != id);
        self.conns.remove(id);
    }
}

/// Whether a later attempt may do better.
fn is_passing(error: Error) -> bool {
    !matches!(
        error,
        Error::TIMEDOUT | Error::MFILE | Error::INVAL | Error::ACCES
    )
}

/// Link-local addresses are told apart by the interface they came in on.
fn with_scope(peer: Addr, from: SocketAddr) -> Addr {
    match (peer, from) {
        (SocketAddr::V6(mut peer), SocketAddr::V6(from)) => {
            peer.set_scope_id(from.scope_id());
            peer.into()
        }
        _ => peer,
    }
}

/// MSG endpoints.
impl Tcp {
    pub(super) fn connect_msg(
        &mut self,
        core: &mut Core,
        ep: usize,
        addr: Option<&[u8]>,
        param: &[u8],
    ) -> Result {
        let endpoint = self.ep_mut(ep)?;
        if endpoint.conn.is_some() {
            return Err(Error::ISCONN);
        }
        if endpoint.request.is_some() {
            return Err(Error::OPBADSTATE);
        }
        let peer = match addr {
            Some(bytes) => addr::from_bytes(bytes),
            None => endpoint.dest,
        };
        let peer = peer.ok_or(Error::INVAL)?;
        let mut conn = Conn::new(ep, addr::canonical(peer), FI_ADDR_NOTAVAIL);
        // Kept until the request is written.
        conn.rx.leftover = param.to_vec();
        let id = self.conns.insert(conn);
        self.ep_mut(ep)?.conn = Some(id);
        self.begin_connect(core, id)
    }

    pub(super) fn accept_msg(&mut self, core: &mut Core, ep: usize, param: &[u8]) -> Result {
        let endpoint = self.ep_mut(ep)?;
        if endpoint.conn.is_some() {
            return Err(Error::ISCONN);
        }
        let request = endpoint.request.take().ok_or(Error::INVAL)?;
        let nodelay = endpoint.nodelay;
        let mut conn = Conn::new(ep, request.from(), FI_ADDR_NOTAVAIL);
        let (socket, swapped) = request.into_socket();
        let _ = socket.set_nodelay(nodelay);
        let sent = write_exchange(&socket, CmKind::Response, param);
        conn.swap = swapped;
        let fd = socket.as_raw_fd();
        conn.socket = Some(socket);
        conn.watch = Watch {
            added: true,
            read: true,
            write: false,
        };
        let id = self.conns.insert(conn);
        self.ep_mut(ep)?.conn = Some(id);
        self.epoll.add(fd, conn_token(id), true, false)?;
        self.up(core, id);
        self.cm_event(core, id, FI_CONNECTED, &[]);
        if !sent {
            // The peer has gone meanwhile.
            self.lose(core, id, Error::CANCELED);
        }
        Ok(())
    }

    pub(super) fn shutdown_msg(&mut self, core: &mut Core, ep: usize) -> Result {
        let id = self.ep(ep)?.conn.ok_or(Error::NOTCONN)?;
        match self.conns[id].state {
            State::Up => {
                self.last_flush(core, id, Instant::now() + LINGER);
                if let Some(socket) = &self.conns[id].socket {
                    socket.shutdown();
                }
                self.lose(core, id, Error::CANCELED);
                Ok(())
            }
            State::Down => Ok(()),
            _ => {
                self.close_socket(id);
                self.conns[id].state = State::Down;
                Ok(())
            }
        }
    }

    /// An event about the endpoint's connection.
    fn cm_event(&mut self, core: &Core, id: usize, number: u32, data: &[u8]) {
        let state = &core.eps[self.conns[id].ep];
        if let Some(eq) = &state.eq {
            eq.cm_event(number, state.fid, 0, data, None);
        }
    }

    /// fi_connect has failed: an error event, with what the peer said.
    fn msg_failed(&mut self, core: &mut Core, id: usize, error: Error, private: Vec<u8>) {
        let ep = self.conns[id].ep;
        log_info!(
            &SOURCE,
            Subsys::EpCtrl,
            "no connection to {}: error {}",
            self.conns[id].peer,
            error.code()
        );
        self.close_socket(id);
        self.fail_operations(core, id, Error::CANCELED);
        self.conns[id].state = State::Down;
        let state = &core.eps[ep];
        if let Some(eq) = &state.eq {
            eq.error(EqErr {
                fid: state.fid,
                context: state.context,
                data: 0,
                err: error.code(),
                prov_errno: error.code(),
                err_data: (!private.is_empty()).then(|| private.into_boxed_slice()),
            });
        }
    }
}
