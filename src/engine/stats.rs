// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The statistics of this process, for its endpoints of all domains: whether they are enabled (FI_STATS), and where
//! they are. `sync::stats` defines them.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::thread::yield_now;
use std::time::Instant;

use base::identity;
use base::log::{CORE, Subsys, log_info};
use base::settings::Settings;
use sync::stats::{Block, EpStats, Owner};
use sys::fork::Birth;

/// The statistics of one domain.
#[derive(Default)]
pub struct Stats {
    block: Option<Arc<Block>>,
    /// The domain's number in this process.
    domain: u64,
    /// Number of the last request for gauges that was answered.
    answered: u64,
    /// Number of the last request for a dump that was answered.
    dumped: u64,
}

impl Stats {
    /// Makes the statistics of a domain that is opened. The domains of a process share one block, which ends with the
    /// last.
    pub fn open() -> Stats {
        static DOMAINS: AtomicU64 = AtomicU64::new(0);
        let block = match Settings::get().stats {
            true => block_of_process(),
            false => None,
        };
        Stats {
            answered: block.as_ref().map_or(0, |block| block.asked_gauges()),
            dumped: block.as_ref().map_or(0, |block| block.asked_dump()),
            block,
            // Relaxed: the numbers only have to be distinct.
            domain: DOMAINS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Makes the statistics of an endpoint of the domain.
    pub fn record(&self, provider: &str, ep_type: u32) -> EpStats {
        let owner = Owner {
            domain: self.domain,
            ep_type,
            provider,
        };
        match &self.block {
            Some(block) => block.record(&owner),
            None => EpStats::hidden(),
        }
    }

    /// Called in a child that continues to use its parent's objects: the child counts in memory of its own.
    pub fn abandon_in_child(&self) {
        if let Some(block) = &self.block {
            block.abandon_in_child();
        }
    }

    pub fn domain(&self) -> u64 {
        self.domain
    }

    /// The number of a request for gauges that was not answered yet.
    #[inline]
    pub fn take_dump_request(&mut self) -> Option<u64> {
        let asked = self.block.as_ref()?.asked_gauges();
        (std::mem::replace(&mut self.answered, asked) != asked).then_some(asked)
    }

    /// Whether a dump was requested since the last call.
    #[inline]
    pub fn wants_dump(&mut self) -> bool {
        let Some(block) = &self.block else {
            return false;
        };
        let asked = block.asked_dump();
        std::mem::replace(&mut self.dumped, asked) != asked
    }
}

/// The block, and the process that made it.
type Known = Option<(Birth, Weak<Block>)>;

static BLOCK: Mutex<Known> = Mutex::new(None);

/// The block of this process, while a domain is open.
pub fn block() -> Option<Arc<Block>> {
    current(&*list()?)
}

/// In a child the lock may stay taken for ever, if the process forked while a thread held it.
fn list() -> Option<MutexGuard<'static, Known>> {
    let end = Instant::now() + PATIENCE;
    loop {
        match BLOCK.try_lock() {
            Ok(known) => return Some(known),
            Err(TryLockError::Poisoned(known)) => return Some(known.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() >= end => return None,
            Err(TryLockError::WouldBlock) => yield_now(),
        }
    }
}

/// Time that another thread may take to make the block.
const PATIENCE: Duration = Duration::from_millis(100);

fn current(known: &Known) -> Option<Arc<Block>> {
    let (birth, block) = known.as_ref()?;
    block.upgrade().filter(|_| birth.is_here())
}

/// The block of this process; makes it if there is none.
fn block_of_process() -> Option<Arc<Block>> {
    let mut known = list()?;
    if let Some(block) = current(&known) {
        return Some(block);
    }
    let made =
        started().and_then(|started| Block::new(std::process::id(), started, identity::text()));
    match made {
        Ok(block) => {
            *known = Some((Birth::here(), Arc::downgrade(&block)));
            Some(block)
        }
        Err(error) => {
            log_info!(&CORE, Subsys::Core, "no counters for fi_top: {error}");
            None
        }
    }
}

/// Start time of this process, in clock ticks after boot as in proc_pid_stat(5).
fn started() -> io::Result<u64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The fields follow the name, which may contain any characters.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields);
    let started = fields.and_then(|fields| fields.split_whitespace().nth(19)?.parse().ok());
    started.ok_or_else(|| io::Error::other("/proc/self/stat has no start time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_domains_of_a_process_share_a_block() {
        let (one, other) = (Stats::open(), Stats::open());
        let blocks = [&one, &other].map(|stats| stats.block.clone().unwrap());
        assert!(Arc::ptr_eq(&blocks[0], &blocks[1]));
        assert_ne!(one.domain, other.domain);
    }

    #[test]
    fn a_process_knows_when_it_started() {
        assert!(started().unwrap() > 0);
    }
}
