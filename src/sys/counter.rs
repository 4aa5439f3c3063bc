// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Events that the processor counts for each thread: perf_event_open(2).
//!
//! Trusted with: one system call for which no dependency has a wrapper.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

/// The counted events, in user mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Cycles,
    Instructions,
}

/// Reads the counter of this thread, which starts with the first call.
pub fn read(event: Event) -> io::Result<u64> {
    thread_local! {
        static COUNTERS: RefCell<[Option<File>; 2]> = const { RefCell::new([None, None]) };
    }
    COUNTERS.with_borrow_mut(|counters| {
        let counter = &mut counters[event as usize];
        let file = match counter {
            Some(file) => file,
            None => counter.insert(open(event)?),
        };
        let mut bytes = [0; 8];
        file.read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    })
}

/// The first version of `struct perf_event_attr`, which all kernels take.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    breakpoint: u64,
}

const _: () = assert!(size_of::<Attributes>() == 64);

fn open(event: Event) -> io::Result<File> {
    let attributes = Attributes {
        // PERF_TYPE_HARDWARE; PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS.
        kind: 0,
        size: size_of::<Attributes>() as u32,
        config: event as u64,
        flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
        ..Attributes::default()
    };
    const THIS_THREAD: libc::pid_t = 0;
    const ANY_PROCESSOR: libc::c_int = -1;
    const NO_GROUP: libc::c_int = -1;
    const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
    // SAFETY: the struct has the size in its `size` field, and the kernel only reads it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            THIS_THREAD,
            ANY_PROCESSOR,
            NO_GROUP,
            CLOSE_ON_EXEC,
        )
    };
    match fd {
        // SAFETY: a descriptor that the kernel has just made.
        0.. => Ok(unsafe { File::from_raw_fd(fd as i32) }),
        _ => Err(io::Error::last_os_error()),
    }
}

const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_grow_or_cannot_be_had() {
        let Ok(first) = read(Event::Instructions) else {
            return;
        };
        assert!(read(Event::Instructions).unwrap() > first);
    }
}
