// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! How two processes get to share memory: one connects to the unix socket of the other's endpoint, hands over the memory that
//! it has made for both, and says who it is; the other answers. The socket stays: it wakes sleepers, and its end says that
//! the peer is gone. docs/wire/shm.md.
//!
//! Two that begin at once get two connections, each of which serves whom opened it: nobody has to give way.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use crate::base::log::{Subsys, log_info, log_warn};
use crate::base::{Error, Result};
use crate::engine::stream::Stream;
use crate::engine::stream::board::Board;
use crate::engine::stream::conn::{Conn, State, Watch};
use crate::engine::stream::duct::{Duct, Witness};
use crate::engine::stream::progress::{conn_token, handshake_token, listener_token};
use crate::engine::stream::transport::{Core, Due};
use crate::prov::shm::Shm;
use crate::prov::shm::addr::Name;
use crate::prov::shm::kind::SHM as SOURCE;
use crate::prov::shm::net::Site;
use crate::prov::shm::proto::{Answer, HELLO, Hello, Verdict};
use crate::sys::local;
use crate::sys::socket::{Moved, Socket};

/// What a connection has until it is up.
#[derive(Default)]
pub struct Opening {
    /// The memory that the peer is to share.
    duct: Option<Box<Duct>>,
    /// The answer, as far as it has come in.
    answer: Vec<u8>,
    fds: Vec<OwnedFd>,
}

/// An accepted socket, while the peer's greeting comes in.
pub struct Handshake {
    pub ep: usize,
    socket: Socket,
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
}

impl Stream<Shm> {
    /// Begins to connect to the peer of `id`, unless that is under way.
    pub(super) fn knock(&mut self, core: &mut Core<Shm>, id: usize) -> Result {
        let conn = &mut self.conns[id];
        if conn.state != State::Idle {
            return Ok(());
        }
        let limit = Duration::from_millis(self.params.set.conn_timeout_ms);
        let deadline = *conn.deadline.get_or_insert_with(|| Instant::now() + limit);
        match self.greet(core, id) {
            Ok(()) => self.schedule(deadline, Due::Conn(id)),
            Err(error) => {
                self.knock_failed(core, id, error);
                if !self.conns.contains(id) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// We say who we are, and hand over memory for both.
    fn greet(&mut self, core: &Core<Shm>, id: usize) -> Result {
        let is_open = self.shows_regions(core, self.conns[id].ep);
        let conn = &mut self.conns[id];
        let endpoint = self.eps.get(conn.ep).ok_or(Error::INVAL)?;
        let socket = local::connect(&self.params.door(&conn.peer))?;
        let whom = local::credentials(&socket)?;
        if !is_ours(&whom) {
            log_warn!(
                &SOURCE,
                Subsys::EpCtrl,
                "{}: it belongs to user {}, not to ours",
                conn.peer,
                whom.uid
            );
            return Err(Error::ACCES);
        }
        let (duct, fd) = Duct::make(self.params.set.ring_size)?;
        let hello = Hello {
            ring: self.params.set.ring_size,
            witness: Witness::own(),
            is_open,
            name: endpoint.local.clone(),
        };
        let board = self.board.as_ref().filter(|_| is_open).map(Board::fd);
        let fds: Vec<BorrowedFd<'_>> = [fd.as_fd()].into_iter().chain(board).collect();
        match local::send_with(&socket, &hello.encode(), &fds)? {
            Moved::Bytes(n) if n == HELLO => {}
            _ => return Err(Error::IO),
        }
        conn.opened_here = true;
        conn.socket = Some(socket);
        conn.own.duct = Some(Box::new(duct));
        conn.state = State::Requested;
        self.rewatch(id, true, false);
        Ok(())
    }

    /// The peer's answer, or a part of it.
    pub(super) fn answered(&mut self, core: &mut Core<Shm>, id: usize) {
        let conn = &mut self.conns[id];
        let Some(socket) = &conn.socket else {
            return;
        };
        let Opening {
            answer: have, fds, ..
        } = &mut conn.own;
        let mut room = [0; Answer::LEN];
        match local::receive_with(socket, &mut room[have.len()..], fds) {
            Ok(Moved::Bytes(n)) => {
                let at = have.len();
                have.extend_from_slice(&room[at..at + n]);
            }
            Ok(Moved::Later) => return,
            Ok(Moved::End) | Err(_) => return self.knock_failed(core, id, Error::CONNREFUSED),
        }
        let Some(bytes) = have.first_chunk() else {
            return;
        };
        let answer = Answer::decode(bytes);
        let Opening { duct, fds, .. } = std::mem::take(&mut conn.own);
        match answer {
            Some(Answer {
                verdict: Verdict::Welcome,
                is_open,
                witness,
            }) => {
                let Some(mut duct) = duct else {
                    return;
                };
                let board = fds.first().filter(|_| is_open);
                conn.is_direct = get_to_know(&self.params, socket, &mut duct, &witness, board);
                self.established(core, id, duct);
            }
            Some(Answer { verdict, .. }) => {
                log_warn!(&SOURCE, Subsys::EpCtrl, "{}: refused: {verdict}", conn.peer);
                self.lose(core, id, verdict.error());
            }
            None => {
                log_warn!(
                    &SOURCE,
                    Subsys::EpCtrl,
                    "{}: answers as something else than a shm endpoint",
                    conn.peer
                );
                self.lose(core, id, Error::CONNREFUSED);
            }
        }
    }

    /// Both sides have the memory.
    fn established(&mut self, core: &mut Core<Shm>, id: usize, duct: Box<Duct>) {
        let conn = &mut self.conns[id];
        conn.state = State::Up;
        conn.deadline = None;
        conn.attempts = 0;
        conn.extended = true;
        conn.rendezvous = true;
        log_info!(
            &SOURCE,
            Subsys::EpCtrl,
            "connected to {}, opened by {}, large messages {}",
            conn.peer,
            if conn.opened_here { "us" } else { "the peer" },
            if duct.reaches() {
                "in one copy"
            } else {
                "through the ring"
            },
        );
        self.use_duct(id, duct);
        self.rewatch(id, true, false);
        self.send_waiting(core, id);
        self.member_up(core, id);
    }

    /// An attempt has failed: another one later, or the end.
    pub(super) fn knock_failed(&mut self, core: &mut Core<Shm>, id: usize, error: Error) {
        self.close_socket(id);
        let conn = &mut self.conns[id];
        conn.state = State::Idle;
        conn.own = Opening::default();
        self.try_later(core, id, error, is_passing(error));
    }

    /// Those who wait at the door of an endpoint.
    pub(super) fn open_door(&mut self, ep: usize) {
        while let Some(listener) = self.eps.get(ep).and_then(|ep| ep.listener.as_ref()) {
            match local::accept(listener) {
                Ok(Some(socket)) => self.receive_guest(ep, socket),
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

    fn receive_guest(&mut self, ep: usize, socket: Socket) {
        let fd = socket.as_raw_fd();
        let id = self.own.handshakes.insert(Handshake {
            ep,
            socket,
            bytes: Vec::new(),
            fds: Vec::new(),
        });
        match self.epoll.add(fd, handshake_token(id), true, false) {
            Ok(()) => {
                let limit = Duration::from_millis(self.params.set.conn_timeout_ms);
                self.schedule(Instant::now() + limit, Due::Handshake(id));
            }
            Err(_) => drop(self.own.handshakes.remove(id)),
        }
    }

    pub(super) fn drop_handshake(&mut self, id: usize) {
        if self.own.handshakes.contains(id) {
            let handshake = self.own.handshakes.remove(id);
            self.epoll.remove(handshake.socket.as_raw_fd());
        }
    }

    /// The endpoint is closed: who waits at its door goes.
    pub(super) fn send_away(&mut self, ep: usize) {
        let of_ep = |(_, handshake): &(usize, &Handshake)| handshake.ep == ep;
        let waiting: Vec<usize> = self
            .own
            .handshakes
            .iter()
            .filter(of_ep)
            .map(|(id, _)| id)
            .collect();
        for id in waiting {
            self.drop_handshake(id);
        }
    }

    /// The greeting of a peer, or a part of it.
    pub(super) fn requested(&mut self, core: &mut Core<Shm>, id: usize) {
        let Handshake {
            socket, bytes, fds, ..
        } = &mut self.own.handshakes[id];
        let mut room = [0; HELLO];
        let wanted = HELLO - bytes.len();
        match local::receive_with(socket, &mut room[..wanted], fds) {
            Ok(Moved::Bytes(n)) => bytes.extend_from_slice(&room[..n]),
            Ok(Moved::Later) => return,
            Ok(Moved::End) | Err(_) => return self.drop_handshake(id),
        }
        let Some(bytes) = bytes.first_chunk() else {
            return;
        };
        let hello = Hello::decode(bytes);
        let handshake = self.own.handshakes.remove(id);
        self.epoll.remove(handshake.socket.as_raw_fd());
        self.admit(core, handshake, hello);
    }

    /// Takes a peer in, or says why not.
    fn admit(
        &mut self,
        core: &mut Core<Shm>,
        from: Handshake,
        hello: core::result::Result<Hello, Verdict>,
    ) {
        let taken = hello.and_then(|hello| Ok((take_memory(&from, &hello)?, hello)));
        let (verdict, who) = match &taken {
            Ok((_, hello)) => (Verdict::Welcome, hello.name.to_string()),
            Err(verdict) => (*verdict, "somebody".to_owned()),
        };
        let is_open = taken.is_ok() && self.shows_regions(core, from.ep);
        let answer = Answer {
            verdict,
            is_open,
            witness: Witness::own(),
        };
        let bytes = answer.encode();
        let board = self.board.as_ref().filter(|_| is_open).map(Board::fd);
        // The socket is new: there is room.
        let sent = match local::send_with(&from.socket, &bytes, board.as_slice()) {
            Ok(Moved::Bytes(n)) => n == bytes.len(),
            _ => false,
        };
        let Ok((mut duct, hello)) = taken else {
            log_warn!(&SOURCE, Subsys::EpCtrl, "{who} refused: {verdict}");
            return;
        };
        if !sent {
            return;
        }
        let board = from.fds.get(1).filter(|_| hello.is_open);
        let (params, witness) = (&self.params, &hello.witness);
        let is_direct = get_to_know(params, &from.socket, &mut duct, witness, board);
        let id = self.admit_peer(core, from.ep, hello.name);
        let fd = from.socket.as_raw_fd();
        let conn = &mut self.conns[id];
        conn.opened_here = false;
        conn.is_direct = is_direct;
        conn.socket = Some(from.socket);
        conn.watch = Watch {
            added: true,
            read: true,
            write: false,
        };
        if let Err(error) = self.epoll.add(fd, conn_token(id), true, false) {
            return self.lose(core, id, error.into());
        }
        self.established(core, id, duct);
    }

    /// The connection that a peer has opened serves us, too, unless we have one to it.
    fn admit_peer(&mut self, core: &mut Core<Shm>, ep: usize, peer: Name) -> usize {
        let endpoint = self.eps.get(ep);
        let known = endpoint.and_then(|ep| ep.by_addr.get(&peer).copied());
        let to_self = endpoint.is_some_and(|ep| ep.local == peer);
        match known {
            None => self.new_peer(core, ep, peer),
            // An attempt of ours is between two tries: what waits for it goes over this one.
            Some(id) if self.conns[id].state == State::Idle && !to_self => id,
            Some(_) => {
                let fi_addr = self.number_of(core, ep, &peer);
                let mut conn = Conn::new(ep, peer, fi_addr);
                conn.receive_only = true;
                self.conns.insert(conn)
            }
        }
    }

    /// Whether peers of this endpoint are shown the domain's registered memory; makes the board if need be.
    fn shows_regions(&mut self, core: &Core<Shm>, ep: usize) -> bool {
        if self.params.set.disable_cma || !Self::may_be_reached(core, ep) {
            return false;
        }
        if self.board.is_none() {
            // Without it all goes by messages.
            self.board = Board::new(core.mrs.iter())
                .inspect_err(|error| log_info!(&SOURCE, Subsys::Mr, "no board: {error}"))
                .ok();
        }
        self.board.is_some()
    }

    /// Lets peers in.
    pub(super) fn enable_endpoint(&mut self, ep: usize) -> Result {
        let endpoint = self.eps.get(ep).ok_or(Error::INVAL)?;
        if let Some(listener) = &endpoint.listener {
            self.epoll
                .add(listener.as_raw_fd(), listener_token(ep), true, false)?;
        }
        Ok(())
    }
}

/// Tries how far the memory of the process at the other end can be reached; whether its registered memory can.
fn get_to_know(
    site: &Site,
    socket: &Socket,
    duct: &mut Duct,
    witness: &Witness,
    board: Option<&OwnedFd>,
) -> bool {
    if site.set.disable_cma {
        return false;
    }
    duct.meet(process_of(socket), witness);
    board.is_some_and(|board| duct.read_board(board).is_ok()) && duct.reaches_regions()
}

/// The memory that a peer has made, if it may be used and the peer is one of ours.
fn take_memory(from: &Handshake, hello: &Hello) -> core::result::Result<Box<Duct>, Verdict> {
    let whom = local::credentials(&from.socket).map_err(|_| Verdict::User)?;
    if !is_ours(&whom) {
        return Err(Verdict::User);
    }
    let fd = from.fds.first().ok_or(Verdict::Memory)?;
    match Duct::take(fd, hello.ring) {
        Ok(duct) => Ok(Box::new(duct)),
        Err(error) => {
            log_warn!(
                &SOURCE,
                Subsys::EpCtrl,
                "{}: its memory cannot be used: {error}",
                hello.name
            );
            Err(Verdict::Memory)
        }
    }
}

/// Memory is shared between processes of one user only.
fn is_ours(whom: &local::Credentials) -> bool {
    whom.uid == nix::unistd::geteuid().as_raw()
}

/// The process at the other end, if it has a number here.
fn process_of(socket: &Socket) -> Option<i32> {
    let whom = local::credentials(socket).ok()?;
    (whom.pid > 0).then_some(whom.pid)
}

/// Whether a later attempt may do better: the peer may only be about to open its endpoint.
fn is_passing(error: Error) -> bool {
    matches!(
        error,
        Error::CONNREFUSED | Error::NOENT | Error::AGAIN | Error::IO
    )
}
