// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One peer of an endpoint: the state of its connection, what waits to be sent, what is being received.
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::abi::{FI_ADDR_NOTAVAIL, FI_FENCE, FI_INJECT};
use crate::base::log::{Subsys, log_warn};
use crate::base::{Error, IoList, IoVec, Span};
use crate::engine::auth::Key;
use crate::engine::cntr::Counter;
use crate::engine::core::{Sender, TxOp};
use crate::engine::mr::Region;
use crate::engine::srx::{Envelope, RecvOp, Slot};
use crate::engine::stream::atomic::AtomicIn;
use crate::engine::stream::coll::{Frames, Part};
use crate::engine::stream::duct::{Duct, Places};
use crate::engine::stream::ep::unknown_source;
use crate::engine::stream::net::Net;
use crate::engine::stream::pace::Pace;
use crate::engine::stream::proto::{Header, MAX_HEADER, MAX_SEGS, Op};
use crate::ffi::ops::transfer::{AFTER_READS, What};
use crate::sync::parts::Job;
use crate::sys::socket::{Moved, Socket};

/// A peer. What the application has posted outlives attempts to connect.
pub struct Conn<N: Net> {
    pub ep: usize,
    pub state: State,
    pub socket: Option<Socket>,
    /// Frames go over this memory, not over the socket.
    pub duct: Option<Box<Duct>>,
    /// RDM: the peer's listener; MSG: the other end.
    pub peer: N::Addr,
    /// The peer's place in the endpoint's address vector, or FI_ADDR_NOTAVAIL.
    pub fi_addr: u64,
    /// Never the same for two connections of a process: names the peer in matching while it has no address.
    pub serial: u64,
    /// We opened the connection that is up.
    pub opened_here: bool,
    /// The peer has the other byte order.
    pub swap: bool,
    /// Rendezvous frames may be sent.
    pub rendezvous: bool,
    /// Frames of our own may be sent: docs/wire/tcp.md, "Extensions".
    pub extended: bool,
    /// Registered memory of the peer can be used without the peer.
    pub is_direct: bool,
    /// It was written to by messages, too, which reads and writes from here must not pass.
    pub writes_by_ring: bool,
    /// Receives only: the second half of a connection to oneself.
    pub receive_only: bool,
    pub tx: Tx,
    pub rx: Rx,
    /// Collectives need the peer.
    pub coll: Option<Box<Frames>>,
    /// While connecting: when to give up, and how often it was tried.
    pub deadline: Option<Instant>,
    pub attempts: u32,
    /// The application was told to come again when it is up.
    pub is_wanted: bool,
    /// Why the last attempt failed.
    pub last_error: Option<Error>,
    /// Why the connection that is up is at its end, if its writer has found out: the reader comes to that later.
    pub cause: Option<Error>,
    /// The log says that operations wait for the peer.
    pub is_stalled: bool,
    /// What was under way at the last tick; see `stall`.
    pub transfer: u64,
    /// The log names it already.
    pub is_reported: bool,
    /// What epoll watches for.
    pub watch: Watch,
    /// Among those that are read without asking epoll first.
    pub hot: bool,
    /// Looks in a row that brought nothing.
    pub misses: u32,
    /// The connection that had news after this one had; a guess.
    pub next: usize,
    /// Looks that brought something since all was left to epoll.
    pub hits: u32,
    /// Since when bytes are under way of which the peer has acknowledged none.
    pub unanswered: Option<Instant>,
    /// What the provider keeps.
    pub own: N::Conn,
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
    /// Both sides are known; they try to share memory. A peer that was asked is waited for, as one that has shared it is.
    Sharing,
    Up,
    /// MSG: over, for good.
    Down,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Watch {
    pub added: bool,
    pub read: bool,
    pub write: bool,
}

/// The sending side.
#[derive(Default)]
pub struct Tx {
    /// Operations posted before the connection was up (how frames look depends on the peer), or behind a fence.
    pub waiting: VecDeque<Waiting>,
    /// Frames in order; the first may have been written in part.
    pub queue: VecDeque<Out>,
    /// Bytes in staging buffers of `queue`.
    pub staged: usize,
    /// Answers to reads in `queue` that are sent from where they are.
    pub answers: usize,
    /// Bytes of frames in staging buffers that the peer has caused.
    pub owed: usize,
    /// What the answers that the peer owes may cost it.
    pub asked: usize,
    /// Counts headers, for the debugging field of the header.
    pub counter: u8,
    /// Which small frames are written at once.
    pub pace: Pace,
    /// On the list of connections to be flushed.
    pub dirty: bool,
    /// The kernel's buffer is full.
    pub blocked: bool,
    /// Operations whose acknowledgement has not come, in wire order.
    pub await_ack: VecDeque<TxOp>,
    /// Reads whose response has not come, in wire order.
    pub await_read: VecDeque<ReadOp>,
    /// Ready-to-send frames that have not been cleared, by index.
    pub rendezvous: HashMap<u8, RendezvousOut>,
    pub next_index: u8,
}

/// An operation that waits for the connection, or for those before it.
pub struct Waiting {
    pub header: Header,
    pub payload: Payload,
    pub op: TxOp,
}

pub enum Payload {
    /// Where the application keeps it.
    Buffers(IoVec),
    /// A copy of what was injected.
    Copy(Vec<u8>),
    /// A copy of what is sent, and where the answer goes. Rare, and boxed so that it does not make the others larger.
    Exchange(Box<(Vec<u8>, IoVec)>),
}

impl Payload {
    /// What an operation keeps until its turn comes.
    pub fn of(op: &TxOp, iov: IoVec) -> Payload {
        // A read has buffers to fill, whatever its flags say.
        if op.flags & FI_INJECT == 0 || op.what == What::Read {
            return Payload::Buffers(iov);
        }
        let mut payload = Payload::Buffers(iov);
        payload.own(op.len);
        payload
    }

    /// Copies the `len` bytes that are sent from the application's memory, which may go then.
    pub fn own(&mut self, len: usize) {
        if let Payload::Buffers(iov) = self {
            let mut copy = Vec::with_capacity(len);
            iov.copy_out(&mut copy);
            *self = Payload::Copy(copy);
        }
    }

    /// Nobody wants an answer any more: what comes goes nowhere.
    pub fn drop_answer(&mut self) {
        if let Payload::Exchange(both) = self {
            both.1 = IoVec::empty();
        }
    }
}

pub enum Out {
    /// Frames copied together.
    Staged {
        bytes: Vec<u8>,
        done: usize,
        /// Bytes of `Tx::owed` among them.
        owed: usize,
    },
    /// A frame whose payload is sent from where it is.
    Frame(Box<Frame>),
}

pub struct Frame {
    pub header: [u8; MAX_HEADER],
    pub header_len: u8,
    pub header_done: u8,
    pub payload: IoVec,
    pub after: After,
}

impl Frame {
    /// It has the bytes of a message that the peer has asked for.
    pub fn is_data(&self) -> bool {
        self.header[1] == Op::Data.code()
    }

    /// Its bytes, if none has been written.
    #[inline]
    pub fn whole(&self) -> Option<usize> {
        let len = usize::from(self.header_len) + self.payload.remaining();
        (self.header_done == 0).then_some(len)
    }
}

/// What happens when a frame is with the kernel.
pub enum After {
    Nothing,
    /// The operation has succeeded.
    Complete(TxOp),
    /// The operation, which is in `Tx::await_ack`, succeeds with the peer's answer.
    Acknowledged(TxOp),
    /// A read response of these regions: the peer's read is counted.
    Answered(Regions, u64),
}

pub struct ReadOp {
    pub op: TxOp,
    pub iov: IoVec,
}

impl ReadOp {
    /// What the answer costs the peer until it has sent it.
    #[inline]
    pub fn cost(&self) -> usize {
        match self.op.what {
            What::Read => size_of::<Frame>(),
            _ => size_of::<Frame>() + self.op.len,
        }
    }
}

pub struct RendezvousOut {
    pub op: TxOp,
    pub payload: Payload,
    pub header: Header,
}

/// A message that the peer lets us fetch.
pub struct Offered {
    pub places: Places,
    /// The peer's word that they hold: see `Duct::is_revoked`.
    pub epoch: u32,
}

/// Messages that can be fetched.
#[derive(Default)]
pub struct Offers {
    /// Those that wait at the peer for their receive, by index.
    pub waiting: HashMap<u8, Offered>,
    /// Those that are being fetched, in part by the peer.
    pub shared: Vec<Shared>,
}

/// A message of which its sender copies the last part.
pub struct Shared {
    pub index: u8,
    /// Without receive the bytes are of no use to anybody.
    pub recv: Option<RecvOp>,
    pub envelope: Envelope,
    pub offered: Offered,
    pub job: Job,
    /// All that was done here was done well.
    pub copied: bool,
}

pub struct RendezvousIn {
    /// When it was asked for.
    pub since: u16,
    /// Without receive the bytes are dropped.
    pub recv: Option<RecvOp>,
    pub envelope: Envelope,
    pub ack: bool,
}

/// Messages that a peer keeps, from its word of them until they are here. Few peers have any.
#[derive(Default)]
pub struct Told(Option<Box<Kept>>);

#[derive(Default)]
struct Kept {
    /// A bit for each index.
    indexes: [u64; 4],
    /// Those that have been asked for, by index.
    cleared: HashMap<u8, RendezvousIn>,
}

impl Told {
    /// False if there is one with this index.
    #[must_use]
    pub fn add(&mut self, index: u8) -> bool {
        let (word, bit) = Told::place(index);
        let word = &mut self.0.get_or_insert_default().indexes[word];
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// The message with this index is here.
    pub fn remove(&mut self, index: u8) {
        let (word, bit) = Told::place(index);
        if let Some(kept) = &mut self.0 {
            kept.indexes[word] &= !bit;
        }
    }

    /// The message with this index has been asked for.
    pub fn clear(&mut self, index: u8, message: RendezvousIn) {
        let kept = self.0.get_or_insert_default();
        kept.cleared.insert(index, message);
    }

    /// The message with this index, if it has been asked for.
    pub fn take_cleared(&mut self, index: u8) -> Option<RendezvousIn> {
        self.0.as_mut()?.cleared.remove(&index)
    }

    /// Those that have been asked for.
    pub fn cleared(&self) -> impl Iterator<Item = &RendezvousIn> {
        let kept = self.0.iter();
        kept.flat_map(|kept| kept.cleared.values())
    }

    pub fn cleared_mut(&mut self) -> impl Iterator<Item = &mut RendezvousIn> {
        let kept = self.0.as_mut().into_iter();
        kept.flat_map(|kept| kept.cleared.values_mut())
    }

    pub fn into_cleared(self) -> impl Iterator<Item = RendezvousIn> {
        let kept = self.0.into_iter();
        kept.flat_map(|kept| kept.cleared.into_values())
    }

    fn place(index: u8) -> (usize, u64) {
        (usize::from(index / 64), 1 << (index % 64))
    }
}

/// The receiving side.
pub struct Rx {
    pub at: At,
    /// When the payload that comes in began.
    pub since: u16,
    pub header: [u8; MAX_HEADER],
    pub header_have: usize,
    /// Bytes read from the socket that could not be dealt with yet.
    pub leftover: Vec<u8>,
    /// The peer has changed memory of ours by messages, and is to be told that they were taken.
    pub was_written: bool,
    pub told: Told,
    /// Few peers have any, and each has this place.
    pub offers: Option<Box<Offers>>,
}

/// Where in the stream the receiver is.
pub enum At {
    Header,
    Payload(Incoming),
    /// The payload of this message has no place yet; nothing is read.
    Stalled(Stalled),
    /// So it is with this frame of a collective.
    Held(Box<Header>),
}

/// A payload on its way.
pub struct Incoming {
    pub sink: Sink,
    pub remaining: u64,
    pub ack: bool,
}

pub struct Stalled {
    pub srx: usize,
    pub slot: Slot,
    pub envelope: Envelope,
    pub ack: bool,
}

/// Where a payload goes.
pub enum Sink {
    /// To a receive.
    Recv(RecvOp, Envelope),
    /// To the buffer of an unexpected message.
    Slot(usize, Slot),
    /// To memory of ours that the peer writes.
    Write {
        iov: IoVec,
        len: u64,
        data: Option<u64>,
        regions: Regions,
        /// The bytes of each segment.
        lens: [u64; MAX_SEGS],
        durable: Durable,
    },
    /// To the buffers of a read of ours.
    Read(ReadOp),
    /// To a collective.
    Coll(Box<Part>),
    /// To an atomic operation on memory of ours, which needs all of it.
    Atomic(Box<AtomicIn>),
    /// Nowhere.
    Drop,
}

/// Messages that the peer can be told of at a time; their indexes are 1 to this.
pub const RENDEZVOUS_LIMIT: usize = 254;

/// The regions of a request's segments, in order.
pub type Regions = [Option<Arc<Region<Arc<Counter>>>>; MAX_SEGS];

/// Addresses and lengths of what a write has to make durable before it is acknowledged (FI_COMMIT_COMPLETE).
pub type Durable = Option<Box<[Span]>>;

fn next_serial() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only its being different counts.
    LAST.fetch_add(1, Ordering::Relaxed)
}

impl<N: Net> Conn<N> {
    pub fn new(ep: usize, peer: N::Addr, fi_addr: u64) -> Conn<N> {
        Conn {
            ep,
            state: State::Idle,
            socket: None,
            duct: None,
            peer,
            fi_addr,
            serial: next_serial(),
            opened_here: false,
            swap: false,
            rendezvous: false,
            extended: false,
            is_direct: false,
            writes_by_ring: false,
            receive_only: false,
            tx: Tx::default(),
            rx: Rx::new(),
            coll: None,
            deadline: None,
            attempts: 0,
            is_wanted: false,
            last_error: None,
            cause: None,
            is_stalled: false,
            transfer: 0,
            is_reported: false,
            watch: Watch::default(),
            hot: false,
            misses: 0,
            hits: 0,
            unanswered: None,
            next: usize::MAX,
            own: N::Conn::default(),
        }
    }

    /// The authorization key that the peer has proved to have.
    #[inline]
    pub fn key(&self) -> Option<&Key> {
        N::key(self)
    }

    /// Bytes cannot be written to the socket. The kernel says why only once, and the reader meets the end later. What is no fault
    /// of the stream, memory that is gone, would never end it.
    #[cold]
    pub(super) fn write_failed(&mut self, error: &io::Error) {
        let cause = match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Error::CONNRESET,
            _ if is_silence(error) => Error::TIMEDOUT,
            _ => {
                log_warn!(
                    N::SOURCE,
                    Subsys::EpData,
                    "{}: connection ended: cannot send: {error}",
                    self.peer
                );
                self.is_reported = true;
                if let Some(socket) = &self.socket {
                    socket.shutdown();
                }
                error.raw_os_error().map_or(Error::IO, Error::new)
            }
        };
        self.cause.get_or_insert(cause);
    }

    /// How the peer is called when its messages are matched.
    #[inline]
    pub fn source(&self) -> u64 {
        match self.fi_addr {
            FI_ADDR_NOTAVAIL => unknown_source(self.serial),
            known => known,
        }
    }

    /// Who completions of its messages name.
    #[inline]
    pub fn sender(&self) -> Sender<'_, N::Addr> {
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

    /// Bytes that the peer has caused, and that wait for it to take them; what is sent from where it is costs its frame. What we
    /// have begun does not count: two that wait for each other to take that would read no more.
    #[inline]
    pub(super) fn answers(&self) -> usize {
        self.tx.owed + self.tx.answers * size_of::<Frame>()
    }

    /// Whether an operation with these flags has to wait for those that were sent.
    pub fn holds(&self, flags: u64) -> bool {
        flags & FI_FENCE != 0 && self.is_busy() || flags & AFTER_READS != 0 && self.is_reading()
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

    /// Whether memory is shared with a process that is there. Its socket tells of its end; if a forked child holds that, too, its
    /// memory does.
    pub fn shares_with_living(&self) -> bool {
        let (Some(duct), Some(socket)) = (&self.duct, &self.socket) else {
            return false;
        };
        !socket.has_ended() && (!duct.reaches() || duct.is_alive())
    }

    /// Whether something posted still depends on this peer.
    pub fn has_work(&self) -> bool {
        !self.tx.queue.is_empty()
            || !self.tx.waiting.is_empty()
            || !self.tx.await_ack.is_empty()
            || !self.tx.await_read.is_empty()
            || !self.tx.rendezvous.is_empty()
            || self.coll.is_some()
            || self.is_wanted
    }
}

/// Whether the region is one of these.
fn names(regions: &Regions, region: &Arc<Region<Arc<Counter>>>) -> bool {
    let mut regions = regions.iter().flatten();
    regions.any(|other| Arc::ptr_eq(other, region))
}

/// Is this what the kernel says when a host does not answer?
pub fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
    matches!(
        error.kind(),
        TimedOut | HostUnreachable | NetworkUnreachable | NetworkDown
    )
}

/// Hands bytes over to be sent, whichever way frames go.
pub fn write_list(
    duct: &mut Option<Box<Duct>>,
    socket: &Socket,
    list: &IoList<'_>,
) -> io::Result<Moved> {
    let Some(duct) = duct else {
        return socket.write_list(list);
    };
    match duct.write_list(list) {
        Ok(0) => Ok(Moved::Later),
        Ok(n) => Ok(Moved::Bytes(n)),
        // Its reader finds it.
        Err(_) => {
            duct.broken = true;
            Ok(Moved::Later)
        }
    }
}

impl At {
    /// Nothing is read until there is room.
    pub fn waits(&self) -> bool {
        matches!(self, At::Stalled(_) | At::Held(_))
    }
}

impl Tx {
    /// The peer is asked for something.
    #[inline]
    pub fn ask(&mut self, read: ReadOp) {
        self.asked += read.cost();
        self.await_read.push_back(read);
    }

    /// The operation that waits for an answer the longest.
    #[inline]
    pub fn take_asked(&mut self) -> Option<ReadOp> {
        let read = self.await_read.pop_front()?;
        self.asked -= read.cost();
        Some(read)
    }

    /// The last bytes that were staged are caused by the peer.
    pub fn owe(&mut self, len: usize) {
        if let Some(Out::Staged { owed, .. }) = self.queue.back_mut() {
            *owed += len;
            self.owed += len;
        }
    }

    pub fn next_counter(&mut self) -> u8 {
        let counter = self.counter;
        self.counter = counter.wrapping_add(1);
        counter
    }

    /// An index for a rendezvous, if one is free.
    pub fn free_index(&mut self) -> Option<u8> {
        for _ in 0..RENDEZVOUS_LIMIT {
            self.next_index = if usize::from(self.next_index) >= RENDEZVOUS_LIMIT {
                1
            } else {
                self.next_index + 1
            };
            if !self.rendezvous.contains_key(&self.next_index) {
                return Some(self.next_index);
            }
        }
        None
    }
}

impl Rx {
    /// Messages that the peer copies a part of.
    pub fn shared(&self) -> &[Shared] {
        self.offers.as_ref().map_or(&[], |offers| &offers.shared)
    }

    pub fn shared_mut(&mut self) -> &mut [Shared] {
        self.offers
            .as_mut()
            .map_or(&mut [], |offers| &mut offers.shared)
    }

    pub fn new() -> Rx {
        Rx {
            at: At::Header,
            since: 0,
            header: [0; MAX_HEADER],
            header_have: 0,
            leftover: Vec::new(),
            was_written: false,
            told: Told::default(),
            offers: None,
        }
    }
}

impl Sink {
    /// Takes the next bytes of the payload; what there is no room for is dropped.
    #[inline]
    pub fn memory(&mut self) -> Option<&mut IoVec> {
        match self {
            Sink::Recv(recv, _) => Some(&mut recv.iov),
            Sink::Write { iov, .. } => Some(iov),
            Sink::Read(read) => Some(&mut read.iov),
            Sink::Slot(..) | Sink::Coll(_) | Sink::Atomic(_) | Sink::Drop => None,
        }
    }
}

// What a queued frame costs.
const _: () = assert!(size_of::<Frame>() <= 320);
