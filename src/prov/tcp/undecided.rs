// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connection requests that were reported (FI_CONNREQ) and that the application has neither accepted nor rejected.
//!
//! A request outlives its passive endpoint: fi_accept takes the new endpoint alone (fi_cm(3)), so a program may close a
//! listener before it opens an endpoint for the request. libfabric's own tcp allows that, too. A request that is
//! forgotten this way would let its client wait for ever, because nothing else ends the connection. When the passive
//! endpoint is closed, the connect timeout begins for requests of which no endpoint was made: nothing listens at that
//! port any more. A thread refuses them then, because the application may never again make a call that could.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::base::log::{Source, Subsys, log_info};
use crate::base::params::NO_LIMIT;
use crate::prov::tcp::request::{Accepted, Claim};
use crate::sys::ask_signal::keep_loaded;
use crate::sys::fork::Birth;
use crate::sys::thread;

/// The undecided requests of a passive endpoint: their handles, by their serial numbers.
#[derive(Default)]
pub struct Undecided(Mutex<HashMap<u64, usize>>);

impl Undecided {
    fn handles(&self) -> MutexGuard<'_, HashMap<u64, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn insert(&self, serial: u64, handle: usize) {
        self.handles().insert(serial, handle);
    }

    pub fn remove(&self, serial: u64) {
        self.handles().remove(&serial);
    }

    /// Number of requests of which no endpoint was made.
    pub fn unclaimed(&self) -> usize {
        let handles = self.handles().clone();
        let is_unclaimed =
            |(serial, handle): &(u64, usize)| Accepted::is_unclaimed(*handle, *serial);
        handles.into_iter().filter(is_unclaimed).count()
    }

    /// Refuses the requests of which no endpoint was made. Their handles are stale then.
    fn refuse(&self) -> usize {
        // A request that is taken removes itself from the map.
        let handles = self.handles().clone();
        let refuse = |(serial, handle)| Claim::of(handle, serial).is_ok_and(|it| it.refuse());
        handles.into_iter().map(refuse).filter(|&done| done).count()
    }
}

/// Requests of a closed passive endpoint.
struct Batch {
    requests: Arc<Undecided>,
    due: Instant,
    source: &'static Source,
}

#[derive(Default)]
struct Queue {
    batches: Vec<Batch>,
    /// Process in which a thread serves the queue. A child has its parent's memory and not its threads.
    served: Option<Birth>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    batches: Vec::new(),
    served: None,
});
static ADDED: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses the requests of a closed passive endpoint if they are unclaimed after `limit`.
pub fn refuse_after(requests: Arc<Undecided>, limit: Duration, source: &'static Source) {
    if limit >= NO_LIMIT {
        return;
    }
    let mut queue = queue();
    queue.batches.push(Batch {
        requests,
        due: Instant::now() + limit,
        source,
    });
    if queue.served.is_some_and(|birth| birth.is_here()) {
        ADDED.notify_one();
        return;
    }
    match start() {
        Ok(()) => queue.served = Some(Birth::here()),
        // There is no thread, so the time is over now.
        Err(_) => refuse(queue.batches.drain(..).collect()),
    }
}

fn start() -> io::Result<()> {
    // The thread may outlive everything that the application has opened.
    if !keep_loaded() {
        return Err(io::Error::other("the library could be unloaded"));
    }
    thread::spawn("fi-refuse", serve).map(drop)
}

/// Refuses batches when they are due, until there are none.
fn serve() {
    let mut queue = queue();
    while let Some(next) = queue.batches.iter().map(|batch| batch.due).min() {
        let now = Instant::now();
        if now < next {
            let waited = ADDED.wait_timeout(queue, next - now);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        let is_due = |batch: &mut Batch| batch.due <= now;
        let due = queue.batches.extract_if(.., is_due).collect();
        drop(queue);
        refuse(due);
        queue = self::queue();
    }
    queue.served = None;
}

fn refuse(batches: Vec<Batch>) {
    for batch in batches {
        let count = batch.requests.refuse();
        if count > 0 {
            log_info!(
                batch.source,
                Subsys::EpCtrl,
                "connection requests of a closed passive endpoint refused: {count}"
            );
        }
    }
}
