// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Threads that the system may refuse to start: a limit on processes (RLIMIT_NPROC, pids of a cgroup) or memory is
//! reached. `Scope::spawn` would panic then.

use std::io;
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Starts a thread, or returns the reason why the system does not. The closure is dropped then.
pub fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    #[cfg(test)]
    if tests::REFUSED.get() {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    Builder::new().spawn_scoped(scope, run)
}

#[cfg(test)]
pub mod tests {
    use std::cell::Cell;

    thread_local! {
        /// Makes `start` fail in this thread.
        pub static REFUSED: Cell<bool> = const { Cell::new(false) };
    }
}
