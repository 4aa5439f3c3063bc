// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Whether this process is still the one that opened something, or was forked from it since: a child has its parent's
//! memory, not its part in what the parent shares with others. What the child opens itself is its own.
//!
//! The kernel wipes a page in a child (MADV_WIPEONFORK). There is no fork handler that could be called at a bad moment
//! or be left behind when the library is unloaded. No peer has a say in this.
//!
//! Trusted with: a page that is never unmapped, and pages that go with their `Mark`.

use core::ffi::c_void;
use core::ops::Deref;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::io;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The process that made it.
#[derive(Clone, Copy, Debug)]
pub struct Birth {
    /// Holds `id` in that process, and something else in its children; `None` where the kernel does not wipe pages.
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
        // In other PID namespaces a child may have its parent's PID.
        let time = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let fresh = u64::from(time.subsec_nanos()) << 32 | pid;
        // Relaxed: threads of one process agree on one number, and nothing else hangs on it.
        let (yes, no) = (Ordering::Relaxed, Ordering::Relaxed);
        let id = match place.compare_exchange(0, fresh, yes, no) {
            Ok(_) => fresh,
            Err(known) => known,
        };
        Birth { mark, id }
    }

    /// Whether this is that process, and not one that was forked from it, at any remove.
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
    len: usize,
    is_wiped: bool,
}

// SAFETY: a byte of memory that is accessed as an atomic only.
unsafe impl Send for Mark {}
// SAFETY: as above.
unsafe impl Sync for Mark {}

impl Mark {
    pub fn new() -> io::Result<Mark> {
        let len = super::mapping::page_size();
        let place = NonNull::new(page_of(len)).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the new mapping.
        let advised = unsafe { libc::madvise(place.as_ptr(), len, libc::MADV_WIPEONFORK) };
        Ok(Mark {
            place: place.cast(),
            len,
            is_wiped: advised == 0,
        })
    }

    /// Where the kernel (before 4.14) wipes no pages, children see what their parent wrote.
    pub fn is_wiped(&self) -> bool {
        self.is_wiped
    }
}

impl Deref for Mark {
    type Target = AtomicU8;
    #[inline]
    fn deref(&self) -> &AtomicU8 {
        // SAFETY: mapped until `drop`, in a child, too; zeros are an atomic.
        unsafe { self.place.as_ref() }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nobody else has.
        unsafe { libc::munmap(self.place.as_ptr().cast(), self.len) };
    }
}

/// New memory, or null.
fn page_of(len: usize) -> *mut c_void {
    // SAFETY: a new mapping.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    match page == libc::MAP_FAILED {
        true => ptr::null_mut(),
        false => page,
    }
}

/// A page of zeros that is zeros again in each child; `None` where the kernel (before 4.14) has no such pages.
fn wiped_page() -> Option<&'static AtomicU64> {
    let len = super::mapping::page_size();
    let page = page_of(len);
    if page.is_null() {
        return None;
    }
    // SAFETY: a new mapping; where it is not given away, nobody knows of it.
    unsafe {
        if libc::madvise(page, len, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, len);
            return None;
        }
        Some(AtomicU64::from_ptr(page.cast()))
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
            // What a child opens is its own, and not its child's.
            assert!(in_child(&|| {
                let own = Birth::marked(page);
                own.is_here() && !birth.is_here() && in_child(&|| !own.is_here())
            }));
            assert!(birth.is_here());
        }
    }
}
