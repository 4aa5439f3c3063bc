// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A table of regions of memory that its owner writes and other processes only read: keys, ranges and rights.
//! docs/wire/shm.md.
//!
//! A reader stores in a word of its own which entry it uses, reads the entry once more, copies, and clears its word.
//! The owner withdraws a region by emptying its entry, and then waits for the readers that use it. The table of a
//! hostile owner can only lead a reader to addresses in that owner's own memory, or to unmapped ones.
//!
//! Trusted with: where the entries lie, and that they stay mapped; writes to the regions of a table that this process
//! has published itself, which are those that the application registered for peers.

use core::sync::atomic::{AtomicU64, Ordering};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::atomic::Atomic;
use sys::io_list::GatherList;
use sys::mapping::{Mapping, Shared};
use sys::process_memory::Process;

/// One region; an entry without access rights is empty.
#[repr(C, align(64))]
struct Entry<A = AtomicU64> {
    /// Sequence number: odd while the other words are being changed.
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

/// Data with which the drivers of other processes map the memory of a region on a device. `stream` defines the layout.
pub type Export = [u64; EXPORT_WORDS];
pub const EXPORT_WORDS: usize = 16;

/// Behind the table, if regions may be in memory of devices: a record for each entry.
#[repr(C)]
struct TableOfDevices {
    table: Table,
    exports: [[AtomicU64; EXPORT_WORDS]; ENTRIES],
}

// SAFETY: as above.
unsafe impl Shared for TableOfDevices {}

/// Bit of the rights of an entry: a device has the memory, and the entry has an export.
const ON_DEVICE: u64 = 1 << 63;

/// Capacity. Further regions, and regions whose keys collide too often, are not in the table.
pub const ENTRIES: usize = 512;
/// Number of entries in which a key may be.
const PROBES: usize = 8;
const NAME: &CStr = c"ironfabric regions";

/// The content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    pub key: u64,
    /// The address that readers use for the first byte, and its real address.
    pub first: u64,
    pub base: u64,
    pub len: u64,
    /// 0 means no entry.
    pub access: u64,
}

fn place(key: u64, probe: usize) -> usize {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55;
    (hash as usize + probe) % ENTRIES
}

fn entries(memory: &Mapping) -> Option<&[Entry; ENTRIES]> {
    // SAFETY: `at` checked that the table is there, and it is mapped as long as `memory` is. It consists of atomics,
    // which the owner may write at any time. A reader maps it read-only and only loads: no function of this file stores
    // through a `TableView`.
    Some(&unsafe { memory.at::<Table>(0)?.as_ref() }.entries)
}

fn exports(memory: &Mapping) -> Option<&[[AtomicU64; EXPORT_WORDS]; ENTRIES]> {
    // SAFETY: as in `entries`.
    Some(&unsafe { memory.at::<TableOfDevices>(0)?.as_ref() }.exports)
}

/// The owner's side.
pub struct RegionTable {
    memory: Mapping,
    fd: OwnedFd,
}

impl RegionTable {
    /// `for_devices`: regions may be in memory of devices.
    pub fn new(for_devices: bool) -> io::Result<RegionTable> {
        let len = match for_devices {
            true => size_of::<TableOfDevices>(),
            false => size_of::<Table>(),
        };
        let made = Mapping::create_for_readers(NAME, len)?;
        // Without the protection one reader could show another reader memory that the owner does not grant.
        if !made.protected {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(RegionTable {
            memory: made.mapping,
            fd: made.fd,
        })
    }

    /// Returns the descriptor for the readers.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Enters a region and returns its place, if there is a free one for its key. `export`: a device has it.
    pub fn publish(&mut self, region: &Published, export: Option<&Export>) -> Option<usize> {
        let entries = entries(&self.memory)?;
        if region.access == 0 {
            return None;
        }
        let mut region = *region;
        let mut places = (0..PROBES).map(|probe| place(region.key, probe));
        let at = places.find(|&at| entries[at].access.load(Ordering::Relaxed) == 0)?;
        if let Some(export) = export {
            // The record is not in use: the owner has waited for the readers of the last region here.
            for (word, &value) in exports(&self.memory)?[at].iter().zip(export) {
                word.store(value, Ordering::Relaxed);
            }
            region.access |= ON_DEVICE;
        }
        entries[at].publish(&region);
        Some(at)
    }

    /// Empties an entry: no reader begins to use it any more, and `InUse::is` shows a reader that already does.
    pub fn withdraw(&mut self, at: usize) {
        if let Some(entry) = entries(&self.memory).and_then(|entries| entries.get(at)) {
            entry.withdraw();
        }
    }
}

impl<A: Atomic<u64>> Entry<A> {
    /// Called by the owner only.
    fn publish(&self, region: &Published) {
        self.change(|entry| {
            entry.key.store(region.key, Ordering::Relaxed);
            entry.first.store(region.first, Ordering::Relaxed);
            entry.base.store(region.base, Ordering::Relaxed);
            entry.len.store(region.len, Ordering::Relaxed);
            entry.access.store(region.access, Ordering::Relaxed);
        });
    }

    /// Called by the owner only.
    fn withdraw(&self) {
        self.change(|entry| entry.access.store(0, Ordering::Relaxed));
        // Either a reader's second look at the entry sees that it is empty, or the owner sees that the reader uses it:
        // pairs with `InUse::begin`.
        A::fence(Ordering::SeqCst);
    }

    fn change(&self, store: impl FnOnce(&Self)) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
        // A reader that sees the new words also sees the odd sequence number: pairs with the fence in `read`.
        A::fence(Ordering::Release);
        store(self);
        self.turn.store(turn.wrapping_add(2), Ordering::Release);
    }

    /// Returns the sequence number and the content; `None` while the entry is being changed.
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
    /// The process that has published the table, if its memory can be accessed.
    owner: Option<Process>,
}

/// A part of a region of the owner.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    at: usize,
    turn: u64,
    /// The address in the owner's memory, and the length.
    pub address: usize,
    len: usize,
    /// A device has it.
    pub is_device: bool,
}

impl TableView {
    pub fn new(fd: &OwnedFd) -> io::Result<TableView> {
        let whole = Mapping::attach_read_only(fd, size_of::<TableOfDevices>());
        let memory = whole.or_else(|_| Mapping::attach_read_only(fd, size_of::<Table>()))?;
        Ok(TableView {
            memory,
            owner: None,
        })
    }

    /// Opens the table that this process has sent by a socket.
    pub fn of_process(fd: &OwnedFd, owner: Process) -> io::Result<TableView> {
        let view = TableView::new(fd)?;
        Ok(TableView {
            owner: Some(owner),
            ..view
        })
    }

    /// Writes `from` to a part of a region, behind its first `skip` bytes. Returns the number of bytes.
    pub fn write(&self, part: &Part, skip: usize, from: &GatherList<'_>) -> io::Result<usize> {
        let left = part.len.checked_sub(skip);
        let (Some(owner), Some(left)) = (self.owner, left) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let place = [(part.address.wrapping_add(skip), left.min(from.bytes()))];
        // SAFETY: an owner that is this process has published the region, because the application registered it for
        // accesses of peers.
        unsafe { owner.write(from, &place) }
    }

    /// Finds the memory that an access refers to, if the owner publishes it and grants all of `need`.
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
                len: len as usize,
                is_device: access & ON_DEVICE != 0,
            })
        })
    }

    /// Returns the export of a part that is in use; `None` if the owner has withdrawn the part.
    pub fn export(&self, part: &Part) -> Option<Export> {
        let words = &exports(&self.memory)?[part.at];
        let export = core::array::from_fn(|at| words[at].load(Ordering::Relaxed));
        self.shows(part).then_some(export)
    }

    /// Marks the part as used until the result is dropped; `None` if the owner has withdrawn it.
    #[inline]
    pub fn begin<'a>(&self, part: &Part, word: &'a InUse) -> Option<Using<'a>> {
        let using = word.begin(part.at);
        self.shows(part).then_some(using)
    }

    /// Returns false if the owner has withdrawn the part since it was found.
    pub fn shows(&self, part: &Part) -> bool {
        let entry = entries(&self.memory).and_then(|entries| entries.get(part.at));
        entry.is_some_and(|entry| entry.turn.load(Ordering::Relaxed) == part.turn)
    }
}

/// The entry of the owner's table that a reader uses, plus one; or `LEFT`. Only the reader writes it.
#[derive(Default)]
#[repr(transparent)]
pub struct InUse<A: Atomic<u64> = AtomicU64>(A);

impl<A: Atomic<u64>> InUse<A> {
    /// Marks this entry as used. The caller must then check that the entry is still there.
    #[inline]
    fn begin(&self, at: usize) -> Using<'_, A> {
        self.0.store(at as u64 + 1, Ordering::Relaxed);
        // Pairs with the fences in `Entry::withdraw` and `InUse::leave`.
        A::fence(Ordering::SeqCst);
        Using(self)
    }

    /// Returns true if this entry is used.
    pub fn is(&self, at: usize) -> bool {
        // Acquire: the reader's copy is complete before its word changes.
        self.0.load(Ordering::Acquire) == at as u64 + 1
    }

    /// Returns true if any entry is used.
    pub fn is_any(&self) -> bool {
        // As in `is`.
        !matches!(self.0.load(Ordering::Acquire), 0 | LEFT)
    }

    /// Ends the use for good, because this side ends the connection: the other side must begin no copy any more.
    pub fn leave(&self) {
        self.0.store(LEFT, Ordering::Relaxed);
        // Either the other side sees `LEFT`, or its use of an entry is seen here: pairs with the fence in `begin`.
        A::fence(Ordering::SeqCst);
    }

    pub fn has_left(&self) -> bool {
        self.0.load(Ordering::Relaxed) == LEFT
    }
}

/// The value after `leave`; no entry has this number.
const LEFT: u64 = u64::MAX;

/// A reader's use of an entry; ends when it is dropped.
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

    /// loom fails if a reader reads the memory of a region while its owner writes there, or if nothing orders the two.
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
                        // SAFETY: two threads may get here, and loom checks whether their accesses are ordered.
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
