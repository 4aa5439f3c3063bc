// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Notices that the pages behind registered memory have changed: fi_mr(3), memory registration cache.
//!
//! An adapter keeps the pages of a region, so after munmap(2) and mmap(2) at the same address it would access the old
//! ones. The kernel reports such changes of watched memory to a thread of the process (`sys::userfault`). The calls of
//! the program need not be intercepted: most of them are made inside the C library, where that is impossible.
//!
//! Only private memory without a file can be watched: files may be truncated by others, without an event.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

use base::Span;
use base::log::{CORE, Subsys, log_info, log_warn};
use sync::watches::Watches;
use sys::address_space;
use sys::ask_signal::keep_loaded;
use sys::fork::Birth;
use sys::memory::page_size;
use sys::thread::spawn;
use sys::userfault::Userfault;

/// The monitor of a process. There is one, because a page can be watched by one descriptor only.
pub struct Monitor {
    birth: Birth,
    fault: Userfault,
    watches: Watches,
    /// Locked while addresses begin or cease to be watched. The thread never waits for it.
    places: Mutex<Places>,
}

struct Places {
    free: Vec<usize>,
    /// No place from here on was used.
    next: usize,
    size: usize,
}

/// Watched memory. Dropping it ends watching.
pub struct Watch {
    monitor: &'static Monitor,
    place: usize,
    pages: Range<usize>,
}

impl Monitor {
    /// The monitor of this process, for about `size` ranges; `None` if the system does not allow one.
    pub fn here(size: usize) -> Option<&'static Monitor> {
        static HERE: Mutex<Option<(Birth, Option<&'static Monitor>)>> = Mutex::new(None);
        // In a child it may stay locked for ever, if the process forked while a thread held it.
        let mut here = (0..TRIES).find_map(|_| match HERE.try_lock() {
            Ok(here) => Some(here),
            Err(TryLockError::Poisoned(here)) => Some(here.into_inner()),
            Err(TryLockError::WouldBlock) => {
                sleep(Duration::from_millis(1));
                None
            }
        })?;
        if let Some((birth, monitor)) = &*here
            && birth.is_here()
        {
            return *monitor;
        }
        let monitor = Monitor::start(size);
        if let Err(error) = &monitor {
            log_info!(&CORE, Subsys::Mr, "registrations are not cached: {error}");
        }
        let monitor = monitor.ok();
        *here = Some((Birth::here(), monitor));
        monitor
    }

    /// The thread and what it uses stay until the process ends.
    fn start(size: usize) -> io::Result<&'static Monitor> {
        if !keep_loaded() {
            return Err(io::Error::other("the library could be unloaded"));
        }
        let monitor: &'static Monitor = Box::leak(Box::new(Monitor {
            birth: Birth::here(),
            fault: Userfault::open()?,
            watches: Watches::new(size),
            places: Mutex::new(Places {
                free: Vec::new(),
                next: 0,
                size,
            }),
        }));
        spawn("fi-mr-monitor", || monitor.run())?;
        Ok(monitor)
    }

    /// Marks what changes. Threads that change memory wait for this one, so it must not wait for anything that they may
    /// hold, as the lock of the heap: it neither allocates nor logs.
    fn run(&self) {
        loop {
            self.fault.wait();
            self.watches.begin_to_mark();
            let taken = self.fault.take(|range| self.watches.mark(&range));
            match taken {
                Ok(_) => self.watches.end_to_mark(),
                // It stays unsettled, so nothing that is watched is used again.
                Err(_) => sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Begins to watch memory; `None` if that is not possible. Changes before this call are not noticed.
    pub fn watch(&'static self, span: Span) -> Option<Watch> {
        let pages = pages_of(span)?;
        // A change before would otherwise be taken for one of the new memory.
        if !self.birth.is_here() || !address_space::is_private(&pages) || !self.settle() {
            return None;
        }
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.take()?;
        self.watches.enter(place, pages.clone());
        match self.fault.watch(pages.clone()) {
            Ok(()) => Some(Watch {
                monitor: self,
                place,
                pages,
            }),
            Err(_) => {
                self.watches.remove(place);
                places.free.push(place);
                None
            }
        }
    }

    /// Waits until all changes before this call are marked. Returns false if that takes long: then registering again is
    /// faster.
    fn settle(&self) -> bool {
        let is_settled = || self.watches.is_settled(|| self.fault.is_changing());
        if is_settled() {
            return true;
        }
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            yield_now();
            if is_settled() {
                return true;
            }
        }
        false
    }

    /// Number of ranges that have changed since the start.
    pub fn changes(&self) -> usize {
        self.watches.marked()
    }
}

impl Places {
    fn take(&mut self) -> Option<usize> {
        if let Some(place) = self.free.pop() {
            return Some(place);
        }
        if self.next == self.size {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }
}

impl Watch {
    /// Whether the pages are those that they were when watching began. Also false if changes of other memory keep the
    /// thread busy.
    pub fn is_current(&self) -> bool {
        let monitor = self.monitor;
        if !monitor.birth.is_here() {
            return false;
        }
        monitor.settle() && !self.has_changed()
    }

    /// Whether a change is known already, which does not need a call of the kernel.
    pub fn has_changed(&self) -> bool {
        !self.monitor.watches.is_unchanged(self.place)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let monitor = self.monitor;
        // A child has no part in it.
        if !monitor.birth.is_here() {
            return;
        }
        let mut places = monitor
            .places
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (watches, pages) = (&monitor.watches, &self.pages);
        // Memory that was mapped since may be watched by the program itself. What stays watched costs a little time
        // when it changes.
        if watches.is_unchanged(self.place) && !watches.overlaps(pages, self.place) {
            let _ = monitor.fault.unwatch(pages.clone());
        }
        watches.remove(self.place);
        places.free.push(self.place);
    }
}

/// The pages that contain these bytes.
fn pages_of(span: Span) -> Option<Range<usize>> {
    let size = page_size();
    let end = span.start.checked_add(span.len)?;
    (span.len > 0).then_some(span.start / size * size..end.checked_next_multiple_of(size)?)
}

const TRIES: u32 = 100;

/// How long a thread waits for the monitor to see to all changes. It takes some microseconds if a processor is idle.
const PATIENCE: Duration = match cfg!(test) {
    true => Duration::from_secs(60),
    false => Duration::from_millis(1),
};

/// Reads FI_MR_CACHE_MONITOR: whether changes may be watched.
pub fn is_wanted(name: Option<&str>) -> bool {
    match name {
        None | Some("userfaultfd") => true,
        Some("disabled") => false,
        Some(other) => {
            log_warn!(
                &CORE,
                Subsys::Mr,
                "FI_MR_CACHE_MONITOR={other}: this library has userfaultfd only, and uses that"
            );
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::userfault::testing::Pages;

    #[test]
    fn whole_pages_are_watched() {
        let size = page_size();
        assert_eq!(pages_of(Span::new(size + 1, 1)), Some(size..2 * size));
        assert_eq!(pages_of(Span::new(size, size + 1)), Some(size..3 * size));
        assert_eq!(pages_of(Span::new(size, 0)), None);
        assert_eq!(pages_of(Span::new(usize::MAX - 1, 9)), None);
    }

    fn monitor() -> Option<&'static Monitor> {
        let monitor = Monitor::here(256);
        if monitor.is_none() {
            eprintln!("skipped: userfaultfd(2) is not allowed here");
        }
        monitor
    }

    fn span_of(pages: &Pages, range: Range<usize>) -> Span {
        let range = pages.range(range);
        Span::new(range.start, range.len())
    }

    #[test]
    fn each_way_to_change_pages_is_noticed() {
        let Some(monitor) = monitor() else {
            return;
        };
        type Change = fn(&Pages);
        let ways: [(&str, Change); 5] = [
            ("munmap", |pages| {
                pages.unmap(5..6);
                pages.map(5..6);
            }),
            ("mmap", |pages| pages.map(5..6)),
            ("madvise", |pages| pages.discard(5..6)),
            ("mremap", |pages| {
                pages.move_away(5..6);
                pages.map(5..6);
            }),
            ("everything", |pages| pages.map(0..12)),
        ];
        for (name, change) in ways {
            let pages = Pages::new(12);
            let changed = monitor.watch(span_of(&pages, 4..7)).unwrap();
            let before = monitor.watch(span_of(&pages, 0..5)).unwrap();
            assert!(changed.is_current() && before.is_current(), "{name}");
            change(&pages);
            // Not even an instant later: the call has returned.
            assert!(!changed.is_current() && changed.has_changed(), "{name}");
            assert_eq!(before.is_current(), name != "everything", "{name}");
            let again = monitor.watch(span_of(&pages, 4..7)).unwrap();
            assert!(again.is_current() && !changed.is_current(), "{name}");
        }
    }

    /// The kernel frees the addresses before it reports the event. Another thread that maps the same addresses then
    /// must not find the old region in between.
    #[test]
    fn no_thread_sees_new_memory_as_unchanged() {
        let Some(monitor) = monitor() else {
            return;
        };
        let pages = Pages::new(4);
        for _ in 0..300 {
            let watch = monitor.watch(span_of(&pages, 1..3)).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| pages.unmap(1..3));
                while pages.is_mapped(1) {
                    std::hint::spin_loop();
                }
                pages.map(1..3);
                assert!(!watch.is_current());
            });
        }
    }

    #[test]
    fn other_memory_is_not_watched() {
        let Some(monitor) = monitor() else {
            return;
        };
        let code = pages_of as fn(Span) -> Option<Range<usize>> as usize;
        assert!(monitor.watch(Span::new(code, 1)).is_none());
        let pages = Pages::new(3);
        pages.unmap(1..2);
        assert!(monitor.watch(span_of(&pages, 0..3)).is_none());
        pages.map(1..2);
        assert!(monitor.watch(span_of(&pages, 0..3)).is_some());
    }

    #[test]
    fn a_page_with_two_watches_stays_watched() {
        let Some(monitor) = monitor() else {
            return;
        };
        let pages = Pages::new(4);
        let first = monitor.watch(span_of(&pages, 0..2)).unwrap();
        let second = monitor.watch(span_of(&pages, 1..3)).unwrap();
        drop(first);
        pages.map(1..2);
        assert!(!second.is_current());
    }
}
