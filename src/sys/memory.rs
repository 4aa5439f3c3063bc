// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Pages of memory, and the files behind them.
//!
//! Trusted with: msync(2) on addresses that are plain numbers here, and a call of memcpy(3).

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use std::io::{self, ErrorKind};

use nix::sys::mman::{MsFlags, msync};
use nix::unistd::{SysconfVar, sysconf};

/// Returns the size of a page in bytes.
pub fn page_size() -> usize {
    const USUAL: usize = 4096;
    let size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| usize::try_from(size).ok())
        .unwrap_or(USUAL)
}

/// Returns the size of this machine's memory in bytes; `None` if it is unknown.
pub fn physical_size() -> Option<usize> {
    let pages = sysconf(SysconfVar::_PHYS_PAGES).ok().flatten()?;
    usize::try_from(pages).ok()?.checked_mul(page_size())
}

/// Waits until data written to these bytes has reached the file behind them, if there is one. The kernel chooses the
/// means: it writes pages out, and flushes the processor's caches for persistent memory.
pub fn make_durable(address: usize, len: usize) -> io::Result<()> {
    let start = address - address % page_size();
    let len = address - start + len;
    let start = NonNull::new(start as *mut c_void).ok_or(ErrorKind::InvalidInput)?;
    // SAFETY: msync changes no memory; where nothing is mapped it fails.
    unsafe { msync(start, len, MsFlags::MS_SYNC)? };
    Ok(())
}

/// Calls memcpy(3) through a pointer that the compiler cannot look into. If another process may change the source at
/// any time, the compiler must not read a source byte a second time instead of its copy, as it may for a known memcpy.
///
/// # Safety
/// `from[..len]` is readable, `to[..len]` is writable, and they do not overlap.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: an initialized static.
    let memcpy = unsafe { ptr::read_volatile(&raw const MEMCPY) };
    // SAFETY: the caller's promise.
    unsafe { memcpy(to.cast(), from.cast(), len) };
}

type Memcpy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

static MEMCPY: Memcpy = libc::memcpy;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_a_power_of_two() {
        assert!(page_size().is_power_of_two() && page_size() >= 4096);
    }

    #[test]
    fn memory_without_a_file_is_fine_and_no_memory_is_an_error() {
        let bytes = [0u8; 100];
        make_durable(bytes.as_ptr() as usize + 3, 90).unwrap();
        assert!(make_durable(0, 1).is_err());
    }
}
