// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Notices when the pages behind watched addresses change: userfaultfd(2), ioctl_userfaultfd(2).
//!
//! Only the kernel's events about munmap(2), mremap(2), madvise(2), brk(2) and mmap(2) with MAP_FIXED are used. No page
//! is ever protected, so no access to watched memory waits or fails. A call that changes watched memory returns when
//! its event has been read, so somebody must read all the time.
//!
//! Trusted with: ioctl(2) on a descriptor of this kind with structs of the kernel's layout. It changes no memory.

#[cfg(any(test, feature = "testing"))]
pub mod testing;

use core::ffi::c_int;
use core::mem::{offset_of, size_of};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::read;

/// The descriptor. It belongs to the memory of the process that opened it: a forked child must not use it.
#[derive(Debug)]
pub struct Userfault(OwnedFd);

/// Most events that one read takes.
const EVENTS: usize = 16;

impl Userfault {
    /// Fails if the kernel (before 5.11), a sandbox or the machine does not allow it.
    pub fn open() -> io::Result<Userfault> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
        // SAFETY: the call has one argument and opens a descriptor.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        let fd = c_int::try_from(fd).map_err(io::Error::other)?;
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: opened above, and owned by nobody else.
        let opened = Userfault(unsafe { OwnedFd::from_raw_fd(fd) });
        let mut api = Api {
            api: API,
            features: EVENT_REMAP | EVENT_REMOVE | EVENT_UNMAP | PROTECTS,
            ioctls: 0,
        };
        opened.ioctl(libc::_IOWR::<Api>(TYPE, 0x3f), &mut api)?;
        Ok(opened)
    }

    /// Begins to watch these addresses, whole pages of private memory without a file. Addresses that are watched
    /// already stay so.
    pub fn watch(&self, pages: Range<usize>) -> io::Result<()> {
        let mut register = Register {
            range: pages.into(),
            mode: MODE_PROTECT,
            ioctls: 0,
        };
        self.ioctl(libc::_IOWR::<Register>(TYPE, 0), &mut register)
    }

    /// Ends watching. All of these addresses must be watched.
    pub fn unwatch(&self, pages: Range<usize>) -> io::Result<()> {
        self.ioctl(libc::_IOR::<Pages>(TYPE, 1), &mut Pages::from(pages))
    }

    /// Whether the memory of this process is being changed at a watched place, and the event was not read yet. The
    /// kernel counts a change before the addresses can be mapped again, and reports it afterwards.
    pub fn is_changing(&self) -> bool {
        // A request without pages: the kernel refuses it, but with EAGAIN before it looks at the pages.
        let mut none = Protect {
            range: Pages { start: 0, len: 0 },
            mode: 0,
        };
        let result = self.ioctl(libc::_IOWR::<Protect>(TYPE, 6), &mut none);
        !matches!(result, Err(error) if error.raw_os_error() == Some(libc::EINVAL))
    }

    /// Waits until there are events.
    pub fn wait(&self) {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        // An error is one of `take`, too.
        let _ = poll(&mut fds, PollTimeout::NONE);
    }

    /// Takes events, without waiting, and passes on the addresses that have changed. Returns false if there was none.
    pub fn take(&self, mut changed: impl FnMut(Range<usize>)) -> io::Result<bool> {
        let mut bytes = [0; EVENTS * size_of::<Message>()];
        let len = match read(&self.0, &mut bytes) {
            Ok(len) => len,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        for message in bytes[..len].chunks_exact(size_of::<Message>()) {
            if let Some(range) = range_of(message) {
                changed(range);
            }
        }
        Ok(len > 0)
    }

    fn ioctl<T>(&self, request: libc::Ioctl, argument: &mut T) -> io::Result<()> {
        // SAFETY: the number of the request has the size of its struct, which the caller passes.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The addresses of an event. Unknown events change nothing.
fn range_of(message: &[u8]) -> Option<Range<usize>> {
    let word = |at: usize| {
        let bytes = message.get(at..at + size_of::<u64>())?;
        usize::try_from(u64::from_ne_bytes(bytes.try_into().ok()?)).ok()
    };
    let first = word(offset_of!(Message, words))?;
    let second = word(offset_of!(Message, words) + size_of::<u64>())?;
    let third = word(offset_of!(Message, words) + 2 * size_of::<u64>())?;
    match *message.first()? {
        // From, to and length: the new place has other pages than it had, too, but the kernel reports those itself.
        REMAPPED => Some(first..first.checked_add(third)?),
        REMOVED | UNMAPPED => Some(first..second),
        _ => None,
    }
}

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Pages {
    start: u64,
    len: u64,
}

impl From<Range<usize>> for Pages {
    fn from(pages: Range<usize>) -> Pages {
        Pages {
            start: pages.start as u64,
            len: pages.len() as u64,
        }
    }
}

#[repr(C)]
struct Register {
    range: Pages,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct Protect {
    range: Pages,
    mode: u64,
}

#[repr(C)]
struct Message {
    event: u8,
    reserved: [u8; 7],
    words: [u64; 3],
}

const TYPE: u32 = 0xaa;
const API: u64 = 0xaa;
/// Since Linux 5.11, when forked children already get copies of pinned pages at once (5.9): before, a write after
/// fork(2) could give the parent a new page, without an event.
const USER_MODE_ONLY: c_int = 1;
const PROTECTS: u64 = 1 << 0;
const EVENT_REMAP: u64 = 1 << 2;
const EVENT_REMOVE: u64 = 1 << 3;
const EVENT_UNMAP: u64 = 1 << 6;
const MODE_PROTECT: u64 = 1 << 1;
const REMAPPED: u8 = 0x14;
const REMOVED: u8 = 0x15;
const UNMAPPED: u8 = 0x16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_name_the_addresses_that_changed() {
        let message = |event: u8, words: [u64; 3]| {
            let mut bytes = vec![event, 0, 0, 0, 0, 0, 0, 0];
            bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
            range_of(&bytes)
        };
        assert_eq!(message(UNMAPPED, [4096, 8192, 1]), Some(4096..8192));
        assert_eq!(message(REMOVED, [4096, 8192, 1]), Some(4096..8192));
        assert_eq!(message(REMAPPED, [4096, 1 << 20, 4096]), Some(4096..8192));
        assert_eq!(message(0x12, [4096, 8192, 1]), None);
    }
}
