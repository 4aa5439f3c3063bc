// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Peers of one host and one user: their connection begins over TCP and goes on over shared memory. docs/wire/tcp.md, "Shared
//! memory".
//!
//! That is settled before the first frame of an operation: whatever was posted waits until it is. So frames never change
//! their way, and their order needs no care. Where it comes to nothing the connection is an ordinary one. What the two exchange
//! at the door is the engine's (`meeting`).
#![forbid(unsafe_code)]

use core::fmt::Write;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use crate::base::log::{Subsys, log_debug, log_info, log_warn};
use crate::base::{Error, Result};
use crate::engine::stream::conn::{Conn, State, Watch};
use crate::engine::stream::hello::{Hello, Verdict};
use crate::engine::stream::progress::listener_token;
use crate::engine::stream::proto::{
    DOOR_FRAME, Directions, SHARES, STAY_FRAME, ShareOp, TOKEN, Token,
};
use crate::engine::stream::shm_channel::Duct;
use crate::engine::stream::shm_connect::{Greeted, Guest, Heard, knock};
use crate::engine::stream::transport::{DomainOf, Stream};
use crate::prov::tcp::connect::write_whole;
use crate::prov::tcp::{SOURCE, Tcp};
use crate::sys::local::{self, LocalName};
use crate::sys::random::unpredictable;
use crate::sys::socket::{Moved, Socket};
use crate::sys::user::effective_uid;

/// Where neighbours meet an endpoint; it goes with the endpoint.
pub struct Door {
    socket: Socket,
    name: Token,
}

/// How far a connection is that is to share memory.
pub enum Sharing {
    /// Accepted: the peer comes to the door with this secret, or says that it does not; a frame, as far as it has come in.
    Expecting { secret: Token, frame: Vec<u8> },
    /// Connected: the peer says where its door is; a frame, as far as it has come in.
    Asking { frame: Vec<u8> },
    /// At the peer's door. The TCP connection is kept for the case that nothing comes of it.
    Greeted { stream: Socket, greeted: Greeted },
}

/// What a look for a frame has brought.
enum Look {
    Wait,
    Frame(ShareOp),
    /// Another one, or none any more.
    Broken(&'static str),
}

/// Where an endpoint of this user is met whose door has this name.
fn door_of(name: &Token) -> LocalName {
    let uid = effective_uid();
    let mut text = format!("ironfabric/tcp/{uid}/");
    for byte in name {
        // Text can always be written to.
        let _ = write!(text, "{byte:02x}");
    }
    LocalName::Abstract(text.into_bytes())
}

/// Whether the addresses of a connection are such as those within a host are.
fn is_within_host(socket: &Socket) -> bool {
    let ip = |addr: std::net::SocketAddr| match addr.ip() {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4),
        v4 => v4,
    };
    match (socket.local(), socket.peer()) {
        (Ok(local), Ok(peer)) => {
            let (local, peer) = (ip(local), ip(peer));
            local == peer || local.is_loopback() && peer.is_loopback()
        }
        _ => false,
    }
}

/// One look for a frame of `len` bytes; nothing of what follows is taken.
fn look(socket: &Socket, frame: &mut Vec<u8>, len: usize) -> Look {
    let mut room = [0; DOOR_FRAME];
    loop {
        match socket.read(&mut room[..len - frame.len()]) {
            Ok(Moved::Bytes(n)) => frame.extend_from_slice(&room[..n]),
            Ok(Moved::Later) => return Look::Wait,
            Ok(Moved::End) | Err(_) => return Look::Broken("it has gone"),
        }
        if frame.len() == len {
            return match ShareOp::decode(frame, false) {
                Some(op) => Look::Frame(op),
                None => Look::Broken("not a frame that belongs there"),
            };
        }
    }
}

impl Stream<Tcp> {
    /// The feature bit of an endpoint that would share memory over this connection.
    pub(super) fn shares(&self, ep: usize, socket: &Socket) -> u8 {
        let permitted = self.eps.get(ep).is_some_and(|ep| ep.rdm && ep.own.shares);
        match permitted && self.is_at_home() && is_within_host(socket) {
            true => SHARES,
            false => 0,
        }
    }

    /// The connection exchange is over. What both sides have agreed to try is tried; any other connection is up.
    pub(super) fn settled(&mut self, domain: &mut DomainOf<Tcp>, id: usize, agreed: u8) {
        if agreed & SHARES == 0 {
            return self.up(domain, id);
        }
        let conn = &mut self.conns[id];
        conn.state = State::Sharing;
        let step = match conn.opened_here {
            true => "asks the peer where",
            false => "expects the peer",
        };
        let peer = conn.peer;
        log_debug!(&SOURCE, Subsys::EpCtrl, "{peer}: shared memory: {step}");
        if let Some(crossing) = conn.own.crossing.take() {
            crossing.reject();
        }
        match conn.opened_here {
            true => {
                let frame = Vec::new();
                conn.own.sharing = Some(Box::new(Sharing::Asking { frame }));
                self.rewatch(id, true, false);
            }
            false => self.direct(domain, id),
        }
    }

    /// Tells the peer where it is expected.
    fn direct(&mut self, domain: &mut DomainOf<Tcp>, id: usize) {
        let ep = self.conns[id].ep;
        let directions = self.directions(ep).unwrap_or_else(|error| {
            log_info!(&SOURCE, Subsys::EpCtrl, "no door for neighbours: {error:?}");
            NOWHERE
        });
        let conn = &mut self.conns[id];
        let frame = ShareOp::Door(directions).encode(conn.tx.next_counter(), false);
        let Some(socket) = &conn.socket else {
            return;
        };
        // The socket is new: there is room.
        if !write_whole(socket, &frame) {
            return self.lose(domain, id, Error::CONNRESET);
        }
        if directions == NOWHERE {
            return self.up(domain, id);
        }
        conn.own.sharing = Some(Box::new(Sharing::Expecting {
            secret: directions.secret,
            frame: Vec::new(),
        }));
        self.rewatch(id, true, false);
    }

    /// Where a peer is met, with a secret for it alone.
    fn directions(&mut self, ep: usize) -> Result<Directions> {
        if !self.own.doors.contains_key(&ep) {
            let name = token()?;
            let socket = local::listen(&door_of(&name))?;
            self.epoll
                .add(socket.as_raw_fd(), listener_token(ep), true, false)?;
            self.own.doors.insert(ep, Door { socket, name });
        }
        let door = self.own.doors[&ep].name;
        let secret = token()?;
        Ok(Directions { door, secret })
    }

    pub(super) fn door_socket(&self, ep: usize) -> Option<&Socket> {
        self.own.doors.get(&ep).map(|door| &door.socket)
    }

    /// The endpoint is closed.
    pub(super) fn close_door(&mut self, ep: usize) {
        if let Some(door) = self.own.doors.remove(&ep) {
            self.epoll.remove(door.socket.as_raw_fd());
            // Nobody is to wait at a door that a forked child holds.
            door.socket.shutdown();
        }
    }

    /// News of a connection that is to share memory.
    pub(super) fn sharing(&mut self, domain: &mut DomainOf<Tcp>, id: usize) {
        let conn = &mut self.conns[id];
        let (Some(socket), Some(sharing)) = (&conn.socket, conn.own.sharing.as_deref_mut()) else {
            return;
        };
        match sharing {
            Sharing::Expecting { frame, .. } => match look(socket, frame, STAY_FRAME) {
                Look::Wait => {}
                Look::Frame(ShareOp::Stay) => self.up(domain, id),
                Look::Frame(ShareOp::Door(_)) => self.misled(domain, id, "it is expected here"),
                Look::Broken(why) => self.misled(domain, id, why),
            },
            Sharing::Asking { frame } => match look(socket, frame, DOOR_FRAME) {
                Look::Wait => {}
                Look::Frame(ShareOp::Door(NOWHERE)) => self.up(domain, id),
                Look::Frame(ShareOp::Door(to)) => self.call_on(domain, id, &to),
                Look::Frame(ShareOp::Stay) => self.misled(domain, id, "it does not say where"),
                Look::Broken(why) => self.misled(domain, id, why),
            },
            Sharing::Greeted { .. } => self.welcomed(domain, id),
        }
    }

    /// The peer has gone, or does not keep to the protocol.
    fn misled(&mut self, domain: &mut DomainOf<Tcp>, id: usize, why: &str) {
        let conn = &self.conns[id];
        log_warn!(
            &SOURCE,
            Subsys::EpCtrl,
            "{}: no shared memory, and no connection: {why}",
            conn.peer
        );
        match conn.opened_here {
            // As one that was not answered.
            true => self.connect_failed(domain, id, Error::CONNREFUSED),
            false => self.lose(domain, id, Error::CONNABORTED),
        }
    }

    /// Goes to the peer's door.
    fn call_on(&mut self, domain: &mut DomainOf<Tcp>, id: usize, to: &Directions) {
        let ep = self.conns[id].ep;
        let greeted = knock(&door_of(&to.door)).and_then(|socket| {
            let greeted = self.greet(domain, ep, &socket, to.secret.to_vec())?;
            Ok((socket, greeted))
        });
        let taken = greeted.and_then(|(socket, greeted)| {
            let stream = self.set_aside(id).ok_or(Error::IO)?;
            // From now on it is found here, whatever comes of it.
            let aside = Box::new(Sharing::Greeted { stream, greeted });
            self.conns[id].own.sharing = Some(aside);
            self.take_socket(id, socket)
        });
        if let Err(error) = taken {
            self.stay(domain, id, &text_of(error));
        }
    }

    /// The socket of a connection, out of epoll's sight.
    fn set_aside(&mut self, id: usize) -> Option<Socket> {
        let conn = &mut self.conns[id];
        let socket = conn.socket.take()?;
        self.epoll.remove(socket.as_raw_fd());
        conn.watch = Watch::default();
        Some(socket)
    }

    /// The answer at the peer's door, or a part of it.
    fn welcomed(&mut self, domain: &mut DomainOf<Tcp>, id: usize) {
        let Some(mut sharing) = self.conns[id].own.sharing.take() else {
            return;
        };
        let conn = &self.conns[id];
        let (Some(socket), Sharing::Greeted { greeted, .. }) = (&conn.socket, &mut *sharing) else {
            return;
        };
        match self.hear(socket, greeted) {
            Heard::Wait => self.conns[id].own.sharing = Some(sharing),
            // The TCP connection has done its part.
            Heard::Welcome { duct, is_direct } => self.share(domain, id, duct, is_direct),
            other => {
                let why = match other {
                    Heard::Refused(verdict) => verdict.to_string(),
                    Heard::Failed(error) => text_of(error),
                    _ => "it does not answer".to_owned(),
                };
                self.conns[id].own.sharing = Some(sharing);
                self.stay(domain, id, &why);
            }
        }
    }

    /// The connection goes on as it is.
    fn stay(&mut self, domain: &mut DomainOf<Tcp>, id: usize, why: &str) {
        let peer = self.conns[id].peer;
        log_info!(&SOURCE, Subsys::EpCtrl, "{peer}: no shared memory: {why}");
        let sharing = self.conns[id].own.sharing.take();
        if let Some(Sharing::Greeted { stream, .. }) = sharing.map(|sharing| *sharing) {
            drop(self.set_aside(id));
            self.conns[id].socket = Some(stream);
        }
        let conn = &mut self.conns[id];
        let frame = ShareOp::Stay.encode(conn.tx.next_counter(), false);
        let written = conn
            .socket
            .as_ref()
            .is_some_and(|socket| write_whole(socket, &frame));
        match written {
            true => self.up(domain, id),
            false => self.connect_failed(domain, id, Error::IO),
        }
    }

    /// Somebody has come to the door of an endpoint.
    pub(super) fn guest(
        &mut self,
        domain: &mut DomainOf<Tcp>,
        guest: Guest,
        hello: core::result::Result<Hello, Verdict>,
    ) {
        let is_expected = |conn: &Conn<Tcp>, who: &[u8]| {
            let sharing = conn.own.sharing.as_deref();
            conn.ep == guest.ep
                && conn.state == State::Sharing
                && matches!(sharing, Some(Sharing::Expecting { secret, .. }) if secret[..] == *who)
        };
        let known = hello.and_then(|hello| {
            let mut conns = self.conns.iter();
            let found = conns.find(|(_, conn)| is_expected(conn, &hello.who));
            Ok((found.ok_or(Verdict::Version)?.0, hello))
        });
        let expected = match &known {
            Ok((_, hello)) => Ok(hello),
            Err(verdict) => Err(*verdict),
        };
        // Who is refused says over TCP that the connection stays there.
        let welcomed = self.welcome(domain, &guest, expected);
        let (Some((duct, is_direct)), Ok((id, _))) = (welcomed, known) else {
            return;
        };
        drop(self.set_aside(id));
        match self.take_socket(id, guest.socket) {
            Ok(()) => self.share(domain, id, duct, is_direct),
            Err(error) => self.lose(domain, id, error),
        }
    }

    /// Both sides have the memory.
    fn share(&mut self, domain: &mut DomainOf<Tcp>, id: usize, duct: Box<Duct>, is_direct: bool) {
        self.conns[id].is_direct = is_direct;
        self.use_duct(domain, id, duct);
        self.up(domain, id);
    }
}

/// In the words of the system.
fn text_of(error: Error) -> String {
    std::io::Error::from_raw_os_error(error.code()).to_string()
}

/// Bytes that nobody can guess.
fn token() -> Result<Token> {
    let random = unpredictable()?;
    let mut token = [0; TOKEN];
    token.copy_from_slice(&random[..TOKEN]);
    Ok(token)
}

/// There is no door.
const NOWHERE: Directions = Directions {
    door: [0; TOKEN],
    secret: [0; TOKEN],
};
