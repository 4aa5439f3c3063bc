// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Unpredictable numbers: getrandom(2).
//!
//! Trusted with: this system call.

use std::io;

use super::retry::retry;

/// Returns unpredictable bytes that were never returned before.
pub fn unpredictable() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    let n = retry(|| {
        // SAFETY: `bytes` lives during the call and has the given length.
        let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    })?;
    // getrandom(2) returns up to 256 bytes in one piece.
    match n == bytes.len() {
        true => Ok(bytes),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_are_the_same() {
        let first = super::unpredictable().unwrap();
        assert_ne!(first, super::unpredictable().unwrap());
        assert_ne!(first, [0; 32]);
    }
}
