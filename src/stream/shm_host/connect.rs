// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Setup of shared memory between two processes: one connects to a unix socket at which the other listens, hands over
//! the memory that it has created for both, and identifies itself; the other answers. The socket stays open: it wakes
//! sleepers, and its end means that the peer is gone. docs/wire/shm.md. The provider defines the place of the listener,
//! the expected peers, and the use of the connection.
//!
//! Each side announces how much of a ring the other may use: if 64 processes all have one server as their first peer,
//! the server must not pay 64 times 2 MiB.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::hello::{Answer, HELLO, Hello, Verdict};
use crate::pending_peer::PendingPeer;
use crate::poller::{Due, Poller};
use crate::process_probe::ProcessProbe;
use crate::region_directory::RegionDirectory;
use crate::shm_channel::ShmChannel;
use crate::shm_host::ShmHost;
use base::flags::flags;
use base::log::{Source, Subsys, log_debug, log_failure, log_info, log_warn};
use base::{Caps, Error, Result};
use engine::descriptors::{Free, free_descriptors};
use engine::domain_state::DomainState;
use engine::ep_state;
use engine::transport::Address;
use sync::ring::QUICK_LAP;
use sys::local::{self, LocalName};
use sys::process_memory::Process;
use sys::socket::{Moved, Socket};
use sys::user::is_ours;

/// State of the connecting side until the answer arrives.
#[derive(Default)]
pub struct HelloExchange {
    /// The memory for both sides.
    shm: Option<Box<ShmChannel>>,
    /// The part of the answer that has arrived.
    answer: Vec<u8>,
    fds: Vec<OwnedFd>,
}

/// Result of a read from the connecting side's socket.
pub enum Heard {
    Wait,
    /// Both sides share the memory now.
    Welcome(Welcome),
    Refused(Verdict),
    /// The bytes are not an answer.
    Nonsense,
    /// The peer has gone.
    Ended,
    /// The answer cannot be accepted by this side.
    Failed(Error),
}

/// Facts about the accepting side, from its answer.
pub struct Welcome {
    probe: ProcessProbe,
    imports: u8,
    /// Its directory of registered memory.
    directory: Option<OwnedFd>,
}

impl HelloExchange {
    /// Takes the memory for both sides out of the exchange.
    pub fn take_memory(&mut self) -> Option<Box<ShmChannel>> {
        self.shm.take()
    }
}

/// Connects to a listener. Returns `ACCES` if it belongs to another user.
pub fn connect_to(listener: &LocalName) -> Result<Socket> {
    let socket = local::connect(listener)?;
    match is_ours(local::credentials(&socket)?.uid) {
        true => Ok(socket),
        false => Err(Error::ACCES),
    }
}

/// A pending peer with its hello, or with the reason why the hello is rejected.
pub type SaidHello = (PendingPeer, core::result::Result<Hello, Verdict>);

/// Limits of the ring size: for the first peer, and for each of many peers.
const LARGEST_RING: usize = 2 << 20;
const SMALLEST_RING: usize = QUICK_LAP;

impl ShmHost {
    /// Returns the bytes that each ring with the next peer may use. Cache lines that the other processor still holds
    /// are slow to write again, so streams of larger messages need more than its cache can hold. With many peers that
    /// would be much memory, and few of them stream at a time.
    fn ring_size(&self) -> usize {
        let share = LARGEST_RING / (self.count() + 1).next_power_of_two();
        self.limits.ring_size.unwrap_or(share.max(SMALLEST_RING))
    }

    /// Sends the hello to the peer at `socket`, with the memory for both sides.
    pub fn send_hello<A: Address>(
        &mut self,
        domain: &DomainState<A>,
        ep: usize,
        socket: &Socket,
        who: Vec<u8>,
    ) -> Result<HelloExchange> {
        let is_open = self.shows_regions(domain, ep);
        let ring = self.ring_size();
        let (shm, fd) =
            ShmChannel::make(ring).inspect_err(|error| warn_of_memory(self.source, error))?;
        let hello = Hello {
            ring,
            probe: ProcessProbe::own(),
            is_open,
            imports: imports(domain, ep),
            who,
        };
        let directory = self
            .directory
            .as_ref()
            .filter(|_| is_open)
            .map(RegionDirectory::fd);
        let fds: Vec<BorrowedFd<'_>> = [fd.as_fd()].into_iter().chain(directory).collect();
        match local::send_with(socket, &hello.encode(), &fds)? {
            Moved::Bytes(n) if n == HELLO => Ok(HelloExchange {
                shm: Some(Box::new(shm)),
                ..HelloExchange::default()
            }),
            _ => Err(Error::IO),
        }
    }

    /// Accepts up to `accepts` peers that wait at the listener of an endpoint. Returns those whose hello has arrived.
    #[must_use]
    pub fn accept_waiting(
        &mut self,
        poller: &mut Poller,
        listener: &Socket,
        ep: usize,
        accepts: usize,
    ) -> Vec<SaidHello> {
        let mut said = Vec::new();
        for _ in 0..accepts {
            match local::accept(listener) {
                Ok(Some(socket)) => said.extend(self.receive_pending(poller, ep, socket)),
                Ok(None) => break,
                // Out of descriptors: dropping a peer that has sent nothing makes room.
                Err(_) if self.drop_silent_peer(poller, None) => {}
                Err(error) => {
                    // Out of descriptors: leave the peers in the backlog for a moment.
                    log_warn!(self.source, Subsys::EpCtrl, "cannot accept: {error}");
                    poller.remove_fd(listener);
                    let pause = Duration::from_millis(100);
                    poller.schedule(poller.now() + pause, Due::Listener(ep));
                    break;
                }
            }
        }
        said
    }

    /// Reads the hello of a new peer. Peers usually send it right after they have connected; others wait in the epoll
    /// set.
    fn receive_pending(
        &mut self,
        poller: &mut Poller,
        ep: usize,
        socket: Socket,
    ) -> Option<SaidHello> {
        let deadline = poller.now() + self.limits.connect;
        let mut pending = PendingPeer {
            ep,
            deadline,
            socket,
            bytes: Vec::new(),
            fds: Vec::new(),
        };
        // There might be none left for the descriptors in the hello, which would then be refused.
        if free_descriptors() == Free::Ample {
            match receive_hello(&mut pending) {
                Received::Hello(hello) => return Some((pending, hello)),
                Received::Nothing => return None,
                Received::Part => {}
            }
        }
        let id = self.pending.insert(pending);
        match poller.add_pending(&self.pending[id].socket, id) {
            Ok(()) => poller.schedule(deadline, Due::PendingPeer(id)),
            Err(_) => drop(self.pending.remove(id)),
        }
        if self.pending.contains(id) && self.pending.is_crowded() {
            self.drop_silent_peer(poller, Some(id));
        }
        None
    }

    /// Drops the pending peer that was silent the longest. Returns false if there is none.
    fn drop_silent_peer(&mut self, poller: &mut Poller, newest: Option<usize>) -> bool {
        let silent = self.pending.oldest_silent(newest);
        silent.map(|id| self.drop_pending(poller, id)).is_some()
    }

    fn drop_pending(&mut self, poller: &mut Poller, id: usize) {
        if self.pending.contains(id) {
            let pending = self.pending.remove(id);
            poller.remove_fd(&pending.socket);
        }
    }

    /// Handles the deadline of a pending peer, unless its number belongs to another peer by now.
    pub(crate) fn pending_due(&mut self, poller: &mut Poller, id: usize) {
        let now = poller.now();
        let late = |pending: &PendingPeer| now >= pending.deadline;
        if self.pending.get(id).is_some_and(late) {
            self.drop_pending(poller, id);
        }
    }

    /// Drops the pending peers of an endpoint that is being closed.
    pub(crate) fn drop_all_pending(&mut self, poller: &mut Poller, ep: usize) {
        let of_ep = |(_, pending): &(usize, &PendingPeer)| pending.ep == ep;
        let waiting: Vec<usize> = self
            .pending
            .iter()
            .filter(of_ep)
            .map(|(id, _)| id)
            .collect();
        for id in waiting {
            self.drop_pending(poller, id);
        }
    }

    /// Reads the hello of a pending peer, or a part of it. Returns the peer once its hello has arrived, or the
    /// rejection if the hello cannot be decoded.
    pub(crate) fn read_hello(&mut self, poller: &mut Poller, id: usize) -> Option<SaidHello> {
        let hello = match receive_hello(&mut self.pending[id]) {
            Received::Hello(hello) => hello,
            Received::Part => return None,
            Received::Nothing => {
                self.drop_pending(poller, id);
                return None;
            }
        };
        let pending = self.pending.remove(id);
        poller.remove_fd(&pending.socket);
        Some((pending, hello))
    }

    /// Maps the memory of a pending peer and answers. Returns `None` if the peer is refused. The flag: its
    /// registered memory can be accessed directly.
    pub fn welcome<A: Address>(
        &mut self,
        domain: &DomainState<A>,
        pending: &PendingPeer,
        hello: core::result::Result<&Hello, Verdict>,
    ) -> Option<(Box<ShmChannel>, bool)> {
        let most = self.ring_size();
        // The user is checked first, so that another user does not learn about other errors.
        let hello = is_of_our_user(&pending.socket).and(hello);
        let taken =
            hello.and_then(|hello| Ok((take_memory(self.source, pending, hello, most)?, hello)));
        let verdict = match &taken {
            Ok(_) => Verdict::Welcome,
            Err(verdict) => *verdict,
        };
        let is_open = taken.is_ok() && self.shows_regions(domain, pending.ep);
        let answer = Answer {
            verdict,
            is_open,
            imports: match taken.is_ok() {
                true => imports(domain, pending.ep),
                false => 0,
            },
            // Addresses and bytes of this process are only for peers that share memory with it.
            probe: match taken.is_ok() {
                true => ProcessProbe::own(),
                false => ProcessProbe::default(),
            },
        };
        let bytes = answer.encode();
        let directory = self
            .directory
            .as_ref()
            .filter(|_| is_open)
            .map(RegionDirectory::fd);
        // The socket is new, so it has room for the answer.
        let sent = local::send_with(&pending.socket, &bytes, directory.as_slice());
        let Ok((mut shm, hello)) = taken else {
            log_warn!(self.source, Subsys::EpCtrl, "a peer is refused: {verdict}");
            return None;
        };
        // A peer that has gone may have left messages. Otherwise they are not read, because a peer without an answer
        // sends them again.
        let is_told = matches!(sent, Ok(Moved::Bytes(n)) if n == bytes.len());
        if !is_told && !pending.socket.has_ended() {
            log_info!(
                self.source,
                Subsys::EpCtrl,
                "a peer gets no answer: {}",
                match &sent {
                    Ok(_) => "its socket has no room".to_owned(),
                    Err(error) => error.to_string(),
                }
            );
            return None;
        }
        let directory = pending.fds.get(1).filter(|_| hello.is_open);
        let Hello { probe, imports, .. } = hello;
        introduce(&pending.socket, &mut shm, probe, *imports);
        let is_direct = self.identify_peer(&pending.socket, &mut shm, probe, directory);
        Some((shm, is_direct))
    }

    /// Reads the part of the peer's answer that has arrived.
    pub fn hear(&self, socket: &Socket, exchange: &mut HelloExchange) -> Heard {
        let HelloExchange { answer, fds, .. } = exchange;
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
        match Answer::decode(bytes) {
            Some(answer) if answer.verdict == Verdict::Welcome => Heard::Welcome(Welcome {
                probe: answer.probe,
                imports: answer.imports,
                directory: fds.drain(..).next().filter(|_| answer.is_open),
            }),
            Some(answer) => Heard::Refused(answer.verdict),
            None => Heard::Nonsense,
        }
    }

    /// Tests how far the memory of the accepting process can be reached; returns whether its registered memory can.
    pub fn identify_welcoming(
        &self,
        socket: &Socket,
        shm: &mut ShmChannel,
        welcome: &Welcome,
    ) -> bool {
        introduce(socket, shm, &welcome.probe, welcome.imports);
        self.identify_peer(socket, shm, &welcome.probe, welcome.directory.as_ref())
    }

    /// Whether peers of this endpoint see the domain's registered memory; creates the directory if necessary.
    fn shows_regions<A: Address>(&mut self, domain: &DomainState<A>, ep: usize) -> bool {
        if !self.limits.copies || !may_be_reached(domain, ep) {
            return false;
        }
        if self.directory.is_none() {
            // Without a directory all accesses go by messages.
            let for_devices = domain.eps[ep].caps.contains(Caps::HMEM);
            self.directory = RegionDirectory::new(domain.mrs.iter(), for_devices)
                .inspect_err(|error| log_info!(self.source, Subsys::Mr, "no directory: {error}"))
                .ok();
        }
        self.directory.is_some()
    }

    /// Tests how far the memory of the process at the other end can be reached; returns whether its registered memory
    /// can.
    fn identify_peer(
        &self,
        socket: &Socket,
        shm: &mut ShmChannel,
        probe: &ProcessProbe,
        directory: Option<&OwnedFd>,
    ) -> bool {
        if !self.limits.copies {
            return false;
        }
        let met = Process::at_other_end(socket);
        let process = shm.process_mut();
        process.meet(met, probe);
        let is_direct = directory
            .is_some_and(|directory| process.read_directory(directory).is_ok())
            && process.reaches_regions();
        log_debug!(
            self.source,
            Subsys::EpCtrl,
            "memory shared with process {}: {} bytes a ring, {}, its registered memory is {}",
            met.map_or(0, Process::id),
            self.ring_size(),
            shm.words(),
            if is_direct {
                "used from here"
            } else {
                "asked for by messages"
            }
        );
        is_direct
    }
}

/// Result of a read from a pending peer.
enum Received {
    Hello(core::result::Result<Hello, Verdict>),
    Part,
    /// The peer is gone, or sends something else.
    Nothing,
}

/// Reads the hello of a peer, or a part of it.
fn receive_hello(pending: &mut PendingPeer) -> Received {
    let PendingPeer {
        socket, bytes, fds, ..
    } = pending;
    let mut room = [0; HELLO];
    let wanted = HELLO - bytes.len();
    match local::receive_with(socket, &mut room[..wanted], fds) {
        Ok(Moved::Bytes(n)) => {
            bytes.extend_from_slice(&room[..n]);
            match bytes.first_chunk() {
                Some(bytes) => Received::Hello(Hello::decode(bytes)),
                None => Received::Part,
            }
        }
        Ok(Moved::Later) => Received::Part,
        // No descriptor is free for those of the hello: the answer reports the reason.
        Err(error) if Verdict::of(&error) == Verdict::Descriptors => {
            Received::Hello(Err(Verdict::Descriptors))
        }
        Ok(Moved::End) | Err(_) => Received::Nothing,
    }
}

/// Warns once per process, because later connections fail for the same reason.
fn warn_of_memory(source: &'static Source, error: &io::Error) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    // Relaxed: a race only causes a second log line.
    if !TOLD.swap(true, Ordering::Relaxed) {
        log_failure!(
            source,
            Subsys::EpCtrl,
            "no memory to share with a peer: {error}"
        );
    }
}

/// Maps the memory that a pending peer has created, if it can be used. `most` bytes of each ring are used.
fn take_memory(
    source: &'static Source,
    pending: &PendingPeer,
    hello: &Hello,
    most: usize,
) -> core::result::Result<Box<ShmChannel>, Verdict> {
    let fd = pending.fds.first().ok_or(Verdict::Memory)?;
    match ShmChannel::take(fd, hello.ring, most) {
        Ok(shm) => Ok(Box::new(shm)),
        Err(error) => {
            log_warn!(
                source,
                Subsys::EpCtrl,
                "the memory of a peer cannot be used: {error}"
            );
            Err(Verdict::of(&error))
        }
    }
}

/// Checks the user: memory is shared only between processes of the same user.
fn is_of_our_user(pending: &Socket) -> core::result::Result<(), Verdict> {
    match local::credentials(pending) {
        Ok(whom) if is_ours(whom.uid) => Ok(()),
        _ => Err(Verdict::User),
    }
}

fn introduce(socket: &Socket, shm: &mut ShmChannel, probe: &ProcessProbe, imports: u8) {
    let id = Process::at_other_end(socket).map(Process::id);
    shm.process_mut().introduce(id, probe, imports);
}

/// Kinds of device memory that this endpoint can map, a bit for each.
fn imports<A: Address>(domain: &DomainState<A>, ep: usize) -> u8 {
    match domain.eps[ep].caps.contains(Caps::HMEM) {
        true => hmem::import::kinds(),
        false => 0,
    }
}

/// Whether peers may access registered memory through this endpoint without involving it: the endpoint grants such
/// accesses, and no counter counts them. (An entry in a completion queue needs CQ data, which goes by message.)
fn may_be_reached<A: Address>(domain: &DomainState<A>, ep: usize) -> bool {
    let ep = &domain.eps[ep];
    let grants = flags!(Caps: RMA | REMOTE_READ | REMOTE_WRITE);
    let counts = [ep_state::Event::RemoteRead, ep_state::Event::RemoteWrite];
    ep.caps.contains(grants) && counts.iter().all(|&event| ep.bound(event).is_none())
}
