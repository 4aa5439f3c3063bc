// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Threads of the library in a program that did not start them: pthread_sigmask(3).
//!
//! A signal to the process goes to any thread that does not block it. A program that blocks one in its own threads and
//! waits for it (sigwait(3), signalfd(2)) would be killed by a thread that it did not start.
#![forbid(unsafe_code)]

use std::io;
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// Starts a thread with this name of at most 15 bytes that takes no signals to the process.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    // A thread inherits the mask of the thread that starts it, so no signal can arrive before the mask is set.
    let before = foreign_signals().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let spawned = Builder::new().name(name.into()).spawn(run);
    before.thread_set_mask()?;
    spawned
}

/// Returns all signals except those that a thread causes by its own instruction or call. If a thread blocks such a
/// signal, the kernel kills the process and ignores a handler that the program may have for its memory or its
/// sandbox.
fn foreign_signals() -> SigSet {
    let mut set = SigSet::all();
    for fault in FAULTS {
        set.remove(fault);
    }
    set
}

const FAULTS: [Signal; 6] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGTRAP,
    Signal::SIGSYS,
];

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_thread_blocks_what_is_meant_for_the_process() {
        let before = SigSet::thread_get_mask().unwrap();
        let (say, heard) = mpsc::channel();
        let thread = spawn("fi-test", move || {
            let name = std::thread::current().name().map(str::to_owned);
            say.send((SigSet::thread_get_mask().unwrap(), name))
                .unwrap();
        });
        thread.unwrap().join().unwrap();
        let (mask, name) = heard.recv().unwrap();
        assert_eq!(name.as_deref(), Some("fi-test"));
        for signal in Signal::iterator() {
            let cannot_be_blocked = [Signal::SIGKILL, Signal::SIGSTOP].contains(&signal);
            let open = cannot_be_blocked || FAULTS.contains(&signal) && !before.contains(signal);
            assert_eq!(mask.contains(signal), !open, "{signal}");
        }
        assert_eq!(SigSet::thread_get_mask().unwrap(), before);
    }
}
