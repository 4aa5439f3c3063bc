// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! State that the sessions of a domain share: limits, the tick counter, buffers, and lists of sessions that need
//! another visit.

use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::session::grace;
use base::log::Source;
use engine::flusher::Held;
use engine::id_set::IdSet;
use engine::peer::retry::Jitter;
use engine::peer::stall::Ticks;

/// Limits from the provider's settings.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest unexpected tagged message that is kept.
    pub saved_size: usize,
    /// Total bytes of such messages for each receive context.
    pub saved_bytes: usize,
    /// Set if there is no progress thread although progress is automatic.
    pub no_progress_thread: bool,
    /// A message that the receiver can fetch stays with its sender until it matches a receive, so that its completion
    /// reports the match.
    pub keeps_offers: bool,
    /// Writes and atomic operations complete after the target has carried them out or refused them.
    pub answers_writes: bool,
    /// The kernel may copy between processes.
    pub copies: bool,
    /// Time limit for a peer to accept a connection, and to identify itself after it has connected; `NO_LIMIT` for
    /// none.
    pub connect: Duration,
    /// Time that closing an endpoint, or the end of the process, waits for peers to take accepted data.
    pub close: Duration,
    /// Time after which an operation that waits for its peer fails and is reported; zero: never.
    pub op_timeout: Duration,
    pub stall_report: Duration,
    /// Time after which a peer that acknowledges nothing is disconnected; zero: never.
    pub peer_timeout: Duration,
    /// Connections of a domain above which idle ones are closed; 0: only the limit on descriptors counts.
    pub connections: usize,
    /// Bytes of each ring with a peer; `None` derives it from the number of peers.
    pub ring_size: Option<usize>,
}

/// State that all sessions share, protected by the domain lock.
pub struct Common {
    /// Log source of the provider.
    pub source: &'static Source,
    pub limits: Limits,
    /// Sessions with frames to write.
    pub dirty: Vec<usize>,
    /// Time since which such sessions exist, for the thread that flushes them; and whether there is no such thread.
    pub held_back: Arc<Held>,
    pub is_unserved: bool,
    /// A socket is being read: the poller flushes the answers afterwards or leaves them to the thread
    /// (`Batches::hold`).
    pub is_reading: bool,
    /// Sessions with operations that wait for earlier ones to complete.
    pub held: IdSet,
    /// Sessions that do not read, because the unexpected messages reached their limit or the queue its high-water mark.
    pub stalled: IdSet,
    /// A message without a receive that is at least so long may stay in the socket for a moment: `Grace`.
    pub grace_from: u64,
    /// Buffer for reads from sockets; small messages are taken from it.
    pub scratch: Box<[u8]>,
    /// Staging buffers not in use.
    pub buffers: Vec<Vec<u8>>,
    /// Counts calls of `progress`.
    pub polls: u64,
    /// Operations that wait for a peer.
    pub waits: Ticks,
    /// A check of what peers have acknowledged is due.
    pub watches_peers: bool,
    /// Keeps the peers of a busy listener from trying again together.
    pub jitter: Jitter,
    /// Requests of sessions to the stream, in order.
    pub todo: VecDeque<(usize, Todo)>,
}

/// A request of a session to the stream.
pub enum Todo {
    /// The link has no room: resume the session when it has.
    Blocked,
    /// A write to the socket has failed, and the stream has ended by that: report it.
    CannotSend(io::Error),
    /// Do not read until `ResumeRead`.
    PauseRead,
    ResumeRead,
    /// Poll the ring; its read side detects the fault.
    Poll,
    /// Data is being sent to peers: check that they are alive.
    WatchPeers,
    /// An operation waits for a peer: start the ticks.
    WatchWaits,
    /// The collectives of this endpoint have queued actions.
    Collectives(usize),
    /// The session has an `Ending`.
    End,
    /// Both sides have agreed to close the connection.
    Retire,
    /// The peer has answered a request to close, and the connection stays.
    KeptOpen,
    /// The connection stays although a side had requested to close it: send what waits.
    Reopened,
}

/// Maximum of bytes that one read takes from a socket.
const SCRATCH: usize = 64 * 1024;

impl Common {
    pub fn new(source: &'static Source, limits: Limits) -> Common {
        Common {
            source,
            waits: Ticks::new(limits.op_timeout, limits.stall_report),
            limits,
            dirty: Vec::new(),
            held_back: Held::new(),
            is_unserved: false,
            is_reading: false,
            held: IdSet::default(),
            stalled: IdSet::default(),
            grace_from: grace::LEAST,
            scratch: vec![0; SCRATCH].into_boxed_slice(),
            buffers: Vec::new(),
            polls: 1,
            watches_peers: false,
            jitter: Jitter::new(),
            todo: VecDeque::new(),
        }
    }

    /// Holds back frames, and notifies the thread that flushes them.
    #[inline]
    pub fn hold(&mut self) {
        if !self.held_back.has_begun() {
            self.begin_to_hold();
        }
    }

    #[cold]
    fn begin_to_hold(&mut self) {
        if !self.held_back.begin() {
            self.is_unserved = true;
        }
    }
}
