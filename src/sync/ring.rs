// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A ring of records from one producer to one consumer, in memory that two processes share and neither trusts.
//!
//! The data area is mapped twice in a row, so that each record is contiguous. A record begins at a line of 64 bytes: a
//! word, four spare bytes, the body; it takes whole lines, and a body of up to 56 bytes lies in the line that the consumer
//! polls. The word is 0 while there is nothing, else the body's length plus one in 24 bits, 7 bits that the producer
//! chooses, and one that changes from lap to lap. Besides the data there are two lines, each written by one side only: how far
//! the consumer has come, and whether the producer waits for that.
//!
//! Not all of the data area need be used, or be there. A lap begins short: a word without a length says that the next record
//! is at the start of the next lap. The producer makes laps longer when there have been a few of long records, or of records
//! that were not answered one by one: lines that the consumer still holds are slow to write to, so a stream wants more than
//! its cache can hold, while small records that go to and fro are best kept in both caches.
//!
//! What the consumer polls is the line behind the last record. If a record began there a lap ago, the lap in its word tells
//! that it is old, and nobody has to touch the line: it stays in the consumer's cache. If bytes of a body are there, the
//! producer, who knows, writes 0 over them before it publishes the record in front; for that it makes sure that the line
//! behind a record is free, too. So the consumer clears nothing and never takes old bytes for a record.
//!
//! What a hostile peer can do. As producer: give any bytes, lengths within the ring, and change bytes while they are
//! copied; so a record is copied out once, and its length is read once. As consumer: stop, or move its head as if it had
//! taken records that it has not, which loses its own. A length or head that cannot be is `Garbage`. No word, head or body
//! leads outside the mapped memory.
//!
//! Trusted with: accesses to the memory that the creator of a side vouches for.

mod memory;

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::sync::atomic::Ordering;

use super::atomic::Atomic;
use super::copy::{copy_array_from_shared, copy_array_to_shared, copy_from_shared, copy_to_shared};
use super::prefetch::prefetch_read;
use crate::sys::mapping::Shared;
use memory::Cells;
pub use memory::{ConsumerLine, Memory, ProducerLine};

/// The other side wrote what cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage;

/// Records begin at multiples of this.
pub const LINE: usize = 64;
/// In front of the body.
pub const HEADER: usize = 8;
/// The part of a word that holds the length plus one.
const LEN_BITS: u32 = 24;
const LEN_MASK: u32 = (1 << LEN_BITS) - 1;
/// The bit of a word that tells a lap from the one before.
const LAP: u32 = 1 << 31;
/// Records are of one of so many kinds.
pub const KINDS: u8 = 1 << 7;
const MAX_CAPACITY: usize = 1 << LEN_BITS;
/// Without a length: the rest of the lap is left out.
const SKIP: u32 = 1 << LEN_BITS;
/// How long laps are at first, if the capacity is not less.
pub const FIRST_LAP: usize = 1 << 15;
/// After so many laps of one length they get longer: who sends so much is worth the memory.
const LAPS: u8 = 4;
/// Bytes of a record behind its first line that are asked for before they are needed.
const AHEAD: usize = 4096 + LINE;
/// A record of this size is long.
const LONG: usize = 2048;

/// Whether a ring can have a data area of so many bytes. Where it is mapped twice, it is a multiple of the page size too.
pub const fn is_capacity(bytes: usize) -> bool {
    bytes.is_power_of_two() && bytes >= 4 * LINE && bytes <= MAX_CAPACITY
}

/// Bytes of the data area that are used at first, and have to be there.
pub const fn first_lap(capacity: usize) -> usize {
    match capacity < FIRST_LAP {
        true => capacity,
        false => FIRST_LAP,
    }
}

/// The longest body in so many bytes: all but the header and the line behind the record.
const fn longest_body(bytes: usize) -> usize {
    bytes - LINE - HEADER
}

/// The side that writes records.
pub struct Producer<M = Memory> {
    memory: M,
    mask: usize,
    /// Bytes published or left out, ever growing.
    tail: u64,
    /// The consumer's head when it was last looked at.
    seen: u64,
    /// Bytes that records may take before it must be looked at again.
    free: usize,
    /// How much of the ring is used; it may become `most`.
    lap: usize,
    most: usize,
    /// How often it was used up since it is so much, in a way that wants more.
    laps: u8,
    /// What had been heard when this lap began.
    heard: u64,
    /// Bytes of the last record whose like was not prefetched yet.
    last: usize,
    /// For each line that is used whether something else than the last lap's word may be where a word would be.
    bodies: Vec<bool>,
}

impl Producer {
    /// The producer of a ring that has not been used: all its memory is zero. It uses up to `most` bytes of it, or the least
    /// that it can. `None`: not a capacity.
    ///
    /// # Safety
    /// `memory.data` is at a multiple of 64, and twice `capacity` bytes long: the same pages twice, or, where both sides
    /// use this very address, any memory. All of `memory` stays mapped and writable while the producer lives, and there is
    /// one producer.
    pub unsafe fn new(memory: Memory, capacity: usize, most: usize) -> Option<Producer> {
        Producer::over(memory, capacity, first_lap(capacity), most)
    }

    /// Room for a body of `len` bytes; `None` if there is none now. `heard` counts the bytes that came the other way.
    #[inline(always)]
    pub fn reserve(&mut self, len: usize, heard: u64) -> Result<Option<Body<'_>>, Garbage> {
        if !self.find_room(len, heard)? {
            return Ok(None);
        }
        let at = self.at() + HEADER;
        Ok(Some(Body {
            // SAFETY: `at` is below the capacity and `len` too (`find_room`), and twice that is mapped (promise to `new`).
            next: unsafe { self.memory.data.as_ptr().add(at) },
            left: len,
            len: len as u32,
            producer: self,
        }))
    }
}

impl<M: Cells> Producer<M> {
    fn over(memory: M, capacity: usize, lap: usize, most: usize) -> Option<Producer<M>> {
        is_capacity(capacity).then(|| Producer {
            memory,
            mask: capacity - 1,
            tail: 0,
            seen: 0,
            free: lap - LINE,
            lap,
            most: most.min(capacity),
            laps: 0,
            heard: 0,
            last: 0,
            bodies: vec![false; lap / LINE],
        })
    }

    /// The longest body that `reserve` takes now, if it does not take one of `wanted` bytes; `None` if not even an empty one.
    /// `heard` as in `reserve`.
    pub fn room(&mut self, wanted: usize, heard: u64) -> Result<Option<usize>, Garbage> {
        self.find_more_room(wanted, heard)?;
        Ok(self.free.checked_sub(HEADER))
    }

    /// The longest body for which there is room some time.
    pub fn longest(&self) -> usize {
        longest_body(self.lap)
    }

    /// The bytes that a lap may get to have.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Says whether this side sleeps until there is room. After `true` look for room again, then sleep.
    pub fn set_waiting(&self, waiting: bool) {
        match waiting {
            true => self.memory.waiting().arm(),
            false => self.memory.waiting().disarm(),
        }
    }

    /// Whether the consumer has said that it has taken everything.
    pub fn is_empty(&mut self) -> Result<bool, Garbage> {
        self.look_at_head()?;
        Ok(self.seen == self.tail)
    }

    /// Bytes of records that were published, and of what was left out.
    #[cfg(test)]
    pub fn position(&self) -> u64 {
        self.tail
    }

    /// Those of them that the consumer has said to have taken.
    #[cfg(test)]
    fn consumed(&mut self) -> Result<u64, Garbage> {
        self.look_at_head()?;
        Ok(self.seen)
    }

    #[inline(always)]
    fn find_room(&mut self, len: usize, heard: u64) -> Result<bool, Garbage> {
        // As `len + HEADER <= free`, without the sum.
        if len < self.free.saturating_sub(HEADER - 1) {
            return Ok(true);
        }
        self.find_more_room(len, heard)
    }

    #[inline(never)]
    fn find_more_room(&mut self, len: usize, heard: u64) -> Result<bool, Garbage> {
        self.look_at_head()?;
        loop {
            self.free = self.untaken().min(self.rest_of_lap());
            if len < self.free.saturating_sub(HEADER - 1) {
                return Ok(true);
            }
            if len > self.longest() || !self.turn(len, heard) {
                return Ok(false);
            }
        }
    }

    /// Bytes that the consumer leaves to records.
    fn untaken(&self) -> usize {
        let used = self.tail.wrapping_sub(self.seen);
        self.mask + 1 - LINE - used as usize
    }

    /// Bytes that records may take in this lap; in one of the whole ring they need not end where it does.
    fn rest_of_lap(&self) -> usize {
        match self.lap > self.mask {
            true => self.lap,
            false => (self.lap - LINE).saturating_sub(self.at()),
        }
    }

    /// Makes the lap longer or begins the next one, if it ends before a record of this length would.
    fn turn(&mut self, len: usize, heard: u64) -> bool {
        if len < self.rest_of_lap().saturating_sub(HEADER - 1) {
            return false;
        }
        if self.laps >= LAPS && self.lengthen() {
            return true;
        }
        let rest = self.mask + 1 - self.at();
        let is_free = rest <= self.untaken();
        if is_free {
            self.skip(rest);
            let answers = heard.wrapping_sub(self.heard);
            self.heard = heard;
            let wants_more = len >= LONG || answers < self.lap as u64 / 2;
            self.laps = self.laps.saturating_add(u8::from(wants_more));
        }
        is_free
    }

    fn lengthen(&mut self) -> bool {
        let lap = 2 * self.lap;
        // What the consumer has not said is 0.
        let limit = self.memory.limit().load(Ordering::Relaxed);
        if lap > self.most.min(limit as usize) {
            return false;
        }
        if !self.memory.provide(self.lap, lap) {
            self.most = self.lap;
            return false;
        }
        self.lap = lap;
        self.laps = 0;
        self.bodies.resize(lap / LINE, false);
        true
    }

    /// Leaves out the rest of the lap. `turn` has found room for it.
    fn skip(&mut self, rest: usize) {
        let (at, word) = (self.at(), SKIP | self.lap_bit());
        // Words of the lap before this one may be there, which are like those of the next.
        self.bodies[at / LINE + 1..].fill(true);
        self.put_word(at, 0, word);
        self.tail = self.tail.wrapping_add(rest as u64);
    }

    fn look_at_head(&mut self) -> Result<(), Garbage> {
        // What is written to the room is written after the consumer has read it: pairs with `Consumer::publish_head`.
        let head = self.memory.head().load(Ordering::Acquire);
        let used = self.tail.wrapping_sub(head);
        // It never goes back, and never beyond what was published.
        if used > self.tail.wrapping_sub(self.seen) || !used.is_multiple_of(LINE as u64) {
            return Err(Garbage);
        }
        self.seen = head;
        Ok(())
    }

    /// `find_room` has found room for it.
    #[inline(always)]
    fn publish(&mut self, len: u32, kind: u8) {
        let size = size_of_record(len);
        let next = self.tail.wrapping_add(size as u64);
        let word = u32::from(kind % KINDS) << LEN_BITS | (len + 1) | self.lap_bit();
        let (at, behind) = (self.at(), next as usize & self.mask);
        if size > LINE {
            self.note_body(at / LINE + 1, size / LINE - 1);
        }
        self.put_word(at, behind, word);
        self.tail = next;
        self.free -= size;
        self.last = size;
    }

    /// Takes the lines from the consumer that the next record will have if it is as long as the last, but for the first, which the
    /// consumer polls. For who has nothing else to do: those that come to be written at once are not the slower for it.
    pub fn prefetch_next(&mut self) {
        let size = core::mem::take(&mut self.last);
        if size <= LINE || size > self.free {
            return;
        }
        let first = self.at();
        for at in (LINE..size.min(AHEAD + LINE)).step_by(LINE) {
            self.memory.prefetch_write(first + at);
        }
    }

    /// Publishes what is in the line at `at`; `behind` is the line that the consumer looks at next.
    #[inline(always)]
    fn put_word(&mut self, at: usize, behind: usize, word: u32) {
        // SAFETY: lines of the ring that are used (`turn` sees to that, and a lap of the whole ring has them all), and `bodies`
        // has an entry for each.
        unsafe {
            *self.bodies.get_unchecked_mut(at / LINE) = false;
            if core::mem::take(self.bodies.get_unchecked_mut(behind / LINE)) {
                self.memory.word(behind).store(0, Ordering::Relaxed);
            }
            // Who sees it sees the body, and nothing behind it: pairs with `Consumer::peek`.
            self.memory.word(at).store(word, Ordering::Release);
        }
    }

    /// These lines hold bytes of a body alone.
    #[inline(never)]
    fn note_body(&mut self, from: usize, lines: usize) {
        let from = from % self.bodies.len();
        let end = self.bodies.len().min(from + lines);
        let wrapped = lines - (end - from);
        self.bodies[from..end].fill(true);
        self.bodies[..wrapped].fill(true);
    }

    #[inline]
    fn lap_bit(&self) -> u32 {
        lap_at(self.tail, self.mask)
    }

    #[inline]
    fn at(&self) -> usize {
        self.tail as usize & self.mask
    }
}

/// What the words of a lap have in common.
#[inline]
const fn lap_at(position: u64, mask: usize) -> u32 {
    match position & (mask as u64 + 1) {
        0 => 0,
        _ => LAP,
    }
}

/// Room for the body of a record. Dropped without `publish` it leaves nothing.
pub struct Body<'a> {
    producer: &'a mut Producer,
    next: *mut u8,
    /// Bytes from `next` on.
    left: usize,
    len: u32,
}

impl Body<'_> {
    /// Appends `bytes`.
    ///
    /// # Panics
    /// If there are more of them than were reserved: our own mistake, never the peer's.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.left, "a record is longer than its room");
        // SAFETY: `left` bytes from `next` on are mapped and this side's until it publishes; `bytes` is none of them, as no
        // reference to shared memory exists.
        unsafe {
            copy_to_shared(bytes.as_ptr(), self.next, bytes.len());
            self.next = self.next.add(bytes.len());
        }
        self.left -= bytes.len();
    }

    /// Appends the first `len` bytes of an array, which is copied whole: to be the first to be put.
    ///
    /// # Panics
    /// As `put`.
    #[inline]
    pub fn begin<const N: usize>(&mut self, bytes: &[u8; N], len: usize) {
        assert!(
            N <= LINE - HEADER && len <= N && len <= self.left,
            "a record is longer than its room"
        );
        debug_assert_eq!(self.left, self.len as usize);
        // SAFETY: the first line of a record has room for `N` bytes, whatever its length; else as in `put`.
        unsafe {
            copy_array_to_shared(bytes, self.next);
            self.next = self.next.add(len);
        }
        self.left -= len;
    }

    /// Where the next byte goes: `left` bytes may be written there until the body is published or dropped.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.next
    }

    #[cfg(test)]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Counts bytes as put that were written through `as_mut_ptr`.
    ///
    /// # Panics
    /// As `put`.
    #[inline]
    pub fn skip(&mut self, len: usize) {
        assert!(len <= self.left, "a record is longer than its room");
        // SAFETY: within the room.
        self.next = unsafe { self.next.add(len) };
        self.left -= len;
    }

    /// The consumer may see it. Bytes that were not put are whatever the ring held.
    #[inline]
    pub fn publish(self, kind: u8) {
        let mut body = ManuallyDrop::new(self);
        let len = body.len;
        body.producer.publish(len, kind);
    }

    /// Publishes only what was put, of the room that was reserved.
    #[cfg(test)]
    pub fn publish_put(mut self, kind: u8) {
        self.give_up();
        self.len -= self.left as u32;
        self.publish(kind);
    }

    /// There may be bytes of a body in any of the lines.
    fn give_up(&mut self) {
        let lines = size_of_record(self.len) / LINE;
        let at = self.producer.at() / LINE;
        self.producer.note_body(at + 1, lines - 1);
    }
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// The side that takes records.
pub struct Consumer<M = Memory> {
    memory: M,
    mask: usize,
    /// Bytes taken, ever growing.
    head: u64,
    /// What the producer knows of it.
    released: u64,
    /// How much more it may be before the producer is told: a quarter of a lap.
    step: u64,
}

/// The next record: what its word said when it was looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    len: u32,
    kind: u8,
    /// Not to be made elsewhere.
    made: PhantomData<()>,
}

impl Record {
    /// Bytes of the body.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    #[cfg(test)]
    pub fn kind(&self) -> u8 {
        self.kind
    }
}

impl Consumer {
    /// The consumer of a ring that has not been used. It asks the producer to use no more than `most` bytes of it. `None`: not
    /// a capacity.
    ///
    /// # Safety
    /// As for `Producer::new`, with one consumer.
    pub unsafe fn new(memory: Memory, capacity: usize, most: usize) -> Option<Consumer> {
        Consumer::over(memory, capacity, first_lap(capacity), most)
    }

    /// Copies bytes of the body of the record that `peek` gave last; a record that is too short is garbage.
    #[inline]
    pub fn copy(&self, record: &Record, from: usize, out: &mut [u8]) -> Result<(), Garbage> {
        // A record of a larger ring would be our own mistake; no memory is touched for it.
        let len = record.len().min(self.longest());
        if from > len || out.len() > len - from {
            return Err(Garbage);
        }
        // SAFETY: the header, `from` and `out` end within one capacity of a place within the first, and two are mapped
        // (promise to `new`). The peer may write there meanwhile: bytes of any value are what it may give anyway.
        unsafe {
            copy_from_shared(self.body(record).add(from), out.as_mut_ptr(), out.len());
        }
        Ok(())
    }

    /// Copies the body of a record that is in one line, and what is behind it there.
    #[inline]
    pub fn copy_line(&self, _: &Record, out: &mut [u8; LINE - HEADER]) {
        // SAFETY: the whole line is mapped (promise to `new`); else as in `copy`.
        unsafe {
            copy_array_from_shared(self.address_of_next().add(HEADER), out);
        }
    }

    /// As `copy_line`, for the first bytes of any record.
    #[inline]
    pub fn copy_start<const N: usize>(&self, _: &Record, out: &mut [u8; N]) {
        const { assert!(N <= LINE - HEADER) };
        // SAFETY: as in `copy_line`: a part of the line.
        unsafe {
            copy_array_from_shared(self.address_of_next().add(HEADER), out);
        }
    }

    /// Begins to fetch the lines of a record behind its first, as far as that is worth it before they are copied.
    #[inline(never)]
    pub fn prefetch_rest(&self, record: &Record) {
        let rest = size_of_record(record.len) - LINE;
        let line = self.address_of_next();
        for at in (0..rest.min(AHEAD)).step_by(LINE) {
            prefetch_read(line.wrapping_add(LINE + at));
        }
    }

    /// Where the body lies: `record.len()` bytes, to be read by raw copy, until `advance`. The peer may change them.
    #[inline]
    pub fn body(&self, _: &Record) -> *const u8 {
        self.address_of_next().wrapping_add(HEADER)
    }

    /// The line that will hold the next record, for a prefetch.
    #[inline]
    pub fn address_of_next(&self) -> *const u8 {
        self.memory.data.as_ptr().wrapping_add(self.at())
    }
}

impl<M: Cells> Consumer<M> {
    fn over(memory: M, capacity: usize, lap: usize, most: usize) -> Option<Consumer<M>> {
        if !is_capacity(capacity) {
            return None;
        }
        memory
            .limit()
            .store(most.min(capacity) as u32, Ordering::Relaxed);
        Some(Consumer {
            memory,
            mask: capacity - 1,
            head: 0,
            released: 0,
            step: lap as u64 / 4,
        })
    }

    /// Whether `peek` is to be asked: if not, there is nothing.
    #[inline(always)]
    pub fn has_news(&self) -> bool {
        // SAFETY: as in `peek`, which looks again.
        let word = unsafe { self.memory.word(self.at()) }.load(Ordering::Relaxed);
        word != 0 && word & LAP == lap_at(self.head, self.mask)
    }

    /// The next record, if there is one. If there is none, something may have been left out in front of it, which `is_due`.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Record>, Garbage> {
        // SAFETY: a line below the capacity. Pairs with `Producer::put_word`.
        let word = unsafe { self.memory.word(self.at()) }.load(Ordering::Acquire);
        if word == 0 || word & LAP != lap_at(self.head, self.mask) {
            return Ok(None);
        }
        // No length at all becomes the greatest.
        let len = (word & LEN_MASK).wrapping_sub(1);
        if len > self.longest() as u32 {
            return self.peek_at_next_lap(word);
        }
        Ok(Some(Record {
            len,
            kind: (word >> LEN_BITS) as u8 % KINDS,
            made: PhantomData,
        }))
    }

    #[cold]
    fn peek_at_next_lap(&mut self, word: u32) -> Result<Option<Record>, Garbage> {
        let at = self.at();
        // A lap of nothing could be followed by another for ever.
        if word & !LAP != SKIP || at == 0 {
            return Err(Garbage);
        }
        self.head = self.head.wrapping_add((self.mask + 1 - at) as u64);
        self.step = at as u64 / 4;
        self.peek()
    }

    /// Goes on behind the record that `peek` gave last. Whenever a quarter of a lap has been taken, the producer is told so;
    /// true: it sleeps and is to be woken.
    #[inline]
    #[must_use]
    pub fn advance(&mut self, record: Record) -> bool {
        self.head = self.head.wrapping_add(size_of_record(record.len) as u64);
        self.is_due() && self.publish_head()
    }

    /// Whether the producer is to be told how much was taken: after `advance` only if the rest of a lap was left out since.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.head.wrapping_sub(self.released) >= self.step
    }

    /// Gives back all room that was taken: to be called when the ring was found empty. True: the producer sleeps and is to
    /// be woken; this is said once for each time that there was something to give back.
    #[inline]
    #[must_use]
    pub fn release(&mut self) -> bool {
        // Otherwise the producer was told everything, and asked, already; if the ring is empty, it has all the room.
        self.head != self.released && self.publish_head()
    }

    /// Bytes of records that were taken, and of what was left out.
    #[inline]
    pub fn position(&self) -> u64 {
        self.head
    }

    /// The longest body that a record can have here.
    #[inline]
    pub fn longest(&self) -> usize {
        longest_body(self.mask + 1)
    }

    fn publish_head(&mut self) -> bool {
        self.released = self.head;
        // All reads of the records come before it: pairs with `Producer::look_at_head`.
        self.memory.head().store(self.head, Ordering::Release);
        self.memory.waiting().is_set()
    }

    #[inline]
    fn at(&self) -> usize {
        self.head as usize & self.mask
    }
}

// SAFETY: one atomic number, and padding that nobody reads.
unsafe impl Shared for ProducerLine {}
// SAFETY: two atomic numbers, and padding that nobody reads.
unsafe impl Shared for ConsumerLine {}

#[inline]
const fn size_of_record(len: u32) -> usize {
    (len as usize + HEADER + LINE - 1) & !(LINE - 1)
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
