// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Reading and writing the memory of another process of this host: process_vm_readv(2).
//!
//! What a hostile peer can do: unmap or change its memory meanwhile, which causes a short count, an error or other
//! bytes. A peer's memory is not protected from this process: callers must check that they access only what the peer
//! offered. A PID may be reused by another process; the kernel refuses access only for processes of other users.
//!
//! Trusted with: these system calls.

use core::mem::MaybeUninit;
use std::io;

use libc::iovec;

use super::io_list::{GatherList, ScatterList};
use super::local;
use super::socket::Socket;

/// Limit on the remote pieces of one call.
pub const MAX_PIECES: usize = 32;

/// A process of this host, which may be this one. Its memory can be read: the kernel copies the bytes, as for a reader
/// of /proc/PID/mem, and nothing that this program has a reference to changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pid: i32,
    is_own: bool,
}

/// A process of this host other than this one, so that a write to any of its addresses changes no memory of this
/// process. Writing to a `Process` needs a promise:
///
/// ```
/// use sys::{io_list::GatherList, process_memory::Process};
/// let own = Process::own();
/// let write = |to: sys::process_memory::OtherProcess| to.write(&GatherList::new(), &[(64, 8)]);
/// assert!(own.other().map(write).is_none());
/// ```
///
/// ```compile_fail,E0133
/// use sys::{io_list::GatherList, process_memory::Process};
/// let own = Process::own();
/// let _ = own.write(&GatherList::new(), &[(64, 8)]);
/// ```
///
/// A process ID is not a process:
///
/// ```compile_fail,E0423
/// let own = sys::process_memory::OtherProcess(std::process::id() as i32);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherProcess(i32);

impl Process {
    /// Returns this process.
    pub fn own() -> Process {
        Process {
            pid: std::process::id().cast_signed(),
            is_own: true,
        }
    }

    /// Returns the process at the other end of a socket within this host, if it has an ID in this PID namespace.
    pub fn at_other_end(socket: &Socket) -> Option<Process> {
        let pid = local::credentials(socket).ok()?.pid;
        let is_own = pid == Process::own().pid;
        (pid > 0).then_some(Process { pid, is_own })
    }

    /// Returns this process as one whose memory can be written, for tests that have both sides in one process. The
    /// tests pass only addresses of memory that they made for it.
    #[cfg(any(test, feature = "testing"))]
    pub fn own_as_other() -> Process {
        Process {
            is_own: false,
            ..Process::own()
        }
    }

    pub fn id(self) -> i32 {
        self.pid
    }

    /// Returns the process if it is not this one.
    #[inline]
    pub fn other(self) -> Option<OtherProcess> {
        (!self.is_own).then_some(OtherProcess(self.pid))
    }

    /// Reads memory of the process, given as (address, length) pairs, into the pieces of `to`. Returns the number of
    /// bytes, which is less than requested if the remote memory ends or after `MAX_PIECES`.
    #[inline]
    pub fn read(self, to: &ScatterList<'_>, from: &[(usize, usize)]) -> io::Result<usize> {
        let (local, remote) = (to.pieces(), Pieces::new(from));
        // SAFETY: the maker of the list answers for each piece and lent it for writing. The kernel checks the remote
        // addresses.
        let n = unsafe {
            libc::process_vm_readv(
                self.pid,
                local.as_ptr(),
                local.len() as libc::c_ulong,
                remote.list.as_ptr().cast(),
                remote.count as libc::c_ulong,
                0,
            )
        };
        moved(n)
    }

    /// Writes the pieces of `from` to memory of the process. The result is as for `read`.
    ///
    /// # Safety
    /// If the process is this one, nothing refers to the memory at `to`, and others may write it.
    pub unsafe fn write(self, from: &GatherList<'_>, to: &[(usize, usize)]) -> io::Result<usize> {
        from.check()?;
        let (local, remote) = (from.pieces(), Pieces::new(to));
        // SAFETY: the maker of the list answers for each piece, and the local pieces are only read. The written memory
        // belongs to another process, or the caller answers for it.
        let n = unsafe {
            libc::process_vm_writev(
                self.pid,
                local.as_ptr(),
                local.len() as libc::c_ulong,
                remote.list.as_ptr().cast(),
                remote.count as libc::c_ulong,
                0,
            )
        };
        moved(n)
    }
}

impl OtherProcess {
    /// Writes the pieces of `from` to memory of the process. The result is as for `Process::read`.
    pub fn write(self, from: &GatherList<'_>, to: &[(usize, usize)]) -> io::Result<usize> {
        let process = Process {
            pid: self.0,
            is_own: false,
        };
        // SAFETY: it is not this process.
        unsafe { process.write(from, to) }
    }
}

/// Ranges of memory in the other process.
struct Pieces {
    /// The first `count` are initialized.
    list: [MaybeUninit<iovec>; MAX_PIECES],
    count: usize,
}

impl Pieces {
    fn new(pieces: &[(usize, usize)]) -> Pieces {
        let mut list = [MaybeUninit::uninit(); MAX_PIECES];
        for (place, &(base, len)) in list.iter_mut().zip(pieces) {
            place.write(iovec {
                iov_base: base as *mut _,
                iov_len: len,
            });
        }
        Pieces {
            list,
            count: pieces.len().min(MAX_PIECES),
        }
    }
}

fn moved(n: isize) -> io::Result<usize> {
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use nix::sys::mman::{ProtFlags, mprotect};
    use nix::sys::signal::{Signal, kill};
    use nix::sys::wait::waitpid;
    use nix::unistd::{Pid, pause};

    use super::*;
    use crate::fork::fork_for_test;
    use crate::mapping::Mapping;
    use crate::memory::page_size;

    fn child_with(pid: i32) -> (Process, OtherProcess) {
        let child = Process { pid, is_own: false };
        (child, child.other().unwrap())
    }

    fn error(result: io::Result<usize>) -> Option<i32> {
        result.unwrap_err().raw_os_error()
    }

    #[test]
    fn pieces_are_read_into_pieces() {
        let (a, b) = ([1u8, 2, 3], [4u8, 5]);
        let (mut x, mut y) = ([0u8; 1], [0u8; 4]);
        let mut list = ScatterList::new();
        assert!(list.push(&mut x) && list.push(&mut y));
        let from = [(a.as_ptr() as usize, 3), (0, 0), (b.as_ptr() as usize, 2)];
        assert_eq!(Process::own().read(&list, &from).unwrap(), 5);
        assert_eq!((x, y), ([1], [2, 3, 4, 5]));
    }

    /// The other process is a waiting child: bytes written to its memory are read back from there, and this process's
    /// memory stays the same.
    #[test]
    fn another_process_is_written_and_read() {
        let mut place = [7u64; 4];
        let address = place.as_mut_ptr() as usize;
        let sleep = || loop {
            pause();
        };
        // SAFETY: pause(2) is async-signal-safe. A signal ends the child.
        let child = unsafe { fork_for_test(&sleep) };
        let new: Vec<u8> = (0..16).collect();
        let mut list = GatherList::new();
        list.push(&new);
        let (process, writable) = child_with(child);
        let wrote = writable.write(&list, &[(address + 8, 16)]);
        let mut back = [0; 32];
        let mut list = ScatterList::new();
        list.push(&mut back);
        let read = process.read(&list, &[(address, 32)]);
        kill(Pid::from_raw(child), Signal::SIGKILL).unwrap();
        waitpid(Pid::from_raw(child), None).unwrap();
        assert_eq!((wrote.unwrap(), read.unwrap()), (16, 32));
        assert_eq!(back[..8], 7u64.to_ne_bytes());
        assert_eq!(back[8..24], new);
        assert_eq!(place, [7; 4]);
        // The child has ended, so its PID is not in use.
        let mut list = GatherList::new();
        list.push(&new);
        let gone = writable.write(&list, &[(address, 16)]);
        assert_eq!(error(gone), Some(libc::ESRCH));
    }

    #[test]
    fn what_is_not_mapped_is_an_error_or_a_short_count() {
        let mut room = [0; 64];
        let mut list = ScatterList::new();
        list.push(&mut room);
        assert_eq!(
            error(Process::own().read(&list, &[(0, 64)])),
            Some(libc::EFAULT)
        );
        let bytes = [0; 64];
        let mut source = GatherList::new();
        source.push(&bytes);
        let own = Process::own_as_other().other();
        assert_eq!(
            error(own.unwrap().write(&source, &[(0, 64)])),
            Some(libc::EFAULT)
        );
        let page = page_size();
        let (mapping, fd) = Mapping::create(c"test", 2 * page).unwrap();
        let last = mapping.bytes(page - 32, 0).unwrap().as_ptr() as usize;
        // SAFETY: the second page of a mapping that has no other users.
        unsafe {
            let second = mapping.bytes(page, 0).unwrap().cast();
            mprotect(second, page, ProtFlags::PROT_NONE).unwrap();
        }
        let two = [(last, 32), (0, 32)];
        assert_eq!(Process::own().read(&list, &two).unwrap(), 32);
        drop((mapping, fd));
        assert!(child_with(-1).0.read(&list, &[(0, 64)]).is_err());
    }

    #[test]
    fn the_own_process_is_recognized_at_the_other_end() {
        let (socket, _other) = Socket::pair().unwrap();
        let process = Process::at_other_end(&socket);
        assert_eq!(process, Some(Process::own()));
        assert_eq!(process.and_then(Process::other), None);
    }

    #[test]
    fn more_pieces_than_one_call_takes_are_a_short_count() {
        let bytes = [5u8; 2 * MAX_PIECES];
        let from: Vec<_> = bytes.iter().map(|b| (&raw const *b as usize, 1)).collect();
        let mut room = [0u8; 2 * MAX_PIECES];
        let mut list = ScatterList::new();
        list.push(&mut room);
        assert_eq!(Process::own().read(&list, &from).unwrap(), MAX_PIECES);
    }
}
