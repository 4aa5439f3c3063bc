// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Runs jobs in a thread after a delay, because the application may never make another call. The thread ends when there
//! are no jobs left.

use core::time::Duration;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sys::ask_signal::keep_loaded;
use sys::fork::Birth;
use sys::thread;

type Run = Box<dyn FnOnce() + Send>;

struct Job {
    due: Instant,
    run: Run,
}

#[derive(Default)]
struct Queue {
    jobs: Vec<Job>,
    /// Process whose thread serves the queue. A forked child has the queue but not the thread.
    served: Option<Birth>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    jobs: Vec::new(),
    served: None,
});
static ADDED: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a job after `delay`, or at once if the thread cannot be created.
pub fn run_after(delay: Duration, run: impl FnOnce() + Send + 'static) {
    let mut queue = queue();
    let (due, run) = (Instant::now() + delay, Box::new(run));
    queue.jobs.push(Job { due, run });
    if queue.served.is_some_and(|birth| birth.is_here()) {
        ADDED.notify_one();
        return;
    }
    if start().is_ok() {
        queue.served = Some(Birth::here());
        return;
    }
    let jobs = core::mem::take(&mut queue.jobs);
    drop(queue);
    jobs.into_iter().for_each(|job| (job.run)());
}

fn start() -> io::Result<()> {
    // The thread may outlive all objects of the application.
    if !keep_loaded() {
        return Err(io::Error::other("the library could be unloaded"));
    }
    thread::spawn("fi-delayed", serve).map(drop)
}

/// Runs jobs when they are due, until none are left.
fn serve() {
    let mut queue = queue();
    while let Some(next) = queue.jobs.iter().map(|job| job.due).min() {
        let now = Instant::now();
        if now < next {
            let waited = ADDED.wait_timeout(queue, next - now);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        let due: Vec<Job> = queue.jobs.extract_if(.., |job| job.due <= now).collect();
        drop(queue);
        due.into_iter().for_each(|job| (job.run)());
        queue = self::queue();
    }
    queue.served = None;
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn jobs_run_in_the_order_of_their_times() {
        let (send, results) = channel();
        for delay in [40, 1, 20] {
            let send = send.clone();
            let start = Instant::now();
            run_after(Duration::from_millis(delay), move || {
                send.send((delay, start.elapsed())).unwrap();
            });
        }
        drop(send);
        let results: Vec<_> = results.iter().collect();
        assert_eq!(
            results.iter().map(|it| it.0).collect::<Vec<_>>(),
            [1, 20, 40]
        );
        for (delay, waited) in results {
            assert!(waited >= Duration::from_millis(delay));
        }
    }
}
