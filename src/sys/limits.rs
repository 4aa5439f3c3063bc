// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What the system grants to this process: setrlimit(2).
#![forbid(unsafe_code)]

use std::io;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

/// Descriptors that the process may have.
pub fn descriptors() -> usize {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((limit, _)) => usize::try_from(limit).unwrap_or(usize::MAX),
        Err(_) => usize::MAX,
    }
}

/// EFBIG where a file, memory without a name included, must not become as long as that. The kernel says so, too, but
/// kills a process that does not expect the signal that comes with it (SIGXFSZ).
pub fn check_file_size(end: u64) -> io::Result<()> {
    let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
    match end <= limit {
        true => Ok(()),
        false => Err(Errno::EFBIG.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_be_as_long_as_the_limit() {
        let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
        assert!(check_file_size(0).is_ok());
        assert!(check_file_size(limit).is_ok());
        if let Some(more) = limit.checked_add(1) {
            let error = check_file_size(more).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(27));
        }
    }
}
