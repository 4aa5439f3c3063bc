// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Sessions: the protocol state between two peers. Order, matching, rendezvous, acknowledgements, reads, atomic
//! operations, frames of collectives, limits on memory.
//!
//! A session is a state machine. Its inputs are posts, bytes, ticks and the loss of the peer. Frames leave through the
//! link, completions go to the state of the domain, and requests that concern more than the session (epoll, other
//! sessions, its own end) are put into `Common::todo` for the stream. A session has no clock, no file descriptor and no
//! provider, so tests can run two of them against each other in one process.
//!
//! The session decides what happens. Its parts keep the state, each with private fields:
//!
//! | part | keeps |
//! |---|---|
//! | `send_state` | operations that wait for their turn, and the next three |
//! | `outbox` | frames for the link, and operations that await an acknowledgement |
//! | `reads` | requests that the peer answers with bytes |
//! | `announced` | messages of this side that the peer requests or fetches |
//! | `receive_state` | the place in the stream and for the payload that arrives, and the next three |
//! | `parser` | the part of a header that has arrived |
//! | `told` | messages of the peer that this side requests or fetches |
//! | `grace` | since when a large message without a receive stays in the socket |
//! | `closing` | the agreement to close an idle connection |
//! | `exposed` | what the peer may do with registered memory of this side |
//! | `direct` | when this side accesses memory of the peer without a message |
//! | `peer` | the two ends: an endpoint, and the peer's address and number |

pub mod announced;
pub mod atomic;
pub mod closing;
mod coll;
pub mod common;
pub mod direct;
pub mod exposed;
mod grace;
pub mod groups;
pub mod loss;
pub mod outbox;
mod parser;
mod payload;
pub mod peer;
pub mod read;
pub mod reads;
pub mod receive;
pub mod receive_state;
pub mod records;
mod refusal;
mod rendezvous;
pub mod rma;
pub mod send;
mod send_state;
#[cfg(test)]
mod tests;
mod told;
pub mod waits;
mod whole;

use std::sync::Arc;

use crate::link::Link;
use crate::session::closing::Closing;
use crate::session::common::{Common, Todo};
use crate::session::direct::Direct;
use crate::session::exposed::Exposed;
use crate::session::groups::Frames;
use crate::session::peer::Peer;
use crate::session::receive::Fault;
use crate::session::receive_state::{At, ReceiveState, Sink, names};
use crate::session::send_state::SendState;
use base::Error;
use engine::cntr::Counter;
use engine::domain_state::{DomainState, TxOp};
use engine::mr::Region;
use engine::report::Waiter;
use engine::transport::Address;

/// The protocol state between two peers: operations that are posted and incomplete, frames to send, the incoming frame.
pub struct Session<A> {
    pub state: State,
    pub peer: Peer<A>,
    pub agreed: Agreed,
    /// The agreement to close the connection.
    pub closing: Closing,
    /// An operation returned -FI_EAGAIN while the connection was not up. The value is the number of the first frame of
    /// the connection: `is_awaited`.
    pub refused: Option<u8>,
    /// The receives belonged to another provider when the last message came.
    passes: bool,
    pub direct: Direct,
    pub tx: SendState,
    pub rx: ReceiveState,
    /// Frames of collectives that wait for the connection.
    pub coll: Option<Box<Frames>>,
    /// Whether the log names the peer already.
    pub is_reported: bool,
    /// MSG: the attempt started by fi_connect or fi_accept.
    pub attempt: Option<Attempt>,
    pub exposed: Exposed,
    /// Why the session is over. Nothing more is read or sent until the stream has torn it down.
    pub ending: Option<Box<Ending>>,
}

/// Features that both sides have agreed on when they connected.
#[derive(Clone, Copy, Default)]
pub struct Agreed {
    /// Rendezvous frames may be sent.
    pub rendezvous: bool,
    /// Extension frames may be sent: docs/wire/tcp.md, "Extensions".
    pub extended: bool,
    /// This side answers a refused access to memory with `Frame::Refused`, if the peer waits for an answer.
    pub refuses: bool,
}

/// A connection attempt that the application waits for.
#[derive(Clone, Copy)]
pub struct Attempt {
    /// Tick at which it began.
    pub since: u16,
    /// Bytes of the application's private data, 256 at most.
    pub len: u16,
}

/// Why a session ended itself.
pub enum Ending {
    /// The peer violated the protocol.
    Fault(Fault),
    Lost(Error),
    /// An operation of this kind has waited too long for the peer.
    Late(Waiter),
}

/// The parts of the domain that a session uses during one call.
pub struct Cx<'a, A> {
    /// Number of the session, used in `Common` and in matching.
    pub id: usize,
    pub domain: &'a mut DomainState<A>,
    pub link: &'a mut Link,
    pub common: &'a mut Common,
}

impl<A> Cx<'_, A> {
    /// Requests a check that peers are alive, because data goes to the peer.
    #[inline]
    pub fn watch(&mut self) {
        if !self.common.watches_peers {
            self.common.watches_peers = true;
            self.todo(Todo::WatchPeers);
        }
    }

    /// Requests ticks, because an operation waits for the peer from now on.
    #[inline]
    pub fn watch_waits(&mut self) {
        if self.common.waits.arm() {
            self.todo(Todo::WatchWaits);
        }
    }

    /// Records that an operation starts to wait for its peer.
    #[inline]
    pub fn begin_waiting(&mut self, op: &mut TxOp) {
        self.domain.eps[op.ep()].tx_pending += 1;
        op.since = self.common.waits.stamp();
        self.watch_waits();
    }

    /// Returns FI_EAGAIN, so that the application posts the operation again later.
    #[cold]
    pub fn again(&self, op: &TxOp) -> Error {
        self.domain.eps[op.ep()].again()
    }

    /// Has the operations that wait for earlier ones tried again after the next poll.
    fn hold_back(&mut self) {
        self.common.held.insert(self.id);
    }

    /// Queues a request for the stream.
    #[cold]
    pub fn todo(&mut self, todo: Todo) {
        self.common.todo.push_back((self.id, todo));
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// No attempt is in progress; one may be scheduled.
    Idle,
    /// The kernel is connecting.
    Connecting,
    /// The request was sent.
    Requested,
    /// The connection messages were exchanged; each side proves its authorization key.
    Proving,
    /// Both sides are identified and try to share memory. This side waits for a peer that was asked to, or that has
    /// connected to shared memory already.
    Sharing,
    /// MSG: over for good.
    Down,
    Up,
    /// The connection is up, and one side has requested to close it. Nothing is posted to it.
    Resting,
}

impl State {
    /// The state in logs and dumps.
    pub fn words(self) -> &'static str {
        match self {
            State::Idle => "not connected",
            State::Connecting => "connecting",
            State::Requested => "waits for the answer to its connection request",
            State::Proving => "proves its key",
            State::Sharing => "agrees on shared memory",
            State::Up => "connected",
            State::Resting => "connected, and idle: one side would like to close it",
            State::Down => "over",
        }
    }

    /// Whether an attempt to connect is in progress.
    pub fn is_opening(self) -> bool {
        use State::{Connecting, Proving, Requested, Sharing};
        matches!(self, Connecting | Requested | Proving | Sharing)
    }

    /// Whether frames are read.
    #[inline(always)]
    pub fn is_open(self) -> bool {
        matches!(self, State::Up | State::Resting)
    }
}

impl<A: Address> Session<A> {
    pub fn new(ep: usize, peer: A, fi_addr: u64) -> Session<A> {
        Session {
            state: State::Idle,
            peer: Peer::new(ep, peer, fi_addr),
            agreed: Agreed::default(),
            closing: Closing::default(),
            refused: None,
            passes: false,
            direct: Direct::default(),
            tx: SendState::new(ep),
            rx: ReceiveState::new(),
            coll: None,
            is_reported: false,
            attempt: None,
            exposed: Exposed::default(),
            ending: None,
        }
    }

    /// Whether the session has ended; the stream tears it down after the call.
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

    /// Whether an access of the peer to this region is in progress.
    pub(super) fn accesses(&self, region: &Arc<Region<Arc<Counter>>>) -> bool {
        let writes = match &self.rx.at {
            At::Payload(incoming) => match &incoming.sink {
                Sink::Write { regions, .. } => names(regions, region),
                Sink::Atomic(request) => names(request.regions(), region),
                _ => false,
            },
            _ => false,
        };
        writes || self.tx.out.frames().reads(region)
    }

    /// Whether a posted operation still depends on this peer.
    pub fn has_work(&self) -> bool {
        self.tx.has_work() || self.coll.is_some()
    }
}
