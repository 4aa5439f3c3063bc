// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! EpStats that other processes read while they run: a block of memory for each process, a record in it for each
//! endpoint. `layout` says what is where.
//!
//! The memory is a sealed memfd that nobody sends anywhere: readers of the same user open it through /proc. So there is
//! no name that could be left over, nothing that could become shorter, and all pages are there before one is touched.
//! A reader can write what it likes. No word of the block is an index or an address for this process, so what it can
//! make wrong is what other readers see.
//!
//! A record has one writer at a time, who has the endpoint's domain locked, so nothing is exchanged atomically. On the
//! path of each message there is one addition, of the operation and its bytes together.
//!
//! Trusted with: references to atomics within the mapping, which a record keeps alive.

pub mod layout;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use self::layout::{HEAD, RECORD, RECORDS, SHIFT, SIZE, head, record};
use crate::sys::mapping::Mapping;

/// Operations that are counted with their bytes: which of `layout::TALLIES`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tally(usize);

impl Tally {
    pub const RECV: Tally = Tally(6);
    pub const REMOTE_WRITE: Tally = Tally(7);
    pub const REMOTE_READ: Tally = Tally(8);

    /// What an endpoint begins itself: send, tagged send, write, read, atomic, fetching atomic. A number, not a match:
    /// it is part of each operation, and the compiler would make a table of jumps.
    #[inline(always)]
    pub const fn begun(kind: u8) -> Tally {
        assert!(kind < 6);
        Tally(kind as usize)
    }
}

/// What is counted besides, in the order of `layout::COUNTS`.
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

/// What holds when somebody asks, in the order of `layout::GAUGES` behind its first.
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

/// Who has a record.
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
    /// Readers find the memory by it.
    _fd: OwnedFd,
    /// A bit for each record in use. No lock, which a child could find taken.
    used: AtomicU64,
    /// States of records never come again.
    last: AtomicU64,
}

const _: () = assert!(RECORDS <= u64::BITS as usize);

impl Block {
    /// Of this process, which started so many clock ticks after boot. `library` says what it is.
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
        // Whoever finds this finds the rest.
        block
            .word(head::MAGIC)
            .store(layout::MAGIC, Ordering::Release);
        Ok(Arc::new(block))
    }

    /// A word of the head.
    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: within the mapping, which lives as long as `self`; an atomic bears being written by others.
        unsafe { self.place(8 * at).as_ref() }
    }

    fn word_of_record(&self, number: usize, at: usize) -> &AtomicU64 {
        // SAFETY: as in `word`.
        unsafe { self.place(HEAD + number * RECORD + 8 * at).as_ref() }
    }

    /// `at` is a constant of `layout`, or a record below `RECORDS`.
    fn place(&self, at: usize) -> NonNull<AtomicU64> {
        self.mapping
            .at(at)
            .expect("the mapping has all that `layout` speaks of")
    }

    fn set(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    /// The number of the last question for gauges.
    #[inline]
    pub fn asked_gauges(&self) -> u64 {
        self.word(head::ASKED_GAUGES).load(Ordering::Relaxed)
    }

    /// The same for a dump.
    #[inline]
    pub fn asked_dump(&self) -> u64 {
        self.word(head::ASKED_DUMP).load(Ordering::Relaxed)
    }

    /// This signal asks for a dump.
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

    /// A record for an endpoint. Where there are no more it is one that nobody sees.
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
        // Who reads what follows does not find the old state behind it.
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
        // Relaxed: what lies in a record is only for readers, who look at its state.
        let (yes, no) = (Ordering::Relaxed, Ordering::Relaxed);
        let free = |used: u64| (!used).trailing_zeros() as usize;
        let before = self.used.fetch_update(yes, no, |used| {
            (free(used) < RECORDS).then(|| used | 1 << free(used))
        });
        before.ok().map(free)
    }

    /// In a child: from now on this is memory of its own, which nobody finds. Pointers into it stay what they are.
    pub fn leave_to_parent(&self) {
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

// SAFETY: addresses of atomics, which belong to no thread; they live as long as what is held beside them.
unsafe impl Send for EpStats {}
// SAFETY: as above.
unsafe impl Sync for EpStats {}

impl Default for EpStats {
    fn default() -> Self {
        EpStats::hidden()
    }
}

/// In a record.
const WORDS: usize = RECORD / 8;
/// One operation, where operations and bytes are added at once.
const ONE: u64 = 1 << SHIFT;
/// In that word, so many bytes are moved away: what comes behind them still fits. Of messages without a byte there
/// would have to be 2^34 in a row until there is no room for another.
const MANY: u64 = ONE / 2;
/// Longer messages do not go there.
pub const SHORT: usize = 1 << 16;

impl EpStats {
    /// Of memory that no other process sees.
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
        // SAFETY: callers name words of a record by the constants of `layout`, and a record lies behind this address
        // for as long as `held` does.
        unsafe { self.words.add(at).as_ref() }
    }

    fn store(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    /// One operation of `len` bytes. Under the lock of the endpoint's domain.
    #[inline(always)]
    pub fn add(&self, tally: Tally, len: usize) {
        if len >= SHORT {
            return self.add_large(tally, len);
        }
        self.add_short(tally, len);
    }

    /// As `add`, where `len` is known to be less than `SHORT`.
    #[inline(always)]
    pub fn add_short(&self, tally: Tally, len: usize) {
        self.add_unsettled(tally, len);
        self.settle_if_many(tally);
    }

    /// As `add_short`, where `settle_if_many` is called before 2^29 bytes have come together; else numbers are wrong.
    // Nobody else writes, so no exchange is needed: the compiler makes one addition to memory of this.
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

    /// Moves what was added to where there is more room.
    #[cold]
    #[inline(never)]
    fn settle(&self, at: usize) {
        let [word, operations, bytes, moved] = [0, 1, 2, 3].map(|next| self.word(at + next));
        let sum = word.load(Ordering::Relaxed);
        let moves = moved.load(Ordering::Relaxed);
        moved.store(moves.wrapping_add(1), Ordering::Relaxed);
        // Who finds any of these finds the odd number, too.
        fence(Ordering::Release);
        add(operations, sum >> SHIFT);
        add(bytes, sum & (ONE - 1));
        word.store(0, Ordering::Relaxed);
        moved.store(moves.wrapping_add(2), Ordering::Release);
    }

    /// Under the lock of the endpoint's domain.
    pub fn count(&self, count: Count) {
        add(self.word(record::COUNTS + count as usize), 1);
    }

    /// All operations so far, and their bytes. Under the lock of the endpoint's domain.
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

    /// What was counted besides.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = layout::COUNTS.iter().enumerate();
        names.map(|(at, &name)| (name, self.word(record::COUNTS + at).load(Ordering::Relaxed)))
    }

    /// Answers a question for gauges.
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

    /// How the endpoint's address is written.
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

/// By the only writer of the word.
#[inline(always)]
fn add(word: &AtomicU64, value: u64) {
    let sum = word.load(Ordering::Relaxed).wrapping_add(value);
    word.store(sum, Ordering::Relaxed);
}

/// Cut where there is no more room.
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
