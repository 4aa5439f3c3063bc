// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoint statistics that other processes can read at any time: a block of memory for each process, a record in it
//! for each endpoint. `layout` defines the positions.
//!
//! The memory is a sealed memfd that is sent to no other process: readers of the same user open it through /proc. So no
//! name can be left over, the memory cannot shrink, and all pages are allocated before one is accessed. A reader can
//! write to the memory. This process uses no word of the block as an index or an address, so a reader can only falsify
//! what other readers see.
//!
//! A record has one writer at a time, the thread that holds the lock of the endpoint's domain, so no atomic
//! read-modify-write is needed. The path of each message has one addition, which adds the operation and its bytes
//! together.
//!
//! Trusted with: references to atomics within the mapping, which a record keeps alive.

pub mod layout;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use self::layout::{HEAD, RECORD, RECORDS, SHIFT, SIZE, head, record};
use sys::mapping::Mapping;

/// Operations that are counted with their bytes; an index of `layout::TALLIES`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tally(usize);

impl Tally {
    pub const RECV: Tally = Tally(6);
    pub const REMOTE_WRITE: Tally = Tally(7);
    pub const REMOTE_READ: Tally = Tally(8);

    /// Returns the tally of an operation that an endpoint posts: send, tagged send, write, read, atomic, fetching
    /// atomic. A number instead of a match, because this is part of each operation and the compiler would make a jump
    /// table.
    #[inline(always)]
    pub const fn begun(kind: u8) -> Tally {
        assert!(kind < 6);
        Tally(kind as usize)
    }
}

/// The other counters, in the order of `layout::COUNTS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Count {
    Failed,
    Again,
    Unexpected,
    Rendezvous,
    Offered,
    Fetched,
    Split,
    Connected,
    ConnectRetries,
    Disconnected,
    Stalls,
    ReceivesFailed,
}

/// Values that are sampled on request, in the order of `layout::GAUGES` behind its first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    pub transmits: u64,
    pub receives: u64,
    pub kept: u64,
    pub kept_bytes: u64,
    pub peers: u64,
    pub peers_opening: u64,
    pub peers_memory: u64,
    pub socket_bytes_out: u64,
    pub socket_bytes_in: u64,
    pub memory_bytes_out: u64,
    pub memory_bytes_in: u64,
    pub waiting: u64,
    pub oldest_ms: u64,
}

/// The endpoint that a record belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    pub domain: u64,
    pub ep_type: u32,
    pub provider: &'a str,
}

/// The counters of one process.
#[derive(Debug)]
pub struct Block {
    mapping: Mapping,
    /// The memfd, through which readers find the memory.
    _fd: OwnedFd,
    /// A bit for each record in use. Not a lock, because a child could find that taken.
    used: AtomicU64,
    /// The last state that was given to a record. States are never reused.
    last: AtomicU64,
}

const _: () = assert!(RECORDS <= u64::BITS as usize);

impl Block {
    /// Makes the block of this process. `started` is its start time in clock ticks after boot, `library` describes the
    /// library.
    pub fn new(pid: u32, started: u64, library: &str) -> io::Result<Arc<Block>> {
        let name = std::ffi::CString::new(layout::NAME)?;
        let (mapping, fd) = Mapping::create(&name, SIZE)?;
        let block = Block {
            mapping,
            _fd: fd,
            used: AtomicU64::new(0),
            last: AtomicU64::new(0),
        };
        block.set(head::PID, u64::from(pid));
        block.set(head::STARTED, started);
        write_text(
            |at| block.word(at),
            head::LIBRARY,
            head::LIBRARY_WORDS,
            library,
        );
        block.set(head::VERSION, layout::VERSION);
        // Release: a reader that finds the magic number finds the rest.
        block
            .word(head::MAGIC)
            .store(layout::MAGIC, Ordering::Release);
        Ok(Arc::new(block))
    }

    /// Returns a word of the head.
    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: within the mapping, which lives as long as `self`; others may write to an atomic at any time.
        unsafe { self.place(8 * at).as_ref() }
    }

    fn word_of_record(&self, number: usize, at: usize) -> &AtomicU64 {
        // SAFETY: as in `word`.
        unsafe { self.place(HEAD + number * RECORD + 8 * at).as_ref() }
    }

    /// `at` is a constant of `layout`, or within a record below `RECORDS`.
    fn place(&self, at: usize) -> NonNull<AtomicU64> {
        self.mapping
            .at(at)
            .expect("the mapping has all that `layout` speaks of")
    }

    fn set(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    /// Returns the number of the last request for gauges.
    #[inline]
    pub fn asked_gauges(&self) -> u64 {
        self.word(head::ASKED_GAUGES).load(Ordering::Relaxed)
    }

    /// Returns the number of the last request for a dump.
    #[inline]
    pub fn asked_dump(&self) -> u64 {
        self.word(head::ASKED_DUMP).load(Ordering::Relaxed)
    }

    /// Publishes the signal that requests a dump.
    pub fn set_signal(&self, signal: i32) {
        self.set(head::SIGNAL, u64::from(signal.unsigned_abs()));
    }

    /// Answers the request for a dump: the files' absolute name, an empty text for the log, or else why there is no
    /// dump. Called by one thread at a time.
    pub fn dumped(&self, answer: &str) {
        write_text(|at| self.word(at), head::DUMP, head::DUMP_WORDS, answer);
        // Readers that see the new number see its text.
        self.word(head::DUMPS).fetch_add(1, Ordering::Release);
    }

    /// Takes a record for an endpoint. If none is free, returns a hidden one, which other processes cannot see.
    pub fn record(self: &Arc<Block>, owner: &Owner<'_>) -> EpStats {
        let Some(at) = self.take_place() else {
            self.word(head::UNCOUNTED).fetch_add(1, Ordering::Relaxed);
            return EpStats::hidden();
        };
        let state = self.last.fetch_add(2, Ordering::Relaxed) + 2;
        let counters = EpStats {
            words: self.place(HEAD + at * RECORD),
            _held: Arc::new(Held::Block(self.clone(), at)),
        };
        counters.word(record::STATE).store(1, Ordering::Relaxed);
        // A reader that sees the following stores does not find the old state afterwards.
        fence(Ordering::Release);
        for at in 1..WORDS {
            counters.word(at).store(0, Ordering::Relaxed);
        }
        counters.store(record::DOMAIN, owner.domain);
        counters.store(record::EP_TYPE, u64::from(owner.ep_type));
        counters.text(record::PROVIDER, record::PROVIDER_WORDS, owner.provider);
        counters.word(record::STATE).store(state, Ordering::Release);
        counters
    }

    fn take_place(&self) -> Option<usize> {
        // Relaxed: only readers use the content of a record, and they check its state.
        let (yes, no) = (Ordering::Relaxed, Ordering::Relaxed);
        let free = |used: u64| (!used).trailing_zeros() as usize;
        let before = self.used.fetch_update(yes, no, |used| {
            (free(used) < RECORDS).then(|| used | 1 << free(used))
        });
        before.ok().map(free)
    }

    /// In a child: replaces the memory by a private copy, which no reader finds. Pointers into it stay valid.
    pub fn abandon_in_child(&self) {
        self.mapping.replace_by_own();
    }
}

/// The counters of one endpoint.
#[derive(Clone, Debug)]
pub struct EpStats {
    words: NonNull<AtomicU64>,
    _held: Arc<Held>,
}

#[derive(Debug)]
enum Held {
    Block(Arc<Block>, usize),
    Own { _words: Box<[AtomicU64; WORDS]> },
}

// SAFETY: addresses of atomics, which belong to no thread; `_held` keeps them alive.
unsafe impl Send for EpStats {}
// SAFETY: as above.
unsafe impl Sync for EpStats {}

impl Default for EpStats {
    fn default() -> Self {
        EpStats::hidden()
    }
}

/// Words in a record.
const WORDS: usize = RECORD / 8;
/// One operation, in a word that counts operations and bytes together.
const ONE: u64 = 1 << SHIFT;
/// Number of bytes in that word from which the sums are moved to separate words: the next addition still fits. Of
/// messages without a byte it would take 2^34 in a row to overflow the word.
const MANY: u64 = ONE / 2;
/// Messages of at least this length are not added to that word.
pub const SHORT: usize = 1 << 16;

impl EpStats {
    /// Counters in memory that no other process sees.
    pub fn hidden() -> EpStats {
        let words = Box::new([const { AtomicU64::new(0) }; WORDS]);
        EpStats {
            words: NonNull::from(&*words).cast(),
            _held: Arc::new(Held::Own { _words: words }),
        }
    }

    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < WORDS);
        // SAFETY: callers name words of a record by the constants of `layout`, and the record at this address lives as
        // long as `_held`.
        unsafe { self.words.add(at).as_ref() }
    }

    fn store(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    /// Counts one operation of `len` bytes. Called under the lock of the endpoint's domain.
    #[inline(always)]
    pub fn add(&self, tally: Tally, len: usize) {
        if len >= SHORT {
            return self.add_large(tally, len);
        }
        self.add_short(tally, len);
    }

    /// As `add`, for a `len` that is known to be less than `SHORT`.
    #[inline(always)]
    pub fn add_short(&self, tally: Tally, len: usize) {
        self.add_unsettled(tally, len);
        self.settle_if_many(tally);
    }

    /// As `add_short`, but the caller must call `settle_if_many` before 2^29 bytes were added; otherwise the counts are
    /// wrong.
    // There is one writer, so no atomic addition is needed: the compiler makes one addition to memory of this.
    #[inline(always)]
    pub fn add_unsettled(&self, tally: Tally, len: usize) {
        debug_assert!(len < SHORT);
        add(self.word(record::TALLIES + 4 * tally.0), ONE + len as u64);
    }

    #[inline(always)]
    pub fn settle_if_many(&self, tally: Tally) {
        let at = record::TALLIES + 4 * tally.0;
        if self.word(at).load(Ordering::Relaxed) & MANY != 0 {
            self.settle(at);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_large(&self, tally: Tally, len: usize) {
        let at = record::TALLIES + 4 * tally.0;
        add(self.word(at + 1), 1);
        add(self.word(at + 2), len as u64);
    }

    /// Moves the sums of the combined word to the separate words.
    #[cold]
    #[inline(never)]
    fn settle(&self, at: usize) {
        let [word, operations, bytes, moved] = [0, 1, 2, 3].map(|next| self.word(at + next));
        let sum = word.load(Ordering::Relaxed);
        let moves = moved.load(Ordering::Relaxed);
        moved.store(moves.wrapping_add(1), Ordering::Relaxed);
        // Release: a reader that sees any of the new values also sees the odd number.
        fence(Ordering::Release);
        add(operations, sum >> SHIFT);
        add(bytes, sum & (ONE - 1));
        word.store(0, Ordering::Relaxed);
        moved.store(moves.wrapping_add(2), Ordering::Release);
    }

    /// Called under the lock of the endpoint's domain.
    pub fn count(&self, count: Count) {
        add(self.word(record::COUNTS + count as usize), 1);
    }

    /// Returns all operations so far, and their bytes. Called under the lock of the endpoint's domain.
    pub fn tallies(&self) -> impl Iterator<Item = (&'static str, (u64, u64))> {
        let names = layout::TALLIES.iter().enumerate();
        names.map(|(at, &name)| (name, self.tally(Tally(at))))
    }

    fn tally(&self, tally: Tally) -> (u64, u64) {
        let at = record::TALLIES + 4 * tally.0;
        let [sum, operations, bytes] =
            [0, 1, 2].map(|next| self.word(at + next).load(Ordering::Relaxed));
        (
            operations.wrapping_add(sum >> SHIFT),
            bytes.wrapping_add(sum & (ONE - 1)),
        )
    }

    /// Returns the other counters.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = layout::COUNTS.iter().enumerate();
        names.map(|(at, &name)| (name, self.word(record::COUNTS + at).load(Ordering::Relaxed)))
    }

    /// Answers a request for gauges.
    pub fn answer(&self, question: u64, gauges: &Gauges) {
        let words = [
            gauges.transmits,
            gauges.receives,
            gauges.kept,
            gauges.kept_bytes,
            gauges.peers,
            gauges.peers_opening,
            gauges.peers_memory,
            gauges.socket_bytes_out,
            gauges.socket_bytes_in,
            gauges.memory_bytes_out,
            gauges.memory_bytes_in,
            gauges.waiting,
            gauges.oldest_ms,
        ];
        for (at, value) in words.into_iter().enumerate() {
            self.store(record::GAUGES + 1 + at, value);
        }
        self.word(record::GAUGES).store(question, Ordering::Release);
    }

    /// Sets the endpoint's address as text.
    pub fn set_address(&self, text: &str) {
        self.text(record::ADDRESS, record::ADDRESS_WORDS, text);
    }

    fn text(&self, from: usize, words: usize, text: &str) {
        write_text(|at| self.word(at), from, words, text);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Held::Block(block, at) = self {
            let state = block.word_of_record(*at, record::STATE);
            state.store(0, Ordering::Release);
            block.used.fetch_and(!(1 << *at), Ordering::Release);
        }
    }
}

/// Adds to a word that has one writer.
#[inline(always)]
fn add(word: &AtomicU64, value: u64) {
    let sum = word.load(Ordering::Relaxed).wrapping_add(value);
    word.store(sum, Ordering::Relaxed);
}

/// Writes a text, and cuts it if it is too long.
fn write_text<'a>(word: impl Fn(usize) -> &'a AtomicU64, from: usize, words: usize, text: &str) {
    let mut bytes = text.bytes();
    for at in from..from + words {
        let mut next = [0; 8];
        next.iter_mut()
            .zip(bytes.by_ref())
            .for_each(|(to, byte)| *to = byte);
        word(at).store(u64::from_ne_bytes(next), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
