// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What the sessions of a domain have in common: limits, the count of ticks, buffers, and lists of those that are to be
//! visited again.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::base::log::Source;
use crate::engine::flusher::Held;
use crate::engine::stream::session::groups::Groups;
use crate::engine::stream::session::waits::Waits;
use crate::engine::transport::Address;

/// What the provider's settings say of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest tagged message that is kept when nobody has asked for it.
    pub saved_size: usize,
    /// Bytes of such messages that are kept for each receive context.
    pub saved_bytes: usize,
    /// No progress thread, although progress is automatic.
    pub no_progress_thread: bool,
    /// A message that can be fetched stays with its sender until a receive has matched: its completion tells of the
    /// match then.
    pub keeps_offers: bool,
    /// Writes and atomic operations complete when the target has carried them out or refused them.
    pub answers_writes: bool,
    /// The kernel may copy from process to process.
    pub copies: bool,
    /// Time that a peer has to accept a connection, and to name itself after it has connected; `NO_LIMIT` for any time.
    pub connect: Duration,
    /// How long the end of an endpoint, or of the process, waits for peers to take what was accepted for them.
    pub close: Duration,
    /// After that an operation that waits for its peer fails, and is reported; zero: never.
    pub op_timeout: Duration,
    pub stall_report: Duration,
    /// Bytes of each ring with a peer; if not given, it depends on how many peers there are.
    pub ring_size: Option<usize>,
}

/// Under the domain's lock, beside the sessions.
pub struct Common<A> {
    /// Whose lines the log gets.
    pub source: &'static Source,
    pub limits: Limits,
    /// Sessions with frames to be written.
    pub dirty: Vec<usize>,
    /// Since when there are any, for the thread that flushes them; and whether there is no such thread.
    pub held_back: Arc<Held>,
    pub is_unserved: bool,
    /// A socket is being read: whoever polls flushes the answers, or leaves them to the thread (`Batches::hold`).
    pub is_reading: bool,
    /// Sessions with operations that wait for others to complete.
    pub held: Vec<usize>,
    /// Sessions that read nothing because the unexpected messages reached their limit, or the queue its high-water
    /// mark.
    pub stalled: Vec<usize>,
    /// Where sockets are read to; small messages are taken from here.
    pub scratch: Box<[u8]>,
    /// Staging buffers not in use.
    pub buffers: Vec<Vec<u8>>,
    /// Groups that endpoints have joined, and their collectives.
    pub groups: Groups<A>,
    /// Counts calls of `progress`.
    pub polls: u64,
    /// Operations that wait.
    pub waits: Waits,
    /// A check of what peers have acknowledged is due.
    pub watches_peers: bool,
    /// What sessions have left to the stream, in order.
    pub todo: VecDeque<(usize, Todo)>,
}

/// What a session cannot do by itself.
pub enum Todo {
    /// The link takes no more: the stream is to hear when it does.
    Blocked,
    /// Nothing is to be read until `ResumeRead`.
    PauseRead,
    ResumeRead,
    /// The ring is to be polled, whose reader finds what is wrong.
    Poll,
    /// Bytes go to peers: whether they are still there is to be seen.
    WatchPeers,
    /// Something waits for a peer: ticks are to come.
    WatchWaits,
    /// The collectives of this endpoint have moved.
    Collectives(usize),
    /// The session has an `Ending`.
    End,
}

/// Bytes that one read takes from a socket at most.
const SCRATCH: usize = 64 * 1024;

impl<A: Address> Common<A> {
    pub fn new(source: &'static Source, limits: Limits) -> Common<A> {
        Common {
            source,
            waits: Waits::new(limits.op_timeout, limits.stall_report),
            limits,
            dirty: Vec::new(),
            held_back: Held::new(),
            is_unserved: false,
            is_reading: false,
            held: Vec::new(),
            stalled: Vec::new(),
            scratch: vec![0; SCRATCH].into_boxed_slice(),
            buffers: Vec::new(),
            groups: Groups::default(),
            polls: 1,
            watches_peers: false,
            todo: VecDeque::new(),
        }
    }

    /// Frames are held back: the thread that flushes them is to know.
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
