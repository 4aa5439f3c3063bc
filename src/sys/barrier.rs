// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory barriers on all threads of this process, or of all processes, by membarrier(2). Code that pairs with such a
//! barrier needs no fence of its own.
//!
//! Trusted with: this system call.

use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use std::sync::OnceLock;

/// Returns true if the kernel supports barriers on all threads.
pub fn is_available() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    // ThreadSanitizer does not model membarrier(2).
    !cfg!(tsan) && *REGISTERED.get_or_init(|| call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
}

/// Makes every thread of this process go through a full barrier before it returns. Only if `is_available` returns true.
pub fn on_all_threads() {
    // The fence covers the calling thread.
    fence(Ordering::SeqCst);
    if call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        return;
    }
    // A forked child has to register for itself. If even that fails, its only thread is the calling one.
    if call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
        call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    }
}

/// Makes every thread of every process go through a full barrier before it returns. Takes some milliseconds.
pub fn on_all_processes() {
    fence(Ordering::SeqCst);
    if !call(libc::MEMBARRIER_CMD_GLOBAL) {
        // Some kernels lack this command. No document limits the time for which a processor may keep a store in its
        // buffer; the processors that we run on need nanoseconds.
        std::thread::sleep(WITHOUT);
    }
}

/// Time that replaces the barrier if the kernel has none.
const WITHOUT: Duration = Duration::from_millis(5);

fn call(command: libc::c_int) -> bool {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
