// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Counts the bytes of the heap in use, so that the memory of a rank is what its calls have allocated and not freed.
//! The overhead of the allocator is not included.
//!
//! Trusted with: passing each call to the allocator of the system unchanged.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static HEAP: Counting = Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

fn add(bytes: isize) {
    BYTES.set(BYTES.get() + bytes);
}

// SAFETY: each call goes to `System` unchanged; the counter does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller promises what `System` needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size as isize - layout.size() as isize);
        // SAFETY: as in `alloc`.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

/// Runs a call of a rank. Returns its result and the bytes by which the heap has grown.
pub fn measured<R>(call: impl FnOnce() -> R) -> (R, isize) {
    let before = BYTES.get();
    let result = call();
    (result, BYTES.get() - before)
}

/// Runs a call whose memory does not belong to the rank: buffers of the application, packets on the network.
pub fn uncounted<R>(call: impl FnOnce() -> R) -> R {
    let before = BYTES.get();
    let result = call();
    BYTES.set(before);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_a_call_keeps_is_counted() {
        let (kept, grown) = measured(|| {
            drop(vec![0u8; 999]);
            uncounted(|| vec![0u8; 5000]).len();
            vec![0u8; 100]
        });
        assert_eq!((kept.len(), grown), (100, 100 - 5000));
        let (_, grown) = measured(|| drop(kept));
        assert_eq!(grown, -100);
    }
}
