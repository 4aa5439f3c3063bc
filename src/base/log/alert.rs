// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Failures that probably end a job are written even if the user has asked for no log, a few per process: fabric(7),
//! "Logging interface". A program whose standard error is closed may have opened something else under its number, so a
//! line is only written to what was there when the settings were read.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::socket::{AddressFamily, SockaddrLike, SockaddrStorage, getsockname};
use nix::sys::stat::{SFlag, fstat};

/// Lines of one process.
const MOST: u32 = 5;

/// Added to the last line.
pub(super) const LAST: &str = " (there may be more: FI_LOG_LEVEL=warn)";

/// The lines that are left, and what standard error was.
#[derive(Debug)]
pub(super) struct Alerts {
    left: AtomicU32,
    /// Device and number of the file; none: nothing is written.
    stderr: Option<(u64, u64)>,
}

impl Alerts {
    /// `is_on`: the user has set no level, and has not turned such lines off.
    pub(super) fn new(is_on: bool) -> Alerts {
        Alerts {
            left: AtomicU32::new(MOST),
            stderr: if is_on { identity() } else { None },
        }
    }

    /// Takes one of the lines. Returns none if there is none left, and whether it is the last one.
    pub(super) fn take(&self) -> Option<bool> {
        if self.stderr.is_none() || self.stderr != identity() {
            return None;
        }
        // Relaxed: the number is all that matters.
        let take = |left: u32| left.checked_sub(1);
        let left = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        left.ok().map(|left| left == 1)
    }
}

/// Returns device and number of standard error, unless it is closed or a connection to another host.
fn identity() -> Option<(u64, u64)> {
    let stderr = io::stderr();
    let stat = fstat(stderr.as_fd()).ok()?;
    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    if kind == SFlag::S_IFSOCK {
        let name = getsockname::<SockaddrStorage>(stderr.as_raw_fd()).ok()?;
        if name.family() != Some(AddressFamily::Unix) {
            return None;
        }
    }
    Some((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_lines_are_written_and_the_last_one_is_known() {
        let alerts = Alerts::new(true);
        if alerts.stderr.is_none() {
            return;
        }
        let taken: Vec<Option<bool>> = (0..MOST + 2).map(|_| alerts.take()).collect();
        assert!(
            taken[..MOST as usize - 1]
                .iter()
                .all(|one| *one == Some(false))
        );
        assert_eq!(taken[MOST as usize - 1..], [Some(true), None, None]);
        assert_eq!(Alerts::new(false).take(), None);
    }
}
