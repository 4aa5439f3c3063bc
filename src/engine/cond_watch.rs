// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! FI_WAIT_MUTEX_COND (fi_cq(3), fi_eq(3), fi_poll(3)): signals a condition variable when a descriptor becomes
//! readable. While the application waits, no other thread watches that descriptor unless progress is automatic. The
//! woken application makes progress by its next read, so this thread needs no access to any domain.

use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use abi::{FI_WAIT_MUTEX_COND, fi_wait_obj};
use base::Result;
use sys::cond::Cond;
use sys::event::{EventFd, SharedFd, sleep_on};
use sys::fork::Birth;
use sys::thread;

/// A mutex and a condition variable. After the application has fetched them, a thread blocks on the descriptor while
/// the object is armed.
pub struct CondWatch {
    shared: Arc<Shared>,
    thread: Mutex<Option<(JoinHandle<()>, Birth)>>,
}

struct Shared {
    cond: Arc<Cond>,
    /// The application may be waiting, and was not signalled since it armed this object.
    armed: AtomicBool,
    stop: AtomicBool,
    /// Set when `armed` or `stop` has changed.
    doorbell: EventFd,
}

impl CondWatch {
    fn new() -> Result<CondWatch> {
        let shared = Arc::new(Shared {
            cond: Cond::new(),
            armed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            doorbell: EventFd::new()?,
        });
        Ok(CondWatch {
            shared,
            thread: Mutex::default(),
        })
    }

    /// The object for FI_WAIT_MUTEX_COND; none for other kinds of wait objects.
    pub fn for_obj(obj: fi_wait_obj) -> Result<Option<CondWatch>> {
        (obj == FI_WAIT_MUTEX_COND).then(CondWatch::new).transpose()
    }

    pub fn cond(&self) -> &Arc<Cond> {
        &self.shared.cond
    }

    /// Returns the mutex and the condition variable for the application. The thread shares the descriptor, because its
    /// other owners may close theirs while the thread sleeps:
    ///
    /// ```
    /// use engine::{cond_watch::CondWatch, reactor::Reactor};
    /// fn start(watch: &CondWatch, reactor: &Reactor<()>) {
    ///     let _ = watch.start(reactor.shared());
    /// }
    /// ```
    ///
    /// ```compile_fail,E0308
    /// use std::os::fd::AsFd;
    /// use engine::{cond_watch::CondWatch, reactor::Reactor};
    /// fn start(watch: &CondWatch, reactor: &Reactor<()>) {
    ///     let _ = watch.start(reactor.as_fd());
    /// }
    /// ```
    pub fn start(&self, fd: SharedFd) -> Result<&Arc<Cond>> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = self.shared.clone();
            let handle = thread::spawn("fi-wait", move || shared.run(&fd))?;
            *thread = Some((handle, Birth::here()));
        }
        Ok(self.cond())
    }

    /// Called before the application waits: fi_trywait(3) has found nothing.
    pub fn arm(&self) {
        if !self.shared.armed.swap(true, Ordering::AcqRel) {
            self.shared.doorbell.set();
        }
    }
}

impl Shared {
    fn run(&self, fd: &SharedFd) {
        let (doorbell, fd) = (self.doorbell.as_fd(), fd.as_fd());
        while !self.stop.load(Ordering::Acquire) {
            let armed = self.armed.load(Ordering::Acquire);
            let fds = [doorbell, fd];
            // The next iteration finds whatever ended the sleep. An error only means that a signal handler ran.
            let _ = sleep_on(&fds[..if armed { 2 } else { 1 }], None);
            self.doorbell.clear();
            if armed && sleep_on(&[fd], Some(core::time::Duration::ZERO)).unwrap_or(false) {
                // Cleared before the broadcast: a thread that arms from here on needs another broadcast.
                self.armed.store(false, Ordering::Release);
                self.cond.broadcast();
            }
        }
    }
}

impl Drop for CondWatch {
    fn drop(&mut self) {
        let thread = self
            .thread
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let Some((thread, birth)) = thread.take() else {
            return;
        };
        // A child has no such thread, and shares the doorbell with its parent.
        if !birth.is_here() {
            return;
        }
        self.shared.stop.store(true, Ordering::Release);
        self.shared.doorbell.set();
        // A panic aborts the process; there is no other error.
        let _ = thread.join();
    }
}
