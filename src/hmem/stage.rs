// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Host memory of each thread, through which bytes of device memory go to the kernel and come from it.

use std::cell::RefCell;

/// Bytes of a thread's stage.
pub const LEN: usize = 256 << 10;

thread_local! {
    static STAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Returns the address of this thread's `LEN` bytes, which stay until the thread ends. Each use overwrites the one
/// before.
pub fn base() -> *mut u8 {
    STAGE.with_borrow_mut(|stage| {
        stage.resize(LEN, 0);
        stage.as_mut_ptr()
    })
}
