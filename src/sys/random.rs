// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Numbers that nobody can guess: getrandom(2).
//!
//! Trusted with: this system call.

use std::io;

/// Bytes that nobody can guess and that were never given before.
pub fn unpredictable() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    loop {
        // SAFETY: `bytes` lives during the call and has the length that is said.
        let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        // Up to 256 bytes come at once, says getrandom(2), if any come.
        match usize::try_from(n) {
            Ok(n) if n == bytes.len() => return Ok(bytes),
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
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
