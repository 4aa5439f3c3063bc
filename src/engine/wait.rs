// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Wait objects of queues and counters: fi_cq(3), fi_eq(3), fi_cntr(3), fi_poll(3).
//!
//! A waiter announces that it is about to block (`arm`). Only then does a thread that changes the state pay for a
//! wake-up (`notify`). `arm` is either called under the lock of that state, or followed by another check of it;
//! `notify` is called after the state has changed.
//!
//! One descriptor wakes all blocked threads. A thread that arms again must not clear it for threads that have not
//! noticed the wake-up yet. So a thread counts as a `Sleeper` from its first check to its last, and each wake-up must
//! be noticed by all sleepers.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use core::time::Duration;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::cond_watch::CondWatch;
use abi::*;
use base::log::{CORE, Subsys, log_warn};
use base::{Error, Result};
use object::WaitHandle;
use sys::cond::Cond;
use sys::event::{Epoll, EventFd, sleep_on};

/// The wait object of one queue or counter.
pub struct Wait {
    obj: fi_wait_obj,
    armed: AtomicBool,
    sleepers: Mutex<Sleepers>,
    /// FI_WAIT_MUTEX_COND. Its thread shares the descriptor of the set of `sleep`.
    cond: Option<CondWatch>,
    sleep: Option<Sleep>,
    set: Option<Arc<WaitSet>>,
    /// The number of armed wait objects of the domain.
    count: Option<Arc<AtomicUsize>>,
}

/// Threads in blocking calls.
#[derive(Default)]
struct Sleepers {
    all: usize,
    /// Number of threads that have not noticed the last wake-up.
    owed: usize,
    /// Number of wake-ups.
    round: u64,
}

/// A thread in a blocking call.
pub struct Sleeper<'a> {
    wait: &'a Wait,
    /// The last wake-up that the thread has noticed.
    seen: u64,
}

/// The descriptors behind a wait object: one that `wake` sets, and an epoll set of it and the sources of progress.
struct Sleep {
    event: EventFd,
    epoll: Epoll,
    sources: Mutex<Sources>,
}

#[derive(Default)]
struct Sources {
    /// Numbers for the answer to FI_WAIT_POLLFD; this library makes no call on them.
    fds: Vec<c_int>,
    /// Number of changes to `fds`.
    changes: u64,
}

const OWN: u64 = 0;
const SOURCE: u64 = 1;

impl Wait {
    /// `sources`: descriptors that become readable when a poll of the transport may find something.
    pub fn new(
        obj: fi_wait_obj,
        set: Option<Arc<WaitSet>>,
        sources: &[BorrowedFd<'_>],
    ) -> Result<Wait> {
        let (obj, sleeps) = match obj {
            FI_WAIT_NONE => (obj, false),
            FI_WAIT_UNSPEC => (FI_WAIT_FD, true),
            FI_WAIT_FD | FI_WAIT_POLLFD | FI_WAIT_MUTEX_COND | FI_WAIT_YIELD => (obj, true),
            FI_WAIT_SET if set.is_some() => (obj, true),
            _ => return Err(Error::INVAL),
        };
        let wait = Wait {
            obj,
            armed: AtomicBool::new(false),
            sleepers: Mutex::default(),
            sleep: sleeps.then(Sleep::new).transpose()?,
            cond: CondWatch::for_obj(obj)?,
            set,
            count: None,
        };
        for &fd in sources {
            wait.add_source(fd)?;
        }
        if let (Some(set), Some(sleep)) = (&wait.set, &wait.sleep) {
            set.epoll.add(&sleep.epoll, SOURCE, true, false)?;
        }
        Ok(wait)
    }

    /// Includes this object in the count of armed wait objects.
    pub fn counted(mut self, count: Arc<AtomicUsize>) -> Wait {
        count.fetch_add(usize::from(*self.armed.get_mut()), Ordering::Relaxed);
        self.count = Some(count);
        self
    }

    /// Adds a descriptor whose readiness must wake waiters.
    pub fn add_source(&self, fd: BorrowedFd<'_>) -> Result {
        let Some(sleep) = &self.sleep else {
            return Ok(());
        };
        match sleep.epoll.add(fd, SOURCE, true, false) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => {
                log_warn!(
                    &CORE,
                    Subsys::Core,
                    "no wait object: {error}; epoll(7) limits in how many sets a descriptor is through others: \
                     more domains, fewer waitable queues in each, or FI_WAIT_NONE"
                );
                Err(error.into())
            }
            Ok(()) => {
                let mut sources = sleep.sources();
                sources.fds.push(WaitHandle::number(fd));
                sources.changes += 1;
                Ok(())
            }
        }
    }

    pub fn remove_source(&self, fd: BorrowedFd<'_>) {
        if let Some(sleep) = &self.sleep {
            sleep.epoll.remove(fd);
            let (mut sources, number) = (sleep.sources(), WaitHandle::number(fd));
            sources.fds.retain(|&source| source != number);
            sources.changes += 1;
        }
    }

    pub fn obj(&self) -> fi_wait_obj {
        self.obj
    }

    /// FI_GETWAIT.
    pub fn handle(&self) -> Result<WaitHandle> {
        match (self.obj, &self.sleep, &self.cond) {
            (FI_WAIT_FD, Some(sleep), _) => Ok(fd_of(&sleep.epoll)),
            // Not their epoll set: the kernel limits the nesting of sets, and layers below an application already use
            // up levels.
            (FI_WAIT_POLLFD, Some(sleep), _) => {
                let (fds, index) = sleep.all();
                Ok(WaitHandle::PollFds(fds, index))
            }
            (FI_WAIT_MUTEX_COND, Some(sleep), Some(cond)) => {
                Ok(handle_of(cond.start(sleep.epoll.shared())?))
            }
            _ => Err(Error::NODATA),
        }
    }

    /// Whether a thread may sleep on this object.
    pub fn can_sleep(&self) -> bool {
        self.sleep.is_some()
    }

    /// Wakes threads that are armed.
    #[inline]
    pub fn notify(&self) {
        // Relaxed is enough under the lock under which `arm` is called. Code that changes state without that lock
        // (counters) uses `notify_unlocked`.
        if self.armed.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// `notify` for a change made without the lock under which waiters arm.
    pub fn notify_unlocked(&self) {
        // Pairs with the fence in `arm`: either this thread sees the waiter, or the waiter sees the change in its last
        // check.
        fence(Ordering::SeqCst);
        self.notify();
    }

    #[cold]
    fn wake(&self) {
        let mut sleepers = self.sleepers();
        if !self.armed.swap(false, Ordering::AcqRel) {
            return;
        }
        if let Some(count) = &self.count {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        sleepers.round += 1;
        sleepers.owed = sleepers.all;
        if let Some(sleep) = &self.sleep {
            sleep.event.set();
        }
        drop(sleepers);
        let of_set = self.set.as_ref().and_then(|set| set.cond.as_ref());
        for watch in self.cond.iter().chain(of_set) {
            watch.cond().broadcast();
        }
    }

    /// Announces a sleep on the descriptor (fi_trywait). The caller checks its state once more afterwards.
    pub fn arm(&self) {
        self.arm_with(self.sleepers());
        let of_set = self.set.as_ref().and_then(|set| set.cond.as_ref());
        for watch in self.cond.iter().chain(of_set) {
            watch.arm();
        }
    }

    fn arm_with(&self, sleepers: MutexGuard<'_, Sleepers>) {
        if let Some(sleep) = &self.sleep
            && sleepers.owed == 0
        {
            sleep.event.clear();
        }
        // Also while sleepers have not noticed a wake-up: a change from here on needs one of its own.
        if !self.armed.swap(true, Ordering::Relaxed)
            && let Some(count) = &self.count
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
        drop(sleepers);
        // Pairs with the fence in `notify_unlocked`.
        fence(Ordering::SeqCst);
    }

    /// The caller counts as a sleeper from the start of a blocking call to its end.
    pub fn enter(&self) -> Sleeper<'_> {
        let mut sleepers = self.sleepers();
        sleepers.all += 1;
        Sleeper {
            wait: self,
            seen: sleepers.round,
        }
    }

    fn sleepers(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sleeper<'_> {
    /// Announces a sleep, and that wake-ups up to now were noticed. The caller checks its state once more afterwards,
    /// or holds the lock under which it has checked.
    pub fn arm(&mut self) {
        let mut sleepers = self.wait.sleepers();
        self.notice(&mut sleepers);
        self.wait.arm_with(sleepers);
    }

    fn notice(&mut self, sleepers: &mut Sleepers) {
        sleepers.owed -= usize::from(self.seen != sleepers.round);
        self.seen = sleepers.round;
    }

    /// Blocks until a wake-up or the deadline. Returns false when the time is up, `INTR` if a signal handler ran.
    pub fn sleep(&self, deadline: Deadline) -> Result<bool> {
        let Some(sleep) = &self.wait.sleep else {
            return Err(Error::INVAL);
        };
        let left = deadline.left();
        if self.wait.obj == FI_WAIT_YIELD {
            std::thread::yield_now();
            return Ok(left != Some(Duration::ZERO));
        }
        if left == Some(Duration::ZERO) {
            return Ok(false);
        }
        sleep_on(&[sleep.epoll.as_fd()], left)?;
        Ok(true)
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        let wait = self.wait;
        let mut sleepers = wait.sleepers();
        self.notice(&mut sleepers);
        sleepers.all -= 1;
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let (true, Some(count)) = (*self.armed.get_mut(), &self.count) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        if let (Some(set), Some(sleep)) = (&self.set, &self.sleep) {
            set.epoll.remove(&sleep.epoll);
        }
    }
}

impl Sleep {
    fn new() -> Result<Sleep> {
        let sleep = Sleep {
            event: EventFd::new()?,
            epoll: Epoll::new()?,
            sources: Mutex::default(),
        };
        sleep.epoll.add(&sleep.event, OWN, true, false)?;
        Ok(sleep)
    }

    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All descriptors, and a number that changes with the list.
    fn all(&self) -> (Vec<c_int>, u64) {
        let sources = self.sources();
        let all = [WaitHandle::number(&self.event)]
            .into_iter()
            .chain(sources.fds.iter().copied());
        (all.collect(), sources.changes + 1)
    }
}

/// The end of a wait. C gives a timeout in milliseconds; a negative one never ends.
#[derive(Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    pub fn after(timeout_ms: i32) -> Deadline {
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        Deadline(timeout.map(|timeout| Instant::now() + timeout))
    }

    /// Time left; `None` is for ever.
    pub fn left(self) -> Option<Duration> {
        self.0
            .map(|end| end.saturating_duration_since(Instant::now()))
    }

    pub fn is_over(self) -> bool {
        self.left() == Some(Duration::ZERO)
    }
}

/// The result of FI_GETWAIT for FI_WAIT_FD.
fn fd_of(epoll: &Epoll) -> WaitHandle {
    WaitHandle::Fd(WaitHandle::number(epoll))
}

/// The result of FI_GETWAIT for FI_WAIT_MUTEX_COND.
fn handle_of(cond: &Cond) -> WaitHandle {
    let (mutex, cond) = cond.for_c();
    WaitHandle::MutexCond { mutex, cond }
}

/// An object that can be in a wait set.
pub trait Member: Send + Sync {
    /// fi_trywait(3): FI_EAGAIN if there is something to read.
    fn trywait(&self) -> Result;
}

/// fi_poll(3): a wait set, shared by its handle and its members.
pub struct WaitSet {
    /// Its thread shares the descriptor of `epoll`.
    cond: Option<CondWatch>,
    epoll: Epoll,
    obj: fi_wait_obj,
    members: Mutex<Vec<std::sync::Weak<dyn Member>>>,
    pub uses: sync::Uses,
}

impl WaitSet {
    pub fn new(obj: fi_wait_obj) -> Result<WaitSet> {
        let obj = match obj {
            FI_WAIT_UNSPEC | FI_WAIT_FD => FI_WAIT_FD,
            FI_WAIT_YIELD | FI_WAIT_MUTEX_COND | FI_WAIT_POLLFD => obj,
            _ => return Err(Error::INVAL),
        };
        Ok(WaitSet {
            epoll: Epoll::new()?,
            obj,
            cond: CondWatch::for_obj(obj)?,
            members: Mutex::default(),
            uses: Default::default(),
        })
    }

    pub fn join(&self, member: std::sync::Weak<dyn Member>) {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        members.retain(|m| m.strong_count() > 0);
        members.push(member);
    }

    pub fn obj(&self) -> fi_wait_obj {
        self.obj
    }

    /// FI_GETWAIT.
    pub fn handle(&self) -> Result<WaitHandle> {
        match (self.obj, &self.cond) {
            (FI_WAIT_FD, _) => Ok(fd_of(&self.epoll)),
            (FI_WAIT_POLLFD, _) => {
                let fds = vec![WaitHandle::number(&self.epoll)];
                Ok(WaitHandle::PollFds(fds, 1))
            }
            (_, Some(cond)) => Ok(handle_of(cond.start(self.epoll.shared())?)),
            _ => Err(Error::NODATA),
        }
    }

    /// FI_EAGAIN if a member has something to read.
    pub fn trywait(&self) -> Result {
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        let alive: Vec<_> = members.iter().filter_map(|m| m.upgrade()).collect();
        drop(members);
        alive.iter().try_for_each(|member| member.trywait())
    }

    /// fi_wait(3): returns when a member has something to read, or FI_ETIMEDOUT, or FI_EINTR.
    pub fn wait(&self, timeout_ms: i32) -> Result {
        let deadline = Deadline::after(timeout_ms);
        loop {
            match self.trywait() {
                Err(Error::AGAIN) => return Ok(()),
                Err(error) => return Err(error),
                Ok(()) if deadline.is_over() => return Err(Error::TIMEDOUT),
                Ok(()) if self.obj == FI_WAIT_YIELD => std::thread::yield_now(),
                Ok(()) => {
                    sleep_on(&[self.epoll.as_fd()], deadline.left())?;
                }
            }
        }
    }
}
