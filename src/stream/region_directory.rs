// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The registered memory of a domain that other processes of the host may access directly, and its entries in the table
//! that they read (`sync::region_table`): docs/wire/shm.md.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use base::Span;
use engine::cntr::Counter;
use engine::mr;
use hmem::export;
use sync::region_table::{Published, RegionTable};

/// A region of this domain.
type Own = mr::Region<Arc<Counter>>;

/// The directory of this process's domain. Regions for which the table has no entry are reached by messages.
pub struct RegionDirectory {
    table: RegionTable,
    places: HashMap<u64, usize>,
}

impl RegionDirectory {
    /// `for_devices`: regions may be in memory of devices.
    pub fn new<'a>(
        regions: impl Iterator<Item = &'a Arc<Own>>,
        for_devices: bool,
    ) -> io::Result<RegionDirectory> {
        let mut directory = RegionDirectory {
            table: RegionTable::new(for_devices)?,
            places: HashMap::new(),
        };
        for region in regions {
            directory.publish(region);
        }
        Ok(directory)
    }

    /// Returns the descriptor for peers that read the table.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.table.fd()
    }

    /// Publishes a region if peers may access it without involving this process.
    pub fn publish(&mut self, region: &Own) {
        let Some(Span { start: base, len }) = region.alone() else {
            return;
        };
        let export = match region.is_device() {
            false => None,
            true => match export::of(base, len) {
                Some(export) => Some(export.to_words()),
                None => return,
            },
        };
        let published = Published {
            key: region.key,
            first: region.remote_base(),
            base: base as u64,
            len: len as u64,
            access: region.access.bits(),
        };
        if let Some(at) = self.table.publish(&published, export.as_ref()) {
            self.places.insert(region.key, at);
        }
    }

    /// Withdraws a region. Returns its place in the table, which peers may still be using.
    pub fn withdraw(&mut self, region: &Own) -> Option<usize> {
        let at = self.places.remove(&region.key)?;
        self.table.withdraw(at);
        Some(at)
    }

    /// Withdraws all regions. Returns the places that they had.
    pub fn withdraw_all(&mut self) -> Vec<usize> {
        let places: Vec<usize> = self.places.drain().map(|(_, at)| at).collect();
        for &at in &places {
            self.table.withdraw(at);
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Access;
    use base::Registered;
    use engine::mr::{KeyPolicy, MrTable};
    use sync::region_table::{ENTRIES, InUse, TableView};

    fn table() -> MrTable<Arc<Counter>> {
        MrTable::new(KeyPolicy::default())
    }

    fn both(directory: &RegionDirectory) -> TableView {
        TableView::new(&directory.fd().try_clone_to_owned().unwrap()).unwrap()
    }

    #[test]
    fn what_is_shown_is_found_within_its_bounds() {
        let mut regions = table();
        let mut add = |key, access| {
            let memory = vec![Registered::leaked(vec![0; 100])];
            regions.register(memory, access, 0, key, 0).unwrap()
        };
        let (read, write) = (add(7, Access::REMOTE_READ), add(8, Access::REMOTE_WRITE));
        let mut directory = RegionDirectory::new([&read].into_iter(), false).unwrap();
        let view = both(&directory);
        directory.publish(&write);
        let find = |key, addr, len, need: Access| {
            view.find(key, addr, len, need.bits()).map(|p| p.address)
        };
        assert_eq!(find(7, 0, 100, Access::REMOTE_READ), Some(read.base));
        assert_eq!(find(7, 60, 40, Access::REMOTE_READ), Some(read.base + 60));
        assert_eq!(
            find(8, 100, 0, Access::REMOTE_WRITE),
            Some(write.base + 100)
        );
        for (key, addr, len, need) in [
            (7, 0, 101, Access::REMOTE_READ),
            (7, 101, 0, Access::REMOTE_READ),
            (7, u64::MAX, 2, Access::REMOTE_READ),
            (7, 0, 1, Access::REMOTE_WRITE),
            (8, 0, 1, Access::REMOTE_READ | Access::REMOTE_WRITE),
            (9, 0, 1, Access::REMOTE_READ),
        ] {
            assert_eq!(find(key, addr, len, need), None, "{key} {addr} {len}");
        }
    }

    #[test]
    fn who_uses_a_region_is_seen_by_who_withdraws_it() {
        let mut regions = table();
        let memory = vec![Registered::leaked(vec![0; 8])];
        let region = regions
            .register(memory, Access::REMOTE_READ, 0, 3, 0)
            .unwrap();
        let mut directory = RegionDirectory::new([&region].into_iter(), true).unwrap();
        let (view, line) = (both(&directory), InUse::default());
        let part = view.find(3, 0, 8, Access::REMOTE_READ.bits()).unwrap();
        let word = view.begin(&part, &line).unwrap();
        assert!(view.shows(&part));
        let at = directory.withdraw(&region).unwrap();
        assert!(line.is(at) && !line.is(at + 1));
        // A copy in progress sees this between two steps.
        assert!(!view.shows(&part));
        drop(word);
        assert!(!line.is(at));
        // A new access comes too late: the region is gone.
        assert!(view.begin(&part, &line).is_none());
        assert!(!line.is(at));
        assert!(view.find(3, 0, 8, Access::REMOTE_READ.bits()).is_none());
        assert_eq!(directory.withdraw(&region), None);
        // A new region with the same key is a different region.
        directory.publish(&region);
        assert!(view.begin(&part, &line).is_none());
        assert!(view.find(3, 0, 8, Access::REMOTE_READ.bits()).is_some());
    }

    #[test]
    fn there_may_be_more_regions_than_entries() {
        let mut regions = table();
        let all: Vec<_> = (0..2 * ENTRIES as u64)
            .map(|key| {
                let memory = vec![Registered::leaked(vec![0])];
                regions
                    .register(memory, Access::REMOTE_READ, 0, key, 0)
                    .unwrap()
            })
            .collect();
        let mut directory = RegionDirectory::new(all.iter(), false).unwrap();
        let view = both(&directory);
        let found = |key| view.find(key, 0, 1, Access::REMOTE_READ.bits()).is_some();
        let shown = (0..2 * ENTRIES as u64).filter(|&key| found(key)).count();
        assert!(shown > ENTRIES / 2 && shown <= ENTRIES, "{shown}");
        for region in &all {
            directory.withdraw(region);
        }
        assert!(!(0..2 * ENTRIES as u64).any(found));
    }
}
