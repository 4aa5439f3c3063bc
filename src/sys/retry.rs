// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Blocking calls that a signal handler of the application interrupts: EINTR, signal(7). Such calls are repeated,
//! because the application does not expect a library call to fail on account of its signals.

use std::io::{self, ErrorKind};

/// Repeats a call until it ends without EINTR.
pub fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Runs a blocking call in a thread, interrupts it by signals, and then calls `finish`, which lets the call end.
#[cfg(test)]
pub fn interrupt<T: Send>(call: impl FnOnce() -> T + Send, finish: impl FnOnce()) -> T {
    use core::time::Duration;
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

    extern "C" fn ignore(_signal: libc::c_int) {}
    let action = SigAction::new(
        SigHandler::Handler(ignore),
        SaFlags::empty(),
        SigSet::empty(),
    );
    // By default the process ignores SIGURG, so no other test depends on it.
    // SAFETY: the handler does nothing.
    unsafe { sigaction(Signal::SIGURG, &action).unwrap() };
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = scope.spawn(move || {
            // SAFETY: has no arguments.
            sender.send(unsafe { libc::gettid() }).unwrap();
            call()
        });
        let id = receiver.recv().unwrap();
        let sleeps = || {
            let stat = std::fs::read_to_string(format!("/proc/self/task/{id}/stat"));
            stat.is_ok_and(|stat| stat.rsplit_once(") ").unwrap().1.starts_with('S'))
        };
        // A repeated call is interrupted again. A call that has ended by EINTR sleeps no more.
        for _ in 0..5 {
            while !sleeps() && !thread.is_finished() {
                std::thread::sleep(Duration::from_micros(100));
            }
            // SAFETY: sends a signal that has a handler. The thread is not joined yet; if it has ended, this fails.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, libc::SIGURG) };
        }
        finish();
        thread.join().unwrap()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_errors_and_results_end_a_call() {
        let mut results = [
            Err(ErrorKind::Interrupted.into()),
            Err(ErrorKind::Interrupted.into()),
            Ok(7),
            Err(ErrorKind::NotFound.into()),
        ]
        .into_iter();
        assert_eq!(retry(|| results.next().unwrap()).unwrap(), 7);
        let error = retry(|| results.next().unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
