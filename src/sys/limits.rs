// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Limits that the system sets for this process: setrlimit(2).
#![forbid(unsafe_code)]

use std::io;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

/// Greatest number of descriptors that the process may have.
pub fn descriptors() -> usize {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((limit, _)) => usize::try_from(limit).unwrap_or(usize::MAX),
        Err(_) => usize::MAX,
    }
}

/// Returns EFBIG if the limit forbids a file of this length; files without a name (memfd) count, too. The kernel would
/// return the same error, but also sends SIGXFSZ, which kills a process that does not handle it.
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
