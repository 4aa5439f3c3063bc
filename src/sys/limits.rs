// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Limits that the system sets for this process: setrlimit(2).
#![forbid(unsafe_code)]

use std::{fs, io};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Greatest number of descriptors that the process may have.
pub fn descriptors() -> usize {
    descriptor_limits().0
}

/// Returns the soft limit on descriptors, and the hard limit, to which the process may raise the soft one.
pub fn descriptor_limits() -> (usize, usize) {
    let number = |limit| usize::try_from(limit).unwrap_or(usize::MAX);
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) => (number(soft), number(hard)),
        Err(_) => (usize::MAX, usize::MAX),
    }
}

/// Returns how many of the descriptors that the process may have are in use. `enough`: an estimate that is too high,
/// but not above this number, is good enough. If no descriptor is free, or the number is unknown because /proc is not
/// mounted, it is the limit.
pub fn descriptors_in_use(enough: usize) -> usize {
    let limit = descriptors();
    // Since Linux 6.2 the size of the folder is the number of all descriptors. Those from the limit on were inherited,
    // or opened before the limit was lowered.
    let all = fs::metadata(OWN).map_or(0, |own| own.len() as usize);
    if all > 0 && all <= enough {
        return all.min(limit);
    }
    let Ok(entries) = fs::read_dir(OWN) else {
        return limit;
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<usize>().ok());
    // One of them reads the folder.
    names
        .filter(|&number| number < limit)
        .count()
        .saturating_sub(1)
}

const OWN: &str = "/proc/self/fd";

/// Sets the soft limit on descriptors.
pub fn set_descriptors(soft: usize) -> io::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, soft as u64, hard)?)
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
    fn descriptors_in_use_are_counted() {
        // Other tests of the process open and close descriptors, too.
        let held: Vec<_> = (0..200)
            .map(|_| fs::File::open("/dev/null").unwrap())
            .collect();
        let many = descriptors_in_use(0);
        assert!(many >= 200 && many < descriptors(), "{many}");
        assert!(descriptors_in_use(usize::MAX) >= 200);
        drop(held);
        assert!(descriptors_in_use(0) < many);
    }

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
