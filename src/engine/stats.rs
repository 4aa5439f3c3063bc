// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The counters of this process, for its endpoints of all domains: whether there are any (FI_STATS), and where. What
//! they are is in `sync::stats`.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::thread::yield_now;
use std::time::Instant;

use crate::base::identity;
use crate::base::log::{CORE, Subsys, log_info};
use crate::base::settings::Settings;
use crate::sync::stats::{Block, EpStats, Owner};
use crate::sys::fork::Birth;

/// The part of one domain.
#[derive(Default)]
pub struct Stats {
    block: Option<Arc<Block>>,
    /// The domain's number in this process.
    domain: u64,
    /// The last question that was answered.
    answered: u64,
    /// The same for dumps.
    dumped: u64,
}

impl Stats {
    /// Of a domain that is opened. All of a process share their memory, which goes with the last.
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
            // Relaxed: only its being different counts.
            domain: DOMAINS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Of an endpoint of the domain.
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

    /// In a child that goes on with what its parent has opened: it counts for itself.
    pub fn leave_to_parent(&self) {
        if let Some(block) = &self.block {
            block.leave_to_parent();
        }
    }

    pub fn domain(&self) -> u64 {
        self.domain
    }

    /// The number of a question for gauges that is not answered yet.
    #[inline]
    pub fn take_question(&mut self) -> Option<u64> {
        let asked = self.block.as_ref()?.asked_gauges();
        (std::mem::replace(&mut self.answered, asked) != asked).then_some(asked)
    }

    /// Whether a dump was asked for since the last time.
    #[inline]
    pub fn wants_dump(&mut self) -> bool {
        let Some(block) = &self.block else {
            return false;
        };
        let asked = block.asked_dump();
        std::mem::replace(&mut self.dumped, asked) != asked
    }
}

/// The block, and who made it.
type Known = Option<(Birth, Weak<Block>)>;

static BLOCK: Mutex<Known> = Mutex::new(None);

/// That of this process, while a domain is open.
pub fn block() -> Option<Arc<Block>> {
    current(&*list()?)
}

/// In a child of a process that was forked in here it is taken for ever.
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

/// How long the thread that makes it may take.
const PATIENCE: Duration = Duration::from_millis(100);

fn current(known: &Known) -> Option<Arc<Block>> {
    let (birth, block) = known.as_ref()?;
    block.upgrade().filter(|_| birth.is_here())
}

/// That of this process, made if it is not there.
fn block_of_process() -> Option<Arc<Block>> {
    let mut known = list()?;
    if let Some(block) = current(&known) {
        return Some(block);
    }
    let made =
        started().and_then(|started| Block::new(std::process::id(), started, identity::TEXT));
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

/// When this process started, as proc_pid_stat(5) has it: in clock ticks after boot.
fn started() -> io::Result<u64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // Behind the name, which may have anything in it.
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
