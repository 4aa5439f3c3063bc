// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The memory that a pair of processes shares in place of a socket: a page of words, then a ring for each direction.
//! Defines the layout, which side writes which part, and keeps the memory mapped while it is used. docs/wire/shm.md.
//!
//! What a hostile peer can do: see `ring`, `split_copy`, `sys::mapping`. It writes words of any value at any time.
//!
//! Trusted with: the places of words and rings in the memory.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering, fence};
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::doorbell::Doorbell;
use super::region_table::InUse;
use super::ring::{Consumer, ConsumerLine, Memory, Producer, ProducerLine, first_lap};
use super::split_copy::{SplitCopy, SplitWord};
use sys::mapping::{Mapping, Pages, Shared};

/// One side of such memory. Each ring keeps its memory mapped, even after it was moved out of the segment.
pub struct Segment {
    /// The ring to the other side.
    pub tx: Producer,
    /// The ring from the other side.
    pub rx: Consumer,
    pub words: Words,
}

/// The words of both sides.
pub struct Words {
    own: NonNull<Side>,
    other: NonNull<Side>,
    own_splits: NonNull<Splits>,
    other_splits: NonNull<Splits>,
    /// The mapping of the words.
    _head: Arc<Mapping>,
}

/// The first page of the memory: the words of the side that made it, then those of the other side.
#[repr(C)]
struct Head {
    sides: [Side; 2],
    splits: [Splits; 2],
}

/// The words that one side writes.
#[repr(C, align(64))]
pub struct Side {
    producer: ProducerLine,
    consumer: ConsumerLine,
    doorbell: Line<Doorbell>,
    epoch: Line<Epoch>,
    in_use: Line<InUse>,
}

/// The words of messages that one side copies together with their sender; both sides write there.
#[repr(C)]
struct Splits([Line<SplitWord>; SPLITS]);

/// A word in a cache line of its own.
#[repr(C, align(64))]
struct Line<T>(T);

/// How often a side has revoked the memory that it had offered.
#[repr(transparent)]
pub struct Epoch(AtomicU32);

// SAFETY: atomic numbers, all of whose values are allowed, and padding.
unsafe impl Shared for Head {}

// SAFETY: the words belong to no thread; they are atomics, and mapped as long as `_head` is there.
unsafe impl Send for Words {}

const NAME: &CStr = c"ironfabric";
/// Size of the first page. (The page size of every kernel on the processors that we run on.)
const HEAD: usize = 4096;
const _: () = assert!(size_of::<Head>() <= HEAD);
const _: () = assert!(size_of::<Side>() == 5 * 64 && size_of::<Splits>() == SPLITS * 64);
/// Number of messages that one side copies together with their sender at a time. The sender works on one of them at
/// most: the receiver begins a second one while the sender's last part of the first is under way.
pub const SPLITS: usize = 2;

/// The two sides, as indices of their own words.
const CREATOR: usize = 0;
const ACCEPTOR: usize = 1;

impl Segment {
    /// Creates memory with two rings of up to `ring` bytes each.
    pub fn create(ring: usize) -> io::Result<(Segment, OwnedFd)> {
        let fd = Mapping::create_sparse(NAME, HEAD + 2 * ring)?;
        let segment = Segment::map(&fd, ring, ring, CREATOR)?;
        Ok((segment, fd))
    }

    /// Maps the memory that a peer has made, using up to `most` bytes of each ring.
    pub fn accept(fd: &OwnedFd, ring: usize, most: usize) -> io::Result<Segment> {
        Segment::map(fd, ring, most, ACCEPTOR)
    }

    fn map(fd: &OwnedFd, ring: usize, most: usize, own: usize) -> io::Result<Segment> {
        const INVALID: io::ErrorKind = io::ErrorKind::InvalidInput;
        let other = 1 - own;
        let all = Arc::new(Mapping::map_doubled(fd, HEAD, ring)?);
        let ring_of = |side: usize| all.bytes(HEAD + side * 2 * ring, 2 * ring).ok_or(INVALID);
        let (start, second) = (all.bytes(0, HEAD).ok_or(INVALID)?, ring_of(ACCEPTOR)?);
        // Allocates the pages that are used at first, even if the other side did not.
        let first = first_lap(ring);
        // SAFETY: within the mapping, in which the first ring follows the head.
        let (of_first, of_second) = unsafe {
            (
                Pages::new(fd, 0, start, HEAD + first)?.behind(HEAD),
                Pages::new(fd, HEAD + ring, second, first)?,
            )
        };
        let pages = match own {
            CREATOR => of_first,
            _ => of_second,
        };
        // SAFETY: `at` checked that the page has a `Head`, and `all` keeps it mapped. It has only atomics, which the
        // other side may write at any time.
        let page = unsafe { all.at::<Head>(0).ok_or(INVALID)?.as_ref() };
        // A ring belongs to the side that writes it: its producer line is that side's, its consumer line the other's.
        let memory = |from: usize, to: usize, pages: Pages| {
            Ok::<_, io::Error>(Memory {
                data: ring_of(from)?,
                producer: NonNull::from(&page.sides[from].producer),
                consumer: NonNull::from(&page.sides[to].consumer),
                pages,
                _mapped: Some(all.clone()),
            })
        };
        // SAFETY: the rings are mapped twice in a row, page by page, and `Memory::_mapped` keeps them and their lines
        // mapped. Each side makes one producer and one consumer. If a peer handed over the same memory twice, the
        // second segment would do to the first only what a hostile process can do to both.
        let (tx, rx) = unsafe {
            (
                Producer::new(memory(own, other, pages)?, ring, most),
                Consumer::new(memory(other, own, Pages::default())?, ring, most),
            )
        };
        let (Some(tx), Some(rx)) = (tx, rx) else {
            return Err(INVALID.into());
        };
        let words = Words {
            own: NonNull::from(&page.sides[own]),
            other: NonNull::from(&page.sides[other]),
            own_splits: NonNull::from(&page.splits[own]),
            other_splits: NonNull::from(&page.splits[other]),
            _head: all,
        };
        Ok(Segment { tx, rx, words })
    }
}

impl Words {
    /// Returns the words that this side writes.
    #[inline(always)]
    pub fn own(&self) -> &Side {
        // SAFETY: within the page, which `_head` keeps mapped; atomic numbers, which the peer may write at any time.
        unsafe { self.own.as_ref() }
    }

    /// Returns the words that the other side writes.
    #[inline(always)]
    pub fn other(&self) -> &Side {
        // SAFETY: as in `own`.
        unsafe { self.other.as_ref() }
    }

    /// Returns the word of a message that this side copies.
    pub fn own_split(&self, copy: &SplitCopy) -> &SplitWord {
        // SAFETY: as in `own`.
        &unsafe { self.own_splits.as_ref() }.0[place_of(copy)].0
    }

    /// Returns the word of a message that the other side copies.
    pub fn other_split(&self, copy: &SplitCopy) -> &SplitWord {
        // SAFETY: as in `own`.
        &unsafe { self.other_splits.as_ref() }.0[place_of(copy)].0
    }
}

/// Returns the index of a copy's word among the words of its side.
pub fn place_of(copy: &SplitCopy) -> usize {
    copy.number as usize % SPLITS
}

impl Side {
    /// Set while this side sleeps or does not poll here: a peer that writes to this side must ring then.
    #[inline(always)]
    pub fn doorbell(&self) -> &Doorbell {
        &self.doorbell.0
    }

    #[inline(always)]
    pub fn epoch(&self) -> &Epoch {
        &self.epoch.0
    }

    /// Returns the entry of the other side's table that this side uses.
    #[inline(always)]
    pub fn in_use(&self) -> &InUse {
        &self.in_use.0
    }
}

impl Epoch {
    /// Returns the number of the offers that are made from now on.
    pub fn number(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Revokes all offers made so far, before the memory is used for anything else.
    pub fn revoke(&self) {
        // Pairs with the fence in `is_over`.
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns true if the offers with this number were revoked. To be called after a copy was made.
    pub fn is_over(&self, number: u32) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) != number
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const RING: usize = 8192;

    /// A ring that was moved out of its segment works after the rest of the segment is gone.
    #[test]
    fn a_ring_outlives_the_segment_that_it_comes_from() {
        let (mut tx, mut rx) = {
            let (one, fd) = Segment::create(RING).unwrap();
            (one.tx, Segment::accept(&fd, RING, RING).unwrap().rx)
        };
        let mut body = tx.reserve(3, 0).unwrap().unwrap();
        body.put(b"abc");
        body.publish(0);
        let (record, mut bytes) = (rx.peek().unwrap().unwrap(), Vec::new());
        rx.body(&record).append_to(&mut bytes);
        assert_eq!(bytes, b"abc");
    }

    #[test]
    fn each_side_finds_what_the_other_writes() {
        let (one, fd) = Segment::create(RING).unwrap();
        let other = Segment::accept(&fd, RING, RING).unwrap();
        one.words.own().doorbell().arm();
        assert!(other.words.other().doorbell().is_armed());
        assert!(!other.words.own().doorbell().is_armed());
        let number = other.words.own().epoch().number();
        assert!(!one.words.other().epoch().is_over(number));
        other.words.own().epoch().revoke();
        assert!(one.words.other().epoch().is_over(number));
        assert!(!other.words.other().epoch().is_over(number));
        let copy = SplitCopy::new(3, 10).unwrap();
        one.words.own_split(&copy).open(&copy);
        assert!(other.words.other_split(&copy).progress(&copy).is_ok());
        assert!(other.words.own_split(&copy).progress(&copy).is_err());
    }

    #[test]
    fn memory_that_is_too_short_is_refused() {
        let (_one, fd) = Segment::create(RING).unwrap();
        assert!(Segment::accept(&fd, 2 * RING, RING).is_err());
        assert!(Segment::accept(&fd, RING / 2, RING).is_ok());
        assert!(Segment::accept(&fd, 4096 + 64, RING).is_err());
    }
}
