// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Sessions: what two peers owe each other. Sequence, matching hand-over, rendezvous, acknowledgements, reads, atomic
//! operations, collectives' frames, limits on memory.
//!
//! A session is a state machine. Posts, bytes, ticks and the loss of the peer go in; frames leave through the link,
//! completions go to the state of the domain, and what concerns more than the session (epoll, other sessions, its own
//! end) is noted in `Common::todo` for the stream. It knows no clock, no file descriptor and no provider, so that two
//! of them can be tested against each other in one process.
#![forbid(unsafe_code)]

pub mod atomic;
mod coll;
pub mod common;
pub mod direct;
mod flush;
pub mod groups;
pub mod loss;
pub mod offers;
mod output;
pub mod queue;
pub mod read;
pub mod receive;
pub mod receive_state;
pub mod records;
mod refusal;
mod rendezvous;
pub mod rma;
pub mod send;
mod split_copy;
#[cfg(test)]
mod tests;
pub mod waits;
mod whole;

use std::io;
use std::sync::Arc;

use crate::abi::FI_ADDR_NOTAVAIL;
use crate::base::log::{Subsys, log_warn};
use crate::base::{Error, OpFlags};
use crate::engine::auth::Key;
use crate::engine::cntr::Counter;
use crate::engine::domain_state::{DomainState, Sender};
use crate::engine::mr::Region;
use crate::engine::strangers::new_source;
use crate::engine::stream::link::{Link, is_silence};
use crate::engine::stream::session::common::{Common, Todo};
use crate::engine::stream::session::groups::Frames;
use crate::engine::stream::session::queue::{After, Out, OutFrame, SendQueue};
use crate::engine::stream::session::receive::Fault;
use crate::engine::stream::session::receive_state::{At, ReceiveState, Regions, Sink};
use crate::engine::transport::Address;
use crate::ffi::ops::transfer::What;

/// What two peers owe each other: operations posted and not complete, frames to be sent, a frame that comes in.
pub struct Session<A> {
    /// The endpoint's number in `domain.eps`.
    pub ep: usize,
    pub state: State,
    /// RDM: the peer's listener; MSG: the other end.
    pub peer: A,
    /// The peer's place in the endpoint's address vector, or FI_ADDR_NOTAVAIL.
    pub fi_addr: u64,
    /// What matching calls the peer while it has no address.
    unnamed: u64,
    /// The peer has the other byte order.
    pub swap: bool,
    /// Rendezvous frames may be sent.
    pub rendezvous: bool,
    /// Frames of our own may be sent: docs/wire/tcp.md, "Extensions".
    pub extended: bool,
    /// An access to memory that is refused is answered here, if the peer waits for an answer: `Frame::Refused`.
    pub refuses: bool,
    /// Registered memory of the peer can be used without the peer.
    pub is_direct: bool,
    /// It was written to by messages, too, which reads and writes from here must not pass.
    pub writes_by_ring: bool,
    pub tx: SendQueue,
    pub rx: ReceiveState,
    /// Collectives need the peer.
    pub coll: Option<Box<Frames>>,
    /// Why the connection that is up is at its end, if its writer has found out: the reader comes to that later.
    pub cause: Option<Error>,
    /// The log names it already.
    pub is_reported: bool,
    /// MSG: the connection attempt of fi_connect or fi_accept.
    pub attempt: Option<Attempt>,
    /// The authorization key that the peer has proved to have.
    pub key: Option<Key>,
    /// It is over, and why: nothing more is read or sent until the stream has taken it down.
    pub ending: Option<Box<Ending>>,
}

/// A connection attempt that the application waits for.
#[derive(Clone, Copy)]
pub struct Attempt {
    /// The tick at which it began.
    pub since: u16,
    /// Bytes of the application's that go with it, 256 at most.
    pub len: u16,
}

/// Why a session ends itself.
pub enum Ending {
    /// The peer does not keep to the protocol.
    Fault(Fault),
    Lost(Error),
}

/// What a session works with in one call.
pub struct Cx<'a, A> {
    /// The session's number, by which `Common` and matching name it.
    pub id: usize,
    pub domain: &'a mut DomainState<A>,
    pub link: &'a mut Link,
    pub common: &'a mut Common<A>,
}

impl<A> Cx<'_, A> {
    /// Bytes go to the peer.
    #[inline]
    pub fn watch(&mut self) {
        if !self.common.watches_peers {
            self.common.watches_peers = true;
            self.todo(Todo::WatchPeers);
        }
    }

    /// Something waits for the peer from now on.
    #[inline]
    pub fn watch_waits(&mut self) {
        if !self.common.waits.armed {
            self.common.waits.armed = true;
            self.todo(Todo::WatchWaits);
        }
    }

    /// Something that only the stream can do.
    #[cold]
    pub fn todo(&mut self, todo: Todo) {
        self.common.todo.push_back((self.id, todo));
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// No attempt is under way; one may be due at a later time.
    Idle,
    /// The kernel connects.
    Connecting,
    /// Our request is out.
    Requested,
    /// The connection exchange is over; each side proves its authorization key.
    Proving,
    /// Both sides are known; they try to share memory. A peer that was asked is waited for, as one that has shared it
    /// is.
    Sharing,
    Up,
    /// MSG: over, for good.
    Down,
}

impl<A: Address> Session<A> {
    pub fn new(ep: usize, peer: A, fi_addr: u64) -> Session<A> {
        Session {
            ep,
            state: State::Idle,
            peer,
            fi_addr,
            unnamed: new_source(),
            swap: false,
            rendezvous: false,
            extended: false,
            refuses: false,
            is_direct: false,
            writes_by_ring: false,
            tx: SendQueue::default(),
            rx: ReceiveState::new(),
            coll: None,
            cause: None,
            is_reported: false,
            attempt: None,
            key: None,
            ending: None,
        }
    }

    /// Whether the session has come to its end; the stream takes it down when the call is over.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.ending.is_some()
    }

    /// Ends the session.
    #[cold]
    pub(super) fn end(&mut self, cx: &mut Cx<'_, A>, ending: Ending) {
        if self.ending.is_none() {
            self.ending = Some(Box::new(ending));
            cx.todo(Todo::End);
        }
    }

    /// The link takes no more for now.
    #[cold]
    pub(super) fn blocked(&mut self, cx: &mut Cx<'_, A>) {
        self.tx.blocked = true;
        // The peer has to take what is there.
        cx.link.ring_if_parked();
        cx.todo(Todo::Blocked);
    }

    /// Bytes cannot be written to the socket. The kernel says why only once, and the reader meets the end later. What
    /// is no fault of the stream, memory that is gone, would never end it.
    #[cold]
    pub(super) fn write_failed(&mut self, cx: &mut Cx<'_, A>, error: &io::Error) {
        let cause = match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Error::CONNRESET,
            _ if is_silence(error) => Error::TIMEDOUT,
            _ => {
                log_warn!(
                    cx.common.source,
                    Subsys::EpData,
                    "{}: connection ended: cannot send: {error}",
                    self.peer
                );
                self.is_reported = true;
                cx.link.shutdown();
                error.raw_os_error().map_or(Error::IO, Error::new)
            }
        };
        self.cause.get_or_insert(cause);
    }

    /// How the peer is called when its messages are matched.
    #[inline]
    pub fn source(&self) -> u64 {
        match self.fi_addr {
            FI_ADDR_NOTAVAIL => self.unnamed,
            known => known,
        }
    }

    /// Who completions of its messages name.
    #[inline]
    pub fn sender(&self) -> Sender<'_, A> {
        Sender {
            fi_addr: self.fi_addr,
            addr: Some(&self.peer),
        }
    }

    /// Whether an operation that was sent has not completed: what a fence waits for (fi_msg(3), FI_FENCE).
    pub fn is_busy(&self) -> bool {
        let completes =
            |out: &Out| matches!(out, Out::Frame(f) if matches!(f.after, After::Complete(_)));
        self.is_reading()
            || !self.tx.await_ack.is_empty()
            || !self.tx.rendezvous.is_empty()
            || self.tx.queue.iter().any(completes)
    }

    /// Whether a read has not completed.
    #[inline]
    pub(super) fn is_reading(&self) -> bool {
        let coming =
            matches!(&self.rx.at, At::Payload(incoming) if matches!(incoming.sink, Sink::Read(_)));
        coming || !self.tx.await_read.is_empty()
    }

    /// Bytes that the peer has caused, and that wait for it to take them; what is sent from where it is costs its
    /// frame. What we have begun does not count: two that wait for each other to take that would read no more.
    #[inline]
    pub(super) fn answers(&self) -> usize {
        self.tx.owed + self.tx.answers * size_of::<OutFrame>()
    }

    /// Whether an operation with `HELD` among its flags has to wait for those that were sent.
    pub fn holds(&self, what: What, flags: OpFlags) -> bool {
        let after_reads = flags.contains(OpFlags::AFTER_READS) && what != What::Read;
        after_reads && self.is_reading() || flags.contains(OpFlags::FENCE) && self.is_busy()
    }

    /// Whether an access of the peer to this region is under way.
    pub(super) fn accesses(&self, region: &Arc<Region<Arc<Counter>>>) -> bool {
        let writes = match &self.rx.at {
            At::Payload(incoming) => match &incoming.sink {
                Sink::Write { regions, .. } => names(regions, region),
                Sink::Atomic(request) => names(request.regions(), region),
                _ => false,
            },
            _ => false,
        };
        let reads = |out: &Out| match out {
            Out::Frame(frame) => match &frame.after {
                After::Answered(regions, _) => names(regions, region),
                After::Nothing | After::Complete(_) | After::Acknowledged(_) => false,
            },
            Out::Staged { .. } => false,
        };
        writes || self.tx.queue.iter().any(reads)
    }

    /// Whether something posted still depends on this peer.
    pub fn has_work(&self) -> bool {
        !self.tx.queue.is_empty()
            || !self.tx.waiting.is_empty()
            || !self.tx.await_ack.is_empty()
            || !self.tx.await_read.is_empty()
            || !self.tx.rendezvous.is_empty()
            || self.coll.is_some()
    }
}

/// Whether the region is one of these.
fn names(regions: &Regions, region: &Arc<Region<Arc<Counter>>>) -> bool {
    let mut regions = regions.iter().flatten();
    regions.any(|other| Arc::ptr_eq(other, region))
}
