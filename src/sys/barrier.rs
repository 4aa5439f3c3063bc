// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory barriers on all threads of this process, or of all processes, by membarrier(2): what pairs with them
//! elsewhere needs none of its own.
//!
//! Trusted with: this system call.

use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use std::sync::OnceLock;

/// Whether the kernel does it.
pub fn is_available() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    // ThreadSanitizer knows nothing of it.
    !cfg!(tsan) && *REGISTERED.get_or_init(|| call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
}

/// Every thread has gone through a full barrier between the call and the return. Only where it `is_available`.
pub fn on_all_threads() {
    // This thread, too.
    fence(Ordering::SeqCst);
    if call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        return;
    }
    // A forked child has to register for itself. If even that fails it has but one thread that knows of the lock.
    if call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
        call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    }
}

/// Every thread of every process has gone through a full barrier between the call and the return. Takes some
/// milliseconds.
pub fn on_all_processes() {
    fence(Ordering::SeqCst);
    if !call(libc::MEMBARRIER_CMD_GLOBAL) {
        // Not every kernel does it. Nothing is said of how long a processor may keep back a store; the ones that we run
        // on take nanoseconds.
        std::thread::sleep(WITHOUT);
    }
}

/// What stands for a barrier where the kernel has none.
const WITHOUT: Duration = Duration::from_millis(5);

fn call(command: libc::c_int) -> bool {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
