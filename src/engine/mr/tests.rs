// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests the rules of fi_mr(3) that the table enforces, one test per rule.

use std::ops::{Deref, DerefMut};

use super::region::*;
use super::*;
use base::Span;
use base::flags::flags;
use base::rights::NO_KEY;

const REMOTE: Access = Access::REMOTE;
const REMOTE_READ: Access = Access::REMOTE_READ;
const REMOTE_WRITE: Access = Access::REMOTE_WRITE;

const SCALABLE: KeyPolicy = KeyPolicy {
    prov_key: false,
    virt_addr: false,
};
const BASIC: KeyPolicy = KeyPolicy {
    prov_key: true,
    virt_addr: true,
};
const VIRTUAL: KeyPolicy = KeyPolicy {
    prov_key: false,
    virt_addr: true,
};

/// A table of regions whose memory is never accessed: places are only addresses and lengths.
struct Table(MrTable<&'static str>);

type Found<'a, P> = Result<(&'a Arc<Region<&'static str>>, P)>;

impl Table {
    fn new(policy: KeyPolicy) -> Table {
        Table(MrTable::new(policy))
    }

    fn register(
        &mut self,
        segments: &[(usize, usize)],
        access: Access,
        offset: u64,
        key: u64,
        context: usize,
    ) -> Result<Arc<Region<&'static str>>> {
        // SAFETY: the memory is never read or written.
        let piece =
            |&(base, len): &(usize, usize)| unsafe { Registered::new(base as *mut u8, len) };
        let pieces = segments.iter().map(piece).collect();
        self.0.register(pieces, access, offset, key, context)
    }

    fn lookup(&self, key: u64, addr: u64, len: u64, need: Access) -> Found<'_, usize> {
        let found = self.0.lookup(key, addr, len, need);
        found.map(|(region, piece)| (region, piece.span().start))
    }

    fn lookup_all(
        &self,
        key: u64,
        addr: u64,
        len: u64,
        need: Access,
    ) -> Result<((), Vec<(usize, usize)>)> {
        let (_, pieces) = self.0.lookup_all(None, key, addr, len, need)?;
        let spans = pieces.spans();
        Ok(((), spans.map(|span| (span.start, span.len)).collect()))
    }
}

impl Deref for Table {
    type Target = MrTable<&'static str>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Table {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

fn spans(list: &[(usize, usize)]) -> Vec<Span> {
    list.iter()
        .map(|&(start, len)| Span::new(start, len))
        .collect()
}

fn code<T>(result: Result<T>) -> Option<Error> {
    result.err()
}

#[test]
fn a_region_starts_at_zero_by_default() {
    let mut table = Table::new(SCALABLE);
    let region = table.register(&[(0x1000, 64)], REMOTE, 0, 7, 99).unwrap();
    assert_eq!((region.key, region.context, region.virt), (7, 99, false));
    let (found, start) = table.lookup(7, 16, 48, REMOTE_WRITE).unwrap();
    assert!(Arc::ptr_eq(found, &region));
    assert_eq!(start, 0x1010);
    assert_eq!(
        code(table.lookup(7, 0x1000, 1, REMOTE_WRITE)),
        Some(Error::INVAL)
    );
}

#[test]
fn fi_mr_virt_addr_names_places_by_virtual_address() {
    let mut table = Table::new(VIRTUAL);
    let region = table.register(&[(0x1000, 64)], REMOTE, 0, 7, 0).unwrap();
    assert_eq!(region.remote_base(), 0x1000);
    assert_eq!(table.lookup(7, 0x1030, 16, REMOTE_READ).unwrap().1, 0x1030);
    assert_eq!(code(table.lookup(7, 0, 1, REMOTE_READ)), Some(Error::INVAL));
}

#[test]
fn an_offset_moves_the_start_of_a_region_that_counts_from_zero() {
    let mut table = Table::new(SCALABLE);
    let region = table.register(&[(0x1000, 64)], REMOTE, 16, 1, 0).unwrap();
    assert_eq!(region.remote_base(), 16);
    assert_eq!(table.lookup(1, 16, 64, REMOTE).unwrap().1, 0x1000);
    assert_eq!(table.lookup(1, 79, 1, REMOTE).unwrap().1, 0x103f);
    assert_eq!(code(table.lookup(1, 15, 1, REMOTE)), Some(Error::INVAL));
    assert_eq!(code(table.lookup(1, 80, 1, REMOTE)), Some(Error::INVAL));
    let beyond = table.register(&[(0, 2)], REMOTE, u64::MAX - 1, 2, 0);
    assert_eq!(code(beyond), Some(Error::INVAL));
}

#[test]
fn requested_key_in_use_is_fi_enokey() {
    let mut table = Table::new(SCALABLE);
    let first = table.register(&[(0x1000, 64)], REMOTE, 0, 7, 0).unwrap();
    let second = table.register(&[(0x2000, 64)], REMOTE, 0, 7, 0);
    assert_eq!(code(second), Some(Error::NOKEY));
    assert_eq!(table.lookup(7, 0, 1, REMOTE).unwrap().1, 0x1000);
    table.close(&first);
    let again = table.register(&[(0x2000, 64)], REMOTE, 0, 7, 0).unwrap();
    assert_eq!(table.lookup(7, 0, 1, REMOTE).unwrap().1, 0x2000);
    // A second close of the old region must not close the new region with that key.
    table.close(&first);
    assert!(!again.is_closed());
    assert_eq!(table.len(), 1);
}

#[test]
fn every_number_can_be_requested_as_a_key() {
    let mut table = Table::new(SCALABLE);
    for key in [0, 1, u64::MAX - 1, u64::MAX] {
        let region = table.register(&[(key as usize, 0)], REMOTE, 0, key, 0);
        assert_eq!(region.unwrap().key, key);
    }
    let local = table.register(&[(64, 64)], Access::SEND, 0, 1, 0).unwrap();
    table.close(&local);
    assert_eq!(table.len(), 4);
}

#[test]
fn requested_key_is_ignored_with_fi_mr_prov_key() {
    let mut table = Table::new(BASIC);
    let keys: Vec<u64> = (0..3)
        .map(|_| table.register(&[(0, 8)], REMOTE, 0, 7, 0).unwrap().key)
        .collect();
    assert!(!keys.contains(&7) && !keys.contains(&NO_KEY));
}

/// Keys are not consecutive, so a peer with one key cannot derive the next.
#[test]
fn a_provider_key_says_nothing_of_the_next() {
    let mut table = Table::new(BASIC);
    let mut last: Option<u64> = None;
    for _ in 0..100 {
        let key = table.register(&[(0, 8)], REMOTE, 0, 0, 0).unwrap().key;
        assert!(last.is_none_or(|last| key.abs_diff(last) > 1 << 20));
        last = Some(key);
    }
}

#[test]
fn a_provider_key_never_comes_again() {
    let mut table = Table::new(BASIC);
    let mut had = std::collections::HashSet::new();
    for _ in 0..1000 {
        let region = table.register(&[(0, 8)], REMOTE, 0, 0, 0).unwrap();
        assert!(had.insert(region.key));
        table.close(&region);
        for key in &had {
            assert_eq!(code(table.lookup(*key, 0, 1, REMOTE)), Some(Error::NOKEY));
        }
    }
}

#[test]
fn a_region_without_remote_rights_is_reached_by_no_key() {
    for policy in [SCALABLE, BASIC] {
        let mut table = Table::new(policy);
        for access in [
            Access::empty(),
            flags!(Access: SEND | RECV),
            flags!(Access: READ | WRITE),
            flags!(Access: COLLECTIVE | SEND),
        ] {
            let region = table.register(&[(0x1000, 64)], access, 0, 7, 0).unwrap();
            // fi_mr(3): FI_KEY_NOTAVAIL would mean that the registration is still in progress.
            assert_ne!(region.key, NO_KEY);
            assert!(policy.prov_key || region.key == 7);
            let found = table.lookup(region.key, 0, 1, Access::empty());
            assert_eq!(code(found), Some(Error::NOKEY));
        }
        assert_eq!(table.len(), 0);
        table.register(&[(0x1000, 64)], REMOTE, 0, 7, 0).unwrap();
    }
}

#[test]
fn rights_outside_the_man_page_are_refused() {
    let mut table = Table::new(SCALABLE);
    for bit in 0..64 {
        let access = Access::from_bits_retain(1 << bit);
        let known = [6, 8, 9, 10, 11, 12, 13].contains(&bit);
        let result = table.register(&[(0, 8)], access, 0, bit, 0);
        assert_eq!(result.is_ok(), known, "bit {bit}");
        assert_eq!(code(result), (!known).then_some(Error::INVAL));
    }
}

#[test]
fn an_access_needs_the_right_for_it() {
    let mut table = Table::new(SCALABLE);
    table.register(&[(0, 8)], REMOTE_READ, 0, 1, 0).unwrap();
    table.register(&[(0, 8)], REMOTE_WRITE, 0, 2, 0).unwrap();
    assert!(table.lookup(1, 0, 8, REMOTE_READ).is_ok());
    assert!(table.lookup(2, 0, 8, REMOTE_WRITE).is_ok());
    for (key, need) in [(1, REMOTE_WRITE), (2, REMOTE_READ), (1, REMOTE)] {
        assert_eq!(code(table.lookup(key, 0, 8, need)), Some(Error::ACCES));
        assert_eq!(code(table.lookup_all(key, 0, 8, need)), Some(Error::ACCES));
    }
}

#[test]
fn an_access_lies_within_the_region_and_no_sum_overflows() {
    for (policy, base) in [(SCALABLE, 0), (VIRTUAL, 0x1000)] {
        let mut table = Table::new(policy);
        table.register(&[(0x1000, 64)], REMOTE, 0, 1, 0).unwrap();
        for (addr, len) in [(0, 0), (0, 64), (63, 1), (64, 0), (1, 63)] {
            let (_, start) = table.lookup(1, base + addr, len, REMOTE).unwrap();
            assert_eq!(start as u64, 0x1000 + addr);
            let (_, pieces) = table.lookup_all(1, base + addr, len, REMOTE).unwrap();
            assert_eq!(*pieces, [(start, len as usize)]);
        }
        for (addr, len) in [
            (0, 65),
            (64, 1),
            (65, 0),
            (1, u64::MAX),
            (u64::MAX - base, 1),
            (u64::MAX - base, u64::MAX),
            (63, u64::MAX - 62),
            (0u64.wrapping_sub(base).wrapping_sub(1), 2),
        ] {
            let addr = base.wrapping_add(addr);
            let result = table.lookup(1, addr, len, REMOTE);
            assert_eq!(code(result), Some(Error::INVAL), "{addr} {len}");
            let result = table.lookup_all(1, addr, len, REMOTE);
            assert_eq!(code(result), Some(Error::INVAL), "{addr} {len}");
        }
    }
}

#[test]
fn an_unknown_key_is_told_from_a_wrong_range_and_a_missing_right() {
    let mut table = Table::new(SCALABLE);
    table.register(&[(0, 8)], REMOTE_READ, 0, 1, 0).unwrap();
    assert_eq!(
        code(table.lookup(2, 0, 9, REMOTE_WRITE)),
        Some(Error::NOKEY)
    );
    assert_eq!(
        code(table.lookup(1, 0, 9, REMOTE_WRITE)),
        Some(Error::INVAL)
    );
    assert_eq!(
        code(table.lookup(1, 0, 8, REMOTE_WRITE)),
        Some(Error::ACCES)
    );
}

#[test]
fn a_region_may_be_empty_or_all_of_memory() {
    let mut table = Table::new(SCALABLE);
    table.register(&[(0, 0)], REMOTE, 0, 1, 0).unwrap();
    assert_eq!(table.lookup(1, 0, 0, REMOTE).unwrap().1, 0);
    assert_eq!(code(table.lookup(1, 0, 1, REMOTE)), Some(Error::INVAL));
    let all = usize::MAX;
    table.register(&[(0, all)], REMOTE, 0, 2, 0).unwrap();
    // The upper half has no addresses of processes.
    let last = isize::MAX as usize;
    let found = table.lookup(2, last as u64, 1, REMOTE).unwrap();
    assert_eq!(found.1, last);
    assert!(table.lookup(2, all as u64 - 1, 1, REMOTE).is_ok());
    let over = table.register(&[(4096, all)], REMOTE, 0, 3, 0);
    assert_eq!(code(over), Some(Error::INVAL));
}

#[test]
fn the_number_of_segments_is_limited() {
    let mut table = Table::new(SCALABLE);
    let segments = [(0x1000, 8); IOV_LIMIT + 1];
    assert_eq!(
        code(table.register(&[], REMOTE, 0, 1, 0)),
        Some(Error::INVAL)
    );
    assert_eq!(
        code(table.register(&segments, REMOTE, 0, 1, 0)),
        Some(Error::INVAL)
    );
    let region = table.register(&segments[1..], REMOTE, 0, 1, 0).unwrap();
    assert_eq!(region.len, 8 * IOV_LIMIT);
    let huge = [(0, usize::MAX), (0, 1)];
    assert_eq!(
        code(table.register(&huge, REMOTE, 0, 2, 0)),
        Some(Error::INVAL)
    );
}

const PIECES: [(usize, usize); 4] = [(0x1000, 10), (0x9000, 0), (0x5000, 20), (0x3000, 5)];

#[test]
fn segments_are_one_region() {
    let mut table = Table::new(SCALABLE);
    let region = table.register(&PIECES, REMOTE, 0, 1, 0).unwrap();
    assert_eq!((region.base, region.len), (0x1000, 35));
    let bytes: Vec<usize> = PIECES.iter().flat_map(|&(b, n)| b..b + n).collect();
    for start in 0..=36 {
        for len in 0..=36 {
            let found = table.lookup_all(1, start as u64, len as u64, REMOTE);
            assert_eq!(found.is_ok(), start + len <= 35, "{start} {len}");
            let Ok((_, pieces)) = found else { continue };
            let meant: Vec<usize> = pieces.iter().flat_map(|&(b, n)| b..b + n).collect();
            assert_eq!(meant, bytes[start..start + len]);
            assert!(!pieces.is_empty());
            let one = table.lookup(1, start as u64, len as u64, REMOTE);
            let expected = (pieces.len() == 1).then_some(pieces[0].0);
            assert_eq!(one.ok().map(|found| found.1), expected);
        }
    }
}

#[test]
fn a_virtual_address_may_lie_in_any_segment() {
    let mut table = Table::new(VIRTUAL);
    table.register(&PIECES, REMOTE, 0, 1, 0).unwrap();
    let reach = |addr, len| {
        let found = table.lookup_all(1, addr, len, REMOTE);
        found.map(|(_, pieces)| pieces.to_vec()).ok()
    };
    assert_eq!(reach(0x3001, 4), Some(vec![(0x3001, 4)]));
    assert_eq!(reach(0x3001, 5), None);
    assert_eq!(reach(0x1009, 3), Some(vec![(0x1009, 1), (0x5000, 2)]));
    assert_eq!(reach(0x100a, 1), None);
    assert_eq!(reach(0x3005, 0), Some(vec![(0x3005, 0)]));
    assert_eq!(reach(0x4fff, 2), None);
}

#[test]
fn a_virtual_address_goes_on_at_the_next_one_if_a_segment_has_that() {
    let mut table = Table::new(VIRTUAL);
    let segments = [(0x2000, 16), (0x1ff0, 16), (0x5000, 8)];
    table.register(&segments, REMOTE, 0, 1, 0).unwrap();
    let reach = |addr, len| {
        let found = table.lookup_all(1, addr, len, REMOTE);
        found.map(|(_, pieces)| pieces.to_vec()).ok()
    };
    assert_eq!(reach(0x1ff8, 16), Some(vec![(0x1ff8, 8), (0x2000, 8)]));
    // No segment begins at 0x2010, so the access continues in the next segment of the region's order.
    assert_eq!(reach(0x200f, 2), Some(vec![(0x200f, 1), (0x1ff0, 1)]));
    assert_eq!(reach(0x5000, 9), None);
}

#[test]
fn a_closed_region_is_not_found_but_stays_with_those_who_hold_it() {
    let mut table = Table::new(SCALABLE);
    let region = table.register(&[(0x1000, 64)], REMOTE, 0, 1, 0).unwrap();
    let held = table.lookup(1, 0, 1, REMOTE).unwrap().0.clone();
    assert!(!held.is_closed());
    let removed = table.remove(1).unwrap();
    assert!(Arc::ptr_eq(&removed, &region));
    assert!(held.is_closed());
    assert_eq!(code(table.lookup(1, 0, 1, REMOTE)), Some(Error::NOKEY));
    assert!(table.remove(1).is_none());
}

#[test]
fn the_same_memory_can_be_registered_again_with_other_rights() {
    let mut table = Table::new(SCALABLE);
    let first = table.register(&[(0x1000, 64)], REMOTE_READ, 0, 1, 0);
    table
        .register(&[(0x1000, 64)], REMOTE_WRITE, 0, 2, 0)
        .unwrap();
    table.close(&first.unwrap());
    assert!(table.lookup(2, 0, 64, REMOTE_WRITE).is_ok());
    table
        .register(&[(0x1000, 64)], REMOTE_READ, 0, 1, 0)
        .unwrap();
    assert!(table.lookup(1, 0, 64, REMOTE_READ).is_ok());
}

#[test]
fn fi_mr_refresh_refuses_what_is_not_in_the_region() {
    let mut table = Table::new(SCALABLE);
    let region = table.register(&PIECES, REMOTE, 0, 1, 0).unwrap();
    assert!(region.refresh(&[]).is_ok());
    assert!(region.refresh(&spans(&PIECES)).is_ok());
    assert!(region.refresh(&spans(&[(0x1002, 8), (0x5000, 1)])).is_ok());
    for outside in [(0x1000, 11), (0xfff, 2), (0x5000, usize::MAX), (0, 0)] {
        let result = region.refresh(&spans(&[(0x1000, 1), outside]));
        assert_eq!(code(result), Some(Error::INVAL));
    }
    table.close(&region);
    assert_eq!(code(region.refresh(&[])), Some(Error::INVAL));
}

#[test]
fn a_raw_key_is_eight_bytes_that_map_back() {
    let mut table = Table::new(SCALABLE);
    let key = 0x0102_0304_0506_0708;
    let region = table.register(&[(0, 8)], REMOTE, 0, key, 0).unwrap();
    let raw = region.raw_key();
    assert_eq!(raw, [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(map_raw_key(&raw).ok(), Some(key));
    assert_eq!(code(map_raw_key(&raw[..7])), Some(Error::INVAL));
    assert_eq!(code(map_raw_key(&[0; 9])), Some(Error::INVAL));
}

#[test]
fn a_counter_is_bound_once() {
    let mut table = Table::new(SCALABLE);
    let region = table.register(&[(0, 8)], REMOTE, 0, 1, 0).unwrap();
    assert!(region.counter().is_none());
    region.bind_counter("first").unwrap();
    assert_eq!(code(region.bind_counter("second")), Some(Error::BUSY));
    let (found, _) = table.lookup(1, 0, 1, REMOTE).unwrap();
    assert_eq!(found.counter(), Some(&"first"));
}

#[test]
fn many_regions_are_found_among_each_other() {
    let mut table = Table::new(SCALABLE);
    for n in 0..20_000usize {
        let key = (n as u64) << 20;
        table.register(&[(n * 64, 64)], REMOTE, 0, key, n).unwrap();
    }
    for n in (0..20_000usize).rev() {
        let key = (n as u64) << 20;
        let (region, start) = table.lookup(key, 1, 1, REMOTE).unwrap();
        let region = region.clone();
        assert_eq!((region.context, start), (n, n * 64 + 1));
        table.close(&region);
    }
    assert_eq!(table.len(), 0);
}
