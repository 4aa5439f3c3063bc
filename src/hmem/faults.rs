// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Copies to or from device memory that have failed. A copy returns nothing, because only the operation that it is for
//! can report its failure, and that ends later: it looks here for its memory.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A failure of a device's driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The driver's number for it; 0 if there is no driver to do it.
    pub code: i32,
}

struct Failed {
    start: usize,
    len: usize,
    fault: Fault,
}

static ANY: AtomicBool = AtomicBool::new(false);
static FAILED: Mutex<Vec<Failed>> = Mutex::new(Vec::new());
/// Failures that are kept at most; the memory of the oldest belongs to operations that were closed.
const MOST: usize = 4096;

/// Records that a copy to or from these addresses has failed.
pub(super) fn note(start: usize, len: usize, fault: Fault) {
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    if failed.len() == MOST {
        failed.remove(0);
    }
    failed.push(Failed { start, len, fault });
    ANY.store(true, Ordering::Release);
}

/// Whether copies have failed whose operations have not looked here.
#[inline(always)]
pub fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Returns and forgets the failure of a copy that has touched these addresses.
#[cold]
pub fn take(start: usize, len: usize) -> Option<Fault> {
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = None;
    failed.retain(|one| {
        let touches = one.start < start.saturating_add(len) && start < one.start + one.len;
        if touches {
            found.get_or_insert(one.fault);
        }
        !touches
    });
    ANY.store(!failed.is_empty(), Ordering::Release);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_finds_the_failure_of_its_memory() {
        note(1000, 10, Fault { code: 700 });
        note(1008, 10, Fault { code: 2 });
        note(5000, 1, Fault { code: 3 });
        assert!(any());
        assert_eq!(take(990, 10), None);
        assert_eq!(take(1018, 10), None);
        assert_eq!(take(1009, 1), Some(Fault { code: 700 }));
        assert_eq!(take(1000, 100), None);
        assert_eq!(take(0, usize::MAX), Some(Fault { code: 3 }));
        assert!(!any());
    }
}
