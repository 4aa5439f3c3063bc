// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A memory barrier on all threads of this process, by membarrier(2): what pairs with it elsewhere needs none of its own.
//!
//! Trusted with: this system call.

use core::sync::atomic::{Ordering, fence};
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

fn call(command: libc::c_int) -> bool {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
