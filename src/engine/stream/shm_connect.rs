// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! How two processes get to share memory: the guest connects to a unix socket of the host, hands over the memory that it has
//! made for both, and says who it is; the host answers. That socket stays: it wakes sleepers, and its end says that the peer is
//! gone. docs/wire/shm.md. Where the host's door is, whom it expects and what becomes of the connection, the provider says.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use crate::base::log::{Subsys, log_debug, log_info, log_warn};
use crate::base::{Error, Result};
use crate::engine::half_open::{is_crowded, oldest_silent};
use crate::engine::stream::conn::Watch;
use crate::engine::stream::hello::{Answer, HELLO, Hello, Verdict};
use crate::engine::stream::net::Net;
use crate::engine::stream::progress::{conn_token, guest_token};
use crate::engine::stream::region_directory::Board;
use crate::engine::stream::shm_channel::{Duct, Witness};
use crate::engine::stream::transport::{DomainOf, Due, Stream};
use crate::sync::ring::FIRST_LAP;
use crate::sys::local::{self, LocalName};
use crate::sys::socket::{Moved, Socket};
use crate::sys::user::is_ours;

/// What a guest has until it is answered.
#[derive(Default)]
pub struct Greeted {
    /// The memory that the host is to share.
    duct: Option<Box<Duct>>,
    /// The answer, as far as it has come in.
    answer: Vec<u8>,
    fds: Vec<OwnedFd>,
}

/// What one look at the guest's socket has brought.
pub enum Heard {
    Wait,
    /// The memory is both sides'.
    Welcome {
        duct: Box<Duct>,
        /// Registered memory of the host can be used from here.
        is_direct: bool,
    },
    Refused(Verdict),
    /// Something that is no answer.
    Nonsense,
    /// The host has gone.
    Ended,
    /// Its answer cannot be taken here.
    Failed(Error),
}

/// Somebody at an endpoint's door, while its greeting comes in.
pub struct Guest {
    pub ep: usize,
    deadline: Instant,
    pub socket: Socket,
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
}

/// `ACCES`: it belongs to another user.
pub fn knock(door: &LocalName) -> Result<Socket> {
    let socket = local::connect(door)?;
    match is_ours(local::credentials(&socket)?.uid) {
        true => Ok(socket),
        false => Err(Error::ACCES),
    }
}

/// What a ring may have with the first peer, and with each of many.
const LARGEST_RING: usize = 2 << 20;
const SMALLEST_RING: usize = FIRST_LAP;

impl<N: Net> Stream<N> {
    /// Bytes that each ring with the next peer may use. Lines that the other processor still holds are slow to write to again,
    /// so streams of larger messages want more than it can hold; with many peers that would be much memory, and few of them
    /// stream at a time.
    fn ring_size(&self) -> usize {
        let share = LARGEST_RING / (self.shared + 1).next_power_of_two();
        self.limits.ring_size.unwrap_or(share.max(SMALLEST_RING))
    }

    /// Says at the host's door who we are, and hands over memory for both.
    pub fn greet(
        &mut self,
        domain: &DomainOf<N>,
        ep: usize,
        socket: &Socket,
        who: Vec<u8>,
    ) -> Result<Greeted> {
        let is_open = self.shows_regions(domain, ep);
        let ring = self.ring_size();
        let (duct, fd) = Duct::make(ring).inspect_err(warn_of_memory::<N>)?;
        let hello = Hello {
            ring,
            witness: Witness::own(),
            is_open,
            who,
        };
        let board = self.board.as_ref().filter(|_| is_open).map(Board::fd);
        let fds: Vec<BorrowedFd<'_>> = [fd.as_fd()].into_iter().chain(board).collect();
        match local::send_with(socket, &hello.encode(), &fds)? {
            Moved::Bytes(n) if n == HELLO => Ok(Greeted {
                duct: Some(Box::new(duct)),
                ..Greeted::default()
            }),
            _ => Err(Error::IO),
        }
    }

    /// Those who wait at the door of an endpoint.
    pub fn let_in(&mut self, ep: usize) {
        while let Some(door) = N::door(self, ep) {
            let at = door.as_raw_fd();
            match local::accept(door) {
                Ok(Some(socket)) => self.receive_guest(ep, socket),
                Ok(None) => return,
                // Out of descriptors: who says nothing makes room.
                Err(_) if self.drop_silent_guest(None) => {}
                Err(error) => {
                    // Out of descriptors: leave the peers in the backlog for a moment.
                    log_warn!(N::SOURCE, Subsys::EpCtrl, "cannot accept: {error}");
                    self.epoll.remove(at);
                    let pause = Duration::from_millis(100);
                    self.schedule(Instant::now() + pause, Due::Listener(ep));
                    return;
                }
            }
        }
    }

    fn receive_guest(&mut self, ep: usize, socket: Socket) {
        let fd = socket.as_raw_fd();
        let deadline = Instant::now() + self.limits.greeting;
        let id = self.guests.insert(Guest {
            ep,
            deadline,
            socket,
            bytes: Vec::new(),
            fds: Vec::new(),
        });
        match self.epoll.add(fd, guest_token(id), true, false) {
            Ok(()) => self.schedule(deadline, Due::Guest(id)),
            Err(_) => drop(self.guests.remove(id)),
        }
        if is_crowded(self.guests.len(), fd) {
            self.drop_silent_guest(Some(id));
        }
    }

    /// Of those who have not said who they are the one goes that was silent the longest. False if there is none.
    fn drop_silent_guest(&mut self, newest: Option<usize>) -> bool {
        let guests = self.guests.iter();
        let silent = oldest_silent(guests.map(|(id, g)| (id, &g.socket, g.deadline)), newest);
        silent.map(|id| self.drop_guest(id)).is_some()
    }

    pub(super) fn drop_guest(&mut self, id: usize) {
        if self.guests.contains(id) {
            let guest = self.guests.remove(id);
            self.epoll.remove(guest.socket.as_raw_fd());
        }
    }

    /// A guest has had the time that it was given; unless its number is another one's by now.
    pub(super) fn guest_due(&mut self, id: usize) {
        let late = |guest: &Guest| Instant::now() >= guest.deadline;
        if self.guests.get(id).is_some_and(late) {
            self.drop_guest(id);
        }
    }

    /// The endpoint is closed: who waits at its door goes.
    pub(super) fn drop_guests(&mut self, ep: usize) {
        let of_ep = |(_, guest): &(usize, &Guest)| guest.ep == ep;
        let waiting: Vec<usize> = self.guests.iter().filter(of_ep).map(|(id, _)| id).collect();
        for id in waiting {
            self.drop_guest(id);
        }
    }

    /// The greeting of a guest, or a part of it.
    pub(super) fn guest_ready(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let Guest {
            socket, bytes, fds, ..
        } = &mut self.guests[id];
        let mut room = [0; HELLO];
        let wanted = HELLO - bytes.len();
        match local::receive_with(socket, &mut room[..wanted], fds) {
            Ok(Moved::Bytes(n)) => bytes.extend_from_slice(&room[..n]),
            Ok(Moved::Later) => return,
            // Without room for what comes with the greeting: the guest is to know why.
            Err(error) if Verdict::of(&error) == Verdict::Descriptors => {
                return self.greeted(domain, id, Err(Verdict::Descriptors));
            }
            Ok(Moved::End) | Err(_) => return self.drop_guest(id),
        }
        let Some(bytes) = bytes.first_chunk() else {
            return;
        };
        let hello = Hello::decode(bytes);
        self.greeted(domain, id, hello);
    }

    fn greeted(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        hello: core::result::Result<Hello, Verdict>,
    ) {
        let guest = self.guests.remove(id);
        self.epoll.remove(guest.socket.as_raw_fd());
        N::greeted(self, domain, guest, hello);
    }

    /// Takes the memory of a guest and answers; nothing if it is refused, or has gone. The flag: its registered memory can be
    /// used from here.
    pub fn welcome(
        &mut self,
        domain: &DomainOf<N>,
        guest: &Guest,
        hello: core::result::Result<&Hello, Verdict>,
    ) -> Option<(Box<Duct>, bool)> {
        let most = self.ring_size();
        // Before anything that it says: what else is wrong is not for another user to hear.
        let hello = is_of_our_user(&guest.socket).and(hello);
        let taken = hello.and_then(|hello| Ok((take_memory::<N>(guest, hello, most)?, hello)));
        let verdict = match &taken {
            Ok(_) => Verdict::Welcome,
            Err(verdict) => *verdict,
        };
        let is_open = taken.is_ok() && self.shows_regions(domain, guest.ep);
        let answer = Answer {
            verdict,
            is_open,
            // Where something is in this process, and what, is for those who share memory with it.
            witness: match taken.is_ok() {
                true => Witness::own(),
                false => Witness::default(),
            },
        };
        let bytes = answer.encode();
        let board = self.board.as_ref().filter(|_| is_open).map(Board::fd);
        // The socket is new: there is room.
        let sent = match local::send_with(&guest.socket, &bytes, board.as_slice()) {
            Ok(Moved::Bytes(n)) => n == bytes.len(),
            _ => false,
        };
        let Ok((mut duct, hello)) = taken else {
            log_warn!(N::SOURCE, Subsys::EpCtrl, "somebody refused: {verdict}");
            return None;
        };
        let board = guest.fds.get(1).filter(|_| hello.is_open);
        let is_direct = self.get_to_know(&guest.socket, &mut duct, &hello.witness, board);
        sent.then_some((duct, is_direct))
    }

    /// One look at the host's answer.
    pub fn hear(&self, socket: &Socket, greeted: &mut Greeted) -> Heard {
        let Greeted { duct, answer, fds } = greeted;
        let mut room = [0; Answer::LEN];
        match local::receive_with(socket, &mut room[answer.len()..], fds) {
            Ok(Moved::Bytes(n)) => {
                let at = answer.len();
                answer.extend_from_slice(&room[at..at + n]);
            }
            Ok(Moved::Later) => return Heard::Wait,
            Err(error) if Verdict::of(&error) == Verdict::Descriptors => {
                return Heard::Failed(error.into());
            }
            Ok(Moved::End) | Err(_) => return Heard::Ended,
        }
        let Some(bytes) = answer.first_chunk() else {
            return Heard::Wait;
        };
        match (Answer::decode(bytes), duct.take()) {
            (Some(answer), Some(mut duct)) if answer.verdict == Verdict::Welcome => {
                let board = fds.first().filter(|_| answer.is_open);
                let is_direct = self.get_to_know(socket, &mut duct, &answer.witness, board);
                Heard::Welcome { duct, is_direct }
            }
            (Some(answer), _) => Heard::Refused(answer.verdict),
            (None, _) => Heard::Nonsense,
        }
    }

    /// The socket beside the memory is the connection's from now on.
    pub fn take_socket(&mut self, id: usize, socket: Socket) -> Result {
        let conn = &mut self.conns[id];
        self.epoll
            .add(socket.as_raw_fd(), conn_token(id), true, false)?;
        conn.socket = Some(socket);
        conn.watch = Watch {
            added: true,
            read: true,
            write: false,
        };
        Ok(())
    }

    /// Whether peers of this endpoint are shown the domain's registered memory; makes the board if need be.
    fn shows_regions(&mut self, domain: &DomainOf<N>, ep: usize) -> bool {
        if !self.limits.copies || !Self::may_be_reached(domain, ep) {
            return false;
        }
        if self.board.is_none() {
            // Without it all goes by messages.
            self.board = Board::new(domain.mrs.iter())
                .inspect_err(|error| log_info!(N::SOURCE, Subsys::Mr, "no board: {error}"))
                .ok();
        }
        self.board.is_some()
    }

    /// Tries how far the memory of the process at the other end can be reached; whether its registered memory can.
    fn get_to_know(
        &self,
        socket: &Socket,
        duct: &mut Duct,
        witness: &Witness,
        board: Option<&OwnedFd>,
    ) -> bool {
        if !self.limits.copies {
            return false;
        }
        duct.meet(process_of(socket), witness);
        let is_direct =
            board.is_some_and(|board| duct.read_board(board).is_ok()) && duct.reaches_regions();
        log_debug!(
            N::SOURCE,
            Subsys::EpCtrl,
            "memory shared with process {}: {} bytes a ring, {}, its registered memory is {}",
            process_of(socket).unwrap_or_default(),
            self.ring_size(),
            duct.words(),
            if is_direct {
                "used from here"
            } else {
                "asked for by messages"
            }
        );
        is_direct
    }
}

/// Once in a process: what one connection cannot have the next ones will not have.
fn warn_of_memory<N: Net>(error: &io::Error) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    // Relaxed: nothing hangs on it but one more line.
    if !TOLD.swap(true, Ordering::Relaxed) {
        log_warn!(
            N::SOURCE,
            Subsys::EpCtrl,
            "no memory to share with a peer: {error}"
        );
    }
}

/// The memory that a guest has made, if it may be used. Of its rings `most` bytes each are used.
fn take_memory<N: Net>(
    guest: &Guest,
    hello: &Hello,
    most: usize,
) -> core::result::Result<Box<Duct>, Verdict> {
    let fd = guest.fds.first().ok_or(Verdict::Memory)?;
    match Duct::take(fd, hello.ring, most) {
        Ok(duct) => Ok(Box::new(duct)),
        Err(error) => {
            log_warn!(
                N::SOURCE,
                Subsys::EpCtrl,
                "the memory of a peer cannot be used: {error}"
            );
            Err(Verdict::of(&error))
        }
    }
}

/// Memory is shared between processes of one user only.
fn is_of_our_user(guest: &Socket) -> core::result::Result<(), Verdict> {
    match local::credentials(guest) {
        Ok(whom) if is_ours(whom.uid) => Ok(()),
        _ => Err(Verdict::User),
    }
}

/// The process at the other end, if it has a number here.
fn process_of(socket: &Socket) -> Option<i32> {
    let whom = local::credentials(socket).ok()?;
    (whom.pid > 0).then_some(whom.pid)
}
