// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The registered memory of a domain as other processes of the host see it, so that they can read and write it by themselves:
//! keys, ranges and rights, in memory that they can only read. docs/wire/shm.md.
//!
//! A peer says in its own line which entry it uses, looks at the entry once more, copies, and takes its word back. Who closes a
//! region empties its entry first and then waits for those that use it. A hostile owner's board leads a peer to copies from and
//! to the owner's own memory, or to an error of the kernel.
//!
//! Trusted with: where the entries lie, and that they stay mapped.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::base::Span;
use crate::engine::cntr::Counter;
use crate::engine::mr;
use crate::sys::region::{Region, Shared};

/// A region of this domain.
type Own = mr::Region<Arc<Counter>>;

/// One region; without rights it is none.
#[repr(C, align(64))]
struct Entry {
    /// Odd while the rest is being changed.
    turn: AtomicU64,
    key: AtomicU64,
    /// What peers call the first byte, and where that is.
    first: AtomicU64,
    base: AtomicU64,
    len: AtomicU64,
    access: AtomicU64,
}

#[repr(C)]
struct Table {
    entries: [Entry; ENTRIES],
}

// SAFETY: atomic numbers, all of whose values are allowed.
unsafe impl Shared for Table {}

/// Regions beyond that, or with unlucky keys, are reached by messages.
const ENTRIES: usize = 512;
/// Places where a key is looked for.
const PROBES: usize = 8;
const NAME: &CStr = c"ironfabric regions";

fn place(key: u64, probe: usize) -> usize {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55;
    (hash as usize + probe) % ENTRIES
}

/// The board of this process's domain.
pub struct Board {
    memory: Region,
    fd: OwnedFd,
    places: HashMap<u64, usize>,
}

impl Board {
    pub fn new<'a>(regions: impl Iterator<Item = &'a Arc<Own>>) -> io::Result<Board> {
        let made = Region::create_for_readers(NAME, size_of::<Table>())?;
        // Else one peer could show another what we do not grant.
        if !made.protected {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut board = Board {
            memory: made.region,
            fd: made.fd,
            places: HashMap::new(),
        };
        for region in regions {
            board.publish(region);
        }
        Ok(board)
    }

    /// For those who are to read it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.fd.as_fd()
    }

    fn entry(&self, at: usize) -> Option<&Entry> {
        // SAFETY: checked by `at`, mapped as long as `self`; atomics, which only this process writes.
        Some(&unsafe { self.memory.at::<Table>(0)?.as_ref() }.entries[at])
    }

    /// Shows a region, if it is one that peers may use without our knowing.
    pub fn publish(&mut self, region: &Own) {
        let Some(Span { start: base, len }) = region.alone() else {
            return;
        };
        let free = |at: &usize| {
            self.entry(*at)
                .is_some_and(|entry| entry.access.load(Ordering::Relaxed) == 0)
        };
        let Some(at) = (0..PROBES).map(|probe| place(region.key, probe)).find(free) else {
            return;
        };
        if let Some(entry) = self.entry(at) {
            let turn = entry.turn.load(Ordering::Relaxed);
            entry.turn.store(turn + 1, Ordering::Relaxed);
            // Who sees what follows sees that it is being changed: pairs with the fence in `View::find`.
            fence(Ordering::Release);
            entry.key.store(region.key, Ordering::Relaxed);
            entry.first.store(region.remote_base(), Ordering::Relaxed);
            entry.base.store(base as u64, Ordering::Relaxed);
            entry.len.store(len as u64, Ordering::Relaxed);
            entry.access.store(region.access, Ordering::Relaxed);
            entry.turn.store(turn + 2, Ordering::Release);
        }
        self.places.insert(region.key, at);
    }

    /// Shows a region no more. The place it had: peers may still be using it.
    pub fn withdraw(&mut self, region: &Own) -> Option<usize> {
        let at = self.places.remove(&region.key)?;
        self.empty(at)
    }

    /// Shows no region any more. The places that there were.
    pub fn withdraw_all(&mut self) -> Vec<usize> {
        let places = std::mem::take(&mut self.places);
        places
            .into_values()
            .filter_map(|at| self.empty(at))
            .collect()
    }

    fn empty(&self, at: usize) -> Option<usize> {
        let entry = self.entry(at)?;
        let turn = entry.turn.load(Ordering::Relaxed);
        entry.turn.store(turn + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        entry.access.store(0, Ordering::Relaxed);
        entry.turn.store(turn + 2, Ordering::Release);
        // Either a peer's second look at the entry sees that, or we see that it uses it: pairs with `Using::begin`.
        fence(Ordering::SeqCst);
        Some(at)
    }
}

/// A peer's board.
pub struct View {
    memory: Region,
}

/// A part of a region of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    at: usize,
    turn: u64,
    /// In the peer's memory.
    pub address: usize,
}

impl View {
    pub fn new(fd: &OwnedFd) -> io::Result<View> {
        let memory = Region::attach_read_only(fd, size_of::<Table>())?;
        Ok(View { memory })
    }

    fn entry(&self, at: usize) -> Option<&Entry> {
        let table: NonNull<Table> = self.memory.at(0)?;
        // SAFETY: checked by `at`, mapped as long as `self`; atomics, which the owner may write at any time.
        Some(&unsafe { table.as_ref() }.entries[at])
    }

    /// The memory that this access means, if the peer shows it and grants the access.
    pub fn find(&self, key: u64, addr: u64, len: u64, need: u64) -> Option<Part> {
        (0..PROBES).find_map(|probe| {
            let at = place(key, probe);
            let entry = self.entry(at)?;
            let turn = entry.turn.load(Ordering::Acquire);
            let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
            let (its_key, first, base) = (load(&entry.key), load(&entry.first), load(&entry.base));
            let (room, access) = (load(&entry.len), load(&entry.access));
            fence(Ordering::Acquire);
            let steady = turn.is_multiple_of(2) && load(&entry.turn) == turn;
            if !steady || its_key != key || access == 0 || access & need != need {
                return None;
            }
            let start = addr.checked_sub(first)?;
            let end = start.checked_add(len)?;
            (end <= room).then_some(Part {
                at,
                turn,
                address: base.wrapping_add(start) as usize,
            })
        })
    }

    /// Says that the part is used, until the word is dropped; nothing if the peer has withdrawn it.
    pub fn begin<'a>(&self, part: &Part, line: &'a Using) -> Option<InUse<'a>> {
        line.0.store(part.at as u64 + 1, Ordering::Relaxed);
        let word = InUse(line);
        // Pairs with the fences in `Board::withdraw` and `Using::leave`.
        fence(Ordering::SeqCst);
        self.shows(part).then_some(word)
    }

    /// Whether the peer has not withdrawn the part since it was found.
    pub fn shows(&self, part: &Part) -> bool {
        let entry = self.entry(part.at);
        entry.is_some_and(|entry| entry.turn.load(Ordering::Relaxed) == part.turn)
    }
}

/// Which entry of the other side's board this side uses, plus one; or that this side has left.
#[derive(Default)]
#[repr(transparent)]
pub struct Using(AtomicU64);

impl Using {
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

    /// This side ends the connection, and uses nothing: the other one is to begin no copy any more.
    pub fn leave(&self) {
        self.0.store(LEFT, Ordering::Relaxed);
        // Either the other side sees that, or it is seen to use an entry: pairs with the fence in `View::begin`.
        fence(Ordering::SeqCst);
    }

    pub fn has_left(&self) -> bool {
        self.0.load(Ordering::Relaxed) == LEFT
    }
}

/// No entry has this number.
const LEFT: u64 = u64::MAX;

pub struct InUse<'a>(&'a Using);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{FI_REMOTE_READ, FI_REMOTE_WRITE};
    use crate::base::Registered;
    use crate::engine::mr::{KeyPolicy, MrTable};

    fn table() -> MrTable<Arc<Counter>> {
        MrTable::new(KeyPolicy::from_mr_mode(0))
    }

    fn piece(bytes: &[u8]) -> Vec<Registered> {
        // SAFETY: never read or written.
        vec![unsafe { Registered::new(bytes.as_ptr().cast_mut(), bytes.len()) }]
    }

    fn both(board: &Board) -> View {
        View::new(&board.fd().try_clone_to_owned().unwrap()).unwrap()
    }

    #[test]
    fn what_is_shown_is_found_within_its_bounds() {
        let mut regions = table();
        let bytes = [0u8; 100];
        let base = bytes.as_ptr() as usize;
        let mut add = |key, access| regions.register(piece(&bytes), access, 0, key, 0).unwrap();
        let (read, write) = (add(7, FI_REMOTE_READ), add(8, FI_REMOTE_WRITE));
        let mut board = Board::new([&read].into_iter()).unwrap();
        let view = both(&board);
        board.publish(&write);
        let find = |key, addr, len, need| view.find(key, addr, len, need).map(|p| p.address);
        assert_eq!(find(7, 0, 100, FI_REMOTE_READ), Some(base));
        assert_eq!(find(7, 60, 40, FI_REMOTE_READ), Some(base + 60));
        assert_eq!(find(8, 100, 0, FI_REMOTE_WRITE), Some(base + 100));
        for (key, addr, len, need) in [
            (7, 0, 101, FI_REMOTE_READ),
            (7, 101, 0, FI_REMOTE_READ),
            (7, u64::MAX, 2, FI_REMOTE_READ),
            (7, 0, 1, FI_REMOTE_WRITE),
            (8, 0, 1, FI_REMOTE_READ | FI_REMOTE_WRITE),
            (9, 0, 1, FI_REMOTE_READ),
        ] {
            assert_eq!(find(key, addr, len, need), None, "{key} {addr} {len}");
        }
    }

    #[test]
    fn who_uses_a_region_is_seen_by_who_withdraws_it() {
        let mut regions = table();
        let bytes = [0u8; 8];
        let region = regions
            .register(piece(&bytes), FI_REMOTE_READ, 0, 3, 0)
            .unwrap();
        let mut board = Board::new([&region].into_iter()).unwrap();
        let (view, line) = (both(&board), Using::default());
        let part = view.find(3, 0, 8, FI_REMOTE_READ).unwrap();
        let word = view.begin(&part, &line).unwrap();
        assert!(view.shows(&part));
        let at = board.withdraw(&region).unwrap();
        assert!(line.is(at) && !line.is(at + 1));
        // A copy that is under way learns of it between two steps.
        assert!(!view.shows(&part));
        drop(word);
        assert!(!line.is(at));
        // Too late, and gone.
        assert!(view.begin(&part, &line).is_none());
        assert!(!line.is(at));
        assert!(view.find(3, 0, 8, FI_REMOTE_READ).is_none());
        assert_eq!(board.withdraw(&region), None);
        // The same key again is another one.
        board.publish(&region);
        assert!(view.begin(&part, &line).is_none());
        assert!(view.find(3, 0, 8, FI_REMOTE_READ).is_some());
    }

    #[test]
    fn there_may_be_more_regions_than_entries() {
        let mut regions = table();
        let byte = 0u8;
        let all: Vec<_> = (0..2 * ENTRIES as u64)
            .map(|key| {
                regions
                    .register(piece(&[byte]), FI_REMOTE_READ, 0, key, 0)
                    .unwrap()
            })
            .collect();
        let mut board = Board::new(all.iter()).unwrap();
        let view = both(&board);
        let found = |key| view.find(key, 0, 1, FI_REMOTE_READ).is_some();
        let shown = (0..2 * ENTRIES as u64).filter(|&key| found(key)).count();
        assert!(shown > ENTRIES / 2 && shown <= ENTRIES, "{shown}");
        for region in &all {
            board.withdraw(region);
        }
        assert!(!(0..2 * ENTRIES as u64).any(found));
    }
}
