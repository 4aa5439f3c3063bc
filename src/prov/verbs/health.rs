// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What devices report without being asked. The domains of a device share its reports: whichever reads one leaves it for
//! the domain that it concerns.

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
    /// All queue pairs.
    device: bool,
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
            match notice {
                Notice::PairFailed(pair) => self.failed().pairs.push(pair),
                Notice::DeviceFailed => self.failed().device = true,
                Notice::QueueFailed => {
                    log_warn!(&SOURCE, Subsys::Cq, "{name}: a completion queue has failed");
                    continue;
                }
                Notice::PortDown(port) => {
                    log_warn!(&SOURCE, Subsys::Fabric, "{name}: port {port} is down");
                    continue;
                }
                other => {
                    log_info!(&SOURCE, Subsys::Fabric, "{name}: {other:?}");
                    continue;
                }
            }
            // Release: whoever sees the change sees what has failed, by the mutex.
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// What has failed since `seen`, of the queue pairs that `is_own` names.
    pub fn news(&self, seen: &mut u64, is_own: impl Fn(u32) -> bool) -> Vec<Failure> {
        let now = self.changes.load(Ordering::Acquire);
        if std::mem::replace(seen, now) == now {
            return Vec::new();
        }
        let mut failed = self.failed();
        let own = failed.pairs.extract_if(.., |pair| is_own(*pair));
        let mut news: Vec<Failure> = own.map(Failure::Pair).collect();
        if failed.device {
            news.push(Failure::Device);
        }
        news
    }

    /// A queue pair of this number is new: an earlier one may have left a report.
    pub fn forget(&self, pair: u32) {
        self.failed().pairs.retain(|&old| old != pair);
    }
}
