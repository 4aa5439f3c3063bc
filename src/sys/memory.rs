// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory as pages, and what stands behind them.

use std::io;

/// Bytes of a page.
pub fn page_size() -> usize {
    // SAFETY: sysconf has no precondition.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Returns when what was written to these bytes has reached the file behind them, if there is one. The kernel knows what
/// that takes: it writes pages out, and flushes the processor's caches where the memory itself keeps its content.
pub fn make_durable(address: usize, len: usize) -> io::Result<()> {
    let page = page_size();
    let start = address - address % page;
    let len = address - start + len;
    // SAFETY: msync changes no memory; where nothing is mapped it fails.
    match unsafe { libc::msync(start as *mut libc::c_void, len, libc::MS_SYNC) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

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
