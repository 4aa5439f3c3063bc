// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What devices report without being asked. The domains of a device share its reports: whichever reads one leaves it
//! for the domain that it concerns.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::SOURCE;
use base::log::{Subsys, log_info, log_warn};
use sys::verbs::{Device, Notice};

/// The reports of a device that ends connections.
#[derive(Default)]
pub struct Health {
    /// Changes with each of them.
    changes: AtomicU64,
    failed: Mutex<Failed>,
}

#[derive(Default)]
struct Failed {
    /// Numbers of queue pairs, until their domain takes them.
    pairs: Vec<u32>,
    /// All queue pairs of that time: the number of the change.
    device: u64,
}

/// What has failed for a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    Pair(u32),
    Device,
}

/// The reports of this device in this process.
pub fn health_of(device: Device) -> Arc<Health> {
    static ALL: Mutex<Vec<(Device, Arc<Health>)>> = Mutex::new(Vec::new());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = all.iter().find(|(of, _)| *of == device) {
        return known.clone();
    }
    let health = Arc::<Health>::default();
    all.push((device, health.clone()));
    health
}

impl Health {
    fn failed(&self) -> MutexGuard<'_, Failed> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the reports of the device.
    pub fn read(&self, device: Device, name: &str) {
        while let Some(notice) = device.next_notice() {
            self.note(notice, name);
        }
    }

    fn note(&self, notice: Notice, name: &str) {
        match notice {
            Notice::PairFailed(pair) => self.failed().pairs.push(pair),
            Notice::DeviceFailed => self.failed().device = self.changes() + 1,
            Notice::QueueFailed => {
                return log_warn!(&SOURCE, Subsys::Cq, "{name}: a completion queue has failed");
            }
            Notice::PortDown(port) => {
                return log_warn!(&SOURCE, Subsys::Fabric, "{name}: port {port} is down");
            }
            Notice::PortUp(port) => {
                return log_info!(&SOURCE, Subsys::Fabric, "{name}: port {port} is up");
            }
            Notice::Other(event) => {
                return log_info!(
                    &SOURCE,
                    Subsys::Fabric,
                    "{name}: event {event} of the device"
                );
            }
        }
        // Release: whoever sees the change sees what has failed.
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// The number of changes so far, for `news` of a new domain: earlier ones do not concern it.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// What has failed since `seen`, of the queue pairs that `is_own` names.
    pub fn news(&self, seen: &mut u64, is_own: impl Fn(u32) -> bool) -> Vec<Failure> {
        let now = self.changes();
        let before = std::mem::replace(seen, now);
        if before == now {
            return Vec::new();
        }
        let mut failed = self.failed();
        let own = failed.pairs.extract_if(.., |pair| is_own(*pair));
        let mut news: Vec<Failure> = own.map(Failure::Pair).collect();
        if failed.device > before {
            news.push(Failure::Device);
        }
        news
    }

    /// A queue pair of this number is new: an earlier one may have left a report.
    pub fn forget(&self, pair: u32) {
        self.failed().pairs.retain(|&old| old != pair);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_device_concerns_the_domains_of_that_time_once() {
        let health = Health::default();
        let mut old = health.changes();
        health.note(Notice::DeviceFailed, "d0");
        assert_eq!(health.news(&mut old, |_| false), [Failure::Device]);
        let mut new = health.changes();
        health.note(Notice::PairFailed(7), "d0");
        assert_eq!(health.news(&mut old, |_| false), []);
        assert_eq!(health.news(&mut new, |pair| pair == 7), [Failure::Pair(7)]);
        health.note(Notice::PairFailed(8), "d0");
        health.forget(8);
        assert_eq!(health.news(&mut new, |_| true), []);
    }
}
