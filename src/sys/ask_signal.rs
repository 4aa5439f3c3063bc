// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A signal that sends a request to the process: its handler writes to an eventfd, which a thread reads.
//!
//! Trusted with: a handler for a signal that the user has named. It makes two system calls and preserves errno.

use core::sync::atomic::{AtomicI32, Ordering};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::str::FromStr;
use std::sync::OnceLock;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use super::event::EventFd;
use super::shared_object::{self, SharedObject};

/// State of the handler. A forked child inherits the descriptor, which belongs to the parent.
static ASKED: OnceLock<EventFd> = OnceLock::new();
/// The number of that descriptor, which `ASKED` never closes: a handler may read atomic variables only.
static FD: AtomicI32 = AtomicI32::new(-1);
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Finds the signal with this name (`USR2`, `SIGUSR2`) or number, if it can be used for requests.
pub fn named(text: &str) -> Option<Signal> {
    let text = text.trim();
    let upper = text.to_ascii_uppercase();
    let full = match upper.starts_with("SIG") {
        true => upper,
        false => format!("SIG{upper}"),
    };
    let signal = match text.parse::<i32>() {
        Ok(number) => Signal::try_from(number).ok(),
        Err(_) => Signal::from_str(&full).ok(),
    };
    signal.filter(|signal| !UNFIT.contains(signal))
}

/// Signals that cannot be caught, or that mean the end of the process.
const UNFIT: [Signal; 9] = [
    Signal::SIGKILL,
    Signal::SIGSTOP,
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGABRT,
    Signal::SIGTRAP,
    Signal::SIGCHLD,
];

/// Installs the handler and returns the descriptor that becomes readable when the signal arrives. Can be called once in
/// a process. A signal that the program handles itself is left to the program.
pub fn watch(signal: Signal) -> io::Result<&'static EventFd> {
    let event = match ASKED.get() {
        Some(event) => event,
        None => {
            let event = EventFd::new()?;
            ASKED.get_or_init(|| event)
        }
    };
    FD.store(event.as_fd().as_raw_fd(), Ordering::Relaxed);
    PROCESS.store(std::process::id().cast_signed(), Ordering::Relaxed);
    let action = SigAction::new(
        SigHandler::Handler(told),
        SaFlags::SA_RESTART | SaFlags::SA_ONSTACK,
        SigSet::empty(),
    );
    // SAFETY: `told` is async-signal-safe. It stays at its address, because the caller keeps the library from being
    // unloaded.
    let before = unsafe { sigaction(signal, &action)? };
    match before.handler() {
        SigHandler::SigDfl | SigHandler::SigIgn => Ok(event),
        _ => {
            // SAFETY: restores the previous handler.
            unsafe { sigaction(signal, &before)? };
            Err(io::ErrorKind::AlreadyExists.into())
        }
    }
}

/// Keeps the library, and so the handler, loaded until the process ends. Returns false if that is impossible.
pub fn keep_loaded() -> bool {
    let file = shared_object::file_of(told as *const ());
    let opened = file.and_then(|file| SharedObject::open(&file).ok());
    // If the library is linked into the program, it cannot be unloaded.
    opened.map(SharedObject::keep).is_some() || cfg!(any(test, feature = "testing"))
}

extern "C" fn told(_signal: libc::c_int) {
    // SAFETY: returns a number and has no arguments.
    let process = unsafe { libc::syscall(libc::SYS_getpid) };
    if process != libc::c_long::from(PROCESS.load(Ordering::Relaxed)) {
        return;
    }
    let (one, fd) = (1u64, FD.load(Ordering::Relaxed));
    // SAFETY: errno belongs to this thread and is restored for the interrupted code. The kernel reads the eight bytes
    // of `one`.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::syscall(libc::SYS_write, fd, &raw const one, size_of::<u64>());
        *errno = before;
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::event::sleep_on;

    #[test]
    fn signals_have_names_and_numbers() {
        for text in ["USR2", "SIGUSR2", "sigusr2", " usr2 ", "12"] {
            assert_eq!(named(text), Some(Signal::SIGUSR2), "{text}");
        }
        for text in [
            "", "SIG", "KILL", "9", "SEGV", "0", "-1", "65", "USR3", "twelve",
        ] {
            assert_eq!(named(text), None, "{text}");
        }
    }

    #[test]
    fn a_signal_is_told_and_others_are_left_alone() {
        let event = watch(Signal::SIGURG).unwrap();
        nix::sys::signal::raise(Signal::SIGURG).unwrap();
        assert!(sleep_on(&[event.as_fd()], Some(Duration::from_secs(20))).unwrap());
        event.clear();
        assert!(!sleep_on(&[event.as_fd()], Some(Duration::ZERO)).unwrap());
        // The signal has a handler now.
        let again = watch(Signal::SIGURG).err().map(|error| error.kind());
        assert_eq!(again, Some(io::ErrorKind::AlreadyExists));
    }
}
