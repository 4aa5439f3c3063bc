// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Peers of one host and one user: their connection begins over TCP and continues over shared memory. docs/wire/tcp.md,
//! "Shared memory".
//!
//! The decision comes before the first frame of an operation; posted operations wait for it. Frames therefore never
//! change their link, and need no extra ordering. If shared memory fails, the connection is an ordinary one.
//! `stream::shm_host::connect` defines the messages at the listener for shared memory.
//!
//! A later switch would need a mark in each direction of the stream and would hold back queued frames at it, and a
//! direct write to the peer's memory could overtake messages that the peer has not read; all that would save the first
//! message some hundred microseconds. The TCP connection is closed, because the unix socket reports the peer's end as
//! well; so no process holds twice as many descriptors. The price: both sides have to poll once more before the first
//! message leaves.

use core::fmt::Write;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

use crate::tcp::Desk;
use crate::tcp::exchange::write_whole;
use crate::tcp::net::Connections;
use base::log::{Subsys, log_debug, log_info, log_warn};
use base::{Error, Result};
use engine::descriptors::{Free, free_descriptors};
use stream::conn::Conn;
use stream::hello::{Hello, Verdict};
use stream::link::Link;
use stream::pending_peer::PendingPeer;
use stream::poller::Poller;
use stream::proto::{Directions, LISTENER_FRAME, SHARES, STAY_FRAME, SameHostFrame, TOKEN, Token};
use stream::session::State;
use stream::shm_channel::ShmChannel;
use stream::shm_host::connect::{Heard, HelloExchange, connect_to};
use sys::local::{self, LocalName};
use sys::random::unpredictable;
use sys::socket::{Moved, Socket};
use sys::user::effective_uid;

/// The listener of an endpoint for peers of this host; closed with the endpoint.
pub struct ShmListener {
    socket: Socket,
    name: Token,
}

/// State of a connection that will share memory.
pub enum Sharing {
    /// At the accepting side: the peer connects to the listener with this secret, or sends that the connection stays.
    /// `frame` is the part of that frame that has arrived.
    Expecting { secret: Token, frame: Vec<u8> },
    /// At the connecting side: the peer sends the name of its listener. `frame` is the part of that frame that has
    /// arrived.
    Asking { frame: Vec<u8> },
    /// At the connecting side, connected to the peer's listener. The TCP connection is kept in case this fails.
    HelloExchange {
        kept: Socket,
        exchange: HelloExchange,
    },
}

/// Result of reading a frame.
enum Poll {
    Wait,
    Frame(SameHostFrame),
    /// Another frame, or the end of the stream.
    Broken(&'static str),
}

/// Returns the socket address of the listener with this name and user.
fn shm_listener_of(name: &Token) -> LocalName {
    let uid = effective_uid();
    let mut text = format!("ironfabric/tcp/{uid}/");
    for byte in name {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    LocalName::Abstract(text.into_bytes())
}

/// Whether both addresses of a connection show that it stays within the host.
pub(super) fn is_within_host(socket: &Socket) -> bool {
    match (socket.local(), socket.peer()) {
        (Ok(local), Ok(peer)) => within_host(local.ip(), peer.ip()),
        _ => false,
    }
}

/// Whether a connection between these addresses stays within the host.
pub(super) fn within_host(local: IpAddr, peer: IpAddr) -> bool {
    let ip = |ip: IpAddr| match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4),
        v4 => v4,
    };
    let (local, peer) = (ip(local), ip(peer));
    local == peer || local.is_loopback() && peer.is_loopback()
}

/// Reads a frame of `len` bytes as far as it has arrived, and nothing behind it.
fn poll(socket: &Socket, frame: &mut Vec<u8>, len: usize) -> Poll {
    let mut room = [0; LISTENER_FRAME];
    loop {
        match socket.read(&mut room[..len - frame.len()]) {
            Ok(Moved::Bytes(n)) => frame.extend_from_slice(&room[..n]),
            Ok(Moved::Later) => return Poll::Wait,
            Ok(Moved::End) | Err(_) => return Poll::Broken("it has gone"),
        }
        if frame.len() == len {
            return match SameHostFrame::decode(frame, false) {
                Some(op) => Poll::Frame(op),
                None => Poll::Broken("not a frame that belongs there"),
            };
        }
    }
}

impl Connections {
    /// Returns the feature bit if the endpoint can share memory over this connection.
    pub(super) fn shares(&self, desk: &Desk<'_>, ep: usize, socket: &Socket) -> u8 {
        let permitted = desk
            .peers
            .find_ep(ep)
            .is_some_and(|ep| ep.rdm && ep.own.shares);
        match permitted && desk.is_at_home() && is_within_host(socket) {
            true => SHARES,
            false => 0,
        }
    }

    /// Returns the feature bit for a connection message. While descriptors are scarce, a connection stays on its
    /// socket, because the way to shared memory needs up to four of them for a moment.
    pub(super) fn offers_to_share(&self, desk: &Desk<'_>, ep: usize, socket: &Socket) -> u8 {
        match free_descriptors() {
            Free::Ample => self.shares(desk, ep, socket),
            _ => 0,
        }
    }

    /// Continues after the connection messages: tries what both sides have agreed to, or completes the connection.
    pub(super) fn settled(&mut self, desk: &mut Desk<'_>, id: usize, agreed: u8) {
        if agreed & SHARES == 0 {
            return self.up(desk, id);
        }
        let conn = &mut desk.peers[id];
        conn.session.state = State::Sharing;
        let step = match conn.opened_here {
            true => "asks the peer where",
            false => "expects the peer",
        };
        let peer = conn.session.peer.addr;
        log_debug!(desk.source, Subsys::EpCtrl, "{peer}: shared memory: {step}");
        if let Some(crossing) = conn.own.crossing.take() {
            crossing.reject();
        }
        match conn.opened_here {
            true => {
                let frame = Vec::new();
                conn.own.sharing = Some(Box::new(Sharing::Asking { frame }));
                desk.rewatch(id, true, false);
            }
            false => self.direct(desk, id),
        }
    }

    /// Sends the name of the listener to the peer.
    fn direct(&mut self, desk: &mut Desk<'_>, id: usize) {
        let ep = desk.peers[id].session.peer.ep;
        let directions = self.directions(desk, ep, id).unwrap_or_else(|error| {
            log_info!(
                desk.source,
                Subsys::EpCtrl,
                "no listener for peers of this host: {error}"
            );
            NOWHERE
        });
        let conn = &mut desk.peers[id];
        let counter = conn.session.tx.out.next_counter();
        let frame = SameHostFrame::ShmListener(directions).encode(counter, false);
        let Some(socket) = conn.link.socket() else {
            return;
        };
        // The socket is new, so it has room for the frame.
        if !write_whole(socket, &frame) {
            return desk.end(id, Error::CONNRESET);
        }
        if directions == NOWHERE {
            return self.up(desk, id);
        }
        conn.own.sharing = Some(Box::new(Sharing::Expecting {
            secret: directions.secret,
            frame: Vec::new(),
        }));
        desk.rewatch(id, true, false);
    }

    /// Returns the name of the listener and a secret for the peer of this connection alone.
    fn directions(&mut self, desk: &mut Desk<'_>, ep: usize, id: usize) -> Result<Directions> {
        let listener = match self.shm_listeners.entry(ep) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let name = token()?;
                let socket = local::listen(&shm_listener_of(&name))?;
                desk.poller.add_listener(&socket, ep)?;
                entry.insert(ShmListener { socket, name })
            }
        };
        let shm_listener = listener.name;
        let secret = secret_of(id)?;
        Ok(Directions {
            shm_listener,
            secret,
        })
    }

    pub(super) fn shm_listener_of_ep(&self, ep: usize) -> Option<&Socket> {
        let listener = self.shm_listeners.get(&ep)?;
        Some(&listener.socket)
    }

    /// Closes the listener together with its endpoint.
    pub(super) fn close_shm_listener(&mut self, poller: &mut Poller, ep: usize) {
        if let Some(shm_listener) = self.shm_listeners.remove(&ep) {
            poller.remove_fd(&shm_listener.socket);
            // A forked child may hold it, too: peers must not wait there.
            shm_listener.socket.shutdown();
        }
    }

    /// Handles a readable socket of a connection that will share memory.
    pub(super) fn sharing(&mut self, desk: &mut Desk<'_>, id: usize) {
        let conn = &mut desk.peers[id];
        let (Some(socket), Some(sharing)) = (conn.link.socket(), conn.own.sharing.as_deref_mut())
        else {
            return;
        };
        match sharing {
            Sharing::Expecting { frame, .. } => match poll(socket, frame, STAY_FRAME) {
                Poll::Wait => {}
                Poll::Frame(SameHostFrame::Stay) => self.up(desk, id),
                Poll::Frame(SameHostFrame::ShmListener(_)) => {
                    self.misled(desk, id, "it is expected here")
                }
                Poll::Broken(why) => self.misled(desk, id, why),
            },
            Sharing::Asking { frame } => match poll(socket, frame, LISTENER_FRAME) {
                Poll::Wait => {}
                Poll::Frame(SameHostFrame::ShmListener(NOWHERE)) => self.up(desk, id),
                Poll::Frame(SameHostFrame::ShmListener(_)) if free_descriptors() < Free::Ample => {
                    self.stay(desk, id, "descriptors are scarce");
                }
                Poll::Frame(SameHostFrame::ShmListener(to)) => self.open_channel(desk, id, &to),
                Poll::Frame(SameHostFrame::Stay) => self.misled(desk, id, "it does not say where"),
                Poll::Broken(why) => self.misled(desk, id, why),
            },
            Sharing::HelloExchange { .. } => self.welcomed(desk, id),
        }
    }

    /// Ends a connection whose peer is gone or violates the protocol.
    fn misled(&mut self, desk: &mut Desk<'_>, id: usize, why: &str) {
        let conn = &desk.peers[id];
        log_warn!(
            desk.source,
            Subsys::EpCtrl,
            "{}: no shared memory, and no connection: {why}",
            conn.session.peer.addr
        );
        match conn.opened_here {
            // This counts as a request without an answer.
            true => self.connect_failed(desk, id, Error::CONNREFUSED),
            false => desk.end(id, Error::CONNABORTED),
        }
    }

    /// Connects to the peer's listener.
    fn open_channel(&mut self, desk: &mut Desk<'_>, id: usize, to: &Directions) {
        let ep = desk.peers[id].session.peer.ep;
        let exchange = connect_to(&shm_listener_of(&to.shm_listener)).and_then(|socket| {
            let exchange = desk
                .shm
                .send_hello(desk.domain, ep, &socket, to.secret.to_vec())?;
            Ok((socket, exchange))
        });
        let taken = exchange.and_then(|(socket, exchange)| {
            let kept = desk.set_aside(id).ok_or(Error::IO)?;
            // From now on the state is found here, whatever happens to the exchange.
            let aside = Box::new(Sharing::HelloExchange { kept, exchange });
            desk.peers[id].own.sharing = Some(aside);
            desk.take_socket(id, socket)
        });
        if let Err(error) = taken {
            self.stay(desk, id, &text_of(error));
        }
    }

    /// Handles the answer of the peer's listener, or a part of it.
    fn welcomed(&mut self, desk: &mut Desk<'_>, id: usize) {
        let Some(mut sharing) = desk.peers[id].own.sharing.take() else {
            return;
        };
        let conn = &desk.peers[id];
        let (Some(socket), Sharing::HelloExchange { exchange, .. }) =
            (conn.link.socket(), &mut *sharing)
        else {
            return;
        };
        match desk.shm.hear(socket, exchange) {
            Heard::Wait => desk.peers[id].own.sharing = Some(sharing),
            // The TCP connection is not needed any more.
            Heard::Welcome(welcome) => {
                let Some(mut shm) = exchange.take_memory() else {
                    return;
                };
                let is_direct = desk.shm.identify_welcoming(socket, &mut shm, &welcome);
                self.share(desk, id, shm, is_direct);
            }
            other => {
                let why = match other {
                    Heard::Refused(verdict) => verdict.to_string(),
                    Heard::Failed(error) => text_of(error),
                    _ => "it does not answer".to_owned(),
                };
                desk.peers[id].own.sharing = Some(sharing);
                self.stay(desk, id, &why);
            }
        }
    }

    /// Continues over the TCP connection.
    fn stay(&mut self, desk: &mut Desk<'_>, id: usize, why: &str) {
        let peer = desk.peers[id].session.peer.addr;
        log_info!(
            desk.source,
            Subsys::EpCtrl,
            "{peer}: no shared memory: {why}"
        );
        let sharing = desk.peers[id].own.sharing.take();
        if let Some(Sharing::HelloExchange { kept, .. }) = sharing.map(|sharing| *sharing) {
            drop(desk.set_aside(id));
            desk.peers[id].link = Link::Socket(kept);
        }
        let conn = &mut desk.peers[id];
        let frame = SameHostFrame::Stay.encode(conn.session.tx.out.next_counter(), false);
        let written = conn
            .link
            .socket()
            .is_some_and(|socket| write_whole(socket, &frame));
        match written {
            true => self.up(desk, id),
            false => self.connect_failed(desk, id, Error::IO),
        }
    }

    /// Handles the hello of a pending peer at the listener of an endpoint.
    pub(super) fn peer_said_hello(
        &mut self,
        desk: &mut Desk<'_>,
        pending: PendingPeer,
        hello: core::result::Result<Hello, Verdict>,
    ) {
        let is_expected = |conn: &Conn<Connections>, who: &[u8]| {
            let sharing = conn.own.sharing.as_deref();
            conn.session.peer.ep == pending.ep
                && conn.session.state == State::Sharing
                && matches!(sharing, Some(Sharing::Expecting { secret, .. }) if secret[..] == *who)
        };
        let known = hello.and_then(|hello| {
            let id = conn_of(&hello.who).filter(|&id| {
                let conn = desk.peers.get(id);
                conn.is_some_and(|conn| is_expected(conn, &hello.who))
            });
            Ok((id.ok_or(Verdict::Version)?, hello))
        });
        let expected = match &known {
            Ok((_, hello)) => Ok(hello),
            Err(verdict) => Err(*verdict),
        };
        // A refused peer sends over TCP that the connection stays there.
        let welcomed = desk.shm.welcome(desk.domain, &pending, expected);
        let (Some((shm, is_direct)), Ok((id, _))) = (welcomed, known) else {
            return;
        };
        drop(desk.set_aside(id));
        match desk.take_socket(id, pending.socket) {
            Ok(()) => self.share(desk, id, shm, is_direct),
            Err(error) => desk.end(id, error),
        }
    }

    /// Completes the connection after both sides have mapped the memory.
    fn share(&mut self, desk: &mut Desk<'_>, id: usize, shm: Box<ShmChannel>, is_direct: bool) {
        desk.peers[id].session.direct.allow(is_direct);
        desk.use_shm(id, shm);
        self.up(desk, id);
    }
}

/// Returns the system's text for the error.
fn text_of(error: Error) -> String {
    std::io::Error::from_raw_os_error(error.code()).to_string()
}

/// Returns random bytes that no other process can guess.
fn token() -> Result<Token> {
    let random = unpredictable()?;
    let mut token = [0; TOKEN];
    token.copy_from_slice(&random[..TOKEN]);
    Ok(token)
}

/// Returns a secret for the peer of a connection. It begins with the number of the connection, so that the hello of the
/// peer is found without a search; the other 12 bytes are random.
fn secret_of(id: usize) -> Result<Token> {
    let mut secret = token()?;
    let number = u32::try_from(id).map_err(|_| Error::NOMEM)?;
    secret[..NUMBER].copy_from_slice(&number.to_be_bytes());
    Ok(secret)
}

/// Returns the connection that a secret names. Only a comparison of the whole secret proves that the peer has received
/// it.
fn conn_of(secret: &[u8]) -> Option<usize> {
    let number = u32::from_be_bytes(*secret.first_chunk::<NUMBER>()?);
    Some(number as usize)
}

/// Bytes of a secret that name its connection.
const NUMBER: usize = 4;

/// Sent if there is no listener.
const NOWHERE: Directions = Directions {
    shm_listener: [0; TOKEN],
    secret: [0; TOKEN],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_names_its_connection_and_no_two_are_the_same() {
        for id in [0, 1, 77_000] {
            let secret = secret_of(id).unwrap();
            assert_eq!(conn_of(&secret), Some(id));
            assert_ne!(secret, secret_of(id).unwrap());
        }
        assert_eq!(conn_of(&[0, 0, 1]), None);
        assert!(secret_of(1 << 33).is_err());
    }
}
