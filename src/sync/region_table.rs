// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A table of regions of memory that its owner writes and other processes only read: keys, ranges and rights.
//! docs/wire/shm.md.
//!
//! A reader says in a word of its own which entry it uses, reads the entry once more, copies, and takes its word back.
//! Who withdraws a region empties its entry first and then waits for those that use it. A hostile owner's table leads a
//! reader to addresses of the owner's own memory, or to such as it does not have.
//!
//! Trusted with: where the entries lie, and that they stay mapped.

use core::sync::atomic::{AtomicU64, Ordering};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::atomic::Atomic;
use crate::sys::mapping::{Mapping, Shared};

/// One region; without rights it is none.
#[repr(C, align(64))]
struct Entry<A = AtomicU64> {
    /// Odd while the rest is being changed.
    turn: A,
    key: A,
    first: A,
    base: A,
    len: A,
    access: A,
}

#[repr(C)]
struct Table {
    entries: [Entry; ENTRIES],
}

// SAFETY: atomic numbers, all of whose values are allowed, and padding.
unsafe impl Shared for Table {}

/// More regions than that, or such with unlucky keys, are not in the table.
pub const ENTRIES: usize = 512;
/// Places where a key is looked for.
const PROBES: usize = 8;
const NAME: &CStr = c"ironfabric regions";

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    pub key: u64,
    /// What readers call the first byte, and where that is.
    pub first: u64,
    pub base: u64,
    pub len: u64,
    /// Without any it is no entry.
    pub access: u64,
}

fn place(key: u64, probe: usize) -> usize {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55;
    (hash as usize + probe) % ENTRIES
}

fn entries(memory: &Mapping) -> Option<&[Entry; ENTRIES]> {
    // SAFETY: `at` checked that the table is there, and it is mapped as long as `memory` is; atomics, which the owner
    // may write at any time. Those that are read-only here are only loaded: no function of this file stores to what a
    // `TableView` has.
    Some(&unsafe { memory.at::<Table>(0)?.as_ref() }.entries)
}

/// The owner's side.
pub struct RegionTable {
    memory: Mapping,
    fd: OwnedFd,
}

impl RegionTable {
    pub fn new() -> io::Result<RegionTable> {
        let made = Mapping::create_for_readers(NAME, size_of::<Table>())?;
        // Else one reader could show another what the owner does not grant.
        if !made.protected {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(RegionTable {
            memory: made.mapping,
            fd: made.fd,
        })
    }

    /// For those who are to read it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Enters a region; the place that it has from now on, if there is one for its key.
    pub fn publish(&mut self, region: &Published) -> Option<usize> {
        let entries = entries(&self.memory)?;
        if region.access == 0 {
            return None;
        }
        let mut places = (0..PROBES).map(|probe| place(region.key, probe));
        let at = places.find(|&at| entries[at].access.load(Ordering::Relaxed) == 0)?;
        entries[at].publish(region);
        Some(at)
    }

    /// Empties an entry: from now on nobody begins to use it, and who does so already is seen by `InUse::is`.
    pub fn withdraw(&mut self, at: usize) {
        if let Some(entry) = entries(&self.memory).and_then(|entries| entries.get(at)) {
            entry.withdraw();
        }
    }
}

impl<A: Atomic<u64>> Entry<A> {
    /// For the owner.
    fn publish(&self, region: &Published) {
        self.change(|entry| {
            entry.key.store(region.key, Ordering::Relaxed);
            entry.first.store(region.first, Ordering::Relaxed);
            entry.base.store(region.base, Ordering::Relaxed);
            entry.len.store(region.len, Ordering::Relaxed);
            entry.access.store(region.access, Ordering::Relaxed);
        });
    }

    /// For the owner.
    fn withdraw(&self) {
        self.change(|entry| entry.access.store(0, Ordering::Relaxed));
        // Either a reader's second look at the entry sees that, or the owner sees that it uses it: pairs with
        // `InUse::begin`.
        A::fence(Ordering::SeqCst);
    }

    fn change(&self, store: impl FnOnce(&Self)) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
        // Who sees what follows sees that it is being changed: pairs with the fence in `read`.
        A::fence(Ordering::Release);
        store(self);
        self.turn.store(turn.wrapping_add(2), Ordering::Release);
    }

    /// What it says, and in which turn; nothing while it is being changed.
    #[inline]
    fn read(&self) -> Option<(u64, Published)> {
        let load = |number: &A| number.load(Ordering::Relaxed);
        let turn = self.turn.load(Ordering::Acquire);
        let region = Published {
            key: load(&self.key),
            first: load(&self.first),
            base: load(&self.base),
            len: load(&self.len),
            access: load(&self.access),
        };
        A::fence(Ordering::Acquire);
        (turn.is_multiple_of(2) && load(&self.turn) == turn).then_some((turn, region))
    }
}

/// A reader's side.
pub struct TableView {
    memory: Mapping,
}

/// A part of a region of the owner.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    at: usize,
    turn: u64,
    /// In the owner's memory.
    pub address: usize,
}

impl TableView {
    pub fn new(fd: &OwnedFd) -> io::Result<TableView> {
        let memory = Mapping::attach_read_only(fd, size_of::<Table>())?;
        Ok(TableView { memory })
    }

    /// The memory that this access means, if the owner shows it and grants all of `need`.
    pub fn find(&self, key: u64, addr: u64, len: u64, need: u64) -> Option<Part> {
        let entries = entries(&self.memory)?;
        (0..PROBES).find_map(|probe| {
            let at = place(key, probe);
            let (turn, region) = entries[at].read()?;
            let access = region.access;
            if region.key != key || access == 0 || access & need != need {
                return None;
            }
            let start = addr.checked_sub(region.first)?;
            let end = start.checked_add(len)?;
            (end <= region.len).then_some(Part {
                at,
                turn,
                address: region.base.wrapping_add(start) as usize,
            })
        })
    }

    /// Says that the part is used, until the word is dropped; nothing if the owner has withdrawn it.
    pub fn begin<'a>(&self, part: &Part, word: &'a InUse) -> Option<Using<'a>> {
        let using = word.begin(part.at);
        self.shows(part).then_some(using)
    }

    /// Whether the owner has not withdrawn the part since it was found.
    pub fn shows(&self, part: &Part) -> bool {
        let entry = entries(&self.memory).and_then(|entries| entries.get(part.at));
        entry.is_some_and(|entry| entry.turn.load(Ordering::Relaxed) == part.turn)
    }
}

/// Which entry of the owner's table a reader uses, plus one; or that the reader's side has left. The reader writes it.
#[derive(Default)]
#[repr(transparent)]
pub struct InUse<A: Atomic<u64> = AtomicU64>(A);

impl<A: Atomic<u64>> InUse<A> {
    /// Says that this entry is used. To be followed by a look at whether the entry is still there.
    #[inline]
    fn begin(&self, at: usize) -> Using<'_, A> {
        self.0.store(at as u64 + 1, Ordering::Relaxed);
        // Pairs with the fences in `Entry::withdraw` and `InUse::leave`.
        A::fence(Ordering::SeqCst);
        Using(self)
    }

    /// Whether this entry is used.
    pub fn is(&self, at: usize) -> bool {
        // What was copied was copied before.
        self.0.load(Ordering::Acquire) == at as u64 + 1
    }

    /// Whether some entry is used.
    pub fn is_any(&self) -> bool {
        // As in `is`.
        !matches!(self.0.load(Ordering::Acquire), 0 | LEFT)
    }

    /// The side that writes this ends the connection, and uses nothing: the other one is to begin no copy any more.
    pub fn leave(&self) {
        self.0.store(LEFT, Ordering::Relaxed);
        // Either the other side sees that, or it is seen to use an entry: pairs with the fence in `begin`.
        A::fence(Ordering::SeqCst);
    }

    pub fn has_left(&self) -> bool {
        self.0.load(Ordering::Relaxed) == LEFT
    }
}

/// No entry has this number.
const LEFT: u64 = u64::MAX;

/// A reader's word that it uses an entry: taken back on drop.
pub struct Using<'a, A: Atomic<u64> = AtomicU64>(&'a InUse<A>);

impl<A: Atomic<u64>> Drop for Using<'_, A> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;

    use super::*;

    fn region(number: u64) -> Published {
        Published {
            key: 7,
            first: number,
            base: number,
            len: number,
            access: number,
        }
    }

    fn entry() -> Entry<AtomicU64> {
        let zero = || AtomicU64::new(0);
        let (turn, key, first) = (zero(), zero(), zero());
        let (base, len, access) = (zero(), zero(), zero());
        Entry {
            turn,
            key,
            first,
            base,
            len,
            access,
        }
    }

    #[test]
    fn loom_what_is_read_was_published_at_one_time() {
        loom::model(|| {
            let entry = Arc::new(entry());
            entry.publish(&region(1));
            let owner = {
                let entry = entry.clone();
                loom::thread::spawn(move || entry.publish(&region(2)))
            };
            if let Some((turn, found)) = entry.read() {
                assert!(turn == 2 && found == region(1) || turn == 4 && found == region(2));
            }
            owner.join().unwrap();
        });
    }

    /// loom fails where the memory of a region is read while its owner writes to it, or nothing orders the two.
    #[test]
    fn loom_memory_is_the_owners_again_when_nobody_uses_it() {
        loom::model(|| {
            let shared = Arc::new((entry(), InUse(AtomicU64::new(0)), UnsafeCell::new(0)));
            shared.0.publish(&region(1));
            let owner = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    let (entry, word, memory) = &*shared;
                    entry.withdraw();
                    if !word.is(3) {
                        // SAFETY: of two threads, and loom looks at whether they meet.
                        memory.with_mut(|memory| unsafe { *memory = 1 });
                    }
                })
            };
            let (entry, word, memory) = &*shared;
            let (turn, _) = entry.read().unwrap_or((0, region(0)));
            if turn == 2 {
                let _using = word.begin(3);
                if entry.turn.load(Ordering::Relaxed) == turn {
                    // SAFETY: as above.
                    memory.with(|memory| assert_eq!(unsafe { *memory }, 0));
                }
            }
            owner.join().unwrap();
        });
    }
}
