// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A signal by which somebody asks the process for something: the handler writes to an eventfd, and a thread reads it.
//!
//! Trusted with: a handler for a signal that the user has named. It makes two system calls and leaves errno alone.

use core::sync::atomic::{AtomicI32, Ordering};
use std::io;
use std::os::fd::AsRawFd;
use std::str::FromStr;
use std::sync::OnceLock;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use super::event::EventFd;
use super::shared_object::{self, SharedObject};

/// What the handler knows. A child that was forked has the descriptor, too, which is not its own.
static ASKED: OnceLock<EventFd> = OnceLock::new();
static FD: AtomicI32 = AtomicI32::new(-1);
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// The signal of this name (`USR2`, `SIGUSR2`) or number, if it can be taken for this.
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

/// These cannot be taken, or say that the process is at its end.
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

/// From now on the descriptor is readable when the signal has come. Once in a process; a signal that the program takes
/// itself is left to it.
pub fn watch(signal: Signal) -> io::Result<&'static EventFd> {
    let event = match ASKED.get() {
        Some(event) => event,
        None => {
            let event = EventFd::new()?;
            ASKED.get_or_init(|| event)
        }
    };
    FD.store(event.as_raw_fd(), Ordering::Relaxed);
    PROCESS.store(std::process::id().cast_signed(), Ordering::Relaxed);
    let action = SigAction::new(
        SigHandler::Handler(told),
        SaFlags::SA_RESTART | SaFlags::SA_ONSTACK,
        SigSet::empty(),
    );
    // SAFETY: `told` does only what a handler may, at any time and on any thread. It stays where it is: the caller
    // keeps the library from being unloaded.
    let before = unsafe { sigaction(signal, &action)? };
    match before.handler() {
        SigHandler::SigDfl | SigHandler::SigIgn => Ok(event),
        _ => {
            // SAFETY: gives back what was there.
            unsafe { sigaction(signal, &before)? };
            Err(io::ErrorKind::AlreadyExists.into())
        }
    }
}

/// The library, and so the handler, stays until the process ends. False if that cannot be had.
pub fn keep_loaded() -> bool {
    let file = shared_object::file_of(told as *const ());
    let opened = file.and_then(|file| SharedObject::open(&file).ok());
    // In a program that has it inside there is nothing to be unloaded.
    opened.map(SharedObject::keep).is_some() || cfg!(test)
}

extern "C" fn told(_signal: libc::c_int) {
    // SAFETY: asks for a number.
    let process = unsafe { libc::syscall(libc::SYS_getpid) };
    if process != libc::c_long::from(PROCESS.load(Ordering::Relaxed)) {
        return;
    }
    let (one, fd) = (1u64, FD.load(Ordering::Relaxed));
    // SAFETY: errno is this thread's; who was interrupted finds what it had. The kernel reads eight bytes of ours.
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
    use crate::sys::event::sleep_on;

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
        assert!(sleep_on(&[event.as_raw_fd()], Some(Duration::from_secs(20))).unwrap());
        event.clear();
        assert!(!sleep_on(&[event.as_raw_fd()], Some(Duration::ZERO)).unwrap());
        // It has a handler now.
        let again = watch(Signal::SIGURG).err().map(|error| error.kind());
        assert_eq!(again, Some(io::ErrorKind::AlreadyExists));
    }
}
