// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Detects whether this process opened an object itself or was forked afterwards. A child has its parent's memory, but
//! must not use what the parent shares with other processes. Objects that the child opens belong to the child.
//!
//! Detection works by a page that the kernel wipes in a child (MADV_WIPEONFORK). So no fork handler is needed, which
//! could be called at a bad moment or be left behind when the library is unloaded. Peers have no influence on this.
//!
//! Trusted with: atomics in a page that is never unmapped, and in pages that live as long as their `Mark`. memmap2 maps
//! the pages; it does not offer that advice.

use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::io;
use std::sync::OnceLock;
use std::time::SystemTime;

use memmap2::{MmapOptions, MmapRaw};
use nix::sys::mman::{MmapAdvise, madvise};

use super::memory::page_size;

/// Identifies the process that made this value.
#[derive(Clone, Copy, Debug)]
pub struct Birth {
    /// Holds `id` in that process, and another value in its children; `None` if the kernel does not wipe pages.
    mark: Option<&'static AtomicU64>,
    id: u64,
}

impl Birth {
    pub fn here() -> Birth {
        static MARK: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
        Birth::marked(*MARK.get_or_init(wiped_page))
    }

    fn marked(mark: Option<&'static AtomicU64>) -> Birth {
        let pid = u64::from(std::process::id());
        let Some(place) = mark else {
            return Birth { mark, id: pid };
        };
        // In another PID namespace a child may have the same PID as its parent.
        let time = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let fresh = u64::from(time.subsec_nanos()) << 32 | pid;
        // Relaxed: the threads of one process only have to agree on one number, and no other data depends on it.
        let (yes, no) = (Ordering::Relaxed, Ordering::Relaxed);
        let id = match place.compare_exchange(0, fresh, yes, no) {
            Ok(_) => fresh,
            Err(known) => known,
        };
        Birth { mark, id }
    }

    /// Returns true in the process that made this value, and false in all its descendants.
    #[inline]
    pub fn is_here(&self) -> bool {
        match self.mark {
            Some(mark) => mark.load(Ordering::Relaxed) == self.id,
            None => u64::from(std::process::id()) == self.id,
        }
    }
}

/// A byte that is 0 in each child until the child writes there.
pub struct Mark {
    place: NonNull<AtomicU8>,
    is_wiped: bool,
    _page: MmapRaw,
}

// SAFETY: a byte of memory that is only accessed as an atomic.
unsafe impl Send for Mark {}
// SAFETY: as above.
unsafe impl Sync for Mark {}

impl Mark {
    pub fn new() -> io::Result<Mark> {
        let (page, is_wiped) = new_page()?;
        Ok(Mark {
            place: NonNull::new(page.as_mut_ptr().cast()).ok_or(io::ErrorKind::Other)?,
            is_wiped,
            _page: page,
        })
    }

    /// Returns false if the kernel (before 4.14) does not wipe pages, so that children see what their parent wrote.
    pub fn is_wiped(&self) -> bool {
        self.is_wiped
    }
}

impl Deref for Mark {
    type Target = AtomicU8;
    #[inline]
    fn deref(&self) -> &AtomicU8 {
        // SAFETY: mapped until `drop`, also in a child; zero is a valid value.
        unsafe { self.place.as_ref() }
    }
}

/// Maps a page of zeros. Returns true if it is wiped in each child, which kernels before 4.14 cannot do.
fn new_page() -> io::Result<(MmapRaw, bool)> {
    let len = page_size();
    let page = MmapRaw::from(MmapOptions::new().len(len).map_anon()?);
    let place = NonNull::new(page.as_mut_ptr()).ok_or(io::ErrorKind::Other)?;
    // SAFETY: the whole new mapping, to which no reference exists yet.
    let advised = unsafe { madvise(place.cast(), len, MmapAdvise::MADV_WIPEONFORK) };
    Ok((page, advised.is_ok()))
}

/// Maps a number that is wiped in children and never freed; `None` if the kernel does not wipe pages.
fn wiped_page() -> Option<&'static AtomicU64> {
    let (page, true) = new_page().ok()? else {
        return None;
    };
    let place = page.as_mut_ptr().cast();
    // The page stays mapped for ever.
    core::mem::forget(page);
    // SAFETY: an aligned page of zeros that has no other user and stays mapped.
    Some(unsafe { AtomicU64::from_ptr(place) })
}

/// Forks, but parent and child share one table of descriptors, so that the child keeps no descriptor open that another
/// test closes meanwhile. The child exits with the result of `run`.
///
/// # Safety
/// `run` does only what is async-signal-safe.
#[cfg(any(test, feature = "testing"))]
pub unsafe fn fork_for_test(run: &dyn Fn() -> i32) -> i32 {
    let flags = libc::CLONE_FILES | libc::SIGCHLD;
    // SAFETY: without CLONE_VM the child has its own memory, and continues on a copy of this stack; it exits without
    // running any code of the parent.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        // SAFETY: `_exit` and `run` are async-signal-safe.
        0 => unsafe { libc::_exit(run()) },
        child => {
            assert!(child > 0);
            child as i32
        }
    }
}

/// As `fork_for_test`, but waits for the child and returns the result of `run`.
///
/// # Safety
/// As for `fork_for_test`.
#[cfg(any(test, feature = "testing"))]
pub unsafe fn run_in_child(run: &dyn Fn() -> i32) -> i32 {
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::Pid;
    // SAFETY: the caller's promise.
    let child = Pid::from_raw(unsafe { fork_for_test(run) });
    match waitpid(child, None).unwrap() {
        WaitStatus::Exited(_, code) => code,
        other => panic!("the child ended as {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of `look` in a child.
    fn in_child(look: &dyn Fn() -> bool) -> bool {
        // SAFETY: `look` loads atomics and makes system calls.
        unsafe { run_in_child(&|| i32::from(look())) == 1 }
    }

    #[test]
    fn a_mark_is_wiped_in_a_child_alone() {
        let mark = Mark::new().unwrap();
        mark.store(7, Ordering::Relaxed);
        assert_eq!(
            in_child(&|| mark.swap(5, Ordering::Relaxed) == 0),
            mark.is_wiped()
        );
        assert_eq!(mark.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn both_ways_tell_a_child() {
        for page in [wiped_page(), None] {
            let birth = Birth::marked(page);
            assert!(birth.is_here() && Birth::marked(page).is_here());
            assert!(in_child(&|| !birth.is_here()));
            // A value that a child makes is valid in that child, and not in the child's child.
            assert!(in_child(&|| {
                let own = Birth::marked(page);
                own.is_here() && !birth.is_here() && in_child(&|| !own.is_here())
            }));
            assert!(birth.is_here());
        }
    }
}
