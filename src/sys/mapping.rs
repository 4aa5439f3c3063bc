// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory without a name that processes share by a descriptor: memfd_create(2), sealed.
//!
//! What a hostile peer can do with memory that it sent: change its bytes at any time, and punch holes, which then read
//! as zeros. It cannot shorten the memory, which would cause a signal here: only memory with F_SEAL_SHRINK is attached,
//! and no huge pages, because none may be left to fill a hole. With memory that was sent to it: the same, and it can
//! keep the memory alive. Memory that was made `for_readers` is read-only for a peer if the kernel supports that seal.
//!
//! memmap2 makes the mappings, except the one that shows the same pages twice: that one replaces halves of a reserved
//! range of addresses (MAP_FIXED), which memmap2 does not offer.
//!
//! Trusted with: that mapping. Objects in a mapping are accessed by raw pointers within the bounds, for types that
//! other processes may write at any time.

use core::ffi::c_void;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
use std::ffi::CStr;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use memmap2::{MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use nix::sys::stat::fstat;
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use nix::unistd::ftruncate;

use super::limits::check_file_size;
use super::memory::page_size;

/// Types that may lie in memory which another process writes at any time.
///
/// # Safety
/// Any bytes are a valid value; a reference to it does not promise that they stay the same (atomics and padding only);
/// it holds no pointer.
pub unsafe trait Shared {}

// SAFETY: atomics of numbers.
unsafe impl Shared for AtomicU8 {}
// SAFETY: as above.
unsafe impl Shared for AtomicU16 {}
// SAFETY: as above.
unsafe impl Shared for AtomicU32 {}
// SAFETY: as above.
unsafe impl Shared for AtomicU64 {}
// SAFETY: an array consists of its elements.
unsafe impl<T: Shared, const N: usize> Shared for [T; N] {}

/// A mapping; unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    _held: Held,
}

/// The owner of the addresses, which unmaps them on drop.
#[derive(Debug)]
enum Held {
    Once { _pages: MmapRaw },
    Parts { _addresses: Addresses },
}

/// A range of addresses of this process, whatever is mapped there; unmapped on drop.
#[derive(Debug)]
struct Addresses {
    base: NonNull<c_void>,
    len: usize,
}

impl Addresses {
    /// Maps a file. Behind its end are addresses that must not be accessed before other mappings replace them.
    fn of_file(fd: impl AsFd, len: usize) -> io::Result<Addresses> {
        let wanted = NonZeroUsize::new(len).ok_or(ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping, wherever the kernel puts it.
        let base = unsafe { mmap(None, wanted, READ_WRITE, MapFlags::MAP_SHARED, fd, 0)? };
        Ok(Addresses { base, len })
    }
}

const READ_WRITE: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);

impl Drop for Addresses {
    fn drop(&mut self) {
        // SAFETY: reserved by this value; users of pointers into the mapping promised to use them while it lives. An
        // error would mean that the range is not mapped.
        let _ = unsafe { munmap(self.base, self.len) };
    }
}

// SAFETY: a mapping belongs to no thread; its content is accessed only by raw pointers and atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// The result of `create_for_readers`.
pub struct ForReaders {
    pub mapping: Mapping,
    /// The descriptor for the readers.
    pub fd: OwnedFd,
    /// Whether the kernel keeps the readers from writing: kernels before 5.1 do not.
    pub protected: bool,
}

impl Mapping {
    /// Makes zeroed memory with all its pages allocated; `name` is only shown in /proc.
    pub fn create(name: &CStr, len: usize) -> io::Result<(Mapping, OwnedFd)> {
        let fd = memory_file(name, len)?;
        seal(&fd, SEALS)?;
        let mapping = Mapping::map(&fd, len, true)?;
        Ok((mapping, fd))
    }

    /// As `create`, for readers: only this mapping can write.
    pub fn create_for_readers(name: &CStr, len: usize) -> io::Result<ForReaders> {
        let fd = memory_file(name, len)?;
        // The seal only affects mappings that are made after it.
        let mapping = Mapping::map(&fd, len, true)?;
        let protected = seal(&fd, SEALS | SealFlag::F_SEAL_FUTURE_WRITE).is_ok();
        if !protected {
            seal(&fd, SEALS)?;
        }
        Ok(ForReaders {
            mapping,
            fd,
            protected,
        })
    }

    /// As `create`, but without a mapping, and without pages before `allocate`.
    pub fn create_sparse(name: &CStr, len: usize) -> io::Result<OwnedFd> {
        let fd = sparse_file(name, len)?;
        seal(&fd, SEALS)?;
        Ok(fd)
    }

    /// Maps the first `len` bytes of memory that a peer sent. It may have holes: `allocate` fills them.
    pub fn attach(fd: impl AsFd, len: usize) -> io::Result<Mapping> {
        check(&fd, len)?;
        Mapping::map(&fd, len, true)
    }

    /// As `attach`, read-only, and refuses memory with holes.
    pub fn attach_read_only(fd: impl AsFd, len: usize) -> io::Result<Mapping> {
        if has_holes(&fd, check(&fd, len)?)? {
            return refuse("memory with holes");
        }
        Mapping::map(&fd, len, false)
    }

    /// Maps the first `head` bytes of memory once, and the two parts of `part` bytes that follow them twice in a row
    /// each. Both numbers are multiples of the page size. The memory may be a peer's and may have holes.
    pub fn map_doubled(fd: impl AsFd, head: usize, part: usize) -> io::Result<Mapping> {
        let len = part
            .checked_mul(4)
            .and_then(|parts| parts.checked_add(head));
        let len = len.ok_or(ErrorKind::InvalidInput)?;
        let page = page_size();
        if part == 0 || !part.is_multiple_of(page) || !head.is_multiple_of(page) {
            return Err(ErrorKind::InvalidInput.into());
        }
        check(&fd, len - 2 * part)?;
        // The first mapping takes all addresses: the head and the first part are where they belong, and the others
        // replace what is behind them.
        let addresses = Addresses::of_file(&fd, len)?;
        for (skip, offset, len) in [
            (head + part, head, 2 * part),
            (head + 3 * part, head + part, part),
        ] {
            let place = addresses.base.addr().saturating_add(skip);
            let len = NonZeroUsize::new(len).ok_or(ErrorKind::InvalidInput)?;
            let offset = offset.try_into().map_err(|_| ErrorKind::InvalidInput)?;
            let flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
            // SAFETY: replaces a part of the addresses that were just mapped and are not in use yet.
            unsafe { mmap(Some(place), len, READ_WRITE, flags, &fd, offset)? };
        }
        Ok(Mapping {
            base: addresses.base.cast(),
            len,
            _held: Held::Parts {
                _addresses: addresses,
            },
        })
    }

    fn map(fd: &impl AsFd, len: usize, writable: bool) -> io::Result<Mapping> {
        let mut how = MmapOptions::new();
        let fd = fd.as_fd().as_raw_fd();
        let pages = match writable {
            true => how.len(len).map_raw(fd)?,
            false => how.len(len).map_raw_read_only(fd)?,
        };
        Ok(Mapping {
            base: NonNull::new(pages.as_mut_ptr()).ok_or(ErrorKind::Other)?,
            len,
            _held: Held::Once { _pages: pages },
        })
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// In a forked child: replaces the mapping by private zeros, so that the memory shared with others is left to the
    /// parent. If that fails, nothing changes.
    pub fn replace_by_own(&self) {
        let Some(len) = NonZeroUsize::new(self.len.next_multiple_of(page_size())) else {
            return;
        };
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED;
        // SAFETY: replaces only this mapping, so pointers into it still point to memory, and `Held` unmaps the same
        // addresses. The content is only accessed by raw pointers and atomics, which must expect other bytes at any
        // time anyway.
        let _ = unsafe { mmap_anonymous(Some(self.base.addr()), len, READ_WRITE, flags) };
    }

    /// Returns the address of a `T` at `offset`, if it is aligned and within the mapping. The address is valid while
    /// the mapping lives, and only for reading if the mapping is read-only.
    #[inline]
    pub fn at<T: Shared>(&self, offset: usize) -> Option<NonNull<T>> {
        let place = self.bytes(offset, size_of::<T>())?.cast::<T>();
        place.is_aligned().then_some(place)
    }

    /// Returns the address of these bytes, if they are within the mapping: for raw copies.
    #[inline]
    pub fn bytes(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        if offset > self.len || len > self.len - offset {
            return None;
        }
        // SAFETY: within the mapping.
        Some(unsafe { self.base.add(offset) })
    }
}

const SEALS: SealFlag = SealFlag::F_SEAL_SHRINK
    .union(SealFlag::F_SEAL_GROW)
    .union(SealFlag::F_SEAL_SEAL);

/// Makes a memory file with all its pages, not yet sealed.
fn memory_file(name: &CStr, len: usize) -> io::Result<OwnedFd> {
    let fd = sparse_file(name, len)?;
    allocate(&fd, 0, len)?;
    Ok(fd)
}

/// Makes a memory file without pages, not yet sealed.
fn sparse_file(name: &CStr, len: usize) -> io::Result<OwnedFd> {
    let size = libc::off_t::try_from(len).map_err(|_| ErrorKind::InvalidInput)?;
    check_file_size(len as u64)?;
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    // A system may refuse memory that could be executed; kernels before 6.3 lack the flag that excludes execution.
    let no_exec = MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);
    let fd = match memfd_create(name, flags | no_exec) {
        Err(Errno::EINVAL) => memfd_create(name, flags)?,
        other => other?,
    };
    ftruncate(&fd, size)?;
    Ok(fd)
}

/// Allocates the pages of a part of a memory file, so that a later access cannot cause a signal for lack of memory.
fn allocate(fd: &OwnedFd, from: usize, len: usize) -> io::Result<()> {
    let size = |bytes| libc::off_t::try_from(bytes).map_err(|_| ErrorKind::InvalidInput);
    let (mut done, end) = (size(from)?, size(from.saturating_add(len))?);
    if done == end {
        return Err(ErrorKind::InvalidInput.into());
    }
    // In steps, because a signal undoes the step that it interrupts.
    while done < end {
        let step = (end - done).min(FILL_STEP);
        match fallocate(fd, FallocateFlags::empty(), done, step) {
            Ok(()) => done += step,
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Allocates the pages of this range of shared memory and maps them, so that a later access cannot cause a signal for
/// lack of memory. Kernels before 5.14 do not support this without a file: see `Pages::new`.
///
/// # Safety
/// The whole range is mapped.
unsafe fn populate(at: NonNull<u8>, len: usize) -> io::Result<()> {
    // SAFETY: the caller's promise; the visible content does not change.
    unsafe { madvise(at.cast(), len, MmapAdvise::MADV_POPULATE_WRITE) }?;
    Ok(())
}

/// Allocates and frees pages of memory that is mapped by `Mapping::map_doubled`.
#[derive(Debug, Default)]
pub enum Pages {
    /// All pages are allocated and stay.
    #[default]
    Fixed,
    /// The kernel allocates and frees pages by their addresses.
    Mapped,
    /// Old kernels: the file, and the offset in it of what is mapped at the address that the methods get.
    File(OwnedFd, usize),
}

impl Pages {
    /// Allocates the first `len` bytes at `at`, which show the file from `offset` on.
    ///
    /// # Safety
    /// The range is mapped.
    pub unsafe fn new(
        fd: &OwnedFd,
        offset: usize,
        at: NonNull<u8>,
        len: usize,
    ) -> io::Result<Pages> {
        // SAFETY: the caller's promise.
        match unsafe { populate(at, len) } {
            Ok(()) => Ok(Pages::Mapped),
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                allocate(fd, offset, len)?;
                Ok(Pages::File(fd.try_clone()?, offset))
            }
            Err(error) => Err(error),
        }
    }

    /// Describes memory that cannot be allocated, because this is not its file.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_another_file(file: OwnedFd) -> Pages {
        Pages::File(file, 0)
    }

    /// Describes the memory behind the first `n` bytes.
    pub fn behind(self, n: usize) -> Pages {
        match self {
            Pages::File(file, offset) => Pages::File(file, offset + n),
            same => same,
        }
    }

    /// Allocates the pages from `from` to `to`, in bytes behind `at`. Returns false if there is no memory.
    ///
    /// # Safety
    /// `at` is the address that `new` got, and the range is mapped.
    pub unsafe fn allocate(&self, at: NonNull<u8>, from: usize, to: usize) -> bool {
        match self {
            Pages::Fixed => true,
            // SAFETY: the caller's promise.
            Pages::Mapped => unsafe { populate(at.add(from), to - from) }.is_ok(),
            Pages::File(file, offset) => allocate(file, offset + from, to - from).is_ok(),
        }
    }

    /// Gives the pages from `from` to `to` back to the system; they read as zeros then. Returns false if the memory
    /// does not support that.
    ///
    /// # Safety
    /// As for `allocate`; and what is there is not needed any more.
    pub unsafe fn free(&self, at: NonNull<u8>, from: usize, to: usize) -> bool {
        // SAFETY: the caller's promise. The range stays mapped.
        let free = || unsafe { madvise(at.add(from).cast(), to - from, MmapAdvise::MADV_REMOVE) };
        !matches!(self, Pages::Fixed) && free().is_ok()
    }
}

const FILL_STEP: libc::off_t = 1 << 20;

fn seal(fd: &OwnedFd, seals: SealFlag) -> io::Result<()> {
    fcntl(fd, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(())
}

fn refuse<T>(why: &str) -> io::Result<T> {
    Err(io::Error::new(ErrorKind::InvalidData, why))
}

/// Checks that this is a memory file of at least `len` bytes that a peer cannot shorten. Returns its size.
fn check(fd: &impl AsFd, len: usize) -> io::Result<usize> {
    // Files that cannot be sealed return an error; those in a tmpfs only have F_SEAL_SEAL.
    let seals = fcntl(fd, FcntlArg::F_GET_SEALS).unwrap_or(0);
    if !SealFlag::from_bits_retain(seals).contains(SealFlag::F_SEAL_SHRINK) {
        return refuse("memory that could be shortened");
    }
    if fstatfs(fd)?.filesystem_type() != TMPFS_MAGIC {
        return refuse("memory of huge pages");
    }
    let stat = fstat(fd)?;
    let size = usize::try_from(stat.st_size).unwrap_or(0);
    if len == 0 || size < len {
        return refuse("memory that is too short");
    }
    Ok(size)
}

/// Returns true if a part of the file has no pages yet.
fn has_holes(fd: &impl AsFd, size: usize) -> io::Result<bool> {
    let stat = fstat(fd)?;
    // The unit is 512 bytes, whatever the page size.
    Ok((stat.st_blocks as u64).saturating_mul(512) < size as u64)
}

#[cfg(test)]
mod tests;
