// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Descriptors of this process: each connection holds one. The soft limit is often 1,024 although the hard limit is far
//! above it.
//!
//! The first connection raises the soft limit to the hard limit, once per process; a process that never connects keeps
//! its limits. The limit stays raised. select(2) cannot watch descriptors from 1,024 on, and programs that close all
//! possible descriptors between fork and exec take longer with a high limit. The kernel assigns the lowest free number,
//! so the first problem appears only in processes that would have failed before. `MOST` bounds the second one.
//! FI_RAISE_NOFILE=0 forbids the change.
//!
//! If a process has more peers than descriptors, providers close connections that are idle: `free_descriptors`.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Once;

use base::log::{Source, Subsys, log_failure, log_info, log_warn};
use base::settings::Settings;
use sys::limits::{descriptor_limits, descriptors, descriptors_in_use, set_descriptors};

/// The soft limit is not raised beyond this number, which is the kernel's default for the hard limit. Some containers
/// have a hard limit of 10^9, and a loop over so many descriptors would take minutes.
const MOST: usize = 1 << 20;

/// Addresses of the longest address vector of the process.
static ADDRESSES: AtomicUsize = AtomicUsize::new(0);

/// Prepares the process for a connection: raises the limit before the first one, and warns if an address vector has
/// more addresses than the process may have descriptors.
pub fn prepare_connection(source: &'static Source) {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| raise(source));
    // Relaxed: the number is all that matters.
    let addresses = ADDRESSES.load(Ordering::Relaxed);
    if addresses > 0 {
        warn_if_many(source, addresses);
    }
}

fn raise(source: &'static Source) {
    let (soft, hard) = descriptor_limits();
    let wanted = target(soft, hard, Settings::get().raise_nofile);
    if wanted == soft {
        return;
    }
    match set_descriptors(wanted) {
        Ok(()) => log_info!(
            source,
            Subsys::Core,
            "limit on descriptors raised from {soft} to {wanted}; FI_RAISE_NOFILE=0 forbids that"
        ),
        Err(error) => log_info!(
            source,
            Subsys::Core,
            "limit on descriptors stays {soft}: {error}"
        ),
    }
}

/// Returns the limit to set, which is `soft` if the limit stays.
fn target(soft: usize, hard: usize, may_raise: bool) -> usize {
    match may_raise {
        true => soft.max(hard.min(MOST)),
        false => soft,
    }
}

/// Records that an address vector has `len` addresses, of which `added` are new. If one call adds several addresses,
/// the vector is probably complete; otherwise the next connection checks the number.
pub fn vector_has(source: &'static Source, len: usize, added: usize) {
    // Relaxed: the number is all that matters.
    let longest = ADDRESSES.load(Ordering::Relaxed);
    if len <= longest {
        return;
    }
    ADDRESSES.fetch_max(len, Ordering::Relaxed);
    if added > 1 {
        warn_if_many(source, len);
    }
}

/// Warns once per process if there are more addresses than connections for them.
fn warn_if_many(source: &'static Source, addresses: usize) {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    static CHECKED: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: a race only causes a second check or log line.
    if IS_REPORTED.load(Ordering::Relaxed)
        || CHECKED.swap(addresses, Ordering::Relaxed) == addresses
    {
        return;
    }
    let (soft, hard) = descriptor_limits();
    let may_raise = Settings::get().raise_nofile;
    let Some(needed) = needed(addresses, target(soft, hard, may_raise)) else {
        return;
    };
    if IS_REPORTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let remedy = match !may_raise && needed <= hard {
        true => "Remove FI_RAISE_NOFILE=0, or",
        false => "To avoid that,",
    };
    log_warn!(
        source,
        Subsys::Av,
        "the address vector has {addresses} addresses, and each connection needs a descriptor: about {needed} are \
         needed, and this process may have {}. Connections that are idle will be closed and reopened, which takes \
         time. {remedy} raise the limit before the program starts: `ulimit -n {needed}` in the shell, \
         LimitNOFILE={needed} in the unit of systemd, or `nofile` in /etc/security/limits.conf",
        target(soft, hard, may_raise)
    );
}

/// Explains why a connection could not be opened.
#[cold]
pub fn report_shortage(source: &'static Source) {
    log_failure!(
        source,
        Subsys::EpCtrl,
        "no connection: this process has all of its {} descriptors in use, and no connection was idle, so that none \
         could be closed for another. `ulimit -n`, LimitNOFILE of systemd or `nofile` in /etc/security/limits.conf \
         raise the limit",
        descriptors()
    );
}

/// Returns the descriptors that a process with so many peers needs, if the limit is lower.
fn needed(addresses: usize, limit: usize) -> Option<usize> {
    let room = limit.saturating_sub(reserve(limit));
    // The reserve grows with the number.
    let needed = addresses + addresses / (SHARE - 1) + LEAST_RESERVE;
    (addresses > room).then(|| needed.max(limit + 1))
}

/// One of so many descriptors is left to the application, and at least `LEAST_RESERVE`.
const SHARE: usize = 8;
const LEAST_RESERVE: usize = 8;
const MOST_RESERVE: usize = 256;

/// Number of descriptors that connections leave to the application as long as a connection is idle.
fn reserve(limit: usize) -> usize {
    (limit / SHARE).clamp(LEAST_RESERVE, MOST_RESERVE)
}

/// The purposes for which descriptors are free.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Free {
    /// None, except for handshakes that have begun and for the application.
    Few,
    /// Connections that peers open. If attempts to connect could use all descriptors, processes could wait for each
    /// other: none of them could accept.
    Accept,
    /// Connections, if no connection is idle.
    Reserve,
    Ample,
}

/// Returns for what descriptors are free. While many are free, only some calls count them; if the application opens
/// more descriptors meanwhile than the number of all connections until the next count, an attempt to connect fails and
/// counts.
pub fn free_descriptors() -> Free {
    let limit = descriptors();
    // Relaxed: the numbers are all that matter, and a race only moves the next count.
    let left = UNTIL_LOOK.load(Ordering::Relaxed);
    if left > 0 && LIMIT_SEEN.load(Ordering::Relaxed) == limit {
        UNTIL_LOOK.store(left - 1, Ordering::Relaxed);
        return Free::Ample;
    }
    let used = descriptors_in_use(limit.saturating_sub(reserve(limit) + 1));
    let free = free_beside(used, limit);
    let skips = match free {
        Free::Ample => skips(used, limit),
        _ => 0,
    };
    LIMIT_SEEN.store(limit, Ordering::Relaxed);
    UNTIL_LOOK.store(skips, Ordering::Relaxed);
    free
}

/// Has the next call of `free_descriptors` count, because the process had no descriptor.
pub fn look_next() {
    UNTIL_LOOK.store(0, Ordering::Relaxed);
}

/// Whether the end of so many connections would leave descriptors for another one. If not, none should end for it.
#[cold]
pub fn would_help(connections: usize) -> bool {
    let limit = descriptors();
    let others = descriptors_in_use(0).saturating_sub(connections);
    free_beside(others, limit) >= Free::Reserve
}

/// The limit at the last count. The application may change it at any time.
static LIMIT_SEEN: AtomicUsize = AtomicUsize::new(0);

/// Calls of `free_descriptors` until the next count, after one that has found many free descriptors.
static UNTIL_LOOK: AtomicUsize = AtomicUsize::new(0);

/// Returns how many connections may be opened without a count: those for a small part of the free descriptors, of which
/// a connection takes up to `EACH` for a while.
fn skips(used: usize, limit: usize) -> usize {
    let ample = limit.saturating_sub(used + reserve(limit));
    (ample / (4 * EACH)).min(MOST_SKIPS)
}

/// Descriptors of a connection over shared memory, while it is set up.
const EACH: usize = 4;
const MOST_SKIPS: usize = 256;

/// Returns for what descriptors are free beside those in use.
fn free_beside(used: usize, limit: usize) -> Free {
    let reserve = reserve(limit);
    let left = limit.saturating_sub(used);
    if left > reserve {
        Free::Ample
    } else if left > reserve * 3 / 4 {
        Free::Reserve
    } else if left > reserve / 2 {
        Free::Accept
    } else {
        Free::Few
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_the_hard_limit_and_never_lowered() {
        assert_eq!(target(1024, 4096, true), 4096);
        assert_eq!(target(1024, 4096, false), 1024);
        assert_eq!(target(1024, 1024, true), 1024);
        assert_eq!(target(1024, usize::MAX, true), MOST);
        assert_eq!(target(MOST + 1, usize::MAX, true), MOST + 1);
    }

    #[test]
    fn the_needed_number_leaves_the_reserve() {
        assert_eq!(needed(896, 1024), None);
        for (addresses, limit) in [(897, 1024), (5000, 1024), (57, 64), (1 << 20, 1 << 20)] {
            let wanted = needed(addresses, limit).unwrap();
            assert!(
                wanted > limit && needed(addresses, wanted).is_none(),
                "{wanted}"
            );
        }
    }

    #[test]
    fn the_last_descriptors_are_for_peers_and_the_application() {
        assert_eq!([64, 256, 1024, 1 << 20].map(reserve), [8, 32, 128, 256]);
        assert_eq!(free_descriptors(), Free::Ample);
        assert_eq!(
            [(10, 64), (55, 64), (100, 1024), (1000, 1 << 20)].map(|(n, limit)| skips(n, limit)),
            [2, 0, 49, 256]
        );
        assert!(would_help(0));
        let at = |used| free_beside(used, 64);
        assert_eq!(
            [0, 55, 56, 57].map(at),
            [Free::Ample, Free::Ample, Free::Reserve, Free::Reserve]
        );
        assert_eq!(
            [58, 59, 60, 63].map(at),
            [Free::Accept, Free::Accept, Free::Few, Free::Few]
        );
    }
}
