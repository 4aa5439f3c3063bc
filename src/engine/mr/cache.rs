// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Regions of an adapter that no handle uses any more, kept for the next registration of the same memory: fi_mr(3),
//! memory registration cache.
//!
//! A region is taken out while it is in use, so it never serves two handles. It is used again only for the same bytes
//! with the same rights: a peer never gets rights that the application did not grant. Its pages are watched from before
//! the registration on (`monitor`); once they have changed it is not used again.

use std::collections::{BTreeMap, HashMap};
use std::thread::available_parallelism;

use rustc_hash::FxBuildHasher;

use super::monitor::{Monitor, Watch, is_wanted};
use base::Span;
use base::settings::Settings;
use sys::memory::physical_size;

/// What a region was registered for. `rights` and `kind` are numbers of the provider.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    pub span: Span,
    pub rights: u32,
    pub kind: hmem::Kind,
}

/// A region that may return to the cache.
pub struct Cached<R> {
    pub region: R,
    key: Key,
    watch: Watch,
}

/// The regions of one domain that are not in use. The limits hold for these.
pub struct Cache<R> {
    limits: Limits,
    /// `None` until the first region.
    monitor: Option<Option<&'static Monitor>>,
    /// By the time of their last use.
    idle: BTreeMap<u64, Cached<R>>,
    /// Their times; the last is the latest.
    times: HashMap<Key, Vec<u64>, FxBuildHasher>,
    now: u64,
    bytes: usize,
    /// `Monitor::changes` when regions were last dropped because of changes.
    changes: usize,
}

#[derive(Clone, Copy)]
struct Limits {
    count: usize,
    bytes: usize,
}

impl Limits {
    /// FI_MR_CACHE_MAX_COUNT, FI_MR_CACHE_MAX_SIZE, FI_MR_CACHE_MONITOR.
    fn given() -> Limits {
        let settings = Settings::get();
        let half = || {
            let processors = available_parallelism().map_or(1, |n| n.get());
            physical_size().map_or(usize::MAX, |size| size / processors / 2)
        };
        Limits {
            count: match is_wanted(settings.mr_cache_monitor.as_deref()) {
                true => settings.mr_cache_max_count.unwrap_or(DEFAULT_COUNT),
                false => 0,
            },
            bytes: settings.mr_cache_max_size.unwrap_or_else(half),
        }
    }
}

const DEFAULT_COUNT: usize = 1024;

impl<R> Default for Cache<R> {
    fn default() -> Cache<R> {
        Cache::limited(Limits::given())
    }
}

impl<R> Cache<R> {
    fn limited(limits: Limits) -> Cache<R> {
        Cache {
            limits,
            monitor: None,
            idle: BTreeMap::new(),
            times: HashMap::default(),
            now: 0,
            bytes: 0,
            changes: 0,
        }
    }

    /// Takes a region for this memory, with exactly these rights, or makes one. `make` returns the error of the
    /// adapter. If that has no room, it is called again without the regions that are kept. Returns an `Err` of the
    /// region itself if its memory cannot be watched.
    pub fn obtain<E>(
        &mut self,
        key: Key,
        make: impl Fn() -> Result<R, E>,
        is_full: impl Fn(&E) -> bool,
    ) -> Result<Result<Cached<R>, R>, E> {
        self.drop_changed();
        if let Some(cached) = self.take(&key) {
            return Ok(Ok(cached));
        }
        // Changes are noticed from now on, so those after the registration are.
        let watch = self.watch(key.span);
        let region = match make() {
            Err(error) if is_full(&error) && self.clear() => make()?,
            result => result?,
        };
        Ok(match watch {
            Some(watch) => Ok(Cached { region, key, watch }),
            None => Err(region),
        })
    }

    /// Keeps a region that is no longer in use, and drops the oldest ones that exceed the limits.
    pub fn give_back(&mut self, cached: Cached<R>) {
        self.drop_changed();
        if cached.watch.has_changed() || cached.key.span.len > self.limits.bytes {
            return;
        }
        self.now += 1;
        self.bytes += cached.key.span.len;
        self.times.entry(cached.key).or_default().push(self.now);
        self.idle.insert(self.now, cached);
        while self.idle.len() > self.limits.count || self.bytes > self.limits.bytes {
            let Some((&oldest, _)) = self.idle.first_key_value() else {
                return;
            };
            self.remove(oldest);
        }
    }

    /// Drops the regions whose memory has changed, so that the adapter does not keep its old pages for long.
    pub fn drop_changed(&mut self) {
        let Some(monitor) = self.monitor.flatten() else {
            return;
        };
        let changes = monitor.changes();
        if changes == self.changes {
            return;
        }
        self.changes = changes;
        let changed = self.idle.iter().filter(|(_, it)| it.watch.has_changed());
        let changed: Vec<u64> = changed.map(|(&time, _)| time).collect();
        for time in changed {
            self.remove(time);
        }
    }

    /// Drops all regions. Returns whether there were any.
    fn clear(&mut self) -> bool {
        self.times.clear();
        self.bytes = 0;
        !std::mem::take(&mut self.idle).is_empty()
    }

    fn take(&mut self, key: &Key) -> Option<Cached<R>> {
        let &latest = self.times.get(key)?.last()?;
        let cached = self.remove(latest)?;
        cached.watch.is_current().then_some(cached)
    }

    fn remove(&mut self, time: u64) -> Option<Cached<R>> {
        let cached = self.idle.remove(&time)?;
        self.bytes -= cached.key.span.len;
        if let Some(times) = self.times.get_mut(&cached.key) {
            times.retain(|&it| it != time);
            if times.is_empty() {
                self.times.remove(&cached.key);
            }
        }
        Some(cached)
    }

    fn watch(&mut self, span: Span) -> Option<Watch> {
        if self.limits.count == 0 || span.len > self.limits.bytes {
            return None;
        }
        let places = self.limits.count.saturating_mul(2).clamp(FEWEST, MOST);
        let monitor = *self.monitor.get_or_insert_with(|| Monitor::here(places));
        monitor?.watch(span)
    }
}

/// Bounds of the number of ranges that can be watched. The monitor looks at all of them for each change.
const FEWEST: usize = 256;
const MOST: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ops::Range;

    use super::*;
    use sys::userfault::testing::Pages;

    /// Registrations are numbered.
    struct Adapter {
        next: Cell<u32>,
        cache: Cache<u32>,
    }

    impl Adapter {
        fn new(count: usize, bytes: usize) -> Adapter {
            Adapter {
                next: Cell::new(0),
                cache: Cache::limited(Limits { count, bytes }),
            }
        }

        fn obtain(&mut self, span: Span, rights: u32) -> Result<Cached<u32>, u32> {
            let key = Key {
                span,
                rights,
                kind: hmem::Kind::Host,
            };
            let make = || {
                self.next.set(self.next.get() + 1);
                Ok::<u32, ()>(self.next.get())
            };
            self.cache.obtain(key, make, |()| false).unwrap()
        }

        /// Registers and closes; returns the number of the registration.
        fn use_once(&mut self, span: Span, rights: u32) -> u32 {
            match self.obtain(span, rights) {
                Ok(cached) => {
                    let number = cached.region;
                    self.cache.give_back(cached);
                    number
                }
                Err(number) => number,
            }
        }
    }

    fn span_of(pages: &Pages, range: Range<usize>) -> Span {
        let range = pages.range(range);
        Span::new(range.start, range.len())
    }

    fn can_watch() -> bool {
        let can = Monitor::here(FEWEST).is_some();
        if !can {
            eprintln!("skipped: userfaultfd(2) is not allowed here");
        }
        can
    }

    #[test]
    fn the_same_memory_with_the_same_rights_is_registered_once() {
        if !can_watch() {
            return;
        }
        let pages = Pages::new(16);
        let (span, part) = (span_of(&pages, 0..8), span_of(&pages, 0..7));
        let mut adapter = Adapter::new(10, usize::MAX);
        assert_eq!([1, 1], [(); 2].map(|()| adapter.use_once(span, 1)));
        assert_eq!([2, 2], [(); 2].map(|()| adapter.use_once(span, 3)));
        assert_eq!([3, 3], [(); 2].map(|()| adapter.use_once(part, 1)));
        // Two handles at the same time have two regions.
        let first = adapter.obtain(span, 1).ok().unwrap();
        assert_eq!((first.region, adapter.use_once(span, 1)), (1, 4));
    }
    #[test]
    fn memory_that_was_mapped_again_is_registered_again() {
        if !can_watch() {
            return;
        }
        let pages = Pages::new(8);
        let mut adapter = Adapter::new(10, usize::MAX);
        let (changed, other) = (span_of(&pages, 0..4), span_of(&pages, 4..8));
        assert_eq!(adapter.use_once(changed, 1), 1);
        assert_eq!(adapter.use_once(other, 1), 2);
        pages.unmap(0..4);
        // Dropped before it is asked for, as soon as the monitor has seen the change.
        while adapter.cache.idle.len() > 1 {
            adapter.cache.drop_changed();
        }
        assert_eq!(
            (adapter.cache.idle.len(), adapter.cache.bytes),
            (1, other.len)
        );
        pages.map(0..4);
        assert_eq!(adapter.use_once(changed, 1), 3);
        assert_eq!(adapter.use_once(other, 1), 2);
        // While it is in use, too.
        let cached = adapter.obtain(other, 1).ok().unwrap();
        pages.map(7..8);
        adapter.cache.give_back(cached);
        assert_eq!(adapter.use_once(other, 1), 4);
    }

    #[test]
    fn the_oldest_go_beyond_the_limits() {
        if !can_watch() {
            return;
        }
        let pages = Pages::new(12);
        let spans: Vec<Span> = (0..6).map(|i| span_of(&pages, 2 * i..2 * i + 2)).collect();
        let bytes = spans[0].len;
        for (mut adapter, kept) in [
            (Adapter::new(3, usize::MAX), 3),
            (Adapter::new(9, 3 * bytes), 3),
            (Adapter::new(9, 3 * bytes - 1), 2),
            (Adapter::new(0, usize::MAX), 0),
            (Adapter::new(9, bytes - 1), 0),
        ] {
            for &span in &spans {
                adapter.use_once(span, 1);
            }
            assert_eq!(adapter.cache.idle.len(), kept);
            assert_eq!(adapter.cache.bytes, kept * bytes);
            // The latest ones.
            let again = adapter.use_once(spans[5], 1);
            assert_eq!(again, if kept > 0 { 6 } else { 7 });
        }
    }

    #[test]
    fn a_full_adapter_loses_what_is_not_in_use() {
        if !can_watch() {
            return;
        }
        let pages = Pages::new(8);
        let mut adapter = Adapter::new(9, usize::MAX);
        adapter.use_once(span_of(&pages, 0..2), 1);
        let attempts = Cell::new(0);
        let make = || {
            attempts.set(attempts.get() + 1);
            Err::<u32, u32>(attempts.get())
        };
        let key = Key {
            span: span_of(&pages, 2..4),
            rights: 1,
            kind: hmem::Kind::Host,
        };
        let error = adapter.cache.obtain(key, make, |_| true).err();
        assert_eq!((error, adapter.cache.idle.len()), (Some(2), 0));
        // There is nothing to drop any more.
        let error = adapter.cache.obtain(key, make, |_| true).err();
        assert_eq!(error, Some(3));
    }
}
