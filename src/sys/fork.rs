// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Whether this process was forked from the one that began: the child has its parent's memory, not its part in what the
//! parent shares with others.
//!
//! The kernel wipes one page in a child (MADV_WIPEONFORK). There is no fork handler that could be called at a bad moment
//! or be left behind when the library is unloaded. No peer has a say in this.
//!
//! Trusted with: a page that is never unmapped.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::Once;

/// From now on the children of this process are known as such. Again, or in a child, it changes nothing.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| arm(&FIRST, wiped_page()));
}

/// Whether this process was forked, at any remove, from the one that called `watch` first.
#[inline]
pub fn is_child() -> bool {
    FIRST.is_child()
}

static FIRST: Watched = Watched::new();

/// One process as seen by itself and by its children.
struct Watched {
    /// `PARENT` in the process itself; in children the page that it lies in is wiped.
    mark: AtomicPtr<AtomicU32>,
    pid: AtomicU32,
}

const PARENT: u32 = 1;
/// The kernel does not wipe pages: compare PIDs.
const COMPARE: u32 = 2;

static UNWATCHED: AtomicU32 = AtomicU32::new(PARENT);
static COMPARED: AtomicU32 = AtomicU32::new(COMPARE);

impl Watched {
    const fn new() -> Watched {
        Watched {
            mark: AtomicPtr::new((&raw const UNWATCHED).cast_mut()),
            pid: AtomicU32::new(0),
        }
    }

    #[inline]
    fn is_child(&self) -> bool {
        // SAFETY: a static, or a page that is never unmapped.
        let mark = unsafe { &*self.mark.load(Ordering::Relaxed) };
        match mark.load(Ordering::Relaxed) {
            PARENT => false,
            mark => self.is_child_by(mark),
        }
    }

    #[cold]
    fn is_child_by(&self, mark: u32) -> bool {
        mark != COMPARE || self.pid.load(Ordering::Relaxed) != std::process::id()
    }
}

fn arm(watched: &Watched, page: Option<&'static AtomicU32>) {
    watched.pid.store(std::process::id(), Ordering::Relaxed);
    let mark = match page {
        Some(page) => {
            page.store(PARENT, Ordering::Relaxed);
            page
        }
        None => &COMPARED,
    };
    // After the page and the PID, for other threads.
    watched
        .mark
        .store(ptr::from_ref(mark).cast_mut(), Ordering::Release);
}

/// A page of zeros that is zeros again in each child; `None` where the kernel (before 4.14) has no such pages.
fn wiped_page() -> Option<&'static AtomicU32> {
    let len = super::region::page_size();
    // SAFETY: a new mapping; where it is not given away, nobody knows of it.
    unsafe {
        let page = libc::mmap(
            ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED {
            return None;
        }
        if libc::madvise(page, len, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, len);
            return None;
        }
        Some(AtomicU32::from_ptr(page.cast()))
    }
}

/// Forks, but for the descriptors: parent and child share one table, so that the child keeps none open that other tests
/// close meanwhile. The child ends with what `run` returns.
///
/// # Safety
/// `run` does only what is async-signal-safe.
#[cfg(test)]
pub unsafe fn fork_for_test(run: &dyn Fn() -> i32) -> i32 {
    let flags = libc::CLONE_FILES | libc::SIGCHLD;
    // SAFETY: without CLONE_VM the child has its own memory, and goes on with a copy of this stack; it ends without
    // running anything of the parent's.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        // SAFETY: async-signal-safe.
        0 => unsafe { libc::_exit(run()) },
        child => {
            assert!(child > 0);
            child as i32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `look` says in a child.
    fn in_child(look: &dyn Fn() -> bool) -> bool {
        // SAFETY: `look` loads atomics and makes system calls.
        let child = unsafe { fork_for_test(&|| i32::from(look())) };
        let mut status = 0;
        // SAFETY: our child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status));
        libc::WEXITSTATUS(status) == 1
    }

    #[test]
    fn a_child_is_known() {
        watch();
        watch();
        assert!(!is_child());
        assert!(in_child(&is_child));
        // A child that begins itself stays what it is; so does a grandchild.
        assert!(in_child(&|| {
            watch();
            is_child() && in_child(&is_child)
        }));
        assert!(!is_child());
    }

    #[test]
    fn both_ways_tell_a_child() {
        for page in [wiped_page(), None] {
            let watched = Watched::new();
            assert!(!watched.is_child() && !in_child(&|| watched.is_child()));
            arm(&watched, page);
            assert!(!watched.is_child());
            assert!(in_child(&|| watched.is_child()));
            assert!(!watched.is_child());
        }
    }
}
