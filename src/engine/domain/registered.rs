// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The list of all domains of the process, of all transports, for actions that concern every domain.

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::thread::sleep;
use std::time::Instant;

use super::Engine;
use crate::report::DomainReport;
use crate::report::gather::gather;
use crate::transport::Transport;
use sync::inside;

/// How long to wait for a thread inside a call, which may never return, before log lines wait for it.
const INSIDE: Duration = Duration::from_secs(1);

/// A domain of any transport.
pub(super) trait Registered: Send + Sync {
    fn drain_at_exit(&self);
    fn share_lock(&self);
    fn report(&self, limit: Duration) -> DomainReport;
}

impl<T: Transport> Registered for Engine<T> {
    fn drain_at_exit(&self) {
        Engine::drain_at_exit(self);
    }

    fn share_lock(&self) {
        self.state.share_within(INSIDE);
    }

    fn report(&self, limit: Duration) -> DomainReport {
        let state = self.state.lock_aside_within(limit);
        DomainReport {
            number: self.number,
            provider: self.prov_name.to_string_lossy().into_owned(),
            name: self
                .info
                .domain
                .name
                .as_ref()
                .map_or(String::new(), |name| name.to_string_lossy().into_owned()),
            endpoints: state.map(|state| gather(&state.transport, &state.domain, Instant::now())),
        }
    }
}

static DOMAINS: Mutex<Vec<Weak<dyn Registered>>> = Mutex::new(Vec::new());

/// Adds a domain that was opened.
pub(super) fn register<T: Transport>(engine: &Arc<Engine<T>>) {
    // The domain is on the list before it checks the flag. A thread that starts watching sets the flag before it reads
    // the list, so one of the two sees the other.
    let listed: Weak<Engine<T>> = Arc::downgrade(engine);
    let is_known = push(listed);
    if !is_known || inside::is_watched() {
        engine.share_lock();
    }
}

fn push(engine: Weak<dyn Registered>) -> bool {
    let Some(mut domains) = list(TRIES) else {
        return false;
    };
    domains.retain(|domain| domain.strong_count() > 0);
    domains.push(engine);
    true
}

/// All open domains.
fn all(tries: u32) -> impl Iterator<Item = Arc<dyn Registered>> {
    let domains = list(tries).map(|domains| domains.clone());
    let domains = domains.unwrap_or_default().into_iter();
    domains.filter_map(|domain| domain.upgrade())
}

/// In a child the list may stay locked for ever, if the process forked while a thread held it.
fn list(tries: u32) -> Option<MutexGuard<'static, Vec<Weak<dyn Registered>>>> {
    for n in 1..=tries {
        match DOMAINS.try_lock() {
            Ok(domains) => return Some(domains),
            Err(TryLockError::Poisoned(domains)) => return Some(domains.into_inner()),
            Err(TryLockError::WouldBlock) if n < tries => sleep(Duration::from_millis(1)),
            Err(TryLockError::WouldBlock) => {}
        }
    }
    None
}

/// Snapshots of the endpoints of all domains. Each domain's lock is waited for at most `limit`.
pub fn report(limit: Duration) -> Vec<DomainReport> {
    all(TRIES).map(|domain| domain.report(limit)).collect()
}

const TRIES: u32 = 100;

/// From now on threads inside locks are recorded (`sync::inside`): all domain locks become shared ones, which record
/// their holder.
pub fn share_locks() {
    all(TRIES).for_each(|domain| domain.share_lock());
}

/// Called when the process ends by exit(3) or a return from main. Other threads may still make calls. A thread that was
/// opening a domain may be stopped for good, or may be this one if a signal handler called exit.
pub fn drain_at_exit() {
    // A domain below another one was opened first. It is drained last, so that it sends what the upper one flushed.
    let open: Vec<_> = all(1).collect();
    open.iter().rev().for_each(|domain| domain.drain_at_exit());
}
