// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory that files stand behind.

use std::io;

/// Returns when what was written to these bytes has reached the file behind them, if there is one. The kernel knows what
/// that takes: it writes pages out, and flushes the processor's caches where the memory itself keeps its content.
pub fn make_durable(address: usize, len: usize) -> io::Result<()> {
    // SAFETY: sysconf has no precondition.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
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
    fn memory_without_a_file_is_fine_and_no_memory_is_an_error() {
        let bytes = [0u8; 100];
        make_durable(bytes.as_ptr() as usize + 3, 90).unwrap();
        assert!(make_durable(0, 1).is_err());
    }
}
