// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! FI_WAIT_MUTEX_COND (fi_cq(3), fi_eq(3), fi_poll(3)): wakes who waits on a condition variable when a descriptor
//! becomes readable. Nobody else looks there while the application waits, unless progress is automatic. The woken
//! application makes the progress itself, by its next read, so that this needs no part in any domain.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::abi::{FI_WAIT_MUTEX_COND, fi_wait_obj};
use crate::base::Result;
use crate::sys::cond::Cond;
use crate::sys::event::{EventFd, sleep_on};
use crate::sys::fork::Birth;
use crate::sys::thread;

/// A mutex and a condition variable, and once they were handed out a thread that sleeps on the descriptor while
/// somebody waits.
pub struct CondWatch {
    shared: Arc<Shared>,
    thread: Mutex<Option<(JoinHandle<()>, Birth)>>,
}

struct Shared {
    cond: Arc<Cond>,
    /// Somebody may wait, and was not woken for the descriptor since.
    armed: AtomicBool,
    stop: AtomicBool,
    /// Either has changed.
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

    /// What a wait object of this kind needs.
    pub fn for_obj(obj: fi_wait_obj) -> Result<Option<CondWatch>> {
        (obj == FI_WAIT_MUTEX_COND).then(CondWatch::new).transpose()
    }

    pub fn cond(&self) -> &Arc<Cond> {
        &self.shared.cond
    }

    /// The application gets the mutex and the condition variable. `fd` stays open until this is dropped.
    pub fn start(&self, fd: RawFd) -> Result<&Arc<Cond>> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = self.shared.clone();
            let handle = thread::spawn("fi-wait", move || shared.run(fd))?;
            *thread = Some((handle, Birth::here()));
        }
        Ok(self.cond())
    }

    /// Somebody is going to wait: fi_trywait(3) has found nothing.
    pub fn arm(&self) {
        if !self.shared.armed.swap(true, Ordering::AcqRel) {
            self.shared.doorbell.set();
        }
    }
}

impl Shared {
    fn run(&self, fd: RawFd) {
        let doorbell = self.doorbell.as_raw_fd();
        while !self.stop.load(Ordering::Acquire) {
            let armed = self.armed.load(Ordering::Acquire);
            let fds = [doorbell, fd];
            // What ends the sleep, a signal handler too, is found by looking again.
            let _ = sleep_on(&fds[..if armed { 2 } else { 1 }], None);
            self.doorbell.clear();
            if armed && sleep_on(&[fd], Some(core::time::Duration::ZERO)).unwrap_or(false) {
                // Before the broadcast: who arms from here on waits for another one.
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
        // A child has no such thread, and the doorbell is the parent's too.
        if !birth.is_here() {
            return;
        }
        self.shared.stop.store(true, Ordering::Release);
        self.shared.doorbell.set();
        // A panic aborts the process; there is no other error.
        let _ = thread.join();
    }
}
